"""Normal equations: what is left of rows, or of items, once their sums are taken; small, and solved exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from twofold.algorithms import fold_in
from twofold.prototypes.message import Floats

__all__ = ["add_item_equations", "row_equations", "solve"]

# Items whose rank x rank matrices are worked on at a time: some ten megabytes.
_CHUNK = 4096


def row_equations(
    Y: Floats, weights: Floats | None, V: Floats, square: Floats | None = None
) -> tuple[Floats, Floats, float]:
    """Gram matrices and right-hand sides of the rows of Y given V, and the weighted squares of Y.

    Parameters
    ----------
    Y, weights : arrays (rows, items)
        Values, and their weights unless all are 1.
    V : array (items, rank)
        Item factors.
    square : array (rank, rank), optional
        VᵀV, if it is known already.

    Returns
    -------
    gram : array (rank, rank) without weights, else (rows, rank, rank)
    given : array (rows, rank)
    squares : float

    Examples
    --------
    >>> gram, given, squares = row_equations(np.array([[3.0, 4.0]]), None, np.eye(2))
    >>> given, squares
    (array([[3., 4.]]), 25.0)
    """
    if weights is None:
        return V.T @ V if square is None else square, Y @ V, float(np.vdot(Y, Y))
    weighted, rank = weights * Y, V.shape[1]
    gram = np.zeros((len(Y), rank**2))
    for part in _chunks(len(V)):
        gram += weights[:, part] @ _outer(V[part])
    return gram.reshape(-1, rank, rank), weighted @ V, float(np.vdot(weighted, Y))


def add_item_equations(Y: Floats, weights: Floats | None, U: Floats, gram: Floats, given: Floats) -> None:
    """Add what some rows say about the items to `gram` and `given`, in place.

    Examples
    --------
    >>> gram, given = np.zeros((1, 1)), np.zeros((2, 1))
    >>> add_item_equations(np.array([[3.0, 4.0]]), None, np.array([[2.0]]), gram, given)
    >>> gram, given
    (array([[4.]]), array([[6.],
           [8.]]))
    """
    given += (Y if weights is None else weights * Y).T @ U
    if weights is None:
        gram += U.T @ U
        return
    pairs, rank = _outer(U), U.shape[1]
    for part in _chunks(len(given)):
        gram[part] += (weights[:, part].T @ pairs).reshape(-1, rank, rank)


def solve(gram: Floats, given: Floats, ridge: float, *, threads: int | None = None) -> Floats:
    """Minimise ``v.(gram + ridge) v - 2 given.v`` over v >= 0, for every row of `given`.

    Parameters
    ----------
    gram : array (rank, rank) or (rows, rank, rank)
        One for all rows, or one for each.
    given : array (rows, rank)
        In the range of `gram`.
    ridge : float
        Penalty.
    threads : int, optional
        All processors by default; the result does not depend on it.

    Notes
    -----
    With gram = RᵀR this is a least squares problem with items R and values R⁻ᵀ given: what `fold_in` solves exactly.

    Examples
    --------
    >>> solve(np.eye(2), np.array([[2.0, -1.0]]), 1.0)
    array([[1., 0.]])
    """
    if gram.ndim == 2:
        root, targets = _root(gram, given)
        return _fold(targets, root, ridge, threads)
    found = np.zeros_like(given)
    for part in _chunks(len(given)):
        root, targets = _root(gram[part], given[part])
        found[part] = _fold(_side_by_side(targets), root.reshape(-1, given.shape[1]), ridge, threads)
    return found


def _root(gram: Floats, given: Floats) -> tuple[Floats, Floats]:
    """R with RᵀR = gram, and R⁻ᵀ given; directions that `gram` does not have are left out."""
    values, vectors = np.linalg.eigh(gram)
    alive = values > 1e-14 * values.max(axis=-1, keepdims=True, initial=0.0)
    sizes = np.sqrt(np.where(alive, values, 0.0))
    along = given @ vectors if gram.ndim == 2 else np.matmul(given[:, None, :], vectors)[:, 0]
    targets = np.where(alive, along / np.where(alive, sizes, 1.0), 0.0)
    return sizes[..., :, None] * np.swapaxes(vectors, -1, -2), targets


def _fold(targets: Any, root: Floats, ridge: float, threads: int | None) -> Floats:
    found = fold_in(targets, root, regularization=ridge, count_scaling=0.0, dtype=np.float64, threads=threads)
    return np.asarray(found, dtype=np.float64)


def _side_by_side(targets: Floats) -> sp.csr_array:
    """Row i holds its targets in columns of its own."""
    rows, rank = targets.shape
    parts: Any = (targets.ravel(), np.arange(rows * rank), np.arange(rows + 1) * rank)
    return sp.csr_array(parts, shape=(rows, rows * rank))


def _outer(factors: Floats) -> Floats:
    return np.asarray((factors[:, :, None] * factors[:, None, :]).reshape(len(factors), -1))


def _chunks(length: int) -> Iterator[slice]:
    return (slice(first, first + _CHUNK) for first in range(0, length, _CHUNK))
