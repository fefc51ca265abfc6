"""Errors of predicted values (RMSE, pooled or as the mean over entities), and coverage of the catalog by lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.errors import BadParameter, BadShape

__all__ = ["coverage", "covered_items", "ratio", "rmse", "rmse_per_entity_mean", "rmse_pooled", "squared_errors"]

Floats = npt.NDArray[np.floating[Any]]
Doubles = npt.NDArray[np.float64]


def rmse(
    user_factors: Floats,
    item_factors: Floats,
    test: sparse.csr_array,
    *,
    lower: float = -np.inf,
    bound: float = np.inf,
    block: int = 512,
) -> float:
    """Root of the mean squared error over all held-out entries, every entry counted once.

    Parameters
    ----------
    user_factors, item_factors : arrays (users, rank) and (items, rank)
        U and V.
    test : csr array (users, items)
        Held-out entries; a stored zero is one too.
    lower, bound : float
        Predictions are cut to these.
    block : int
        Users scored at once; bounds the memory.

    Returns
    -------
    float
        NaN if nothing was held out.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[3.0, 0.0], [0.0, 5.0]]))
    >>> round(rmse(np.array([[2.0], [9.0]]), np.ones((2, 1)), test, lower=1, bound=5) ** 2, 9)
    0.5
    """
    if test.shape != (len(user_factors), len(item_factors)):
        raise BadShape(
            "test entries and factors do not match.",
            expected=f"one row per user, {len(item_factors):,} columns",
            parameter="test",
        )
    parts = [
        squared_errors(
            user_factors[start : start + block] @ item_factors.T, test[start : start + block], lower=lower, bound=bound
        )
        for start in range(0, len(user_factors), block)
    ]
    return float(rmse_pooled([part.sum() for part in parts], [part.size for part in parts]))


def squared_errors(scores: Floats, test: sparse.csr_array, *, lower: float = -np.inf, bound: float = np.inf) -> Doubles:
    """Squared error of each held-out entry of a block of users, in the order of the entries.

    Parameters
    ----------
    scores : array (users, items)
        Predicted values.
    test : csr array (users, items)
        Held-out entries.
    lower, bound : float
        Predictions are cut to these.

    Examples
    --------
    >>> squared_errors(np.array([[1.0, 7.0]]), sparse.csr_array(np.array([[3.0, 5.0]])), bound=5).tolist()
    [4.0, 0.0]
    """
    if test.shape != scores.shape:
        raise BadShape(
            "scores and entries do not match.",
            expected="a score for every user and item of the entries",
            parameter="scores",
        )
    owners = np.repeat(np.arange(test.shape[0]), np.diff(test.indptr))
    predicted = np.clip(scores[owners, test.indices].astype(np.float64), lower, bound)
    return np.asarray((predicted - test.data) ** 2)


def rmse_pooled(squares: npt.ArrayLike, entries: npt.ArrayLike) -> float | Doubles:
    r"""Root of the mean squared error over all test entries: $\sqrt{\sum_h S_h / \sum_h N_h}$.

    Parameters
    ----------
    squares : array of shape (..., n_parts)
        Sum of squared errors of each entity, or user, or any other part.
    entries : array of shape (..., n_parts)
        Number of test entries in each part.

    Returns
    -------
    float or array of shape (...)
        NaN where there is no entry.

    Examples
    --------
    >>> round(rmse_pooled([8.0, 0.0], [2, 2]), 4)
    1.4142
    """
    S, N = _parts(squares, entries)
    return _plain(np.sqrt(ratio(S.sum(axis=-1), N.sum(axis=-1))))


def rmse_per_entity_mean(squares: npt.ArrayLike, entries: npt.ArrayLike) -> float | Doubles:
    r"""Mean of the entities' own RMSEs, weighted by test entries: $\sum_h N_h \sqrt{S_h / N_h} / \sum_h N_h$.

    Paper
    -----
    How the recorded experiments averaged local and federated models, while the centralised one was pooled. Never
    above `rmse_pooled` on the same errors (Jensen), so the two may not be compared with each other.

    Deviations
    ----------
    The recorded code drops an entity without a result from the sum and keeps it in the denominator; here it leaves
    both.

    Parameters
    ----------
    squares, entries
        As for `rmse_pooled`; the parts are entities.

    Examples
    --------
    >>> rmse_per_entity_mean([8.0, 0.0], [2, 2])
    1.0
    """
    S, N = _parts(squares, entries)
    weighted = np.sqrt(S * N)  # N sqrt(S / N), without a division by zero
    return _plain(ratio(weighted.sum(axis=-1), N.sum(axis=-1)))


def _parts(squares: npt.ArrayLike, entries: npt.ArrayLike) -> tuple[Doubles, Doubles]:
    S, N = np.asarray(squares, dtype=np.float64), np.asarray(entries, dtype=np.float64)
    if S.shape != N.shape or S.ndim < 1:
        raise BadShape(
            "squares and entries do not match.", found=f"{S.ndim} and {N.ndim} dimensions", parameter="squares"
        )
    return S, N


def ratio(above: Doubles, below: Doubles) -> Doubles:
    """Divide; NaN where there is nothing to divide by."""
    return np.asarray(np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0))


def _plain(numbers: Doubles) -> float | Doubles:
    return float(numbers) if numbers.ndim == 0 else numbers


def coverage(lists: npt.ArrayLike, n_items: int) -> float:
    """Share of the items that are in at least one list.

    Parameters
    ----------
    lists : int array of any shape
        Item numbers; -1 where a list has ended.
    n_items : int
        Items in the catalog.

    Examples
    --------
    >>> coverage([[0, 1], [0, -1]], n_items=4)
    0.5
    """
    return float(covered_items(lists, n_items).mean())


def covered_items(lists: npt.ArrayLike, n_items: int) -> npt.NDArray[np.bool_]:
    """Whether each item is in at least one list.

    Examples
    --------
    >>> covered_items([[2, 0], [2, -1]], n_items=3)
    array([ True, False,  True])
    """
    items = np.asarray(lists, dtype=np.int64)
    if n_items < 1 or (items.size and (items.min() < -1 or items.max() >= n_items)):
        raise BadParameter(
            "a list names an unknown item.", expected=f"-1 (no item) to {n_items - 1}", parameter="lists"
        )
    covered = np.zeros(n_items, np.bool_)
    covered[items[items >= 0]] = True
    return covered
