"""From what a caller has to the two sides of a factorization, with numbers brought near 1.

Scaling is by powers of two, so it changes no digit: it only keeps squares of very large or very small input
inside the range of float32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from twofold.algorithms import _checks
from twofold.algorithms._nmf_entries import Entries, observed
from twofold.algorithms._nmf_settings import Settings
from twofold.algorithms._nmf_sides import DenseSide, SparseSide
from twofold.errors import BadNumber

__all__ = ["Problem", "in_range", "near_one", "read_problem", "unscaled"]

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Scaled input.

    Attributes
    ----------
    entries, cells : Entries and matrix, one of them None
        What is observed: some cells, or all of them.
    row_weights, absent : array and float
        Weight of each row, and of an absent entry in a row of weight 1, scaled.
    value_scale, weight_scale : float
        What values and weights were divided by.
    """

    settings: Settings
    entries: Entries | None
    cells: Any
    row_weights: Array
    absent: float
    shape: tuple[int, int]
    value_scale: float
    weight_scale: float
    dtype: np.dtype[Any]

    def ridges(self, scale: float) -> tuple[Array, Array]:
        """Penalties of rows and of columns, divided by `scale`, in float64."""
        if self.entries is not None:
            rows, columns = self.entries.counts(), np.bincount(self.entries.columns, minlength=self.shape[1])
        else:
            rows, columns = np.full(self.shape[0], self.shape[1]), np.full(self.shape[1], self.shape[0])
        return (
            in_range(self.settings.ridge(rows, self.shape[1]), scale, self.dtype),
            in_range(self.settings.ridge(columns, self.shape[0]), scale, self.dtype),
        )

    def row_side(self, ridge: Array) -> SparseSide | DenseSide:
        """Rows given the factors of columns."""
        ones = np.ones(self.shape[1], self.dtype)
        return self._side(self.entries, self.cells, ridge, self.row_weights.astype(self.dtype), ones)

    def column_side(self, ridge: Array) -> SparseSide | DenseSide:
        """Columns given the factors of rows."""
        entries = None if self.entries is None else self.entries.transposed()
        cells = None if self.cells is None else self.cells.T
        if cells is not None:
            cells = cells.tocsr() if _checks.is_sparse(cells) else np.ascontiguousarray(cells, self.dtype)
        ones = np.ones(self.shape[1], self.dtype)
        return self._side(entries, cells, ridge, ones, self.row_weights.astype(self.dtype))

    def _side(
        self, entries: Entries | None, cells: Any, ridge: Array, here: Array, there: Array
    ) -> SparseSide | DenseSide:
        ridge = ridge.astype(self.dtype)
        if entries is None:
            return DenseSide(matrix=cells, ridge=ridge, row_weights=here, column_weights=there)
        if self.absent == 0:
            here = there = np.empty(0, self.dtype)
        return SparseSide(
            entries=entries, ridge=ridge, absent_row=here * self.dtype.type(self.absent), absent_column=there
        )


def near_one(values: Any) -> float:
    """Return the power of two that brings the largest number near 1; 1 when it is in comfortable range already."""
    largest = float(max(values.max(initial=0), -values.min(initial=0))) if values.size else 0.0
    if largest == 0 or 2.0**-10 <= largest <= 2.0**10:
        return 1.0
    return float(2.0 ** np.clip(np.round(np.log2(largest)), -1000, 1000))


def in_range(ridge: Array, scale: float, dtype: np.dtype[Any]) -> Array:
    """Divide penalties by `scale`, held where their squares still are numbers; beyond that a factor is zero anyway."""
    return np.asarray(np.minimum(ridge / scale, np.sqrt(np.finfo(dtype).max) / 16))


def unscaled(factors: Array, scale: float) -> Array:
    """Multiply back; refuse what the type of the factors cannot hold."""
    if scale == 1.0:
        return np.ascontiguousarray(factors)
    true = factors.astype(np.float64) * scale
    if np.abs(true).max(initial=0.0) > np.finfo(factors.dtype).max:
        raise BadNumber(f"X is too large for factors of type {factors.dtype}.", fix="dtype=np.float64")
    return true.astype(factors.dtype)


def read_problem(
    X: Any,
    settings: Settings,
    *,
    weights: Any,
    row_weights: ArrayLike | None,
    dtype: DTypeLike | None,
) -> Problem:
    """Check, convert and scale the input."""
    entries, cells = observed(X, weights, settings.feedback)
    source: Any = cells if entries is None else entries.values
    shape = source.shape if entries is None else entries.shape
    kind = _checks.floating_type(dtype, source.dtype)
    own = np.ones(shape[0]) if row_weights is None else _checks.vector("row_weights", row_weights, shape[0])
    row_scale, value_scale, entry_scale = near_one(own), near_one(source), 1.0
    own = own / row_scale
    if entries is not None and settings.absent == 1 and entries.weights.size == 0:
        cells, entries = _as_matrix(entries), None  # zeros weigh as much as the rest: one Gram matrix for all
    if entries is not None:
        entry_scale = near_one(entries.weights)
        values = _divided(entries.values, value_scale).astype(kind, copy=False)
        entries = replace(
            entries, values=values, weights=_weights(entries, own, row_weights is None, entry_scale, kind)
        )
    return Problem(
        settings=settings,
        entries=entries,
        cells=None if cells is None else _divided(cells, value_scale),
        row_weights=own,
        absent=settings.absent / entry_scale,
        shape=(int(shape[0]), int(shape[1])),
        value_scale=value_scale,
        weight_scale=row_scale * entry_scale,
        dtype=kind,
    )


def _weights(entries: Entries, rows: Array, plain: bool, scale: float, kind: np.dtype[Any]) -> Array:
    """Weights of entries, scaled, times the weights of their rows unless those are plain ones."""
    weights = entries.weights / scale
    if not plain:
        per_entry = np.repeat(rows, entries.counts())
        weights = weights * per_entry if weights.size else per_entry
    return weights.astype(kind, copy=False)


def _divided(values: Any, scale: float) -> Any:
    return values if scale == 1.0 else values.astype(np.float64) / scale


def _as_matrix(entries: Entries) -> Any:
    from scipy.sparse import csr_array

    return csr_array((entries.values, entries.columns, entries.starts), shape=entries.shape)
