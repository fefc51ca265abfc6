"""One pass over the rows: nearest centers, sums, counts and inertia, in blocks that do not depend on threads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms._blas_threads import one_blas_thread
from twofold.algorithms._jit import Workers
from twofold.algorithms._kmeans_bounds import Bounds
from twofold.algorithms._kmeans_rows import Rows
from twofold.algorithms._kmeans_scores import (
    cuts,
    kernels,
    label_sparse,
    labelled_chunks,
    require_in_range,
    scorer,
)

__all__ = ["Step", "nearest", "squared_distances", "step"]

PARTS = 8  # most blocks a pass over dense rows, or over clusters, is cut into

Labels = NDArray[np.int32]
Doubles = NDArray[np.float64]


class Step(NamedTuple):
    """What one pass over the rows gives: labels, weighted sums and counts per cluster, inertia."""

    labels: Labels
    sums: Doubles
    counts: Doubles
    inertia: float


def step(rows: Rows, weights: Doubles, centers: Doubles, workers: Workers, bounds: Bounds | None = None) -> Step:
    """Label the rows and add them up per cluster; `bounds` of the same run make it quicker, not different."""
    rounded = centers.astype(rows.dtype).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
        if rows.sparse:
            result = _sparse_step(rows, weights, rounded, workers, bounds)
        else:
            result = _dense_step(rows, weights, rounded, workers)
    require_in_range(rows, int(not np.isfinite(result.sums).all()))
    return result


def nearest(rows: Rows, centers: Doubles, workers: Workers) -> Labels:
    """Label the rows."""
    scores = scorer(centers.astype(rows.dtype).astype(np.float64), rows.dtype)
    labels = np.zeros(rows.shape[0], np.int32)
    if rows.sparse:
        require_in_range(rows, label_sparse(rows, scores, labels, workers))
        return labels
    borders = cuts(rows.shape[0], PARTS)
    broken = np.zeros(borders.size - 1, np.int64)

    def label_part(part: int) -> None:
        for _, missed in labelled_chunks(rows, scores, labels, borders[part], borders[part + 1]):
            broken[part] += missed

    with one_blas_thread():
        workers.run(label_part, broken.size)
    require_in_range(rows, int(broken.sum()))
    return labels


def squared_distances(rows: Rows, centers: Doubles, labels: Labels) -> Doubles:
    """Each row's squared distance to the center it is labelled with."""
    n_rows = rows.shape[0]
    result = np.empty(n_rows)
    size = max(1, (1 << 20) // max(1, rows.shape[1]))
    for start in range(0, n_rows, size):
        chosen = np.arange(start, min(n_rows, start + size))
        result[chosen] = ((rows.take(chosen) - centers[labels[chosen]]) ** 2).sum(axis=1)
    return result


def _sparse_step(rows: Rows, weights: Doubles, centers: Doubles, workers: Workers, bounds: Bounds | None) -> Step:
    labels = _sparse_labels(rows, centers, workers, bounds)
    sums, counts = np.zeros(centers.shape), np.zeros(len(centers))
    borders = cuts(len(centers), PARTS)
    squares = np.zeros(borders.size - 1)
    add, arrays = kernels().add_sparse_rows, (rows.indptr, rows.indices, rows.values)

    def add_part(part: int) -> None:
        # Each part owns some clusters and walks their rows in order: no two threads add to one sum.
        first, last = int(borders[part]), int(borders[part + 1])
        squares[part] = add(*arrays, weights, labels, first, last, sums, counts)

    workers.run(add_part, squares.size)
    inertia = squares.sum() - 2.0 * np.vdot(centers, sums) + counts @ (centers**2).sum(axis=1)
    return Step(labels, sums, counts, _never_negative(inertia))


def _sparse_labels(rows: Rows, centers: Doubles, workers: Workers, bounds: Bounds | None) -> Labels:
    scores = scorer(centers, rows.dtype)
    if bounds is None:
        labels = np.zeros(rows.shape[0], np.int32)
        broken = label_sparse(rows, scores, labels, workers)
    else:
        labels, broken = bounds.label(rows, centers, scores, workers)
    require_in_range(rows, broken)
    return labels


def _dense_step(rows: Rows, weights: Doubles, centers: Doubles, workers: Workers) -> Step:
    n_rows, n_clusters = rows.shape[0], len(centers)
    scores = scorer(centers, rows.dtype)
    labels = np.zeros(n_rows, np.int32)
    # The sums kept apart per part may take about a quarter of the memory of the rows, no more.
    borders = cuts(n_rows, min(PARTS, n_rows // (4 * n_clusters)))
    n_parts = borders.size - 1
    sums, counts = np.zeros((n_parts, *centers.shape)), np.zeros((n_parts, n_clusters))
    broken, inertia = np.zeros(n_parts, np.int64), np.zeros(n_parts)
    add, narrow = kernels().add_dense_rows, centers.astype(rows.dtype)

    def add_part(part: int) -> None:
        for span, missed in labelled_chunks(rows, scores, labels, borders[part], borders[part + 1]):
            broken[part] += missed
            block = (rows.values[span], weights[span], labels[span])
            inertia[part] += add(*block, narrow, sums[part], counts[part])

    workers.run(add_part, n_parts)
    require_in_range(rows, int(broken.sum()))
    return Step(labels, sums.sum(axis=0), counts.sum(axis=0), _never_negative(inertia.sum()))


def _never_negative(inertia: Any) -> float:
    """Rounding may leave a hair below zero; numbers whose squares overflow have infinite inertia."""
    return float(inertia) if inertia >= 0 else (0.0 if np.isfinite(inertia) else float("inf"))
