"""Held-out and seen entries as the metrics want them: sorted rows, no entry twice, real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.errors import BadNumber, BadParameter, BadShape

__all__ = ["as_entries", "relevant_entries", "without"]


def as_entries(matrix: Any, name: str, shape: tuple[int, int] | None = None) -> sparse.csr_array:
    """Check a sparse matrix of entries and sort its rows, leaving the caller's matrix alone."""
    if not hasattr(matrix, "tocsr"):
        raise BadParameter(
            f"{name} is not a sparse matrix.", found=type(matrix).__name__, fix=f"scipy.sparse.csr_array({name})"
        )
    csr = sparse.csr_array(matrix.tocsr())
    if shape is not None and csr.shape != shape:
        # The number of users is theirs to keep, so it is not repeated here.
        raise BadShape(f"{name} does not fit.", expected=f"one row per user and {shape[1]:,} columns")
    if not csr.has_canonical_format:
        stored = csr.nnz
        csr = csr.copy()
        csr.sum_duplicates()
        if csr.nnz != stored:
            raise BadParameter(f"{name} holds an entry twice.", fix=f"{name}.sum_duplicates()")
    if csr.dtype.kind not in "biuf" or not np.isfinite(csr.data).all():
        raise BadNumber(f"{name} holds something that is not a finite number.", expected="finite values")
    return csr


def relevant_entries(test: sparse.csr_array, *, feedback: str) -> sparse.csr_array:
    """The held-out entries a list should find: every rating, but no count of zero.

    Examples
    --------
    >>> test = sparse.csr_array((np.array([0.0, 2.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 3))
    >>> relevant_entries(test, feedback="ratings").nnz, relevant_entries(test, feedback="counts").nnz
    (2, 1)
    """
    if feedback not in ("ratings", "counts"):
        raise BadParameter("unknown kind of feedback.", expected="feedback='ratings' or feedback='counts'")
    if feedback == "ratings" or (test.data != 0).all():
        return test
    kept = test.copy()
    kept.eliminate_zeros()
    return kept


def without(seen: sparse.csr_array, held: sparse.csr_array) -> sparse.csr_array:
    """The seen entries that are not also held out: a held-out item never leaves a list.

    Examples
    --------
    >>> seen, held = sparse.csr_array(np.array([[1, 1, 0]])), sparse.csr_array(np.array([[0, 1, 1]]))
    >>> without(seen, held).toarray()
    array([[1, 0, 0]])
    """
    pairs, held_pairs = _pairs(seen), _pairs(held)
    if pairs.size == 0 or held_pairs.size == 0:
        return seen
    places = np.minimum(np.searchsorted(pairs, held_pairs), pairs.size - 1)
    both = places[pairs[places] == held_pairs]
    if both.size == 0:
        return seen
    kept = np.ones(pairs.size, np.bool_)
    kept[both] = False
    indptr = np.concatenate([[0], np.cumsum(kept)])[seen.indptr]
    return sparse.csr_array((seen.data[kept], seen.indices[kept], indptr), shape=seen.shape)


def _pairs(entries: sparse.csr_array) -> npt.NDArray[np.int64]:
    """User and item of every entry as one rising number."""
    users = np.repeat(np.arange(entries.shape[0], dtype=np.int64), np.diff(entries.indptr))
    return np.asarray(users * entries.shape[1] + entries.indices, dtype=np.int64)
