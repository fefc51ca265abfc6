"""The Lloyd step in plain NumPy: slow, short, and what the compiled kernels are tested against.

Each function has the signature of its namesake in `_kmeans_kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["add_dense_rows", "add_sparse_rows", "nearest_of_scores", "nearest_sparse", "nearest_sparse_bounded"]

Array = Any


def nearest_of_scores(scores: Array, bias: Array, labels: Array) -> int:
    """Label each row of a block of scores; return how many smallest scores were not finite."""
    scores += bias
    labels[:] = scores.argmin(axis=1)
    return int(np.sum(~np.isfinite(scores.min(axis=1))))


def nearest_sparse(indptr: Array, indices: Array, data: Array, table: Array, bias: Array, labels: Array) -> int:
    """Label sparse rows."""
    span = slice(indptr[0], indptr[-1])
    shape = (labels.size, table.shape[0])
    rows = sp.csr_array((data[span], indices[span], indptr - indptr[0]), shape=shape)
    return nearest_of_scores(rows @ table, bias, labels)


def nearest_sparse_bounded(*arguments: Any) -> int:
    """Label sparse rows; bounds that are always zero never spare a row."""
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
