"""One pass over the rows: nearest centers, sums, counts and inertia, in blocks that do not depend on threads.

A matrix product of rows and centers scores each pair; the smallest score of a row is its nearest center. From one
move of the centers to the next, distance bounds spare most sparse rows the comparison with all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray

from twofold.algorithms import _kmeans_kernels, _reference
from twofold.algorithms._checks import finite, floating_type
from twofold.algorithms._jit import Workers, numba_enabled, one_blas_thread
from twofold.csr import csr_rows, summed
from twofold.errors import BadNumber, BadParameter, BadShape

__all__ = [
    "Bounds",
    "LloydStep",
    "Rows",
    "as_centers",
    "as_rows",
    "as_weights",
    "nearest",
    "require_finite",
    "scorer",
    "squared_distances",
    "step",
]

PARTS = 8  # most blocks a pass over dense rows, or over clusters, is cut into
PADDING = 16  # one AVX-512 register of float32; matrix products and the sparse kernel like full registers
CHUNK_BYTES = 1 << 19  # rows scored together stay in a second-level cache until they are added up
FAR = 4.0  # an offset this many times the spread of the centers is taken off first
ENTRIES_PER_BLOCK = 1 << 16  # sparse entries labelled by one call of a kernel
SETTLED = 0.1  # while more rows than this change their label, bounds cost more than they spare
MOST_BYTES = 1 << 26  # bounds may always take this much, and more only if the rows do

Floats = NDArray[Any]
Labels = NDArray[np.int32]
Doubles = NDArray[np.float64]


class LloydStep(NamedTuple):
    """Result of one pass over the rows: labels, weighted sums and counts per cluster, inertia."""

    labels: Labels
    sums: Doubles
    counts: Doubles
    inertia: float


def step(rows: Rows, weights: Doubles, centers: Doubles, workers: Workers, bounds: Bounds | None = None) -> LloydStep:
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


def _sparse_step(rows: Rows, weights: Doubles, centers: Doubles, workers: Workers, bounds: Bounds | None) -> LloydStep:
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
    return LloydStep(labels, sums, counts, _never_negative(inertia))


def _sparse_labels(rows: Rows, centers: Doubles, workers: Workers, bounds: Bounds | None) -> Labels:
    scores = scorer(centers, rows.dtype)
    if bounds is None:
        labels = np.zeros(rows.shape[0], np.int32)
        broken = label_sparse(rows, scores, labels, workers)
    else:
        labels, broken = bounds.label(rows, centers, scores, workers)
    require_in_range(rows, broken)
    return labels


def _dense_step(rows: Rows, weights: Doubles, centers: Doubles, workers: Workers) -> LloydStep:
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
    return LloydStep(labels, sums.sum(axis=0), counts.sum(axis=0), _never_negative(inertia.sum()))


def _never_negative(inertia: Any) -> float:
    """Rounding may leave a value just below zero; numbers whose squares overflow have infinite inertia."""
    return float(inertia) if inertia >= 0 else (0.0 if np.isfinite(inertia) else float("inf"))


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
        """Start with bounds of zero, which exclude nothing."""
        if self._lower is None:
            self._lower = np.zeros((rows.shape[0], n_clusters), rows.dtype)
            squared = replace(rows, values=rows.values.astype(np.float64) ** 2)
            self._squares = squared.matrix @ np.ones(rows.shape[1])
        return self._lower

    def _moved(self, centers: Doubles, center_squares: Doubles, epsilon: float) -> Doubles:
        """Distance each center moved, plus a margin for the rounding of the bounds."""
        before = centers if self._centers is None else self._centers
        rounding = np.sqrt(self._squares.max(initial=0.0) + center_squares.max()) * epsilon
        moved: Doubles = np.sqrt(((centers - before) ** 2).sum(axis=1)) * (1.0 + epsilon) + rounding
        return moved


class Scorer(NamedTuple):
    """Centers as the kernels want them, and the kernels: asked for once, since other threads have other settings."""

    table: Floats
    bias: Floats
    scale: float
    shifted: bool
    kernels: ModuleType


def kernels() -> ModuleType:
    """Return the kernels, or their references where numba is switched off."""
    return _kmeans_kernels if numba_enabled() else _reference


def cuts(length: int, n_parts: int) -> NDArray[np.intp]:
    """Cut a range into parts of nearly equal length; the cuts depend on public sizes only, never on threads."""
    return np.linspace(0, length, max(1, min(n_parts, length)) + 1).astype(np.intp)


def scorer(centers: NDArray[np.float64], dtype: np.dtype[Any]) -> Scorer:
    """Make `table` and `bias` such that ``x @ table + bias`` orders the centers by distance from x.

    With m the mean center and c = m + s t, where s is a power of two, dividing |x - c|² - |x - m|² by s leaves
    -2 x·t + (2 m·t + s |t|²). Shifting keeps digits when all data is far from zero (otherwise m = 0, since
    products of small integers are then exact and ties are true ties); scaling keeps squares of huge and tiny
    numbers in range. Both are free, since only the centers change.
    """
    n_clusters, n_columns = centers.shape
    width = -(-n_clusters // PADDING) * PADDING
    table, bias = np.zeros((n_columns, width), dtype), np.full(width, np.inf, dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # numbers out of range are reported by the caller
        middle = _common_offset(centers)
        shifted = centers - middle
        scale = np.ldexp(1.0, np.frexp(np.abs(shifted).max(initial=0.0))[1])
        shifted /= scale
        table[:, :n_clusters] = -2.0 * shifted.T
        bias[:n_clusters] = 2.0 * (shifted @ middle) + scale * (shifted**2).sum(axis=1)
    return Scorer(table, bias, float(scale), bool(middle.any()), kernels())


def _common_offset(centers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean center where it dwarfs the spread around it, else zeros."""
    middle = centers.mean(axis=0)
    far = np.abs(middle).max(initial=0.0) > FAR * np.abs(centers - middle).max(initial=0.0)
    return middle if far else np.zeros_like(middle)


