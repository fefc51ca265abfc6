"""Metrics of top-n lists, one number per user, defined as LensKit 2025 defines them.

Every list metric starts from `Matches`: the held-out items in users' lists. All return NaN where a metric says nothing
about a user: without held-out items (precision alone is 0 then), and for precision and average precision also where the
list is empty. `ranks` gives the place of held-out items among all items and among the unseen ones. `measure` averages
over users. Formulas and edge cases: docs/reference/metrics.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.algorithms._checks import choice, whole_number
from twofold.algorithms.top_items import best_of_block, kernels
from twofold.csr import keep_entries, summed
from twofold.errors import BadNumber, BadParameter, BadShape

__all__ = [
    "Matches",
    "Ranks",
    "as_entries",
    "average_precision",
    "best_of_scores",
    "hit",
    "match",
    "ndcg",
    "precision",
    "ranks",
    "recall",
    "reciprocal_rank",
    "relevant_entries",
    "without",
]

Floats = npt.NDArray[np.float64]


def precision(matches: Matches) -> Floats:
    """Share of the list that was held out; a list shorter than n is divided by its own length.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0, 4.0]]))
    >>> precision(match([[0, 3, 2, 1]], test))
    array([0.5])
    """
    return _ratio(matches.found, matches.lengths)


def recall(matches: Matches) -> Floats:
    """Share of the held-out items that are in the list; of more than n of them, n are enough.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0, 4.0]]))
    >>> recall(match([[0, 3, 2, 1]], test)).round(3)
    array([0.667])
    """
    return _ratio(matches.found, matches.reachable)


def hit(matches: Matches) -> Floats:
    """1 if any held-out item is in the list, else 0; the mean over users is the hit rate.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0, 4.0]]))
    >>> hit(match([[0, 3, 2, 1]], test))
    array([1.])
    """
    return np.where(matches.relevant > 0, matches.hits.any(axis=1).astype(np.float64), np.nan)


def reciprocal_rank(matches: Matches) -> Floats:
    """1 over the place of the first held-out item, 0 if there is none; the mean over users is MRR.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0, 4.0]]))
    >>> reciprocal_rank(match([[0, 3, 2, 1]], test))
    array([0.5])
    """
    places = np.arange(1, matches.hits.shape[1] + 1)
    first = (matches.hits / places).max(axis=1, initial=0.0)
    return np.where(matches.relevant > 0, first, np.nan)


def average_precision(matches: Matches) -> Floats:
    """Precision at the place of each found item, summed; the mean over users is MAP.

    The sum is divided by the number of held-out items or by the length of the list, whichever is smaller.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0, 4.0]]))
    >>> average_precision(match([[0, 3, 2, 1]], test)).round(3)  # (1/2 + 2/4) / 3
    array([0.333])
    """
    places = np.arange(1, matches.hits.shape[1] + 1)
    at_each = np.cumsum(matches.hits, axis=1) / places
    return _ratio((at_each * matches.hits).sum(axis=1), np.minimum(matches.relevant, matches.lengths))


def ndcg(matches: Matches, *, gain: Literal["binary", "value"] = "binary") -> Floats:
    """Discounted gain of the list over that of the best possible list.

    The discount is log2 of the place, and 1 at the first two places, as in Järvelin and Kekäläinen 2002.

    Parameters
    ----------
    matches : Matches
        Lists and held-out items.
    gain : {"binary", "value"}
        Whether every held-out item gains 1, or its held-out value.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0, 5.0, 0, 3.0, 4.0]]))
    >>> ndcg(match([[0, 3, 2, 1]], test)).round(4)  # (1 + 1/2) / (1 + 1 + 1/log2(3))
    array([0.5701])
    >>> ndcg(match([[0, 3, 2, 1]], test), gain="value").round(4)  # (3 + 5/2) / (5 + 4 + 3/log2(3))
    array([0.5049])
    """
    graded = choice("gain", gain, ("binary", "value")) == "value"
    realized = (matches.gains if graded else matches.hits) @ _discounts(matches.hits.shape[1])
    return _ratio(realized, _graded_ideal(matches) if graded else _binary_ideal(matches))


def _binary_ideal(matches: Matches) -> Floats:
    """Discounted gain of a list that holds nothing but held-out items."""
    reachable = matches.reachable
    sums = np.concatenate([[0.0], np.cumsum(_discounts(int(reachable.max(initial=0))))])
    return np.asarray(sums[reachable])


def _graded_ideal(matches: Matches) -> Floats:
    """Discounted gain of the largest held-out values in falling order."""
    relevant, values = matches.relevant, matches.test.data.astype(np.float64)
    users = np.repeat(np.arange(relevant.size), relevant)
    values = values[np.lexsort((-values, users))]
    places = np.arange(values.size) - np.repeat(np.cumsum(relevant) - relevant, relevant)
    kept = places < matches.reachable[users]
    weights = _discounts(int(relevant.max(initial=0)))[places[kept]]
    ideal = np.bincount(users[kept], weights=values[kept] * weights, minlength=relevant.size)
    return np.asarray(ideal, dtype=np.float64)


def _discounts(n: int) -> Floats:
    return 1 / np.log2(np.maximum(np.arange(1, n + 1), 2))


def _ratio(above: npt.NDArray[np.generic], below: npt.NDArray[np.generic]) -> Floats:
    """Divide; NaN where there is nothing to divide by."""
    result = np.full(above.shape, np.nan)
    np.divide(above, below, out=result, where=below != 0)
    return result


@dataclass(frozen=True, kw_only=True)
class Matches:
    """The lists of some users, seen through their held-out items.

    Attributes
    ----------
    hits : bool array of shape (n_users, width)
        Whether the item at this place of the list was held out.
    gains : float array of shape (n_users, width)
        Its held-out value, 0 if there is none.
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
    n = None if n is None else whole_number("n", n)
    entries = as_entries(test, "test")
    items = _as_lists(lists, entries.shape)[:, :n]
    hits, gains = _look_up(items, entries)
    lengths = (items >= 0).sum(axis=1, dtype=np.int64)
    relevant = np.diff(entries.indptr).astype(np.int64)
    return Matches(hits=hits, gains=gains, lengths=lengths, relevant=relevant, cut=n, test=entries)


