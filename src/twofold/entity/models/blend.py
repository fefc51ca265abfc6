r"""What every local model can do: score items for histories, and say why.

What an entity knows of its items and what the federation says of them, brought to one scale and blended.

Strength is counted in users (for ratings: in observations of an item): a shared model of strength 100 weighs as much as
100 users of the entity's own. 0 is the entity alone, infinity the shared model alone.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import damped
from twofold.federation.factors import ItemFactors

__all__ = ["Scorer", "damping_of_items", "filled_factors", "rating_means", "shares", "spread_rows"]

Floats = NDArray[np.floating[Any]]
Columns = NDArray[np.integer[Any]]


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
        """How an artefact names it."""
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

    def reasons(self, columns: Columns, values: Floats, item: int) -> NDArray[np.float64]:
        """How much each entry of a history added to the score of one item, in the order of `columns`.

        Together with a constant that no entry explains (an item's own mean) they add up to the score.
        """
        ...

    def similar(self, item: int) -> NDArray[np.float64]:
        """Likeness of every item to one item, at most 1, symmetric; -inf for the item itself."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything needed to rebuild it, by name."""
        ...

    def settings(self) -> dict[str, Any]:
        """Plain JSON that goes with the arrays."""
        ...

    @classmethod
    def rebuild(cls, arrays: dict[str, NDArray[Any]], settings: dict[str, Any]) -> Scorer:
        """Make it again from `arrays` and `settings`."""
        ...


Floats_blend = NDArray[np.float64]

#: Entries of its own an item needs before its own damping counts more than that of all items together.
DAMPING_ENTRIES = 20.0
#: Ratings an item needs before its own mean counts more than that of all items together.
MEAN_RATINGS = 5.0
#: Observations an item's shared factors need before they count more than those of the usual item. Fewer give slightly
#: smaller errors, and lists headed by items that one or two people liked.
FACTOR_RATINGS = 50.0


def damping_of_items(rows: sparse.csr_array, power: float) -> Floats_blend:
    """By how much damping shrinks each item's sum, 1 for a power of 1: brings shared factors to damped values.

    Examples
    --------
    >>> damping_of_items(sparse.csr_array(np.array([[4.0], [4.0]])), 0.5).tolist()
    [0.5]
    """
    items = rows.shape[1]
    if power == 1 or not rows.nnz:
        return np.ones(items)
    small = np.bincount(rows.indices, np.abs(damped(rows.data, power)), items)
    whole = np.bincount(rows.indices, np.abs(rows.data), items)
    usual = small.sum() / whole.sum() if whole.sum() else 1.0
    return np.asarray((small + DAMPING_ENTRIES * usual) / (whole + DAMPING_ENTRIES))


def rating_means(rows: sparse.csr_array, shared: ItemFactors | None, strength: float) -> Floats_blend:
    """Mean rating of each item: own, shared, or both.

    How far own means are drawn to the shared ones is not searched for but read off how far they lie apart, beyond what
    so few ratings would explain (the method of moments); strength only says whether to draw at all.

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


def _item_sums(rows: sparse.csr_array) -> tuple[Floats_blend, Floats_blend, Floats_blend]:
    values, items = rows.data.astype(np.float64), rows.shape[1]
    counts = np.bincount(rows.indices, minlength=items).astype(np.float64)
    sums, squares = (np.asarray(np.bincount(rows.indices, part, items), np.float64) for part in (values, values**2))
    return sums, counts, squares


def _overall(sums: Floats_blend, counts: Floats_blend) -> float:
    return float(sums.sum() / counts.sum()) if counts.sum() > 0 else 0.0


def _drawn(sums: Floats_blend, counts: Floats_blend, overall: float) -> Floats_blend:
    return np.asarray((sums + MEAN_RATINGS * overall) / (np.maximum(counts, 0.0) + MEAN_RATINGS))


def _mean_strength(sums: Floats_blend, counts: Floats_blend, squares: Floats_blend, prior: Floats_blend) -> float:
    """Solve ``Σ n (own - prior)² = Σ (variance + n variance/strength)`` over observed items for the strength."""
    own = sums / np.maximum(counts, 1.0)
    variance = (squares - counts * own**2).sum() / max(np.maximum(counts - 1, 0).sum(), 1.0)
    apart = (counts * (own - prior) ** 2).sum() / variance - (counts > 0).sum() if variance > 0 else 0.0
    return float(np.clip(counts.sum() / max(apart, 1e-9), MEAN_RATINGS, 1e6))


def filled_factors(shared: ItemFactors, floor: float = FACTOR_RATINGS) -> NDArray[np.float32]:
    """Shared factors, those of items hardly anybody saw drawn to the usual item; a copy.

    The usual item is an average over items, not over ratings: items that hardly anybody saw are on the whole liked less
    than those that everybody did.
    """
    support = np.maximum(shared.support, 0.0)[:, None]
    if not support.sum():
        return np.array(shared.factors)
    heard = np.minimum(support, floor)
    usual = (heard * shared.factors).sum(axis=0) / heard.sum()
    drawn = (support * shared.factors + floor * usual) / (support + floor)
    return np.asarray(drawn, dtype=np.float32)


def shares(shared: ItemFactors) -> Floats_blend:
    """Share of the federation's users who rated each item."""
    return np.asarray(np.clip(shared.support / max(shared.users, 1.0), 0.0, 1.0))


def spread_rows(factors: NDArray[Any], moments: Floats_blend) -> Floats_blend:
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
