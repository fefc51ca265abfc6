r"""Sparse rows, entry by entry: keep some, change values, without sorting or checking again.

Counts damped by a power: five orders of a drug are more than one, but not five times as telling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["damped", "damped_rows", "keep_entries", "with_data"]

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


Floats_damping = NDArray[np.floating[Any]]


def damped(values: Floats_damping, power: float) -> NDArray[np.float64]:
    """Raise values to a power, keeping their sign.

    Examples
    --------
    >>> damped(np.array([4.0, -9.0]), 0.5).tolist()
    [2.0, -3.0]
    """
    given = np.asarray(values, dtype=np.float64)
    return given if power == 1 else np.asarray(np.sign(given) * np.abs(given) ** power)


def damped_rows(rows: sparse.csr_array, power: float) -> sparse.csr_array:
    """Do the same to the stored entries of sparse rows, in single precision; the rows given stay as they are.

    Examples
    --------
    >>> damped_rows(sparse.csr_array(np.array([[4.0, 0.0]])), 0.5).toarray().tolist()
    [[2.0, 0.0]]
    """
    parts: Any = (damped(rows.data, power).astype(np.float32), rows.indices, rows.indptr)
    return sparse.csr_array(parts, shape=rows.shape)
