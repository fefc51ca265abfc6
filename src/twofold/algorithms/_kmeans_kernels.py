"""Compiled steps of k-means and of local search by swaps; `_reference` does the same in NumPy.

In a Lloyd step `table` holds minus twice the shifted centers, one column per cluster, padded with empty columns to a
multiple of 16 whose `bias` is infinite. A row's score for a cluster is its product with that column plus the bias, and
the smallest score is the nearest center (see `_kmeans_step.scorer`). In a swap step all numbers are whole and below
2^53 in size, so float64 holds them exactly and no order of addition changes a sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twofold.algorithms._jit import kernel

__all__ = [
    "add_dense_rows",
    "add_sparse_rows",
    "add_swap_losses",
    "nearest_of_scores",
    "nearest_sparse",
    "nearest_sparse_bounded",
    "nearest_two",
]

Array = Any


@kernel(fastmath={"nnan", "nsz"})
def _smallest(scores: Array, bias: Array) -> Any:
    """Add the bias in place and return the smallest; the relaxed rules let it run in vector lanes."""
    best = scores[0] + bias[0]
    for j in range(scores.size):
        score = scores[j] + bias[j]
        scores[j] = score
        best = score if score < best else best
    return best


@kernel()
def _first_at(scores: Array, best: Any) -> Any:
    """Return the first position not above `best`, so that ties go to the lowest cluster; 0 if NaN hides it."""
    if not np.isfinite(best):
        return 0
    for j in range(scores.size):
        if scores[j] <= best:
            return j
    return 0


@kernel()
def nearest_of_scores(scores: Array, bias: Array, labels: Array) -> int:
    """Label each row of a block of scores (overwritten); return how many scores were not finite."""
    broken = 0
    for r in range(scores.shape[0]):
        best = _smallest(scores[r], bias)
        labels[r] = _first_at(scores[r], best)
        broken += not np.isfinite(best)
    return broken


@kernel(fastmath={"contract"})
def _score_row(indices: Array, data: Array, table: Array, scores: Array) -> None:
    """Multiply one sparse row with the table; four entries at a time, so that scores are read a quarter as often."""
    k = table.shape[1]
    for j in range(k):
        scores[j] = 0
    p = 0
    while p + 4 <= data.size:
        a, b, c, d = data[p], data[p + 1], data[p + 2], data[p + 3]
        # Unsigned positions spare the compiled code the wrap-around of negative ones.
        column_a, column_b = table[np.uint64(indices[p])], table[np.uint64(indices[p + 1])]
        column_c, column_d = table[np.uint64(indices[p + 2])], table[np.uint64(indices[p + 3])]
        for j in range(k):
            scores[j] += (a * column_a[j] + b * column_b[j]) + (c * column_c[j] + d * column_d[j])
        p += 4
    while p < data.size:
        a = data[p]
        column_a = table[np.uint64(indices[p])]
        for j in range(k):
            scores[j] += a * column_a[j]
        p += 1


@kernel()
def nearest_sparse(indptr: Array, indices: Array, data: Array, table: Array, bias: Array, labels: Array) -> int:
    """Label sparse rows; return for how many the smallest score was not finite."""
    scores = np.empty(table.shape[1], table.dtype)
    broken = 0
    for r in range(labels.size):
        first, last = indptr[r], indptr[r + 1]
        _score_row(indices[first:last], data[first:last], table, scores)
        best = _smallest(scores, bias)
        labels[r] = _first_at(scores, best)
        broken += not np.isfinite(best)
    return broken


@kernel(fastmath={"contract", "reassoc", "nsz"})
def _dot(indices: Array, data: Array, center: Array) -> float:
    """Multiply one sparse row with one center."""
    product = 0.0
    for p in range(data.size):
        product += np.float64(data[p]) * center[np.uint64(indices[p])]
    return product


@kernel()
def _may_move(lower: Array, moved: Array, own: float, label: int) -> Any:
    """Whether some other center may have become nearer; every bound gives way by its center's move."""
    near = 0
    for j in range(moved.size):
        lower[j] -= moved[j]
        near += lower[j] <= own
    return near > (lower[label] <= own)


