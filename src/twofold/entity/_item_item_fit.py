"""Item-item weights from an entity's own Gram matrix plus the weighted shared one.

Counts. Values are damped, and the Gram matrix is that of all users. The shared one is ``V moments Vᵀ`` per user; it
lacks what users differ by inside a prototype. On the diagonal that is known: the mean square of a damped count (power
1/2) is the mean of the count, which the server sends. Off the diagonal the entity's own Gram matrix has to speak.
Where the server sends second moments of damped counts (patterns), these are used instead, brought to the entity's own
mean squares: entities differ in what they use at all far more than in what goes with what (`twofold.entity._prior`).

Ratings. What is left of a rating after the item's mean and the user's offset. The shared factors are centred likewise,
and an item counts by the share of users who rated it, as it does in the entity's own sums. Absent ratings are unknown,
not zero, so weights fitted to sums over all users are too small by a factor that validation finds (`gain`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.entity._blend import damping_of_items, rating_means, shares, spread_rows
from twofold.entity._damping import damped_rows
from twofold.entity._prior import UNEXPLAINED, feature_prior, pattern_prior
from twofold.entity._ridge import DenseWeights, Weights, weights_from_gram, weights_from_rows
from twofold.entity.item_item import ItemItemScorer, residual_rows
from twofold.features import Features
from twofold.protocol.factors import ItemFactors

__all__ = ["ItemItemFit"]

Floats = NDArray[np.float64]

POWER = {"counts": 0.5, "ratings": 1.0}
#: Ridge of every item, in entries of average size.
RIDGE = {"counts": 75.0, "ratings": 300.0}
#: Ratings of no surprise a user's offset is averaged with.
OFFSET_RATINGS = 5.0


class ItemItemFit:
    """One entity's rows, made ready for item-item weights of any strength.

    Parameters
    ----------
    rows : csr array (users, items)
        Private.
    shared : ItemFactors or None
        What the server sent.
    feedback : {"counts", "ratings"}
        Absent entries are zeros, or unknown.
    features : Features, optional
        What is public about the items.
    """

    def __init__(
        self,
        rows: sparse.csr_array,
        shared: ItemFactors | None,
        *,
        feedback: str,
        features: Features | None = None,
    ) -> None:
        self.rows, self.shared, self.feedback, self.features = rows, shared, feedback, features
        self.power = POWER[feedback]
        self._own = lru_cache(maxsize=None)(self._own_part)
        self._grams: dict[str, Floats] = {}

    def scorer(self, strength: float, *, gain: float = 1.0, public: float = 0.0) -> ItemItemScorer:
        """Weights for one strength of the shared model and, for counts, one of what public features say, in users."""
        values, means, square = self._own(self._stage(strength))
        own, theirs = (0.0 if math.isinf(strength) else 1.0), self._weight(strength)
        ridge = np.full(self.rows.shape[1], RIDGE[self.feedback] * square)
        extra = np.zeros((0, self.rows.shape[1]))
        if theirs:
            extra, rest = self._shared_part(square, math.isinf(strength))
            extra, ridge = extra * math.sqrt(theirs), ridge + theirs * rest
        if public:
            more, rest = self._public_part
            extra, ridge = np.vstack([extra, more * math.sqrt(public)]), ridge + public * rest
        weights = self._weights(strength, values, own, extra, ridge)
        shrinkage = OFFSET_RATINGS if self.feedback == "ratings" else 0.0
        return ItemItemScorer(
            _scaled(weights, gain), means=means, feedback=self.feedback, shrinkage=shrinkage, power=self.power
        )

    def _stage(self, strength: float) -> str:
        return "own" if strength == 0 else "shared" if math.isinf(strength) else "both"

    def _weight(self, strength: float) -> float:
        if self.shared is None:
            return 0.0
        return max(self.shared.users, 1.0) if math.isinf(strength) else strength

    def _own_part(self, stage: str) -> tuple[sparse.csr_array, Floats, float]:
        """Values the Gram matrix is made of, the items' means, and the mean square of an entry."""
        if self.feedback == "counts":
            values, means = damped_rows(self.rows, self.power), np.zeros(self.rows.shape[1])
        else:
            means = rating_means(self.rows, self.shared, {"own": 0.0, "both": 1.0, "shared": math.inf}[stage])
            values, _ = residual_rows(self.rows, means.astype(np.float32), OFFSET_RATINGS)
        square = float(np.mean(values.data.astype(np.float64) ** 2)) if values.nnz else 1.0
        return values, means, max(square, 1e-6)

    def _weights(self, strength: float, values: sparse.csr_array, own: float, extra: Floats, ridge: Floats) -> Weights:
        users, items = values.shape
        if users + len(extra) < items // 2:
            dense = values.toarray().astype(np.float64) if own else np.zeros((0, items))
            return weights_from_rows(np.vstack([dense, extra]), ridge)
        gram = self._gram(self._stage(strength), values) if own else np.zeros((items, items))
        return weights_from_gram(gram + extra.T @ extra, ridge)

    def _gram(self, stage: str, values: sparse.csr_array) -> Floats:
        if stage not in self._grams:
            product = (values.T @ values).toarray()
            self._grams[stage] = product.astype(np.float64)
        return self._grams[stage]

    def _shared_part(self, square: float, as_sent: bool = False) -> tuple[Floats, Floats]:
        """Rows of one shared user, and what they leave unexplained of each item."""
        if self.feedback == "ratings":
            return self._shared_ratings(square)
        return self._shared_counts if self.shared is None or self.shared.patterns is None else self._second(as_sent)

    def _second(self, as_sent: bool) -> tuple[Floats, Floats]:
        """From the shared second moments; brought to the entity's own items unless nothing of its own is to count."""
        assert self.shared is not None
        return pattern_prior(self.shared, None if as_sent else self._own_squares, self.rows.shape[0])

    @cached_property
    def _public_part(self) -> tuple[Floats, Floats]:
        assert self.features is not None
        return feature_prior(damped_rows(self.rows, self.power), self.features.matrix)

    @cached_property
    def _own_squares(self) -> Floats:
        """Sum of squares of each item's damped counts: of the counts themselves."""
        values = damped_rows(self.rows, self.power)
        return np.asarray(np.bincount(values.indices, values.data.astype(np.float64) ** 2, values.shape[1]))

    @cached_property
    def _shared_counts(self) -> tuple[Floats, Floats]:
        assert self.shared is not None
        shrink = damping_of_items(self.rows, self.power)
        rows = spread_rows(self.shared.factors * shrink[:, None], self.shared.moments)
        squares, explained = np.maximum(self.shared.means, 0.0), (rows**2).sum(axis=0)
        return rows, np.maximum(squares - explained, UNEXPLAINED * np.maximum(squares, explained))

    def _shared_ratings(self, square: float) -> tuple[Floats, Floats]:
        assert self.shared is not None
        share = shares(self.shared)
        rows = _centred_rows(self.shared, share)
        explained = (rows**2).sum(axis=0)
        return rows * share, share * square + share * (1 - share) * explained


def _centred_rows(shared: ItemFactors, share: Floats) -> Floats:
    """Rows of one shared user less the items' means and the user's own mean over what users rate."""
    V = shared.factors.astype(np.float64)
    weighted = V * share[:, None]
    usual = np.linalg.lstsq(weighted.T @ V, weighted.T @ shared.means, rcond=1e-6)[0]
    rows = spread_rows(V, shared.moments - np.outer(usual, usual))
    total = share.sum()
    return np.asarray(rows - (rows @ share / total if total else np.zeros(len(rows)))[:, None])


def _scaled(weights: Weights, gain: float) -> Weights:
    if isinstance(weights, DenseWeights):
        return DenseWeights(matrix=weights.matrix * np.float32(gain))
    return replace(weights, right=weights.right * np.float32(gain))
