"""Sparse rows, entry by entry: keep some, change values, without sorting or checking again."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

__all__ = ["keep_entries", "with_data"]

Floats = npt.NDArray[np.floating[Any]]


def keep_entries(
    matrix: sparse.csr_array, chosen: npt.NDArray[np.bool_], data: Floats | None = None
) -> sparse.csr_array:
    """Only the chosen entries of a canonical matrix, with other values if given.

    >>> keep_entries(sparse.csr_array(np.eye(2)), np.array([False, True])).toarray().tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    values = matrix.data if data is None else data
    if chosen.all():
        return with_data(matrix, values)
    counts = np.concatenate([[0], np.cumsum(chosen)])
    indptr = counts[matrix.indptr].astype(matrix.indptr.dtype)
    return _canonical(values[chosen], matrix.indices[chosen], indptr, matrix.shape)


def with_data(matrix: sparse.csr_array, data: Floats) -> sparse.csr_array:
    """The same entries with other values."""
    return _canonical(data, matrix.indices, matrix.indptr, matrix.shape)


def _canonical(
    data: Floats, indices: npt.NDArray[Any], indptr: npt.NDArray[Any], shape: tuple[int, int]
) -> sparse.csr_array:
    matrix = sparse.csr_array((data, indices, indptr), shape=shape)
    matrix.has_canonical_format = True
    return matrix
