"""The interface of every local model, and the item means that several of them start from.

Strength is counted in users (for ratings: in observations of an item): a shared model of strength 100 weighs as much as
100 users of the entity's own. 0 is the entity alone, infinity the shared model alone.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.federation.factors import ItemFactors

__all__ = ["Columns", "Floats", "Scorer", "Wide", "rating_means"]

Floats = NDArray[np.floating[Any]]
Wide = NDArray[np.float64]
Columns = NDArray[np.integer[Any]]

#: Ratings an item needs before its own mean counts more than that of all items together.
MEAN_RATINGS = 5.0


@runtime_checkable
class Scorer(Protocol):
    """A fitted local model. It holds item-side arrays only; histories are always given.

    Attributes
    ----------
    kind : str
        How an artefact names it: ``"factors"``, ``"item-item"``, ``"patterns"`` or ``"features"``.
    """

    @property
    def kind(self) -> str:
        """Name in an artefact."""
        ...

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        ...

    def scores(self, rows: sparse.csr_array) -> NDArray[np.float32]:
        """Score every item for every history, (users, items); the caller gives blocks of users that fit in memory."""
        ...

    def one(self, columns: Columns, values: Floats) -> NDArray[np.float32]:
        """Score every item for one history, (items,); equals the same row of `scores`."""
        ...

    def reasons(self, columns: Columns, values: Floats, item: int) -> Wide:
        """How much each entry of a history added to the score of one item, in the order of `columns`.

        Together with a constant that no entry explains (an item's own mean) they add up to the score.
        """
        ...

    def similar(self, item: int) -> Wide:
        """Similarity of every item to one item, at most 1, symmetric; -inf for the item itself."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything needed to rebuild it, by name."""
        ...

    def settings(self) -> dict[str, Any]:
        """Plain JSON that goes with the arrays."""
        ...

    @classmethod
    def rebuild(cls, arrays: dict[str, NDArray[Any]], settings: dict[str, Any]) -> Scorer:
        """Rebuild it from `arrays` and `settings`."""
        ...


def rating_means(rows: sparse.csr_array, shared: ItemFactors | None, strength: float) -> Wide:
    """Mean rating of each item: own, shared, or both.

    The pull of the shared means on own means is not searched for. It follows from how far they are apart, beyond what
    so few ratings would explain (the method of moments); strength only says whether to pull at all.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[5.0, 3.0], [5.0, 0.0]]))
    >>> rating_means(rows, None, 0.0).round(2).tolist()
    [4.52, 4.11]
    """
    sums, counts, squares = _item_sums(rows)
    if shared is None or strength == 0:
        return _drawn(sums, counts, _overall(sums, counts))
    prior = _drawn(
        shared.support * shared.means, shared.support, _overall(shared.support * shared.means, shared.support)
    )
    if math.isinf(strength) or not counts.sum():
        return prior
    weight = _mean_strength(sums, counts, squares, prior)
    return np.asarray((sums + weight * prior) / (counts + weight))


def _item_sums(rows: sparse.csr_array) -> tuple[Wide, Wide, Wide]:
    values, items = rows.data.astype(np.float64), rows.shape[1]
    counts = np.bincount(rows.indices, minlength=items).astype(np.float64)
    sums, squares = (np.asarray(np.bincount(rows.indices, part, items), np.float64) for part in (values, values**2))
    return sums, counts, squares


def _overall(sums: Wide, counts: Wide) -> float:
    return float(sums.sum() / counts.sum()) if counts.sum() > 0 else 0.0


def _drawn(sums: Wide, counts: Wide, overall: float) -> Wide:
    return np.asarray((sums + MEAN_RATINGS * overall) / (np.maximum(counts, 0.0) + MEAN_RATINGS))


def _mean_strength(sums: Wide, counts: Wide, squares: Wide, prior: Wide) -> float:
    """Solve ``Σ n (own - prior)² = Σ (variance + n variance/strength)`` over observed items for the strength."""
    own = sums / np.maximum(counts, 1.0)
    variance = (squares - counts * own**2).sum() / max(np.maximum(counts - 1, 0).sum(), 1.0)
    apart = (counts * (own - prior) ** 2).sum() / variance - (counts > 0).sum() if variance > 0 else 0.0
    return float(np.clip(counts.sum() / max(apart, 1e-9), MEAN_RATINGS, 1e6))
