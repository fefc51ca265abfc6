"""A local model of items alone: the score of an item is a weighted sum of the history, in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.entity._damping import damped, damped_rows
from twofold.entity._ridge import DenseWeights, LowRankWeights, Weights
from twofold.errors import BadModel, BadParameter, BadShape

__all__ = ["MAX_ITEMS", "ItemItemScorer"]

Floats = NDArray[np.floating[Any]]
Columns = NDArray[np.integer[Any]]

#: Longest catalog for which item-item weights are offered: as a whole matrix they take 4 bytes x items².
MAX_ITEMS = 6_000


class ItemItemScorer:
    """Scores from weights between items, zero from an item to itself.

    For counts the score of item i is ``mean_i + Σ_j (x_j - mean_j) B_ji`` over all items. For ratings only observed
    items speak, and a user has an offset o, the mean of what they gave above the items' means, drawn to 0:
    ``mean_i + o + Σ_j (x_j - mean_j - o) B_ji``. Scores of ratings are predicted ratings.

    Parameters
    ----------
    weights : DenseWeights or LowRankWeights
        B, as a matrix or as the product it comes from.
    means : array (items,)
        What an item gets without knowing anything of the user.
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
        if any(part.shape[-1] != self.means.size for part in self.weights.arrays().values()):
            raise BadShape("weights and means do not have the same items.")
        self.feedback, self.shrinkage, self.power = feedback, float(shrinkage), float(power)
        # For counts, what is left when the history is empty: the means of items nobody mentioned speak too.
        self._constant = self.means - self.weights.apply(self.means[None, :])[0] if self._counts else self.means

    @property
    def _counts(self) -> bool:
        return self.feedback == "counts"

    @property
    def kind(self) -> str:
        """How an artefact names it."""
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
        parts: Any = (np.asarray(values, dtype=np.float32), np.asarray(columns), np.array([0, len(columns)]))
        return np.asarray(self.scores(sparse.csr_array(parts, shape=(1, self.n_items)))[0])

    def reasons(self, columns: Columns, values: Floats, item: int) -> NDArray[np.float64]:
        """How much each entry added to the score of one item, above the item's own mean (or, for counts, constant)."""
        pull = self.weights.column(item)[columns].astype(np.float64)
        given = damped(values, self.power)
        if self._counts or not len(columns):
            return np.asarray(pull * given)
        share = 1.0 / (len(columns) + self.shrinkage)
        return np.asarray((pull + share * (1.0 - pull.sum())) * (given - self.means[columns]))

    def constant(self, item: int) -> float:
        """What no entry explains: the score less its `reasons`."""
        return float(self._constant[item])

    def similar(self, item: int) -> NDArray[np.float64]:
        """Partial correlation: how two items go together when all others are held fixed."""
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
        """Make it again from `arrays` and `settings`."""
        parts = dict(arrays)
        means = parts.pop("means", None)
        if means is None or set(settings) != {"feedback", "shrinkage", "power"}:
            raise BadModel("the parts of an item-item model are not complete.", expected="means, weights and settings")
        if set(parts) == {"weights"}:
            return cls(DenseWeights(matrix=parts["weights"]), means=means, **settings)
        if set(parts) == {"basis", "left", "right"}:
            return cls(LowRankWeights(**parts), means=means, **settings)
        raise BadModel("the weights of an item-item model are not complete.", expected="weights, or a basis")


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
    parts: Any = ((above - np.repeat(offsets, lengths)).astype(np.float32), rows.indices, rows.indptr)
    return sparse.csr_array(parts, shape=rows.shape), offsets.astype(np.float32)


def _rounded(weights: Weights) -> Weights:
    """Numbers as an artefact keeps them, so that a model read back gives the same bits."""
    parts = {name: np.ascontiguousarray(part, dtype=np.float32) for name, part in weights.arrays().items()}
    if isinstance(weights, DenseWeights):
        return DenseWeights(matrix=parts["weights"])
    return LowRankWeights(**parts)
