"""The slow, plain versions of the kernels: what tests compare with, and what mends a row that would not settle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["non_negative_quadratic", "row_system", "solve_rows"]

Array = NDArray[Any]


def row_system(
    row: int,
    starts: Array,
    columns: Array,
    values: Array,
    weights: Array,
    factors: Array,
    base: Array,
    absent_row: Array,
    absent_column: Array,
    given: Array,
) -> tuple[Array, Array, float]:
    """Gram matrix, right-hand side and weighted squares of one row, in float64."""
    rank = factors.shape[1]
    gram, rhs = np.zeros((rank, rank)), np.zeros(rank)
    absent = float(absent_row[row]) if absent_row.size else 0.0
    if base.size:
        gram += absent * base.astype(np.float64)
    if given.size:
        rhs += given[row]
    own = slice(starts[row], starts[row + 1])
    v, x = factors[columns[own]].astype(np.float64), values[own].astype(np.float64)
    w = weights[own].astype(np.float64) if weights.size else np.ones(x.size)
    less = absent * absent_column[columns[own]] if absent_column.size else 0.0
    gram += (v * (w - less)[:, None]).T @ v
    return gram, rhs + (w * x) @ v, float(w @ x**2)


def solve_rows(
    first: int,
    last: int,
    starts: Array,
    columns: Array,
    values: Array,
    weights: Array,
    factors: Array,
    rank: int,
    width: int,
    base: Array,
    absent_row: Array,
    absent_column: Array,
    given: Array,
    ridge: Array,
    signed: bool,
    warm: bool,  # noqa: ARG001
    limit: int,  # noqa: ARG001
    tiny: float,  # noqa: ARG001
    slack: float,  # noqa: ARG001
    out: Array,
    energy: Array,
    failed: Array,
) -> None:
    """Do what the kernel of the same name does, a row at a time."""
    tall = factors.reshape(-1, width)[:, :rank]
    square = base.reshape(-1, width)[:rank, :rank] if base.size else base
    beside = given.reshape(-1, width)[:, :rank] if given.size else given
    solutions = out.reshape(-1, width)
    for row in range(first, last):
        gram, rhs, squares = row_system(
            row, starts, columns, values, weights, tall, square, absent_row, absent_column, beside
        )
        gram[np.diag_indices(rank)] += ridge[row]
        u = np.linalg.lstsq(gram, rhs, rcond=None)[0] if signed else non_negative_quadratic(gram, rhs)
        solutions[row, :rank] = u
        energy[row] += squares - rhs @ u
        failed[row] = False


def non_negative_quadratic(gram: Array, rhs: Array) -> Array:
    """Minimise ``x.gram.x / 2 - rhs.x`` over x >= 0 by Lawson and Hanson's active set method.

    Parameters
    ----------
    gram : array (n, n)
        Symmetric, positive semidefinite; may be singular.
    rhs : array (n,)
        In the range of `gram`, as for every least-squares problem.

    Examples
    --------
    >>> non_negative_quadratic(np.eye(2), np.array([1.0, -1.0]))
    array([1., 0.])
    """
    scale = np.sqrt(np.maximum(np.diag(gram), 0.0))
    scale[scale == 0] = 1.0
    gram, rhs = gram / np.outer(scale, scale), rhs / scale
    x, passive = np.zeros(rhs.size), np.zeros(rhs.size, dtype=bool)
    tolerance = 4 * np.finfo(np.float64).eps * rhs.size * np.abs(rhs).max(initial=0.0)
    for _ in range(10 * rhs.size):
        gain = np.where(passive, -np.inf, rhs - gram @ x)
        if gain.max() <= tolerance:
            break
        entered = _enter(gram, rhs, x, passive, np.argsort(-gain), gain, tolerance)
        if entered is None:
            break
        x, passive = entered
    return np.asarray(x / scale)


def _enter(
    gram: Array, rhs: Array, x: Array, passive: Array, order: Array, gain: Array, tolerance: float
) -> tuple[Array, Array] | None:
    """Let the first column in that gets a positive value, then walk back inside; None when there is none."""
    for j in order:
        if gain[j] <= tolerance:
            return None
        trial = passive.copy()
        trial[j] = True
        if _solve_passive(gram, rhs, trial)[j] > 0:
            return _walk(gram, rhs, x.copy(), trial)
    return None


def _walk(gram: Array, rhs: Array, x: Array, passive: Array) -> tuple[Array, Array]:
    """Move towards the passive set's solution, dropping columns that would turn negative."""
    while True:
        target = _solve_passive(gram, rhs, passive)
        blocked = passive & (target <= 0)
        if not blocked.any():
            return target, passive
        steps = np.where(blocked, x / np.where(blocked, np.maximum(x - target, 1e-300), 1.0), np.inf)
        x = np.where(passive, x + min(steps.min(), 1.0) * (target - x), 0.0)
        x[steps == steps.min()] = 0.0
        passive = passive & (x > 0)


def _solve_passive(gram: Array, rhs: Array, passive: Array) -> Array:
    x = np.zeros(rhs.size)
    x[passive] = np.linalg.lstsq(gram[np.ix_(passive, passive)], rhs[passive], rcond=1e-14)[0]
    return x
