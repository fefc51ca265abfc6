"""The strongest co-occurrences of each column of a sparse matrix, without the matrix of all pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from twofold.algorithms import _checks, _neighbour_kernels, _reference
from twofold.algorithms._jit import Workers, numba_enabled
from twofold.algorithms._nmf_sides import observed
from twofold.errors import BadShape

__all__ = ["Strongest", "add_product", "strongest"]

#: Products that one thread adds up before it looks for more work.
PRODUCTS_PER_BLOCK = 1 << 22
#: Most columns of a block: their lists are held at full length until the block is done.
COLUMNS_PER_BLOCK = 4_096


class Strongest(NamedTuple):
    """Compressed columns: where each one ends, the columns beside it in order, and their values."""

    ends: NDArray[np.int64]
    sources: NDArray[np.int32]
    values: NDArray[np.float32]


def strongest(X: Any, most: int, *, source_scale: Any, target_scale: Any, threads: int | None = None) -> Strongest:
    """Find for each column the `most` largest ``target_scale_i source_scale_j Σ_u x_ui x_uj`` over other columns j.

    Memory is that of the result and of one vector of columns a thread. The work is the sum of squared row lengths.

    Parameters
    ----------
    X : SciPy sparse matrix or array (rows, columns)
        Entries that are not stored are zeros.
    most : int
        How many to keep for a column. Only values above 0 are kept; of equal ones the first columns.
    source_scale, target_scale : arrays (columns,)
        At least 0.
    threads : int, optional
        All processors by default. The result does not depend on it.

    Examples
    --------
    >>> X = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    >>> found = strongest(X, 1, source_scale=np.ones(3), target_scale=np.ones(3))
    >>> found.ends.tolist(), found.sources.tolist(), found.values.tolist()
    ([1, 2, 3], [1, 0, 0], [2.0, 2.0, 1.0])
    """
    most = _checks.whole_number("most", most)
    entries, _ = observed(X, None, "counts")
    assert entries is not None  # counts are never read as a matrix without absent cells
    n_columns = entries.shape[1]
    scales = [
        _checks.vector(name, scale, n_columns).astype(np.float32)
        for name, scale in (("source_scale", source_scale), ("target_scale", target_scale))
    ]
    if n_columns > np.iinfo(np.int32).max:
        raise BadShape("{parameter} has too many columns.", found=f"{n_columns:,}", parameter="X")
    by_row = (entries.starts, entries.columns, entries.values.astype(np.float32))
    turned = entries.transposed()
    by_column = (turned.starts, turned.columns, turned.values.astype(np.float32))
    edges = _edges(np.diff(entries.starts), turned.starts, turned.columns)
    run: Any = _neighbour_kernels.strongest_columns if numba_enabled() else _reference.strongest_columns
    parts: list[tuple[NDArray[Any], ...]] = [()] * (edges.size - 1)

    def find(block: int) -> None:
        first, last = int(edges[block]), int(edges[block + 1])
        width = min(most, max(n_columns - 1, 1))
        sources, values = np.zeros((last - first, width), np.int32), np.zeros((last - first, width), np.float32)
        counts = np.zeros(last - first, np.int64)
        run(first, last, *by_column, *by_row, *scales, sources, values, counts)
        kept = np.arange(width) < counts[:, None]
        parts[block] = (counts, sources[kept], values[kept])

    with Workers(threads) as workers:
        workers.run(find, edges.size - 1, phase="neighbours of items")
    if not parts:
        return Strongest(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    counts, sources, values = (np.concatenate(one) for one in zip(*parts, strict=True))
    return Strongest(np.cumsum(counts), sources, values)


def add_product(rows: csr_array, weights: csr_array, out: NDArray[np.floating[Any]]) -> None:
    """Add ``rows @ weights`` to a dense array, without a sparse product in between; for whole rows in the cache.

    Examples
    --------
    >>> out = np.ones((1, 2), np.float32)
    >>> add_product(csr_array(np.array([[2.0, 1.0]])), csr_array(np.array([[0.0, 1.0], [3.0, 0.0]])), out)
    >>> out.tolist()
    [[4.0, 3.0]]
    """
    if rows.shape[1] != weights.shape[0] or out.shape != (rows.shape[0], weights.shape[1]):
        raise BadShape("the rows do not match the weights.", found=str(rows.shape), parameter="rows")
    run: Any = _neighbour_kernels.add_weighted if numba_enabled() else _reference.add_weighted
    # The weights were looked through when they were made: millions of them, for every block of a few rows.
    run(*_checks.compressed_rows("rows", rows), rows.data, weights.indptr, weights.indices, weights.data, out)


def _edges(lengths: NDArray[Any], starts: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.int64]:
    """Cut columns into blocks of about as many products, and of not too many columns."""
    n_columns = starts.size - 1
    products = np.concatenate(([0], np.cumsum(lengths[rows])))[starts]
    cost = products + np.arange(n_columns + 1) * (PRODUCTS_PER_BLOCK // COLUMNS_PER_BLOCK)
    marks = np.arange(0, cost[-1], PRODUCTS_PER_BLOCK)
    return np.unique(np.append(np.searchsorted(cost, marks), n_columns))
