"""One side of a factorization: its rows, solved exactly given the factors of the other side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms import _nmf_kernels, _reference
from twofold.algorithms._checks import is_sparse
from twofold.algorithms._jit import Workers, numba_enabled, one_blas_thread
from twofold.algorithms._lanes import LANES
from twofold.algorithms._nmf_entries import Entries

__all__ = ["DenseSide", "SparseSide", "padded", "solve", "solve_block"]

Array = NDArray[Any]
ENTRIES_PER_BLOCK = 1 << 16  # a millisecond of work: enough to hide the price of handing a block to a thread
ROWS_PER_BLOCK = 1024
MOST_STEPS = 60


@dataclass(frozen=True, kw_only=True)
class SparseSide:
    """Rows of entries.

    Attributes
    ----------
    entries : Entries
        Observed values with their weights.
    ridge : array
        Penalty per row.
    absent_row, absent_column : arrays
        An absent entry weighs their product; both empty when absent entries do not count.
    """

    entries: Entries
    ridge: Array
    absent_row: Array
    absent_column: Array


@dataclass(frozen=True, kw_only=True)
class DenseSide:
    """Rows of which every cell is observed and weighs ``row_weights[row] * column_weights[column]``.

    Attributes
    ----------
    matrix : array or SciPy sparse array
        All cells; a sparse one stands for its zeros too.
    """

    matrix: Any
    ridge: Array
    row_weights: Array
    column_weights: Array


def padded(factors: Array, dtype: np.dtype[Any]) -> Array:
    """Copy factors with zero columns up to a multiple of the lanes."""
    n_rows, rank = factors.shape
    wide = np.zeros((n_rows, -(-rank // LANES) * LANES), dtype)
    wide[:, :rank] = factors
    return wide


def solve(
    side: SparseSide | DenseSide,
    factors: Array,
    out: Array,
    *,
    rank: int,
    warm: bool = False,
    signed: bool = False,
    workers: Workers,
) -> NDArray[np.float64]:
    """Fill `out` with the best rows given padded `factors`; return each row's minimum, penalty included."""
    energy, failed = np.zeros(out.shape[0]), np.zeros(out.shape[0], dtype=np.bool_)
    plan = _plan_sparse if isinstance(side, SparseSide) else _plan_dense
    run, edges = plan(side, factors, out, energy, failed, rank, warm, signed)  # type: ignore[arg-type]
    with one_blas_thread():
        workers.run(lambda block: run(edges[block], edges[block + 1]), len(edges) - 1)
    return energy


def _numbers(dtype: np.dtype[Any], rank: int) -> tuple[int, Any, Any]:
    """Return the limits of a solve: steps, relative pivot of a dependent column, tolerance of the dual."""
    eps = np.finfo(dtype).eps
    return MOST_STEPS + rank, dtype.type(4 * rank * eps), dtype.type(4 * eps * np.sqrt(rank))


def _plan_sparse(
    side: SparseSide,
    factors: Array,
    out: Array,
    energy: Array,
    failed: Array,
    rank: int,
    warm: bool,
    signed: bool,
) -> tuple[Any, Array]:
    kind, width, entries = factors.dtype, factors.shape[1], side.entries
    none = np.empty(0, kind)
    base = none
    if side.absent_column.size:
        base = ((factors * side.absent_column[:, None]).T @ factors).ravel()
    head = (entries.starts, entries.columns, entries.values, entries.weights, factors.ravel(), rank, width)
    tail = (base, side.absent_row, side.absent_column, none, side.ridge)

    def run(first: int, last: int) -> None:
        solve_block(first, last, head, tail, signed, warm, out, energy, failed)

    return run, _edges_by_entries(entries.starts)


def _plan_dense(
    side: DenseSide,
    factors: Array,
    out: Array,
    energy: Array,
    failed: Array,
    rank: int,
    warm: bool,
    signed: bool,
) -> tuple[Any, Array]:
    kind, width = factors.dtype, factors.shape[1]
    weighted = factors * side.column_weights[:, None]
    base = weighted.T @ factors
    none, starts = np.empty(0, kind), np.zeros(ROWS_PER_BLOCK + 1, np.int64)
    head = (starts, np.empty(0, np.int32), none, none, factors.ravel(), rank, width)
    guess = None if warm or signed else _shared_inverse(base[:rank, :rank], side)

    def run(first: int, last: int) -> None:
        own = slice(first, last)
        cells = side.matrix[own].astype(kind, copy=False)
        given = (cells @ weighted) * side.row_weights[own, None]
        if guess is not None:
            np.matmul(given[:, :rank], guess, out=out[own, :rank])
        squares = cells.multiply(cells) if is_sparse(cells) else cells * cells
        energy[own] = (squares @ side.column_weights) * side.row_weights[own]
        tail = (base.ravel(), side.row_weights[own], none, given.ravel(), side.ridge[own])
        start = warm or guess is not None
        solve_block(0, last - first, head, tail, signed, start, out[own], energy[own], failed[own])

    n_rows = out.shape[0]
    return run, np.append(np.arange(0, n_rows, ROWS_PER_BLOCK), n_rows)


def solve_block(
    first: int,
    last: int,
    head: tuple[Any, ...],
    tail: tuple[Any, ...],
    signed: bool,
    warm: bool,
    out: Array,
    energy: Array,
    failed: Array,
) -> None:
    """Run the kernel on some rows, then solve again the rows whose pivoting did not settle."""
    rank = head[5]
    numbers = _numbers(head[4].dtype, rank)
    arguments = (*head, *tail, signed, warm, *numbers, out.reshape(-1), energy, failed)
    reference: Any = _reference.solve_rows
    if not numba_enabled():
        reference(first, last, *arguments)
        return
    before = energy[first:last].copy()
    _nmf_kernels.solve_rows(first, last, *arguments)
    for row in first + np.flatnonzero(failed[first:last]):
        energy[row] = before[row - first]
        reference(row, row + 1, *arguments)


def _edges_by_entries(starts: Array) -> Array:
    """Cut rows into blocks of about equal numbers of entries, each a whole number of lanes."""
    n_rows = starts.size - 1
    n_blocks = max(1, int((starts[-1] + 16 * n_rows) // ENTRIES_PER_BLOCK))
    cost = starts + 16 * np.arange(n_rows + 1)
    cuts = np.searchsorted(cost, cost[-1] * np.arange(1, n_blocks) / n_blocks)
    return np.unique(np.concatenate(([0], cuts // LANES * LANES, [n_rows])))


def _shared_inverse(gram: Array, side: DenseSide) -> Array | None:
    """Inverse of the one matrix all rows share, if they do and it has one: signs of its solutions are a start."""
    if side.ridge.size == 0 or np.ptp(side.ridge) > 0 or np.ptp(side.row_weights) > 0:
        return None
    matrix = gram.astype(np.float64) * side.row_weights[0] + side.ridge[0] * np.eye(gram.shape[0])
    try:
        return np.linalg.inv(matrix).astype(gram.dtype)
    except np.linalg.LinAlgError:
        return None
