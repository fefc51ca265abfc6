"""Matches: where users' top-n lists meet their held-out items. Every list metric starts from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.errors import BadParameter, BadShape
from twofold.evaluate._entries import as_entries

__all__ = ["Matches", "match"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Matches:
    """The lists of some users, seen through their held-out items.

    Attributes
    ----------
    hits : bool array of shape (n_users, width)
        Whether the item at this place of the list was held out.
    gains : float array of shape (n_users, width)
        Its held-out value, 0 where there is none.
    lengths : int array of shape (n_users,)
        Items in each list, after the cut.
    relevant : int array of shape (n_users,)
        Held-out items of each user.
    cut : int or None
        Longest list that counts; None if lists were taken whole.
    test : scipy.sparse.csr_array
        The held-out entries.
    """

    hits: npt.NDArray[np.bool_]
    gains: Floats
    lengths: npt.NDArray[np.int64]
    relevant: npt.NDArray[np.int64]
    cut: int | None
    test: sparse.csr_array

    @property
    def found(self) -> npt.NDArray[np.int64]:
        """Held-out items in each list."""
        return np.asarray(self.hits.sum(axis=1), dtype=np.int64)

    @property
    def reachable(self) -> npt.NDArray[np.int64]:
        """Held-out items a list of the longest allowed length could hold."""
        return self.relevant if self.cut is None else np.minimum(self.relevant, self.cut)


def match(lists: npt.ArrayLike, test: Any, *, n: int | None = None) -> Matches:
    """Look up every listed item among its user's held-out items.

    Parameters
    ----------
    lists : int array of shape (n_users, width)
        Item numbers, best first; -1 where a list has ended.
    test : scipy.sparse.csr_array of shape (n_users, n_items)
        Held-out entries; every stored one is relevant, and its value is its gain.
    n : int, optional
        Cut lists to this length. Without it they are taken whole, and what is held out is all that could be found.

    Returns
    -------
    Matches

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0], [0, 0, 0, 0]]))
    >>> matches = match([[3, 0, 1], [2, -1, -1]], test, n=2)
    >>> matches.hits.tolist(), matches.lengths.tolist(), matches.relevant.tolist()
    ([[True, False], [False, False]], [2, 1], [2, 0])
    """
    if n is not None and (not isinstance(n, (int, np.integer)) or n < 1):
        raise BadParameter("n is out of range.", found=repr(n), expected="a whole number, 1 or more, or None")
    entries = as_entries(test, "test")
    items = _as_lists(lists, entries.shape)[:, :n]
    hits, gains = _look_up(items, entries)
    lengths = (items >= 0).sum(axis=1, dtype=np.int64)
    relevant = np.diff(entries.indptr).astype(np.int64)
    return Matches(hits=hits, gains=gains, lengths=lengths, relevant=relevant, cut=n, test=entries)


def _as_lists(lists: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    items = np.asarray(lists)
    if items.ndim != 2 or len(items) != shape[0]:
        raise BadShape("the lists do not fit the held-out entries.", expected="one line of item numbers per user")
    if items.dtype.kind not in "iu":
        raise BadParameter("the lists do not hold item numbers.", found=f"dtype {items.dtype}")
    items = items.astype(np.int64, copy=False)
    if items.size and (items.min() < -1 or items.max() >= shape[1]):
        raise BadParameter("a list names an unknown item.", expected=f"-1 (no item) to {shape[1] - 1}")
    if (np.diff((items >= 0).astype(np.int8), axis=1) > 0).any():
        raise BadParameter("a list has a gap.", expected="items first, then -1 to the end of the line")
    ordered = np.sort(items, axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
        raise BadParameter("a list names an item twice.", expected="every item at most once per user")
    return items


def _look_up(items: npt.NDArray[np.int64], test: sparse.csr_array) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Search for (user, item) pairs among the held-out ones, which stand in order."""
    hits, gains = np.zeros(items.shape, np.bool_), np.zeros(items.shape)
    if test.nnz == 0:
        return hits, gains
    users, n_items = np.arange(len(items), dtype=np.int64), test.shape[1]
    held = np.repeat(users, np.diff(test.indptr)) * n_items + test.indices
    listed = users[:, None] * n_items + items
    places = np.minimum(np.searchsorted(held, listed), held.size - 1)
    hits[:] = (held[places] == listed) & (items >= 0)
    gains[hits] = test.data[places[hits]]
    return hits, gains
