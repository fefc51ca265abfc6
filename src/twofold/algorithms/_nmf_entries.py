"""What a factorization is given: the objective's parameters, and the observed entries as kernels read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.algorithms import _checks
from twofold.algorithms._jit import numba_enabled
from twofold.algorithms._nmf_kernels import transpose
from twofold.csr import summed
from twofold.errors import BadNumber, BadShape

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["COUNT_SCALING", "REGULARIZATION", "ZERO_WEIGHT", "Entries", "Feedback", "Settings", "observed"]

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
        """Refuse what no objective can mean."""
        _checks.choice("feedback", self.feedback, ("ratings", "counts"))
        _checks.non_negative_number("zero_weight", self.zero_weight)
        _checks.non_negative_number("regularization", self.regularization)
        _checks.non_negative_number("count_scaling", self.count_scaling)

    @property
    def absent(self) -> float:
        """Weight of an absent entry: zero for ratings."""
        return self.zero_weight if self.feedback == "counts" else 0.0

    def ridge(self, stored: NDArray[np.int64], n_columns: int) -> NDArray[np.float64]:
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
                "{parameter} do not fit X.",
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
        raise BadShape("{parameter} do not fit X.", parameter="weights", found=str(own.shape), expected=str(shape))
    return own


def _entry_weights(own: Array | None, size: int) -> Array:
    if own is None:
        return np.empty(0)
    own = own.reshape(size)
    _checks.finite("weights", own)
    if (own < 0).any():
        raise BadNumber("{parameter} holds negative numbers.", expected="0 or more", parameter="weights")
    return own
