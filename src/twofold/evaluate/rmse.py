"""RMSE: how far predicted values are from the held-out ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.errors import BadShape
from twofold.evaluate.rmse_of_parts import rmse_pooled

__all__ = ["rmse", "squared_errors"]

Floats = npt.NDArray[np.floating[Any]]


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
            "test entries and factors do not fit.", expected=f"one row per user, {len(item_factors):,} columns"
        )
    parts = [
        squared_errors(
            user_factors[start : start + block] @ item_factors.T, test[start : start + block], lower=lower, bound=bound
        )
        for start in range(0, len(user_factors), block)
    ]
    return float(rmse_pooled([part.sum() for part in parts], [part.size for part in parts]))


def squared_errors(
    scores: Floats, test: sparse.csr_array, *, lower: float = -np.inf, bound: float = np.inf
) -> npt.NDArray[np.float64]:
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
        raise BadShape("scores and entries do not fit.", expected="a score for every user and item of the entries")
    owners = np.repeat(np.arange(test.shape[0]), np.diff(test.indptr))
    predicted = np.clip(scores[owners, test.indices].astype(np.float64), lower, bound)
    return np.asarray((predicted - test.data) ** 2)
