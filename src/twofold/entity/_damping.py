"""Counts damped by a power: five orders of a drug are more than one, but not five times as telling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["damped", "damped_rows"]

Floats = NDArray[np.floating[Any]]


def damped(values: Floats, power: float) -> NDArray[np.float64]:
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
