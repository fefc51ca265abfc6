"""The input of a factorization and one side of it: rows solved exactly given the factors of the other side.

`Settings` are the objective's parameters, `Entries` the observed entries as kernels read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.algorithms import _checks, _nmf_kernels, _reference
from twofold.algorithms._checks import is_sparse
from twofold.algorithms._jit import Workers, numba_enabled, one_blas_thread
from twofold.algorithms._lanes import LANES
from twofold.algorithms._nmf_kernels import transpose
from twofold.csr import row_range, summed
from twofold.errors import BadNumber, BadShape

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "COUNT_SCALING",
    "REGULARIZATION",
    "ZERO_WEIGHT",
    "DenseSide",
    "Entries",
    "Feedback",
    "Settings",
    "SparseSide",
    "observed",
    "padded",
    "solve",
    "solve_block",
]

Array = NDArray[Any]
Feedback = Literal["ratings", "counts"]
# Chosen on MovieLens 1M (rank 20, one of the paper's splits): test RMSE 0.873 at 0.08, 0.877 at 0.06, 0.879 at 0.1.
REGULARIZATION = 0.08
COUNT_SCALING = 1.0
ZERO_WEIGHT = 0.1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is minimised.

    Attributes
    ----------
    feedback : "ratings" or "counts"
        Whether absent entries are unknown, or zeros of smaller weight.
    zero_weight : float
        Weight of an absent entry when they count.
    regularization, count_scaling : float
        λ and the exponent a of ``λ n^a |u|²``, n being how many entries a row has.
    """

    feedback: Feedback = "ratings"
    zero_weight: float = ZERO_WEIGHT
    regularization: float = REGULARIZATION
    count_scaling: float = COUNT_SCALING

    def __post_init__(self) -> None:
        """Refuse settings that do not define an objective."""
        _checks.choice("feedback", self.feedback, ("ratings", "counts"))
        _checks.non_negative_number("zero_weight", self.zero_weight)
        _checks.non_negative_number("regularization", self.regularization)
        _checks.non_negative_number("count_scaling", self.count_scaling)

    @property
    def absent(self) -> float:
        """Weight of an absent entry: zero for ratings."""
        return self.zero_weight if self.feedback == "counts" else 0.0

    def ridge(self, stored: NDArray[np.int64] | np.float64, n_columns: int) -> NDArray[np.float64]:
        """Penalty per row: ``λ n^a`` with n the stored entries plus the weight of the absent ones."""
        n = stored + self.absent * (n_columns - stored)
        return np.asarray(self.regularization * n**self.count_scaling, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Entries:
    """Stored entries of a matrix, row by row.

    Attributes
    ----------
    starts, columns, values, weights : arrays
        Row starts, then one element per entry; `weights` is empty when every entry weighs 1.
    shape : tuple of int
        Rows and columns.
    """

    starts: Array
    columns: Array
    values: Array
    weights: Array
    shape: tuple[int, int]

    def counts(self) -> NDArray[np.int64]:
        """Return how many entries each row has."""
        return np.diff(self.starts)

    def rows(self) -> NDArray[np.int64]:
        """Return the row of each entry."""
        return np.repeat(np.arange(self.shape[0]), self.counts())

    def transposed(self) -> Entries:
        """Return the same entries by columns."""
        n_rows, n_columns = self.shape
        starts = np.zeros(n_columns + 2, np.int64)
        narrow = n_rows <= np.iinfo(np.int32).max
        rows = np.empty(self.columns.size, np.int32 if narrow else np.int64)
        values, weights = np.empty_like(self.values), np.empty_like(self.weights)
        if numba_enabled():
            old = (self.starts, self.columns, self.values, self.weights)
            transpose(*old, starts, rows, values, weights)
        else:
            order = np.argsort(self.columns, kind="stable")
            starts[1:-1] = np.cumsum(np.bincount(self.columns, minlength=n_columns))
            rows, values = self.rows()[order].astype(rows.dtype), self.values[order]
            weights = self.weights[order] if self.weights.size else self.weights
        return Entries(starts=starts[:-1], columns=rows, values=values, weights=weights, shape=(n_columns, n_rows))


def observed(X: Any, weights: Any, feedback: Feedback) -> tuple[Entries | None, Any]:
    """Read any accepted input: entries, or a dense matrix of which every cell is observed."""
    if _checks.is_sparse(X):
        return _from_sparse(X, weights), None
    dense = np.asarray(X)
    if dense.ndim != 2 or dense.dtype.kind not in "fiub":
        raise BadShape(
            "{parameter} must be a matrix of real numbers: a SciPy sparse matrix or a two-dimensional array.",
            found=f"shape {dense.shape}, type {dense.dtype}",
            parameter="X",
        )
    return _from_dense(dense, weights, feedback)


def _from_dense(dense: Array, weights: Any, feedback: Feedback) -> tuple[Entries | None, Array | None]:
    if feedback == "ratings" and weights is None and not _has_nan(dense):
        _checks.finite("X", dense)
        return None, dense
    if feedback == "counts":
        _checks.finite("X", dense)
        present = dense != 0
    else:
        present = ~np.isnan(dense)
    rows, columns = np.nonzero(present)
    own = None if weights is None else _dense_weights(weights, dense.shape)[present]
    starts = np.concatenate(([0], np.cumsum(present.sum(axis=1))))
    entries = Entries(
        starts=starts.astype(np.int64),
        columns=columns.astype(np.int32 if dense.shape[1] <= np.iinfo(np.int32).max else np.int64),
        values=dense[rows, columns],
        weights=_entry_weights(own, columns.size),
        shape=dense.shape,
    )
    _checks.finite("X", entries.values)
    return entries, None


def _has_nan(dense: Array) -> bool:
    return dense.dtype.kind == "f" and dense.size > 0 and bool(np.isnan(dense.min()))


def _from_sparse(X: Any, weights: Any) -> Entries:
    if len(X.shape) != 2 or X.dtype.kind not in "fiub":
        raise BadShape(
            "{parameter} must be a matrix of real numbers.",
            found=f"shape {tuple(X.shape)}, type {X.dtype}",
            parameter="X",
        )
    matrix = X.tocsr()
    starts, columns = _checks.compressed_rows("X", matrix)
    if not matrix.has_canonical_format:
        matrix = summed(matrix)
        starts, columns = _checks.compressed_rows("X", matrix)
    own = None if weights is None else _sparse_weights(weights, X, matrix)
    values = matrix.data[: starts[-1]]
    _checks.finite("X", values)
    return Entries(
        starts=starts,
        columns=columns,
        values=values,
        weights=_entry_weights(own, columns.size),
        shape=(int(X.shape[0]), int(X.shape[1])),
    )


def _sparse_weights(weights: Any, X: Any, matrix: csr_array) -> Array:
    """Weights in the order of `matrix`, from a matrix of the same pattern or a vector beside ``X.data``."""
    if not _checks.is_sparse(weights):
        own = np.asarray(weights, dtype=np.float64)
        if own.shape == tuple(X.shape):
            return own[Entries.rows(_pattern(matrix)), matrix.indices]
        if own.shape != X.data.shape or X.format not in ("csr", "csc", "coo"):
            raise BadShape(
                "{parameter} do not match X.",
                parameter="weights",
                found=str(own.shape),
                expected=f"one per stored entry, {X.data.shape}, or a matrix of X's shape",
            )
        weights = X.copy()
        weights.data = own
    weights = weights.tocsr()
    if not weights.has_canonical_format:
        weights.sum_duplicates()
    same = weights.shape == matrix.shape and weights.nnz == matrix.nnz
    if not (same and np.array_equal(weights.indptr, matrix.indptr) and np.array_equal(weights.indices, matrix.indices)):
        raise BadShape(
            "weights and X do not store the same cells.",
            fix="build both from the same rows",
            parameter="weights",
            expected="the cells of X",
        )
    return np.asarray(weights.data, dtype=np.float64)


def _pattern(matrix: csr_array) -> Entries:
    empty = np.empty(0)
    return Entries(starts=matrix.indptr, columns=matrix.indices, values=empty, weights=empty, shape=matrix.shape)


def _dense_weights(weights: ArrayLike, shape: tuple[int, ...]) -> Array:
    own = np.asarray(weights, dtype=np.float64)
    if own.shape != shape:
        raise BadShape("{parameter} do not match X.", parameter="weights", found=str(own.shape), expected=str(shape))
    return own


def _entry_weights(own: Array | None, size: int) -> Array:
    if own is None:
        return np.empty(0)
    own = own.reshape(size)
    _checks.finite("weights", own)
    if (own < 0).any():
        raise BadNumber("{parameter} holds negative numbers.", expected="0 or more", parameter="weights")
    return own


ENTRIES_PER_BLOCK = 1 << 16  # a millisecond of work: enough to hide the price of handing a block to a thread
ROWS_PER_BLOCK = 1024
CELLS_PER_BLOCK = 1 << 22  # 16 MB in single precision
FILLED = 0.2  # share of stored cells above which products with an array take less time than sparse ones
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

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """Weighted squares of each row: the same in every iteration, so they are summed once."""
        found = np.empty(self.matrix.shape[0])
        for first, last in pairwise(self.edges()):
            cells = self.cells(first, last)
            found[first:last] = (cells * cells) @ self.column_weights
        return found * self.row_weights

    def cells(self, first: int, last: int) -> Any:
        """Some rows, in the precision of the penalties; as an array where many cells are stored."""
        cells = row_range(self.matrix, first, last) if is_sparse(self.matrix) else self.matrix[first:last]
        cells = cells.astype(self.ridge.dtype, copy=False)
        if is_sparse(cells) and cells.nnz >= FILLED * cells.shape[0] * cells.shape[1]:
            return cells.toarray()
        return cells

    def edges(self) -> Array:
        """Where blocks of rows begin and end: so few rows that an array of them stays small."""
        n_rows, n_columns = self.matrix.shape
        step = int(np.clip(CELLS_PER_BLOCK // max(n_columns, 1) // LANES * LANES, LANES, ROWS_PER_BLOCK))
        return np.append(np.arange(0, n_rows, step), n_rows)


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


@cache
def _numbers(dtype: np.dtype[Any], rank: int) -> tuple[int, Any, Any]:
    """Return the limits of one solve: steps, relative pivot of a dependent column, tolerance of the dual."""
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

    energy[:] = side.squares

    def run(first: int, last: int) -> None:
        own = slice(first, last)
        given = (side.cells(first, last) @ weighted) * side.row_weights[own, None]
        if guess is not None:
            np.matmul(given[:, :rank], guess, out=out[own, :rank])
        tail = (base.ravel(), side.row_weights[own], none, given.ravel(), side.ridge[own])
        start = warm or guess is not None
        solve_block(0, last - first, head, tail, signed, start, out[own], energy[own], failed[own])

    return run, side.edges()


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
    for at in failed[first:last].nonzero()[0].tolist():
        row = first + at
        energy[row] = before[at]
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
