"""Where held-out items stand in their users' rankings, over all items and over unseen items."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.algorithms._jit import numba_enabled
from twofold.errors import BadNumber, BadShape
from twofold.evaluate import _rank_kernels, _rank_reference
from twofold.evaluate._entries import as_entries

__all__ = ["Ranks", "ranks"]

Floats = npt.NDArray[np.float64]


class Ranks(NamedTuple):
    """One number per held-out entry, in the order of the entries: 0 the top of the list, 1 its end."""

    among_all: Floats
    among_unseen: Floats


def ranks(scores: npt.NDArray[Any], test: Any, *, seen: Any = None) -> Ranks:
    r"""Percentile of every held-out item in the ranking of its user.

    Paper
    -----
    The $rank_{ui}$ of Eq. 3. The paper ranks all items, the user's training items included: `among_all`.

    Deviations
    ----------
    `among_unseen` leaves out the user's training items, as a recommender does. Ties share their places, so that a
    constant score is chance (0.5) and not luck.

    Parameters
    ----------
    scores : array of shape (n_users, n_items)
        What the system thinks of every item; read, never written.
    test : scipy.sparse.csr_array of shape (n_users, n_items)
        Held-out entries.
    seen : scipy.sparse.csr_array of shape (n_users, n_items), optional
        Training entries. An item both seen and held out stays in the list.

    Returns
    -------
    Ranks
        $rank_{ui} = (\#\text{above} + \tfrac12 \#\text{tied}) / (\#\text{items} - 1)$ for every held-out entry.

    Examples
    --------
    >>> test, seen = sparse.csr_array(np.array([[0, 0, 1.0, 0]])), sparse.csr_array(np.array([[1.0, 0, 0, 0]]))
    >>> ranks(np.array([[9.0, 1.0, 5.0, 7.0]]), test, seen=seen)
    Ranks(among_all=array([0.66666667]), among_unseen=array([0.5]))
    """
    block = _as_scores(scores)
    held = as_entries(test, "test", (len(block), block.shape[1]))
    known = as_entries(sparse.csr_array(held.shape) if seen is None else seen, "seen", (len(block), block.shape[1]))
    out = np.empty((held.nnz, 2))
    kernels = _rank_kernels if numba_enabled() else _rank_reference
    kernels.places(block, *_pointers(held), *_pointers(known), out)
    return Ranks(np.ascontiguousarray(out[:, 0]), np.ascontiguousarray(out[:, 1]))


def _as_scores(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Lines in memory order, float32 or float64."""
    block = np.asarray(scores)
    if block.ndim != 2:
        raise BadShape("the scores are not a matrix.", found=f"{block.ndim} dimensions", expected="(users, items)")
    block = np.ascontiguousarray(block, dtype=np.float32 if block.dtype == np.float32 else np.float64)
    if np.isnan(block).any():
        raise BadNumber("a score is NaN.", fix="-inf for an item that is not to be recommended")
    return block


def _pointers(entries: sparse.csr_array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """One type of index, so that one kernel is compiled."""
    return entries.indptr.astype(np.int64), entries.indices.astype(np.int64)