def label_sparse(rows: Rows, scores: Scorer, labels: Labels, workers: Workers) -> int:
    """Fill `labels`; return for how many rows no finite score was found."""
    run, arrays = scores.kernels.nearest_sparse, (rows.indices, rows.values, scores.table, scores.bias)

    def label_block(span: slice, indptr: NDArray[np.int64]) -> int:
        return int(run(indptr, *arrays, labels[span]))

    return over_sparse_blocks(rows, label_block, workers)


def over_sparse_blocks(rows: Rows, job: Callable[[slice, NDArray[np.int64]], int], workers: Workers) -> int:
    """Run a job over blocks of rows with about equally many entries; add up what it returns."""
    assert rows.indptr is not None
    indptr, n_blocks = rows.indptr, max(1, rows.values.size // ENTRIES_PER_BLOCK)
    borders = np.searchsorted(indptr, np.linspace(0, rows.values.size, n_blocks + 1))
    borders[0], borders[-1] = 0, rows.shape[0]
    results = np.zeros(n_blocks, np.int64)

    def run_block(block: int) -> None:
        first, last = int(borders[block]), int(borders[block + 1])
        results[block] = job(slice(first, last), indptr[first : last + 1])

    workers.run(run_block, n_blocks)
    return int(results.sum())


def labelled_chunks(rows: Rows, scores: Scorer, labels: Labels, first: int, last: int) -> Iterator[tuple[slice, int]]:
    """Label dense rows chunk by chunk; yield each chunk and its number of rows without a finite score."""
    size = max(64, CHUNK_BYTES // (rows.dtype.itemsize * max(1, rows.shape[1])))
    scratch = np.empty((min(size, last - first), scores.bias.size), rows.dtype)
    for start in range(first, last, size):
        span = slice(start, min(last, start + size))
        block = scratch[: span.stop - start]
        with np.errstate(over="ignore", invalid="ignore"):
            np.matmul(rows.values[span], scores.table, out=block)
        yield span, scores.kernels.nearest_of_scores(block, scores.bias, labels[span])


def require_in_range(rows: Rows, n_broken: int) -> None:
    """Refuse rows whose distances are not numbers, and say whether the rows or their size are to blame."""
    if n_broken:
        require_finite(rows)
        raise BadNumber(
            "the rows or centers are too large for their type.",
            found=f"products that overflow {rows.dtype}",
            fix="dtype=numpy.float64, or divide rows and centers by a common number",
            parameter="rows",
        )


@dataclass(frozen=True, kw_only=True)
class Rows:
    """One matrix, either `dense` or the three arrays of a canonical CSR matrix."""

    shape: tuple[int, int]
    values: Floats
    indices: NDArray[Any] | None = None
    indptr: NDArray[np.int64] | None = None

    @property
    def sparse(self) -> bool:
        """Whether the rows are stored as CSR."""
        return self.indices is not None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type all arithmetic on entries is done in."""
        return self.values.dtype

    @functools.cached_property
    def matrix(self) -> Any:
        """An object that supports `@` and indexing."""
        if self.indices is None or self.indptr is None:
            return self.values
        return csr_rows(self.values, self.indices, self.indptr, self.shape)

    def take(self, chosen: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return a few rows, dense, in double precision."""
        picked = self.matrix[chosen]
        return np.asarray(picked.toarray() if self.sparse else picked, dtype=np.float64)


def as_rows(X: Any, dtype: DTypeLike | None = None) -> Rows:
    """Bring `X` into shape without looking at its values; nothing is copied that already fits."""
    if sp.issparse(X):
        return _sparse_rows(X, dtype)
    dense = np.asarray(X)
    if dense.ndim != 2:
        raise BadShape("the rows are not a matrix.", found=f"{dense.ndim} dimensions", expected="2", parameter="rows")
    values = np.ascontiguousarray(dense, dtype=_working_type(dense.dtype, dtype))
    return Rows(shape=(values.shape[0], values.shape[1]), values=values)


def as_centers(centers: ArrayLike, n_columns: int) -> NDArray[np.float64]:
    """Check centers against the rows' columns."""
    array = np.asarray(centers, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] != n_columns:
        raise BadShape(
            "the centers do not match the rows.",
            found=f"shape {array.shape}",
            expected=f"(1 or more, {n_columns})",
            parameter="centers",
        )
    finite("centers", array)
    return array


def as_weights(weights: ArrayLike | None, n_rows: int) -> NDArray[np.float64]:
    """Check row weights; use ones by default."""
    if weights is None:
        return np.ones(n_rows)
    array = np.ascontiguousarray(weights, dtype=np.float64)
    if array.shape != (n_rows,):
        raise BadShape(
            "weights need one number per row.", found=f"{array.ndim} dimensions of another length", parameter="weights"
        )
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise BadNumber(
            "a weight is negative, NaN or infinite.", expected="finite numbers, 0 or more", parameter="weights"
        )
    return array


def require_finite(rows: Rows) -> None:
    """Refuse NaN and infinity; a sum is enough to see them and needs no second array."""
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(rows.values.sum())
    if suspicious and not np.isfinite(rows.values).all():
        raise BadNumber("the rows hold NaN or infinity.", expected="finite numbers", parameter="rows")


def _working_type(found: np.dtype[Any], asked: DTypeLike | None) -> np.dtype[Any]:
    """Keep float32 and float64; numbers that float32 holds exactly become float32, others float64."""
    if asked is not None:
        return floating_type(asked, found)
    if found.kind not in "biuf":
        raise BadParameter(
            "the rows are not real numbers.", found=f"dtype {found}", expected="floats or integers", parameter="rows"
        )
    return np.dtype(np.float32) if np.can_cast(found, np.float32) else np.dtype(np.float64)


def _sparse_rows(X: Any, dtype: DTypeLike | None) -> Rows:
    csr = summed(X.tocsr())  # repeated entries would be squared one by one
    return Rows(
        shape=(csr.shape[0], csr.shape[1]),
        values=np.ascontiguousarray(csr.data, dtype=_working_type(csr.dtype, dtype)),
        indices=np.ascontiguousarray(csr.indices),
        indptr=np.ascontiguousarray(csr.indptr, dtype=np.int64),
    )
