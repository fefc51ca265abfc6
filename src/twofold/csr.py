"""Sparse rows built from their three arrays, and rows made from others by keeping entries or changing values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["csr_rows", "keep_entries", "row_range", "summed", "with_data"]

Numbers = NDArray[Any]


def csr_rows(data: Numbers, indices: Numbers, indptr: Numbers, shape: tuple[int, int]) -> sparse.csr_array:
    """Build a matrix from its values, their columns and the starts of its rows; nothing is sorted or summed.

    Examples
    --------
    >>> csr_rows(np.ones(2), np.array([1, 0]), np.array([0, 1, 2]), (2, 2)).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    parts: Any = (data, indices, indptr)  # SciPy's stubs do not know this form
    return sparse.csr_array(parts, shape=shape)


def with_data(matrix: sparse.csr_array, data: Numbers) -> sparse.csr_array:
    """Give the same entries other values.

    Examples
    --------
    >>> with_data(sparse.csr_array(np.eye(2)), np.array([3.0, 4.0])).toarray().tolist()
    [[3.0, 0.0], [0.0, 4.0]]
    """
    made = csr_rows(data, matrix.indices, matrix.indptr, matrix.shape)
    made.has_canonical_format = matrix.has_canonical_format
    return made


def keep_entries(matrix: sparse.csr_array, chosen: NDArray[np.bool_], data: Numbers | None = None) -> sparse.csr_array:
    """Keep only the chosen entries of a canonical matrix, with other values if given.

    Examples
    --------
    >>> keep_entries(sparse.csr_array(np.eye(2)), np.array([False, True])).toarray().tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    values = matrix.data if data is None else data
    if chosen.all():
        return with_data(matrix, values)
    counts = np.concatenate([[0], np.cumsum(chosen)])
    made = csr_rows(
        values[chosen], matrix.indices[chosen], counts[matrix.indptr].astype(matrix.indptr.dtype), matrix.shape
    )
    made.has_canonical_format = True
    return made


def row_range(matrix: sparse.csr_array, start: int, stop: int) -> sparse.csr_array:
    """Take neighbouring rows; their values and columns are not copied.

    Examples
    --------
    >>> row_range(sparse.csr_array(np.eye(3)), 1, 3).toarray().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    starts = matrix.indptr[start : stop + 1]
    entries = slice(starts[0], starts[-1])
    return csr_rows(
        matrix.data[entries], matrix.indices[entries], starts - starts[0], (len(starts) - 1, matrix.shape[1])
    )


def summed(matrix: sparse.csr_array) -> sparse.csr_array:
    """Sum repeated cells in a copy, as SciPy does; return a matrix without any unchanged.

    Examples
    --------
    >>> summed(csr_rows(np.ones(2), np.array([0, 0]), np.array([0, 2]), (1, 1))).toarray().tolist()
    [[2.0]]
    """
    if matrix.has_canonical_format:
        return matrix
    copy = matrix.copy()
    copy.sum_duplicates()
    return copy
