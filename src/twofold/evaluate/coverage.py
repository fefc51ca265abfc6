"""Coverage: how much of the catalog is recommended to anybody."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from twofold.errors import BadParameter

__all__ = ["coverage", "covered_items"]


def coverage(lists: npt.ArrayLike, n_items: int) -> float:
    """Share of the items that stand in at least one list.

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
    """Whether each item stands in at least one list.

    Examples
    --------
    >>> covered_items([[2, 0], [2, -1]], n_items=3)
    array([ True, False,  True])
    """
    items = np.asarray(lists, dtype=np.int64)
    if n_items < 1 or (items.size and (items.min() < -1 or items.max() >= n_items)):
        raise BadParameter("a list names an unknown item.", expected=f"-1 (no item) to {n_items - 1}")
    covered = np.zeros(n_items, np.bool_)
    covered[items[items >= 0]] = True
    return covered
