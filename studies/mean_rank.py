"""Mean rank: where the held-out items stand in a user's list, 0 the top, 0.5 chance, 1 the bottom."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.evaluation.measure import measure

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
        Held-out entries, none negative; users without one do not count.
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
    metric = "mean_rank" if seen is None else "mean_rank_unseen"
    train = sparse.csr_array(test.shape) if seen is None else seen
    system = (user_factors, item_factors)
    return measure(system, train, test, feedback="ratings", metrics=[metric], block=block).overall(metric)
