"""Rows as the k-means kernels want them: contiguous, one floating type, sparse or dense."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray

from twofold.errors import BadNumber, BadParameter, BadShape

__all__ = ["Rows", "as_centers", "as_rows", "as_weights", "require_finite"]

Floats = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """One matrix, either `dense` or the three arrays of a canonical CSR matrix."""

    shape: tuple[int, int]
    values: Floats
    indices: NDArray[Any] | None = None
    indptr: NDArray[np.int64] | None = None

    @property
    def sparse(self) -> bool:
        """Whether the rows are stored as CSR."""
        return self.indices is not None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type all arithmetic on entries is done in."""
        return self.values.dtype

    @functools.cached_property
    def matrix(self) -> Any:
        """Something `@` and indexing work on."""
        if self.indices is None or self.indptr is None:
            return self.values
        parts: Any = (self.values, self.indices, self.indptr)
        return sp.csr_array(parts, shape=self.shape)

    def take(self, chosen: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return a few rows, dense, in double precision."""
        picked = self.matrix[chosen]
        return np.asarray(picked.toarray() if self.sparse else picked, dtype=np.float64)


def as_rows(X: Any, dtype: DTypeLike | None = None) -> Rows:
    """Bring `X` into shape without looking at its values; nothing is copied that already fits."""
    if sp.issparse(X):
        return _sparse_rows(X, dtype)
    dense = np.asarray(X)
    if dense.ndim != 2:
        raise BadShape("the rows are not a matrix.", found=f"{dense.ndim} dimensions", expected="2")
    values = np.ascontiguousarray(dense, dtype=_working_type(dense.dtype, dtype))
    return Rows(shape=(values.shape[0], values.shape[1]), values=values)


def as_centers(centers: ArrayLike, n_columns: int) -> NDArray[np.float64]:
    """Check centers against the rows' columns."""
    array = np.asarray(centers, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] != n_columns:
        raise BadShape(
            "the centers do not fit the rows.", found=f"shape {array.shape}", expected=f"(1 or more, {n_columns})"
        )
    if not np.isfinite(array).all():
        raise BadNumber("the centers hold NaN or infinity.", expected="finite numbers")
    return array


def as_weights(weights: ArrayLike | None, n_rows: int) -> NDArray[np.float64]:
    """Check row weights; ones when there are none."""
    if weights is None:
        return np.ones(n_rows)
    array = np.ascontiguousarray(weights, dtype=np.float64)
    if array.shape != (n_rows,):
        raise BadShape("weights need one number per row.", found=f"{array.ndim} dimensions of another length")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise BadNumber("a weight is negative, NaN or infinite.", expected="finite numbers, 0 or more")
    return array


def require_finite(rows: Rows) -> None:
    """Refuse NaN and infinity; a sum is enough to see them and needs no second array."""
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(rows.values.sum())
    if suspicious and not np.isfinite(rows.values).all():
        raise BadNumber("the rows hold NaN or infinity.", expected="finite numbers")


def _working_type(found: np.dtype[Any], asked: DTypeLike | None) -> np.dtype[Any]:
    """Keep float32 and float64; numbers that float32 holds exactly become float32, others float64."""
    if asked is None:
        if found.kind not in "biuf":
            raise BadParameter("the rows are not real numbers.", found=f"dtype {found}", expected="floats or integers")
        return np.dtype(np.float32) if np.can_cast(found, np.float32) else np.dtype(np.float64)
    dtype = np.dtype(asked)
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise BadParameter("dtype is not supported.", found=str(dtype), expected="float32 or float64")
    return dtype


def _sparse_rows(X: Any, dtype: DTypeLike | None) -> Rows:
    csr = X.tocsr()
    if not csr.has_canonical_format:  # repeated entries would be squared one by one
        csr = csr.copy()
        csr.sum_duplicates()
    return Rows(
        shape=(csr.shape[0], csr.shape[1]),
        values=np.ascontiguousarray(csr.data, dtype=_working_type(csr.dtype, dtype)),
        indices=np.ascontiguousarray(csr.indices),
        indptr=np.ascontiguousarray(csr.indptr, dtype=np.int64),
    )
