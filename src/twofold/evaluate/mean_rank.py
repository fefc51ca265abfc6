"""Mean rank: where the held-out items stand in a user's list, 0 the top, 0.5 chance, 1 the bottom."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.errors import BadShape

__all__ = ["mean_rank"]

Floats = npt.NDArray[np.floating[Any]]


def mean_rank(
    user_factors: Floats,
    item_factors: Floats,
    test: sparse.csr_array,
    *,
    seen: sparse.csr_array | None = None,
    block: int = 512,
) -> float:
    r"""Average percentile of the held-out items, weighted by their values.

    Paper
    -----
    Eq. 3, after Hu, Koren and Volinsky 2008: $\sum_{ui} x_{ui} \, rank_{ui} / \sum_{ui} x_{ui}$ over the test entries.

    Deviations
    ----------
    The paper ranks all items, the user's training items included. With `seen` those leave the list, which is what a
    recommender shows. Ties share their places, so that a constant score is chance and not luck.

    Parameters
    ----------
    user_factors : array of shape (n_users, rank)
        U.
    item_factors : array of shape (n_items, rank)
        V.
    test : scipy.sparse.csr_array of shape (n_users, n_items)
        Held-out entries; users without one do not count.
    seen : scipy.sparse.csr_array, optional
        Entries whose items are left out of a user's list.
    block : int, default 512
        Users scored at once; bounds the memory.

    Returns
    -------
    float
        Between 0 and 1; NaN if nothing was held out.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0.0, 0.0, 1.0]]))
    >>> mean_rank(np.array([[1.0]]), np.array([[3.0], [2.0], [1.0]]), test)
    1.0
    >>> mean_rank(np.array([[1.0]]), np.ones((3, 1)), test)
    0.5
    """
    if test.shape != (len(user_factors), len(item_factors)) or (seen is not None and seen.shape != test.shape):
        raise BadShape(
            "test entries and factors do not fit.",
            found=f"entries {test.shape}, {len(user_factors):,} user and {len(item_factors):,} item factors",
        )
    total = weight = 0.0
    users = np.flatnonzero(np.diff(test.indptr))
    for start in range(0, users.size, block):
        chosen = users[start : start + block]
        scores = user_factors[chosen] @ item_factors.T
        for user, row in zip(chosen, scores, strict=True):
            ranks, values = _user_ranks(user, row, test, seen)
            total += float(ranks @ values)
            weight += float(values.sum())
    return total / weight if weight else float("nan")


def _user_ranks(
    user: int, scores: Floats, test: sparse.csr_array, seen: sparse.csr_array | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    span = slice(test.indptr[user], test.indptr[user + 1])
    held, values = test.indices[span], test.data[span].astype(np.float64)
    candidates = np.ones(scores.size, dtype=np.bool_)
    if seen is not None:
        candidates[seen.indices[seen.indptr[user] : seen.indptr[user + 1]]] = False
        candidates[held] = True
    others = np.sort(scores[candidates])
    below_or_equal = np.searchsorted(others, scores[held], side="right")
    below = np.searchsorted(others, scores[held], side="left")
    # Places above, plus half of the ties other than the item itself.
    above = others.size - below_or_equal + (below_or_equal - below - 1) / 2
    return above / max(others.size - 1, 1), values
