"""The best items of every user when the scores are already there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.algorithms import _top_items_kernels, _top_items_reference
from twofold.algorithms._jit import numba_enabled
from twofold.algorithms._top_items_input import allowed_items, as_seen
from twofold.algorithms.top_items import FEW, TopItems
from twofold.errors import BadNumber, BadParameter, BadShape

__all__ = ["top_scores"]


def top_scores(scores: ArrayLike, n: int = 10, *, exclude: Any = None, allowed: ArrayLike | None = None) -> TopItems:
    """Return for each line of scores its `n` best items; what `top_items` does for scores that are no product.

    Parameters
    ----------
    scores : array of shape (n_users, n_items)
        Finite; the caller gives blocks of users that fit in memory. Not changed.
    n : int
        Items per user.
    exclude : sparse matrix of shape (n_users, n_items), optional
        Items a user has seen: every stored entry is left out, whatever its value.
    allowed : bool array of shape (n_items,) or array of item numbers, optional
        The only items to choose from, for all users.

    Returns
    -------
    TopItems
        As `top_items` does: best first, equal scores by item number, item -1 where fewer than `n` remain.

    Examples
    --------
    >>> top_scores(np.array([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]]), 2).items.tolist()
    [[1, 2], [0, 2]]
    """
    if not isinstance(n, (int, np.integer)) or n < 1:
        raise BadParameter("n is out of range.", found=repr(n), expected="a whole number, 1 or more")
    given = np.asarray(scores)
    if given.ndim != 2 or given.dtype.kind != "f":
        raise BadShape("scores is not a matrix of real numbers.", expected="one line per user, one column per item")
    if not np.isfinite(given).all():
        raise BadNumber("the scores hold NaN or infinity.", expected="finite numbers")
    chosen, positions = allowed_items(allowed, given.shape[1])
    block = np.array(given if chosen is None else given[:, chosen], order="C")
    _hide(block, exclude, (given.shape[0], given.shape[1]), positions)
    found = _select(block, n)
    if chosen is not None and chosen.size:
        return TopItems(np.where(found.items >= 0, chosen[found.items], -1), found.scores)
    return found


def _hide(block: NDArray[Any], exclude: Any, shape: tuple[int, int], positions: NDArray[np.intp]) -> None:
    seen = as_seen(exclude, shape, positions)
    if seen is not None and block.size:
        kernels = _top_items_kernels if numba_enabled() else _top_items_reference
        kernels.hide(block, seen.indptr, seen.indices, seen.positions)


def _select(block: NDArray[Any], n: int) -> TopItems:
    items = np.full((len(block), n), -1, np.intp)
    values = np.full((len(block), n), -np.inf, block.dtype)
    if not block.size:
        return TopItems(items, values)
    if n <= FEW:
        (_top_items_kernels if numba_enabled() else _top_items_reference).select_few(block, items, values)
        return TopItems(items, values)
    wide = min(n, block.shape[1])
    order = np.argsort(-block, axis=1, kind="stable")[:, :wide]
    values[:, :wide] = np.take_along_axis(block, order, axis=1)
    items[:, :wide] = np.where(np.isneginf(values[:, :wide]), -1, order)
    return TopItems(items, values)
