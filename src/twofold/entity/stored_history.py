"""Histories as arrays and back, looked through before SciPy may trust them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.data.catalog import Catalog
from twofold.data.identifiers import Identifiers
from twofold.data.ratings import Feedback, Ratings
from twofold.errors import BadModel

__all__ = ["history_arrays", "restore_history"]


def history_arrays(history: Ratings) -> dict[str, NDArray[Any]]:
    """Give the entries as three arrays.

    Examples
    --------
    >>> rows = sparse.csr_array(np.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> history_arrays(Ratings(rows, Identifiers(["a", "b"]), Catalog(["x", "y"])))["history.columns"].tolist()
    [1, 0]
    """
    matrix = history.matrix
    values = matrix.data if matrix.data.dtype in (np.float32, np.float64) else matrix.data.astype(np.float64)
    return {
        "history.ends": matrix.indptr[1:].astype(np.int64),
        "history.columns": matrix.indices.astype(np.int64),
        "history.values": values,
    }


def restore_history(
    arrays: dict[str, NDArray[Any]], users: Identifiers, catalog: Catalog, feedback: Feedback
) -> Ratings:
    """Make the histories again; anything unsound is BadModel.

    Parameters
    ----------
    arrays : dict
        `ends`, `columns` and `values`.
    users, catalog, feedback
        What rows, columns and absent entries mean.

    Examples
    --------
    >>> arrays = {"ends": np.array([1, 2]), "columns": np.array([1, 0]), "values": np.array([2.0, 1.0])}
    >>> restore_history(arrays, Identifiers(["a", "b"]), Catalog(["x", "y"]), "ratings").of("a")
    {'y': 2.0}
    """
    if set(arrays) != {"ends", "columns", "values"}:
        raise BadModel("the histories of the model are not complete.", expected="ends, columns and values")
    ends, columns, values = arrays["ends"], arrays["columns"], arrays["values"]
    kinds = "".join(part.dtype.kind for part in (ends, columns, values))
    if any(part.ndim != 1 for part in arrays.values()) or kinds != "iif":
        raise BadModel("the histories of the model have another form.", expected="vectors of numbers")
    starts = np.concatenate([np.zeros(1, np.int64), ends])
    if len(ends) != len(users) or (np.diff(starts) < 0).any() or not starts[-1] == len(columns) == len(values):
        raise _unsound()
    _check_columns(starts, columns, len(catalog))
    parts: Any = (values, columns, starts)
    return Ratings(sparse.csr_array(parts, shape=(len(users), len(catalog))), users, catalog, feedback)


def _check_columns(starts: NDArray[np.int64], columns: NDArray[np.int64], n_items: int) -> None:
    """Every column exists, and rises within a row; SciPy would read beyond its arrays otherwise."""
    if columns.size and (columns.min() < 0 or columns.max() >= n_items):
        raise _unsound()
    falls = np.flatnonzero(np.diff(columns) <= 0) + 1
    if not np.isin(falls, starts).all():
        raise _unsound()


def _unsound() -> BadModel:
    return BadModel("the histories of the model are not sound.", expected="rising ends, and known columns in order")
