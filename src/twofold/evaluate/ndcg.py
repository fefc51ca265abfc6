"""nDCG of the lists that factors or scores give; `ranking.ndcg` has the definition."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.algorithms._checks import choice, whole_number
from twofold.evaluate import ranking
from twofold.evaluate.measure import measure, own_scores
from twofold.evaluate.ranking import as_entries, best_of_scores, match, without

__all__ = ["ndcg", "user_ndcg"]

Floats = npt.NDArray[np.floating[Any]]
Gain = Literal["binary", "value"]
METRICS = {"binary": "ndcg", "value": "ndcg_graded"}


def ndcg(
    user_factors: Floats,
    item_factors: Floats,
    test: sparse.csr_array,
    *,
    seen: sparse.csr_array | None = None,
    n: int = 10,
    gain: Gain = "binary",
    block: int = 512,
) -> float:
    """Average nDCG of the lists of `n` items that factors give, over users who have something held out.

    Parameters
    ----------
    user_factors, item_factors : arrays (users, rank) and (items, rank)
        U and V.
    test : csr array (users, items)
        Held-out entries.
    seen : csr array, optional
        Entries whose items are left out of a user's list.
    n : int
        Length of the list.
    gain : {"binary", "value"}
        What a held-out item is worth; see `user_ndcg`.
    block : int
        Users scored at once; bounds the memory.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0.0, 0.0, 1.0]]))
    >>> round(ndcg(np.array([[1.0]]), np.array([[3.0], [2.0], [1.0]]), test), 4)
    0.6309
    """
    train = sparse.csr_array(test.shape) if seen is None else seen
    metric = _metric(gain)
    measured = measure(
        (user_factors, item_factors), train, test, feedback="ratings", n=n, metrics=[metric], block=block
    )
    return measured.overall(metric)


def user_ndcg(
    scores: Floats,
    test: sparse.csr_array,
    *,
    seen: sparse.csr_array | None = None,
    n: int = 10,
    gain: Gain = "binary",
) -> npt.NDArray[np.float64]:
    r"""Return the nDCG of each user's list of the `n` items with the largest scores.

    The discounted gain is $\sum_{i=1}^{n} g_i / \log_2 \max(i, 2)$, i the place in the list; nDCG divides it by that of
    the best list of `n` items there could have been. The gain g of a held-out item is 1, or with ``gain="value"`` its
    value; that of any other item is 0.

    Parameters
    ----------
    scores : array (users, items)
        One block of users; read, never written.
    test, seen : csr arrays (users, items)
        Held-out entries, and entries whose items are left out of the list (a held-out item never is).
    n : int
        Length of the list.
    gain : {"binary", "value"}
        What a held-out item is worth.

    Returns
    -------
    array (users,)
        Between 0 and 1; NaN for a user with nothing held out, or nothing of any worth. Items of equal score stand in
        the order of the catalog.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0.0, 1.0, 1.0]]))
    >>> user_ndcg(np.array([[3.0, 2.0, 1.0]]), test, n=2).tolist()
    [0.5]
    """
    _metric(gain)
    length = whole_number("n", n)
    shape = (len(scores), np.shape(scores)[1])
    held = as_entries(test, "test", shape)
    known = as_entries(sparse.csr_array(shape) if seen is None else seen, "seen", shape)
    lists = best_of_scores(own_scores(scores, shape), without(known, held), length)
    return ranking.ndcg(match(lists, held, n=length), gain=gain)


def _metric(gain: str) -> str:
    return METRICS[choice("gain", gain, tuple(METRICS))]
