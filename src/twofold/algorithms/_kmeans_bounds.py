"""Distance bounds that spare sparse rows the comparison with all centers, move after move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms._jit import Workers
from twofold.algorithms._kmeans_rows import Rows
from twofold.algorithms._kmeans_scores import Scorer, label_sparse, over_sparse_blocks

__all__ = ["Bounds"]

SETTLED = 0.1  # while more rows than this change their label, bounds cost more than they spare
MOST_BYTES = 1 << 26  # bounds may always take this much, and more only if the rows do

Doubles = NDArray[np.float64]
Labels = NDArray[np.int32]


class Bounds:
    """Labels of one run, and for each row and center a distance the row is certainly not nearer than.

    When a center moves by m, no row comes nearer to it by more than m (Elkan 2003, lemma 1). A row that is nearer to
    its own center than every other bound keeps its label; the others are compared with all centers. Unlike Elkan's
    algorithm a row is either skipped or compared with all centers at once, which vector lanes do almost as fast
    as with a few. The bounds give way to rounding, so the labels are those of a plain step.
    """

    def __init__(self, n_rows: int) -> None:
        self._labels = np.zeros(n_rows, np.int32)
        self._settled = False
        self._centers: Doubles | None = None
        self._lower: NDArray[Any] | None = None
        self._squares = np.zeros(0)

    @staticmethod
    def pay_off(rows: Rows, n_clusters: int) -> bool:
        """Whether the rows are sparse and bounds would not need much more memory than they do."""
        size = rows.shape[0] * n_clusters * rows.dtype.itemsize
        return rows.sparse and size <= max(MOST_BYTES, 2 * rows.values.nbytes)

    def label(self, rows: Rows, centers: Doubles, scores: Scorer, workers: Workers) -> tuple[Labels, int]:
        """Return the labels for these centers, and for how many rows no finite score was found."""
        before = self._labels.copy()
        if self._settled and not scores.shifted:
            broken = self._label_bounded(rows, centers, scores, workers)
        else:  # shifted scores are distances less an unknown number, and bound nothing
            self._lower = None
            broken = label_sparse(rows, scores, self._labels, workers)
        self._centers = centers
        self._settled = int(np.count_nonzero(before != self._labels)) <= SETTLED * before.size
        return self._labels.copy(), broken

    def _label_bounded(self, rows: Rows, centers: Doubles, scores: Scorer, workers: Workers) -> int:
        assert rows.indptr is not None
        lower, epsilon = self._bounds(rows, len(centers)), float(np.finfo(rows.dtype).eps)
        # Products of a row sum up as many roundings as it has entries, of either sign.
        margin = epsilon * (8.0 + 2.0 * float(np.sqrt(np.diff(rows.indptr).max(initial=0))))
        center_squares = (centers**2).sum(axis=1)
        moved = self._moved(centers, center_squares, epsilon).astype(rows.dtype)
        common = (scores.table, scores.bias, scores.scale, centers.astype(rows.dtype), center_squares, moved, margin)
        run, entries = scores.kernels.nearest_sparse_bounded, (rows.indices, rows.values)

        def label_block(span: slice, indptr: NDArray[np.int64]) -> int:
            return int(run(indptr, *entries, self._squares[span], *common, lower[span], self._labels[span]))

        return over_sparse_blocks(rows, label_block, workers)

    def _bounds(self, rows: Rows, n_clusters: int) -> NDArray[Any]:
        """Bounds of zero exclude nothing; so they start."""
        if self._lower is None:
            self._lower = np.zeros((rows.shape[0], n_clusters), rows.dtype)
            squared = replace(rows, values=rows.values.astype(np.float64) ** 2)
            self._squares = squared.matrix @ np.ones(rows.shape[1])
        return self._lower

    def _moved(self, centers: Doubles, center_squares: Doubles, epsilon: float) -> Doubles:
        """How far each center went, and a little more than the bounds lose by rounding."""
        before = centers if self._centers is None else self._centers
        rounding = np.sqrt(self._squares.max(initial=0.0) + center_squares.max()) * epsilon
        moved: Doubles = np.sqrt(((centers - before) ** 2).sum(axis=1)) * (1.0 + epsilon) + rounding
        return moved