def _as_lists(lists: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    items = np.asarray(lists)
    if items.ndim != 2 or len(items) != shape[0]:
        raise BadShape(
            "the lists do not match the held-out entries.",
            expected="one line of item numbers per user",
            parameter="lists",
        )
    if items.dtype.kind not in "iu":
        raise BadParameter("the lists do not hold item numbers.", found=f"dtype {items.dtype}", parameter="lists")
    items = items.astype(np.int64, copy=False)
    if items.size and (items.min() < -1 or items.max() >= shape[1]):
        raise BadParameter(
            "a list names an unknown item.", expected=f"-1 (no item) to {shape[1] - 1}", parameter="lists"
        )
    if (np.diff((items >= 0).astype(np.int8), axis=1) > 0).any():
        raise BadParameter(
            "a list has a gap.", expected="items first, then -1 to the end of the line", parameter="lists"
        )
    ordered = np.sort(items, axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
        raise BadParameter(
            "a list names an item twice.", expected="every item at most once per user", parameter="lists"
        )
    return items


def _look_up(items: npt.NDArray[np.int64], test: sparse.csr_array) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Search for (user, item) pairs among the held-out ones, which stand in order."""
    hits, gains = np.zeros(items.shape, np.bool_), np.zeros(items.shape)
    if test.nnz == 0:
        return hits, gains
    held = _pairs(test)
    listed = np.arange(len(items), dtype=np.int64)[:, None] * test.shape[1] + items
    places = np.minimum(np.searchsorted(held, listed), held.size - 1)
    hits[:] = (held[places] == listed) & (items >= 0)
    gains[hits] = test.data[places[hits]]
    return hits, gains


def best_of_scores(scores: npt.NDArray[Any], seen: sparse.csr_array, n: int) -> npt.NDArray[np.intp]:
    """Return the `n` best unseen items of every line, lower column first among equals, -1 where none is left.

    Overwrites the scores of seen items. A score of minus infinity is never listed.

    Examples
    --------
    >>> seen = sparse.csr_array(np.array([[1, 0, 0, 0]]))
    >>> best_of_scores(np.array([[9.0, 1.0, 5.0, 5.0]]), seen, 2)
    array([[2, 3]])
    """
    columns = np.arange(scores.shape[1])
    kernels().hide(scores, seen.indptr.astype(np.int64), np.ascontiguousarray(seen.indices), columns)
    return best_of_block(scores, n).items


def as_entries(matrix: Any, name: str, shape: tuple[int, int] | None = None) -> sparse.csr_array:
    """Check a sparse matrix of entries and sort its rows, leaving the caller's matrix alone."""
    if not hasattr(matrix, "tocsr"):
        raise BadParameter(
            "{parameter} is not a sparse matrix.",
            found=type(matrix).__name__,
            fix=f"scipy.sparse.csr_array({name})",
            parameter=name,
        )
    csr = sparse.csr_array(matrix.tocsr())
    if shape is not None and csr.shape != shape:
        # The number of users is theirs to keep, so it is not repeated here.
        raise BadShape(
            "{parameter} has the wrong shape.", expected=f"one row per user and {shape[1]:,} columns", parameter=name
        )
    if not csr.has_canonical_format:
        stored, csr = csr.nnz, summed(csr)
        if csr.nnz != stored:
            raise BadParameter("{parameter} holds an entry twice.", fix=f"{name}.sum_duplicates()", parameter=name)
    if csr.dtype.kind not in "biuf" or not np.isfinite(csr.data).all():
        raise BadNumber(
            "{parameter} holds something that is not a finite number.", expected="finite values", parameter=name
        )
    return csr


def relevant_entries(test: sparse.csr_array, *, feedback: str) -> sparse.csr_array:
    """The held-out entries a list should find: every rating, but no count of zero.

    Examples
    --------
    >>> test = sparse.csr_array((np.array([0.0, 2.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 3))
    >>> relevant_entries(test, feedback="ratings").nnz, relevant_entries(test, feedback="counts").nnz
    (2, 1)
    """
    if choice("feedback", feedback, ("ratings", "counts")) == "ratings" or (test.data != 0).all():
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
    return keep_entries(seen, kept)


def _pairs(entries: sparse.csr_array) -> npt.NDArray[np.int64]:
    """User and item of every entry as one rising number."""
    users = np.repeat(np.arange(entries.shape[0], dtype=np.int64), np.diff(entries.indptr))
    return np.asarray(users * entries.shape[1] + entries.indices, dtype=np.int64)


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
    constant score is chance (0.5).

    Parameters
    ----------
    scores : array of shape (n_users, n_items)
        The system's score of every item; never changed.
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
    kernels().places(block, *_pointers(held), *_pointers(known), out)
    return Ranks(np.ascontiguousarray(out[:, 0]), np.ascontiguousarray(out[:, 1]))


def _as_scores(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Lines in memory order, float32 or float64."""
    block = np.asarray(scores)
    if block.ndim != 2:
        raise BadShape(
            "the scores are not a matrix.",
            found=f"{block.ndim} dimensions",
            expected="(users, items)",
            parameter="scores",
        )
    block = np.ascontiguousarray(block, dtype=np.float32 if block.dtype == np.float32 else np.float64)
    if np.isnan(block).any():
        raise BadNumber("a score is NaN.", fix="-inf for an item that is not to be recommended", parameter="scores")
    return block


def _pointers(entries: sparse.csr_array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """One type of index, so that one kernel is compiled."""
    return entries.indptr.astype(np.int64), entries.indices.astype(np.int64)
