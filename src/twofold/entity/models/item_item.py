"""A local model of items alone: the score of an item is a weighted sum of the history, in closed form.

The weights come from an entity's own Gram matrix plus the weighted shared one.

Counts. Values are damped, and the Gram matrix is that of all users. The shared one is ``V moments Vᵀ`` per user; it
lacks what users differ by inside a prototype. On the diagonal that is known: the mean square of a damped count (power
1/2) is the mean of the count, which the server sends. Off the diagonal, only the entity's own Gram matrix is used.
Where the server sends second moments (patterns), these are used instead, brought to the entity's own mean squares:
entities differ in what they use at all far more than in what goes with what (`ridge`).

Scale. These moments are the mean of x xᵀ/|x|² over people, x the damped row: their trace is 1, while that of the own
sum is Σ|x|². A shared person is to weigh as one own person does on average, so their trace becomes the own mean of
|x|², which the own mean squares see to. Then a strength of s is worth s own people whatever the length of histories,
and a factor in the own counts changes nothing. Own rows stay as long as they are: brought to norm 1 as well, they gave
worse lists on generated people, because a long history does say more. Where own rows do not count, nothing says how
long rows are, and the ridge is a part of the shared moments themselves (`SHARED_RIDGE`): in entries of own size, it
would be in another unit. A score is linear in the row and only compared within a person, so rows that are scored need
no norm. Prototypes are sums of the counts themselves and ratings are never brought to norm 1: neither is concerned.

Ratings. What is left of a rating after the item's mean and the user's offset. The shared factors are centred likewise,
and an item counts by the share of users who rated it, as it does in the entity's own sums. Absent ratings are unknown,
not zero, so weights fitted to sums over all users are too small by a factor that validation finds (`gain`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import csr_rows, with_data
from twofold.entity.models.blend import Columns, Floats, Wide, rating_means
from twofold.entity.models.factors import POWER, damped, damped_rows, damping_of_items
from twofold.entity.models.ridge import (
    UNEXPLAINED,
    DenseWeights,
    LowRankWeights,
    Weights,
    feature_prior,
    pattern_prior,
    weights_from_gram,
    weights_from_rows,
)
from twofold.errors import BadModel, BadParameter, BadShape
from twofold.features import Features
from twofold.federation.factors import ItemFactors
from twofold.release.bilinear.layout import MOST_PAIRED

__all__ = ["MAX_ITEMS", "ItemItemFit", "ItemItemScorer"]


#: Longest catalog for which item-item weights are offered; a plan sends no pairs of counts of a longer one.
MAX_ITEMS = MOST_PAIRED
#: Ridge of every item, in entries of average size.
RIDGE = {"counts": 75.0, "ratings": 300.0}
#: Ridge where only shared second moments count, in parts of their mean square. Of 0.5 and 2, and of own entries as
#: before, it gave the best lists on generated people, the more the noisier the moments are.
SHARED_RIDGE = 0.5
#: Ratings of no surprise a user's offset is averaged with.
OFFSET_RATINGS = 5.0


class ItemItemScorer:
    """Scores from weights between items, zero from an item to itself.

    For counts the score of item i is ``mean_i + Σ_j (x_j - mean_j) B_ji`` over all items. For ratings only observed
    items count, and a user has an offset o, the mean of what they gave above the items' means, pulled to 0:
    ``mean_i + o + Σ_j (x_j - mean_j - o) B_ji``. Scores of ratings are predicted ratings.

    Parameters
    ----------
    weights : DenseWeights or LowRankWeights
        B, as a matrix or as the product it comes from.
    means : array (items,)
        Score of an item without any knowledge of the user.
    feedback : {"ratings", "counts"}
        Absent entries are unknown, or zeros.
    shrinkage : float
        For ratings: with how many ratings of no surprise a user's offset is averaged.
    power : float
        Values are raised to it before anything else, keeping their sign; 0.5 damps counts.

    Examples
    --------
    >>> weights = DenseWeights(matrix=np.array([[0.0, 0.5], [0.25, 0.0]]))
    >>> scorer = ItemItemScorer(weights, means=np.zeros(2), feedback="counts")
    >>> scorer.one(np.array([0]), np.array([4.0])).tolist()
    [0.0, 2.0]
    >>> scorer.reasons(np.array([0]), np.array([4.0]), 1).tolist()
    [2.0]
    """

    def __init__(
        self, weights: Weights, *, means: Floats, feedback: str, shrinkage: float = 0.0, power: float = 1.0
    ) -> None:
        if feedback not in ("counts", "ratings"):
            raise BadParameter("feedback is unknown.", found=repr(feedback), expected="'counts' or 'ratings'")
        self.weights = _rounded(weights)
        self.means = np.array(means, dtype=np.float32)
        due = {name: 1 if name in ("left", "right") else 2 for name in self.weights.arrays()}
        if self.means.ndim != 1 or any(
            part.ndim != due[name] or part.shape[-1] != self.means.size for name, part in self.weights.arrays().items()
        ):
            raise BadShape("weights and means do not have the same items.")
        self.feedback, self.shrinkage, self.power = feedback, float(shrinkage), float(power)
        # For counts, what is left when the history is empty: the means of items nobody mentioned speak too.
        self._constant = self.means - self.weights.apply(self.means[None, :])[0] if self._counts else self.means

    @property
    def _counts(self) -> bool:
        return self.feedback == "counts"

    @property
    def kind(self) -> str:
        """Name in an artefact."""
        return "item-item"

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        return int(self.means.size)

    def scores(self, rows: sparse.csr_array) -> NDArray[np.float32]:
        """Score every item for every history; see `Scorer`."""
        rows = damped_rows(rows, self.power)
        if self._counts:
            return np.asarray(self._constant + self.weights.apply(rows), dtype=np.float32)
        residuals, offsets = residual_rows(rows, self.means, self.shrinkage)
        return np.asarray(self.means + offsets[:, None] + self.weights.apply(residuals), dtype=np.float32)

    def one(self, columns: Columns, values: Floats) -> NDArray[np.float32]:
        """Score every item for one history; see `Scorer`."""
        starts = np.array([0, len(columns)])
        row = csr_rows(np.asarray(values, dtype=np.float32), np.asarray(columns), starts, (1, self.n_items))
        return np.asarray(self.scores(row)[0])

    def reasons(self, columns: Columns, values: Floats, item: int) -> NDArray[np.float64]:
        """How much each entry added to the score of one item, above the item's own mean (or, for counts, constant)."""
        pull = self.weights.column(item)[columns].astype(np.float64)
        given = damped(values, self.power)
        if self._counts or not len(columns):
            return np.asarray(pull * given)
        share = 1.0 / (len(columns) + self.shrinkage)
        return np.asarray((pull + share * (1.0 - pull.sum())) * (given - self.means[columns]))

    def constant(self, item: int) -> float:
        """The part of the score that no entry explains: the score less its `reasons`."""
        return float(self._constant[item])

    def similar(self, item: int) -> NDArray[np.float64]:
        """Partial correlation of two items with all others held fixed."""
        one, other = (np.asarray(part, np.float64) for part in (self.weights.row(item), self.weights.column(item)))
        likeness = np.sign(one) * np.sqrt(np.maximum(one * other, 0.0))
        likeness = np.minimum(likeness, 1.0)
        likeness[item] = -np.inf
        return np.asarray(likeness)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Weights and means."""
        return {**self.weights.arrays(), "means": self.means}

    def settings(self) -> dict[str, Any]:
        """What the numbers mean."""
        return {"feedback": self.feedback, "shrinkage": self.shrinkage, "power": self.power}

    @classmethod
    def rebuild(cls, arrays: dict[str, NDArray[Any]], settings: dict[str, Any]) -> ItemItemScorer:
        """Rebuild it from `arrays` and `settings`."""
        parts = dict(arrays)
        means = parts.pop("means", None)
        if means is None or set(settings) != {"feedback", "shrinkage", "power"}:
            raise BadModel("the parts of an item-item model are incomplete.", expected="means, weights and settings")
        if set(parts) == {"weights"}:
            return cls(DenseWeights(matrix=parts["weights"]), means=means, **settings)
        if set(parts) == {"basis", "left", "right"}:
            return cls(LowRankWeights(**parts), means=means, **settings)
        raise BadModel("the weights of an item-item model are incomplete.", expected="weights, or a basis")


def residual_rows(
    rows: sparse.csr_array, means: Floats, shrinkage: float
) -> tuple[sparse.csr_array, NDArray[np.float32]]:
    """Ratings less the items' means and less each user's offset, and the offsets.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[5.0, 3.0], [0.0, 2.0]]))
    >>> residuals, offsets = residual_rows(rows, np.array([3.0, 3.0]), 0.0)
    >>> offsets.tolist(), residuals.toarray().tolist()
    ([1.0, -1.0], [[1.0, -1.0], [0.0, 0.0]])
    """
    lengths = np.diff(rows.indptr)
    above = rows.data - means[rows.indices]
    sums = np.add.reduceat(np.append(above, 0.0), rows.indptr[:-1]) * (lengths > 0) if len(lengths) else np.zeros(0)
    offsets = sums / np.maximum(lengths + shrinkage, 1e-12)
    return with_data(rows, (above - np.repeat(offsets, lengths)).astype(np.float32)), offsets.astype(np.float32)


def _rounded(weights: Weights) -> Weights:
    """Numbers as an artefact keeps them, so that a model read back gives the same bits."""
    parts = {name: np.ascontiguousarray(part, dtype=np.float32) for name, part in weights.arrays().items()}
    if isinstance(weights, DenseWeights):
        return DenseWeights(matrix=parts["weights"])
    return LowRankWeights(**parts)


class ItemItemFit:
    """One entity's rows, prepared for item-item weights of any strength.

    Parameters
    ----------
    rows : csr array (users, items)
        Private.
    shared : ItemFactors or None
        Factors from the server.
    feedback : {"counts", "ratings"}
        Absent entries are zeros, or unknown.
    features : Features, optional
        Public features of the items.
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
        self._grams: dict[str, Wide] = {}

    def scorer(self, strength: float, *, gain: float = 1.0, public: float = 0.0) -> ItemItemScorer:
        """Weights for one strength of the shared model and, for counts, one of the public features, in users."""
        values, means, square = self._own(self._stage(strength))
        own, theirs = (0.0 if math.isinf(strength) else 1.0), self._weight(strength)
        ridge = np.full(self.rows.shape[1], RIDGE[self.feedback] * square)
        extra = np.zeros((0, self.rows.shape[1]))
        if theirs:
            extra, rest = self._shared_part(square, math.isinf(strength))
            if self._second_moments and (not own or not self.rows.nnz):
                whole = float(((extra**2).sum(axis=0) + rest).mean())
                ridge = np.full_like(ridge, max(SHARED_RIDGE * theirs * whole, 1e-6))
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

    def _own_part(self, stage: str) -> tuple[sparse.csr_array, Wide, float]:
        """Values the Gram matrix is made of, the items' means, and the mean square of an entry."""
        if self.feedback == "counts":
            values, means = damped_rows(self.rows, self.power), np.zeros(self.rows.shape[1])
        else:
            means = rating_means(self.rows, self.shared, {"own": 0.0, "both": 1.0, "shared": math.inf}[stage])
            values, _ = residual_rows(self.rows, means.astype(np.float32), OFFSET_RATINGS)
        square = float(np.mean(values.data.astype(np.float64) ** 2)) if values.nnz else 1.0
        return values, means, max(square, 1e-6)

    def _weights(
        self,
        strength: float,
        values: sparse.csr_array,
        own: float,
        extra: Wide,
        ridge: Wide,
    ) -> Weights:
        users, items = values.shape
        if users + len(extra) < items // 2:
            dense = values.toarray().astype(np.float64) if own else np.zeros((0, items))
            return weights_from_rows(np.vstack([dense, extra]), ridge)
        gram = self._gram(self._stage(strength), values) if own else np.zeros((items, items))
        return weights_from_gram(gram + extra.T @ extra, ridge)

    def _gram(self, stage: str, values: sparse.csr_array) -> Wide:
        if stage not in self._grams:
            product = (values.T @ values).toarray()
            self._grams[stage] = product.astype(np.float64)
        return self._grams[stage]

    def _shared_part(self, square: float, as_sent: bool = False) -> tuple[Wide, Wide]:
        """Rows of one shared user, and what they leave unexplained of each item."""
        if self.feedback == "ratings":
            return self._shared_ratings(square)
        return self._second(as_sent) if self._second_moments else self._shared_counts

    @property
    def _second_moments(self) -> bool:
        return self.feedback == "counts" and self.shared is not None and self.shared.patterns is not None

    def _second(self, as_sent: bool) -> tuple[Wide, Wide]:
        """From the shared second moments; scaled to the entity's own items unless its own data are not to count."""
        assert self.shared is not None
        return pattern_prior(self.shared, None if as_sent else self._own_squares, self.rows.shape[0])

    @cached_property
    def _public_part(self) -> tuple[Wide, Wide]:
        assert self.features is not None
        return feature_prior(damped_rows(self.rows, self.power), self.features.matrix)

    @cached_property
    def _own_squares(self) -> Wide:
        """Sum of squares of each item's damped counts: of the counts themselves."""
        values = damped_rows(self.rows, self.power)
        return np.asarray(np.bincount(values.indices, values.data.astype(np.float64) ** 2, values.shape[1]))

    @cached_property
    def _shared_counts(self) -> tuple[Wide, Wide]:
        assert self.shared is not None
        shrink = damping_of_items(self.rows, self.power)
        rows = spread_rows(self.shared.factors * shrink[:, None], self.shared.moments)
        squares, explained = np.maximum(self.shared.means, 0.0), (rows**2).sum(axis=0)
        return rows, np.maximum(squares - explained, UNEXPLAINED * np.maximum(squares, explained))

    def _shared_ratings(self, square: float) -> tuple[Wide, Wide]:
        assert self.shared is not None
        share = _shares(self.shared)
        rows = _centred_rows(self.shared, share)
        explained = (rows**2).sum(axis=0)
        return rows * share, share * square + share * (1 - share) * explained


