"""Nearest centers: a product of rows and centers, then the smallest score of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms import _kmeans_kernels, _kmeans_reference
from twofold.algorithms._jit import Workers, numba_enabled
from twofold.algorithms._kmeans_rows import Rows, require_finite
from twofold.errors import BadNumber

__all__ = [
    "Scorer",
    "cuts",
    "kernels",
    "label_sparse",
    "labelled_chunks",
    "over_sparse_blocks",
    "require_in_range",
    "scorer",
]

PADDING = 16  # one AVX-512 register of float32; matrix products and the sparse kernel like full registers
CHUNK_BYTES = 1 << 19  # rows scored together stay in a second-level cache until they are added up
FAR = 4.0  # an offset this many times the spread of the centers is taken off first
ENTRIES_PER_BLOCK = 1 << 16  # sparse entries labelled by one call of a kernel

Floats = NDArray[Any]
Labels = NDArray[np.int32]


class Scorer(NamedTuple):
    """Centers as the kernels want them, and the kernels: asked for once, since other threads have other settings."""

    table: Floats
    bias: Floats
    scale: float
    shifted: bool
    kernels: ModuleType


def kernels() -> ModuleType:
    """Return the kernels, or their references where numba is switched off."""
    return _kmeans_kernels if numba_enabled() else _kmeans_reference


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
            found=f"products beyond the range of {rows.dtype}",
            fix="dtype=numpy.float64, or divide rows and centers by a common number",
        )