@kernel()
def nearest_sparse_bounded(
    indptr: Array,
    indices: Array,
    data: Array,
    squares: Array,
    table: Array,
    bias: Array,
    scale: float,
    centers: Array,
    center_squares: Array,
    moved: Array,
    margin: float,
    lower: Array,
    labels: Array,
) -> int:
    """Label sparse rows again after the centers `moved`; skip rows whose distance bounds leave no doubt.

    `lower` holds, per row and center, a distance the row is certainly not nearer than; `margin` times the squares
    is more than rounding can spoil a squared distance by.
    """
    scores = np.empty(table.shape[1], table.dtype)
    broken = 0
    for r in range(labels.size):
        first, last = indptr[r], indptr[r + 1]
        label = labels[r]
        size = squares[r] + center_squares[label]
        square = size - 2.0 * _dot(indices[first:last], data[first:last], centers[label])
        own = np.sqrt((square if square > 0.0 else 0.0) + margin * size)
        if _may_move(lower[r], moved, own, label):
            _score_row(indices[first:last], data[first:last], table, scores)
            best = _smallest(scores, bias)
            labels[r] = _first_at(scores, best)
            broken += not np.isfinite(best)
            for j in range(moved.size):
                size = squares[r] + center_squares[j]
                square = squares[r] + scale * scores[j] - margin * size
                lower[r, j] = np.sqrt(square if square > 0.0 else 0.0)
    return broken


@kernel()
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
    """Add the rows of the clusters from `first` up to `last`; return their weighted squares."""
    squares = 0.0
    for r in range(labels.size):
        label = labels[r]
        if first <= label < last:
            weight = weights[r]
            counts[label] += weight
            total = sums[label]
            square = 0.0
            for p in range(indptr[r], indptr[r + 1]):
                value = np.float64(data[p])
                total[np.uint64(indices[p])] += weight * value
                square += value * value
            squares += weight * square
    return squares


@kernel(fastmath={"contract", "reassoc", "nsz"})
def _add_row(row: Array, weight: float, center: Array, total: Array) -> float:
    """Add one row to its cluster's sum; return its squared distance to the center."""
    distance = 0.0
    for c in range(row.size):
        value = np.float64(row[c])
        total[c] += weight * value
        distance += (value - center[c]) * (value - center[c])
    return distance


@kernel()
def add_dense_rows(rows: Array, weights: Array, labels: Array, centers: Array, sums: Array, counts: Array) -> float:
    """Add a block of rows to their clusters; return the weighted squared distances to the centers."""
    inertia = 0.0
    for r in range(rows.shape[0]):
        label = labels[r]
        counts[label] += weights[r]
        inertia += weights[r] * _add_row(rows[r], weights[r], centers[label], sums[label])
    return inertia


@kernel()
def nearest_two(points: Array, centers: Array, far: float, near: Array, first: Array, second: Array) -> None:
    """Nearest center of each point (ties: the lower number), its squared distance, and that of the second nearest."""
    for i in range(points.shape[0]):
        best, next_best, place = far + 1.0, far, 0
        for j in range(centers.shape[0]):
            distance = 0.0
            for a in range(points.shape[1]):
                gap = points[i, a] - centers[j, a]
                distance += gap * gap
            if distance < best:
                if best < next_best:
                    next_best = best
                best = distance
                place = j
            elif distance < next_best:
                next_best = distance
        near[i], first[i], second[i] = place, best, next_best


@kernel(fastmath={"nnan", "nsz", "reassoc", "contract"})
def add_swap_losses(
    points: Array, table: Array, near: Array, first: Array, second: Array, base: Array, extra: Array
) -> None:
    """Add what each point loses when a candidate joins (`base`), and more when its own center leaves (`extra`)."""
    count = table.shape[1]
    distances = np.empty(count)
    for i in range(points.shape[0]):
        for j in range(count):
            distances[j] = 0.0
        for a in range(points.shape[1]):
            value, line = points[i, a], table[a]
            for j in range(count):
                gap = value - line[j]
                distances[j] += gap * gap
        one, two, row = first[i], second[i], extra[near[i]]
        for j in range(count):
            distance = distances[j]
            kept = distance if distance < one else one
            left = distance if distance < two else two
            base[j] += kept
            row[j] += left - kept
