"""Input checks of numeric functions; each error says what was found, what was expected and what to type.

Messages name arguments, shapes and types only: the numbers in an array may be private.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from twofold.checks import whole
from twofold.errors import BadNumber, BadParameter, BadShape, Set

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "choice",
    "compressed_rows",
    "factors",
    "finite",
    "floating_type",
    "is_sparse",
    "non_negative_number",
    "vector",
    "whole_number",
]


def whole_number(name: str, value: object, *, least: int = 1) -> int:
    """Return a whole number of at least `least`; numpy integers are accepted.

    Examples
    --------
    >>> whole_number("rank", 3)
    3
    """
    return whole(name, value, least=least, kind=Integral, error=BadParameter)


def non_negative_number(name: str, value: object) -> float:
    """Return a finite number of at least 0.

    Examples
    --------
    >>> non_negative_number("regularization", 0.1)
    0.1
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < np.inf:
        raise BadParameter("{parameter} must be a finite number, 0 or more.", found=repr(value), parameter=name)
    return float(value)


def choice(name: str, value: str, allowed: Sequence[str]) -> str:
    """Return `value` if it is one of the allowed words.

    Examples
    --------
    >>> choice("feedback", "counts", ("ratings", "counts"))
    'counts'
    """
    if value not in allowed:
        words = " or ".join(f'"{word}"' for word in allowed)
        raise BadParameter("{parameter} is not one of the choices.", found=repr(value), expected=words, parameter=name)
    return value


def floating_type(dtype: DTypeLike | None, data: np.dtype[Any]) -> np.dtype[Any]:
    """Choose float32 or float64: as requested, otherwise float64 for float64 data and float32 for the rest.

    Examples
    --------
    >>> floating_type(None, np.dtype("int64")), floating_type(None, np.dtype("float64"))
    (dtype('float32'), dtype('float64'))
    """
    if dtype is None:
        return np.dtype(np.float64 if data == np.float64 else np.float32)
    chosen = np.dtype(dtype)
    if chosen not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise BadParameter(
            "{parameter} must be float32 or float64.", found=str(chosen), fix=Set("dtype", "float32"), parameter="dtype"
        )
    return chosen


def finite(name: str, values: NDArray[Any]) -> None:
    """Refuse NaN and infinity.

    Examples
    --------
    >>> finite("X", np.array([1.0, 2.0]))
    """
    if values.dtype.kind != "f" or values.size == 0:
        return
    # Both propagate NaN, and need no array of flags as large as the data.
    if not (np.isfinite(values.min()) and np.isfinite(values.max())):
        raise BadNumber("{parameter} holds NaN or infinity.", expected="finite numbers", parameter=name)


def vector(name: str, values: ArrayLike, length: int, *, signed: bool = False) -> NDArray[np.float64]:
    """Return a float64 vector of known length, finite and (unless `signed`) not negative.

    Examples
    --------
    >>> vector("row_weights", [1, 2], 2)
    array([1., 2.])
    """
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (length,):
        raise BadShape(
            "{parameter} has the wrong length.", found=str(array.shape), expected=f"({length},)", parameter=name
        )
    finite(name, array)
    if not signed and (array < 0).any():
        raise BadNumber("{parameter} holds negative numbers.", expected="0 or more", parameter=name)
    return array


def factors(name: str, values: ArrayLike, n_rows: int | None, rank: int | None) -> NDArray[Any]:
    """Return a matrix of finite factors with as many rows and columns as asked.

    Examples
    --------
    >>> factors("V", [[1.0], [2.0]], 2, 1).shape
    (2, 1)
    """
    array = np.asarray(values)
    expected = f"({'any' if n_rows is None else n_rows}, {'at least 1' if rank is None else rank})"
    fits = array.ndim == 2 and array.shape[1] >= 1
    fits = fits and n_rows in (None, array.shape[0]) and rank in (None, array.shape[1])
    if not fits:
        raise BadShape("{parameter} has the wrong shape.", found=str(array.shape), expected=expected, parameter=name)
    if array.dtype.kind not in "fiub":
        raise BadNumber("{parameter} does not hold real numbers.", found=f"type {array.dtype}", parameter=name)
    finite(name, array)
    return array


def is_sparse(matrix: object) -> bool:
    """Tell a SciPy sparse matrix or array from everything else, without importing SciPy for the others.

    Examples
    --------
    >>> is_sparse(np.zeros((2, 2)))
    False
    """
    return hasattr(matrix, "tocsr") and hasattr(matrix, "nnz")


def compressed_rows(name: str, matrix: csr_array) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return row starts (int64, so more than 2^31 entries fit) and column indices of a CSR matrix, proven safe.

    Kernels do not check bounds, so indices that point outside the matrix stop here.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> compressed_rows("X", csr_array([[0, 1], [1, 0]]))
    (array([0, 1, 2]), array([1, 0], dtype=int32))
    """
    n_rows, n_columns = matrix.shape
    starts = np.asarray(matrix.indptr).astype(np.int64, copy=False)
    columns = np.asarray(matrix.indices)
    sound = starts.shape == (n_rows + 1,) and starts[0] == 0 and starts[-1] <= columns.size == matrix.data.size
    sound = bool(sound and (np.diff(starts) >= 0).all())
    columns = columns[: starts[-1]]
    if not sound or (columns.size and (columns.min() < 0 or columns.max() >= n_columns)):
        raise BadShape(
            "{parameter} is a damaged sparse matrix: its index arrays do not match its shape.",
            fix=f"{name} = scipy.sparse.csr_array((values, (rows, columns)), shape=...)",
            parameter=name,
        )
    narrow = n_columns <= np.iinfo(np.int32).max
    return starts, columns.astype(np.int32 if narrow else np.int64, copy=False)
