"""Eigenvectors of symmetric matrices and random projections, by SciPy, with one convention for order and sign."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.algorithms import _checks
from twofold.errors import BadParameter, BadShape

__all__ = ["low_rank_svd", "range_finder", "symmetric_eigen"]

Array = NDArray[Any]


def symmetric_eigen(matrix: ArrayLike, n_largest: int | None = None) -> tuple[Array, Array]:
    """Largest eigenvalues of a symmetric matrix, in falling order, and their vectors as columns.

    Parameters
    ----------
    matrix : array (n, n)
        Only the lower triangle is read.
    n_largest : int, optional
        How many; all by default.

    Returns
    -------
    values, vectors : arrays (k,) and (n, k)
        The largest element of each vector, in absolute value, is positive, so that signs repeat.

    Examples
    --------
    >>> values, vectors = symmetric_eigen([[2.0, 0.0], [0.0, 3.0]])
    >>> values
    array([3., 2.])
    """
    from scipy.linalg import eigh

    square = _checks.factors("matrix", matrix, None, None)
    n = square.shape[0]
    if square.shape != (n, n):
        raise BadShape("matrix must be square.", found=str(square.shape))
    k = n if n_largest is None else _checks.whole_number("n_largest", n_largest)
    if k > n:
        raise BadParameter("n_largest is more than the matrix has.", found=str(k), expected=f"at most {n}")
    values, vectors = eigh(square, subset_by_index=(n - k, n - 1))
    return values[::-1], _signed(vectors[:, ::-1])


def range_finder(
    matrix: Any,
    size: int,
    *,
    power_iterations: int = 2,
    rng: np.random.Generator | int | None = 0,
) -> Array:
    """Orthonormal columns that nearly span what a matrix maps to.

    Parameters
    ----------
    matrix : array or SciPy sparse matrix (n, m)
        Anything with ``@`` and ``.T``.
    size : int
        Number of columns; a few more than the rank that matters.
    power_iterations : int
        Passes that sharpen the span when singular values fall slowly.
    rng : numpy.random.Generator, int or None
        Source of the random directions; a fixed seed by default.

    Returns
    -------
    array (n, at most size)

    Notes
    -----
    N. Halko, P. G. Martinsson and J. A. Tropp, Finding structure with randomness, SIAM Review 53(2), 2011,
    algorithm 4.4.

    Examples
    --------
    >>> A = np.outer([3.0, 4.0], [1.0, 0.0, 0.0])
    >>> abs(range_finder(A, 1)).round(6)
    array([[0.6],
           [0.8]])
    """
    from scipy.linalg import qr

    size = min(_checks.whole_number("size", size), *matrix.shape)
    passes = _checks.whole_number("power_iterations", power_iterations, least=0)
    directions = np.random.default_rng(rng).standard_normal((matrix.shape[1], size))
    basis: Array = qr(matrix @ directions, mode="economic")[0]
    for _ in range(passes):
        across = qr(matrix.T @ basis, mode="economic")[0]
        basis = qr(matrix @ across, mode="economic")[0]
    return basis


def low_rank_svd(
    matrix: Any,
    rank: int,
    *,
    oversampling: int = 10,
    power_iterations: int = 2,
    rng: np.random.Generator | int | None = 0,
) -> tuple[Array, Array, Array]:
    """Leading singular values and vectors through a random projection.

    Parameters
    ----------
    matrix : array or SciPy sparse matrix (n, m)
        What to approximate.
    rank, oversampling : int
        How many to return, and how many more to look at.
    power_iterations, rng
        As for `range_finder`.

    Returns
    -------
    left, values, right : arrays (n, k), (k,) and (m, k)
        ``left * values @ right.T`` approximates the matrix.

    Examples
    --------
    >>> left, values, right = low_rank_svd(np.diag([5.0, 3.0, 1.0]), 2)
    >>> values.round(6)
    array([5., 3.])
    """
    from scipy.linalg import svd

    rank = _checks.whole_number("rank", rank)
    extra = _checks.whole_number("oversampling", oversampling, least=0)
    basis = range_finder(matrix, rank + extra, power_iterations=power_iterations, rng=rng)
    inner, values, right = svd(np.asarray((matrix.T @ basis).T), full_matrices=False)
    return basis @ inner[:, :rank], values[:rank], right[:rank].T


def _signed(vectors: Array) -> Array:
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return np.asarray(vectors * np.where(largest < 0, -1.0, 1.0))