def _centred_rows(shared: ItemFactors, share: Wide) -> Wide:
    """Rows of one shared user less the items' means and the user's own mean over what users rate."""
    V = shared.factors.astype(np.float64)
    weighted = V * share[:, None]
    average = np.linalg.lstsq(weighted.T @ V, weighted.T @ shared.means, rcond=1e-6)[0]
    rows = spread_rows(V, shared.moments - np.outer(average, average))
    total = share.sum()
    return np.asarray(rows - (rows @ share / total if total else np.zeros(len(rows)))[:, None])


def _scaled(weights: Weights, gain: float) -> Weights:
    if isinstance(weights, DenseWeights):
        return DenseWeights(matrix=weights.matrix * np.float32(gain))
    return replace(weights, right=weights.right * np.float32(gain))


def _shares(shared: ItemFactors) -> Wide:
    """Share of the federation's users who rated each item."""
    return np.asarray(np.clip(shared.support / max(shared.users, 1.0), 0.0, 1.0))


def spread_rows(factors: NDArray[Any], moments: Wide) -> Wide:
    """As many rows as factors that have the same Gram matrix as one user on average, ``V moments Vᵀ``.

    Examples
    --------
    >>> V, moments = np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> rows = spread_rows(V, moments)
    >>> np.allclose(rows.T @ rows, V @ moments @ V.T)
    True
    """
    values, vectors = np.linalg.eigh((moments + moments.T) / 2)
    return np.asarray((np.asarray(factors, np.float64) @ (vectors * np.sqrt(np.maximum(values, 0.0)))).T)
