"""The kernels in plain NumPy: slow and short, the reference for tests of the compiled ones.

Each function has the signature of its namesake in `_kmeans_kernels`, `_nmf_kernels`, `_ials_kernels`,
`_neighbour_kernels`, `_softmax_kernels` or `_top_items_kernels`.
`solve_rows` also solves the rows whose compiled pivoting did not settle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.csr import csr_rows

__all__ = [
    "add_dense_rows",
    "add_sparse_rows",
    "add_swap_losses",
    "add_weighted",
    "collect",
    "descend_rows",
    "hide",
    "nearest_of_scores",
    "nearest_sparse",
    "nearest_sparse_bounded",
    "nearest_two",
    "non_negative_quadratic",
    "places",
    "row_system",
    "select_few",
    "softmax_moments",
    "solve_rows",
    "strongest_columns",
]

Array = NDArray[Any]
_SWAPS = 64  # candidates of a swap step compared at once


def nearest_of_scores(scores: Array, bias: Array, labels: Array) -> int:
    """Label each row of a block of scores; return how many smallest scores were not finite."""
    scores += bias
    labels[:] = scores.argmin(axis=1)
    return int(np.sum(~np.isfinite(scores.min(axis=1))))


def nearest_sparse(indptr: Array, indices: Array, data: Array, table: Array, bias: Array, labels: Array) -> int:
    """Label sparse rows."""
    span = slice(indptr[0], indptr[-1])
    shape = (labels.size, table.shape[0])
    rows = csr_rows(data[span], indices[span], indptr - indptr[0], shape)
    return nearest_of_scores(rows @ table, bias, labels)


def nearest_sparse_bounded(*arguments: Any) -> int:
    """Label sparse rows; bounds that are always zero never skip a row."""
    indptr, indices, data, _, table, bias, _, _, _, _, _, lower, labels = arguments
    lower[:] = 0.0
    return nearest_sparse(indptr, indices, data, table, bias, labels)


def add_sparse_rows(
    indptr: Array,
    indices: Array,
    data: Array,
    weights: Array,
    labels: Array,
    first: int,
    last: int,
    sums: Array,
    counts: Array,
) -> float:
    """Add the rows of a range of clusters; return their weighted squares."""
    row_of = np.repeat(np.arange(labels.size), np.diff(indptr))
    mine = (labels >= first) & (labels < last)
    kept = mine[row_of]
    values, entry_weights = data[kept].astype(np.float64), weights[row_of[kept]]
    np.add.at(counts, labels[mine], weights[mine])
    np.add.at(sums, (labels[row_of[kept]], indices[kept]), entry_weights * values)
    return float(entry_weights @ values**2)


def add_dense_rows(rows: Array, weights: Array, labels: Array, centers: Array, sums: Array, counts: Array) -> float:
    """Add a block of rows to their clusters; return the weighted squared distances to the centers."""
    wide = rows.astype(np.float64)
    np.add.at(counts, labels, weights)
    np.add.at(sums, labels, weights[:, None] * wide)
    return float(weights @ ((wide - centers[labels]) ** 2).sum(axis=1))


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


def descend_rows(
    first: int,
    last: int,
    starts: Array,
    columns: Array,
    values: Array,
    factors: Array,
    width: int,
    base: Array,
    scale: Array,
    ridge: Array,
    steps: int,
    out: Array,
) -> None:
    """Take conjugate gradient steps with each row's matrix written out, in float64."""
    tall, solutions = factors.reshape(-1, width).astype(np.float64), out.reshape(-1, width)
    for row in range(first, last):
        own = slice(starts[row], starts[row + 1])
        v, x = tall[columns[own]], solutions[row].astype(np.float64) * (starts[row] < starts[row + 1])
        matrix = v.T @ v + np.diag(base + ridge[row] * scale.astype(np.float64))
        rest = values[own] @ v - matrix @ x
        way = rest.copy()
        for _ in range(steps):
            image, size = matrix @ way, rest @ rest
            if way @ image <= 0:
                break
            step = size / (way @ image)
            x, rest = x + step * way, rest - step * image
            way = rest + (rest @ rest) / size * way
        solutions[row] = x


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
    gram: Array,
    rhs: Array,
    x: Array,
    passive: Array,
    order: Array,
    gain: Array,
    tolerance: float,
) -> tuple[Array, Array] | None:
    """Add the first column that gets a positive value, then move back inside; None if no column does."""
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


def hide(scores: Array, indptr: Array, indices: Array, positions: Array) -> None:
    """Exclude the stored entries of a CSR block."""
    rows = np.repeat(np.arange(len(scores)), np.diff(indptr))
    columns = positions[indices[indptr[0] : indptr[-1]]]
    scores[rows[columns >= 0], columns[columns >= 0]] = -np.inf


def select_few(scores: Array, items: Array, values: Array) -> None:
    """Fill each line with its best items, in order."""
    items[:], values[:] = -1, -np.inf
    n = min(items.shape[1], scores.shape[1])
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    values[:, :n] = np.take_along_axis(scores, order, axis=1)
    items[:, :n] = np.where(values[:, :n] > -np.inf, order, -1)


def collect(scores: Array, floors: Array, items: Array, values: Array) -> None:
    """Fill each line with the items above its floor and the first ones at it, by item number."""
    items[:], values[:] = -1, -np.inf
    for row, floor, who, best in zip(scores, floors, items, values, strict=True):
        above = np.flatnonzero(row > floor)
        level = np.flatnonzero((row == floor) & (row > -np.inf))[: items.shape[1] - above.size]
        chosen = np.sort(np.concatenate([above, level]))
        who[: chosen.size], best[: chosen.size] = chosen, row[chosen]


def nearest_two(points: Array, centers: Array, far: float, near: Array, first: Array, second: Array) -> None:
    """Nearest center of each point, its squared distance, and that of the second nearest."""
    distances = ((points[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
    near[:] = distances.argmin(axis=1)
    everyone = np.arange(len(points))
    first[:] = distances[everyone, near]
    distances[everyone, near] = far
    second[:] = distances.min(axis=1)


def add_swap_losses(
    points: Array, table: Array, near: Array, first: Array, second: Array, base: Array, extra: Array
) -> None:
    """Add what each point loses when a candidate joins, and more when its own center leaves."""
    for start in range(0, table.shape[1], _SWAPS):
        block = slice(start, start + _SWAPS)
        distances = ((points[:, :, None] - table[None, :, block]) ** 2).sum(axis=1)
        kept = np.minimum(distances, first[:, None])
        base[block] += kept.sum(axis=0)
        np.add.at(extra[:, block], near, np.minimum(distances, second[:, None]) - kept)


def places(scores: Array, indptr: Array, indices: Array, seen_ptr: Array, seen: Array, out: Array) -> None:
    """Fill `out`, entries x 2, with each held-out item's place among all items and among the unseen ones."""
    for r, row in enumerate(scores):
        lines = slice(indptr[r], indptr[r + 1])
        held = indices[lines]
        unseen = np.ones(row.size, np.bool_)
        unseen[seen[seen_ptr[r] : seen_ptr[r + 1]]] = False
        unseen[held] = True
        out[lines, 0] = _places(np.sort(row), row[held])
        out[lines, 1] = _places(np.sort(row[unseen]), row[held])


def _places(ordered: Array, scores: Array) -> Array:
    reached = ordered.size - np.searchsorted(ordered, scores, side="left")
    above = ordered.size - np.searchsorted(ordered, scores, side="right")
    # Places above, plus half of the ties other than the item itself.
    return (above + (reached - above - 1) / 2) / max(ordered.size - 1, 1)


def strongest_columns(
    first: int,
    last: int,
    starts: Array,
    rows: Array,
    values: Array,
    row_starts: Array,
    row_columns: Array,
    row_values: Array,
    source_scale: Array,
    target_scale: Array,
    found: Array,
    weights: Array,
    counts: Array,
) -> None:
    """Fill each list from a whole line of the matrix of all pairs."""
    matrix = csr_rows(row_values, row_columns, row_starts, (row_starts.size - 1, source_scale.size))
    for i in range(first, last):
        own = slice(starts[i], starts[i + 1])
        line = np.asarray(values[own] @ matrix[rows[own]]) * source_scale * target_scale[i]
        line[i] = 0.0
        best = np.sort(np.argsort(-line, kind="stable")[: found.shape[1]])
        best = best[line[best] > 0]
        counts[i - first] = best.size
        found[i - first, : best.size], weights[i - first, : best.size] = best, line[best]


def add_weighted(
    starts: Array,
    columns: Array,
    values: Array,
    weight_starts: Array,
    targets: Array,
    weights: Array,
    out: Array,
) -> None:
    """Add the product of compressed rows and compressed weights to whole rows."""
    width = weight_starts.size - 1
    rows = csr_rows(values, columns, starts, (starts.size - 1, width))
    out += (rows @ csr_rows(weights, targets, weight_starts, (width, out.shape[1]))).toarray()


def softmax_moments(parts: Array, weights: Array, starts: Array, closed: Array, sizes: Array, moments: Array) -> None:
    """Find the moments of some parts under the softmax of their weighted sum, row by row."""
    for row, given in enumerate(parts):
        chance = weights @ given
        chance[closed[starts[row] : starts[row + 1]]] = -np.inf
        top = chance.max()
        chance = np.exp(chance - top)
        whole = chance.sum()
        sizes[row], chance = np.log(whole) + top, chance / whole
        moments[row, :, 0] = given @ chance
        moments[row, :, 1:] = (given * chance) @ given.T
