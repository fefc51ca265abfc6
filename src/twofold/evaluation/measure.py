"""Measure any system by the same code: scores or lists in, every metric of every user out.

`Measured` keeps a total and a weight per user and metric, so that any group of users can be averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.algorithms._checks import choice, whole_number
from twofold.errors import BadNumber, BadParameter, BadShape
from twofold.evaluation import ranking
from twofold.evaluation.ranking import Matches, as_entries, best_of_scores, match, ranks, relevant_entries, without
from twofold.evaluation.rmse import coverage, ratio, squared_errors

__all__ = [
    "COVERAGE",
    "LIST_METRICS",
    "METRICS",
    "SCORE_METRICS",
    "Measured",
    "Scorer",
    "Scores",
    "check_weights",
    "chosen_metrics",
    "measure",
    "measure_lists",
    "ndcg",
    "own_scores",
    "scorer_of_users",
    "user_ndcg",
]

Floats = npt.NDArray[np.float64]
Scores = npt.NDArray[Any]
Scorer = Callable[[sparse.csr_array], Scores]
Pairs = dict[str, tuple[Floats, Floats]]
BLOCK_SCORES: Final = 1 << 20  # scores of one block: 8 MB
LIST_FUNCTIONS: Final[dict[str, Callable[[Matches], Floats]]] = {
    "ndcg": ranking.ndcg,
    "ndcg_graded": lambda matches: ranking.ndcg(matches, gain="value"),
    "recall": ranking.recall,
    "precision": ranking.precision,
    "average_precision": ranking.average_precision,
    "reciprocal_rank": ranking.reciprocal_rank,
    "hit": ranking.hit,
}
LIST_METRICS: Final = tuple(LIST_FUNCTIONS)
SCORE_METRICS: Final = ("rmse", "mae", "mean_rank", "mean_rank_unseen")
COVERAGE: Final = "coverage"
METRICS: Final = (*LIST_METRICS, COVERAGE, *SCORE_METRICS)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The metrics of one system for each of some users.

    A metric of a group of users is ``totals.sum() / weights.sum()``, and the root of it for RMSE: a user counts once
    in list metrics, once per test entry in RMSE and MAE, and with the sum of the held-out values in mean rank (Eq. 3).
    Users with nothing held out weigh nothing.

    Privacy
    -------
    Private, like the entries it was made from: it has one line per user.

    Attributes
    ----------
    totals, weights : mapping of metric to float array of shape (n_users,)
        Coverage is not among them; it belongs to a group and comes from `lists`.
    lists : int array of shape (n_users, n)
        Top-n lists, -1 where a list has ended, and everywhere for users with nothing held out.
    n_items : int
        Items in the catalog.
    covers : bool
        Whether coverage was requested.
    """

    totals: Mapping[str, Floats]
    weights: Mapping[str, Floats]
    lists: npt.NDArray[np.intp]
    n_items: int
    covers: bool = True

    def __repr__(self) -> str:
        return f"Measured({', '.join(self.metrics)})"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, in their usual order."""
        return tuple(name for name in METRICS if name in self.totals or (name == COVERAGE and self.covers))

    @property
    def n(self) -> int:
        """Length of the lists."""
        return int(self.lists.shape[1])

    @property
    def n_users(self) -> int:
        """All users, including those with nothing held out."""
        return len(self.lists)

    def per_user(self, metric: str) -> Floats:
        """One number per user, NaN where the metric is undefined."""
        totals, weights = self._of(metric)
        return finish(metric, totals, weights)

    def overall(self, metric: str) -> float:
        """The metric of all users together."""
        if metric == COVERAGE and self.covers:
            return coverage(self.lists, self.n_items)
        totals, weights = self._of(metric)
        return float(finish(metric, totals.sum(), weights.sum()))

    def take(self, users: npt.NDArray[np.intp]) -> Measured:
        """Only these users, in this order."""
        return Measured(
            totals={name: totals[users] for name, totals in self.totals.items()},
            weights={name: weights[users] for name, weights in self.weights.items()},
            lists=self.lists[users],
            n_items=self.n_items,
            covers=self.covers,
        )

    def _of(self, metric: str) -> tuple[Floats, Floats]:
        if metric not in self.totals:
            raise BadParameter(
                "this metric was not measured per user.",
                found=repr(metric),
                expected=", ".join(self.totals),
                parameter="metric",
            )
        return self.totals[metric], self.weights[metric]

    @classmethod
    def pool(cls, parts: Iterable[Measured]) -> Measured:
        """The users of several parts, one after the other."""
        several = list(parts)
        if len({(part.metrics, part.n, part.n_items) for part in several}) != 1:
            raise BadShape(
                "the parts do not match.", expected="equal metrics, n and number of items", parameter="parts"
            )
        first = several[0]
        return cls(
            totals={name: np.concatenate([part.totals[name] for part in several]) for name in first.totals},
            weights={name: np.concatenate([part.weights[name] for part in several]) for name in first.weights},
            lists=np.concatenate([part.lists for part in several]),
            n_items=first.n_items,
            covers=first.covers,
        )


def finish(metric: str, totals: npt.ArrayLike, weights: npt.ArrayLike) -> Floats:
    """Totals over weights, NaN without weight; the root of it for RMSE.

    Examples
    --------
    >>> finish("rmse", [8.0, 0.0], [2.0, 0.0]).tolist()
    [2.0, nan]
    """
    above, below = np.asarray(totals, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    found = ratio(above, below)
    return np.asarray(np.sqrt(found) if metric == "rmse" else found)


def scorer_of_users(system: Any, train: sparse.csr_array) -> Callable[[npt.NDArray[np.intp]], Scores]:
    """Turn a callable, all scores, or two factors into a function from row numbers to scores."""
    if callable(system):
        return lambda users: system(train[users])
    if isinstance(system, tuple):
        U, V = (np.asarray(part) for part in system)
        if (len(U), len(V)) != train.shape:
            lines = f"one line per user and {train.shape[1]:,} lines of items"
            raise BadShape("factors and entries do not match.", expected=lines, parameter="factors")
        return lambda users: U[users] @ V.T
    scores = np.asarray(system)
    if scores.shape != train.shape:
        raise BadShape(
            "scores and entries do not match.",
            expected=f"one line per user and {train.shape[1]:,} columns",
            parameter="scores",
        )
    return lambda users: scores[users]


def own_scores(scores: Any, shape: tuple[int, int]) -> Scores:
    """Check the scores and return a writable copy."""
    given = np.asarray(scores)
    if given.shape != shape:
        raise BadShape(
            "the system returned the wrong shape.",
            expected=f"one line per row and {shape[1]:,} columns",
            parameter="system",
        )
    own: npt.NDArray[np.floating[Any]] = np.array(
        given, dtype=np.float32 if given.dtype == np.float32 else np.float64, order="C"
    )
    if not (own < np.inf).all():  # NaN is not below anything
        raise BadNumber(
            "a score is NaN or infinite.", fix="-inf for an item that is not to be recommended", parameter="scores"
        )
    return own


def check_weights(test: sparse.csr_array, chosen: tuple[str, ...]) -> None:
    """Refuse negative held-out values where they are weights."""
    if {"mean_rank", "mean_rank_unseen"} & set(chosen) and (test.data < 0).any():
        raise BadNumber(
            "mean rank weighs by held-out values, and one is negative.", expected="0 or more", parameter="test"
        )


def chosen_metrics(metrics: Iterable[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """Check the names of metrics."""
    asked = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        found = ", ".join(map(repr, unknown)) or "no metric"
        raise BadParameter(
            "these are not metrics to measure.",
            found=found,
            expected="some of " + ", ".join(known),
            parameter="metrics",
        )
    return asked


def measure(
    system: Scorer | Scores | tuple[Scores, Scores],
    train: Any,
    test: Any,
    *,
    feedback: Literal["ratings", "counts"],
    n: int = 10,
    metrics: Iterable[str] = METRICS,
    lower: float = -np.inf,
    bound: float = np.inf,
    block: int | None = None,
) -> Measured:
    """Measure a system on held-out entries, in blocks of users.

    Parameters
    ----------
    system : callable, array or pair of arrays
        A callable gets training rows (a CSR block) and returns their scores, shape (rows, n_items). Or all scores,
        shape (n_users, n_items). Or user and item factors, whose product scores. A score of minus infinity keeps an
        item out of the lists.
    train : scipy.sparse.csr_array of shape (n_users, n_items)
        What the system may know about these users. Every stored entry is seen and leaves the lists, unless it is also
        held out.
    test : scipy.sparse.csr_array of shape (n_users, n_items)
        What was held out. Only users with at least one entry are scored.
    feedback : {"ratings", "counts"}
        Every held-out rating is relevant; a held-out count of zero is not.
    n : int, default 10
        Length of the lists. Equal scores are listed by column, the lower one first.
    metrics : iterable of str
        Some of `METRICS`; all by default.
    lower, bound : float
        Predictions are cut to these for RMSE and MAE; lists and ranks use the scores unchanged.
    block : int, optional
        Users scored at once; by default as many as fill 8 MB of scores.

    Returns
    -------
    Measured
        Totals and weights per user; `summarize` turns them into a table with intervals.

    Examples
    --------
    >>> train = sparse.csr_array(np.array([[5.0, 0, 0, 0], [0, 4.0, 0, 0]]))
    >>> test = sparse.csr_array(np.array([[0, 0, 3.0, 0], [0, 0, 0, 0]]))
    >>> popular = np.array([3.0, 2.0, 4.0, 1.0])
    >>> measured = measure(lambda rows: np.tile(popular, (rows.shape[0], 1)), train, test, feedback="ratings", n=2)
    >>> measured.lists.tolist()
    [[2, 1], [-1, -1]]
    >>> measured.per_user("recall").tolist(), measured.overall("rmse")
    ([1.0, nan], 1.0)
    """
    chosen, length = chosen_metrics(metrics, METRICS), whole_number("n", n)
    held = as_entries(test, "test")
    seen = as_entries(train, "train", (held.shape[0], held.shape[1]))
    check_weights(held, chosen)
    relevant = relevant_entries(held, feedback=feedback)
    sheet = _Sheet(chosen, held, relevant, without(seen, held), length, (lower, bound))
    score = scorer_of_users(system, seen)
    users = np.flatnonzero(np.diff(held.indptr))
    size = max(1, BLOCK_SCORES // max(held.shape[1], 1)) if block is None else whole_number("block", block)
    for start in range(0, users.size, size):
        rows = users[start : start + size]
        sheet.fill(rows, own_scores(score(rows), (rows.size, held.shape[1])))
    return _measured(sheet.pairs, sheet.lists, held.shape[1], COVERAGE in chosen)


def measure_lists(
    lists: npt.ArrayLike,
    test: Any,
    *,
    feedback: Literal["ratings", "counts"],
    n: int = 10,
    metrics: Iterable[str] = (*LIST_METRICS, COVERAGE),
) -> Measured:
    """Measure finished lists, of a system that gives no scores.

    Parameters
    ----------
    lists : int array of shape (n_users, width)
        Item numbers, best first, -1 where a list has ended; cut to `n`.
    test : scipy.sparse.csr_array of shape (n_users, n_items)
        What was held out.
    feedback, n
        As for `measure`.
    metrics : iterable of str
        Some of `LIST_METRICS` and coverage; all of these by default.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0, 0, 3.0, 0], [0, 2.0, 0, 0]]))
    >>> measure_lists([[1, 2], [1, 3]], test, feedback="ratings", n=2).per_user("reciprocal_rank").tolist()
    [0.5, 1.0]
    """
    chosen = chosen_metrics(metrics, (*LIST_METRICS, COVERAGE))
    held = as_entries(test, "test")
    matches = match(lists, relevant_entries(held, feedback=feedback), n=whole_number("n", n))
    items = np.full((held.shape[0], n), -1, np.intp)
    given = np.asarray(lists)[:, :n]
    items[:, : given.shape[1]] = np.where(np.diff(held.indptr)[:, None] > 0, given, -1)
    return _measured(_of_lists(matches, chosen), items, held.shape[1], COVERAGE in chosen)


class _Sheet:
    """Totals, weights and lists of all users, filled block by block."""

    def __init__(
        self,
        chosen: tuple[str, ...],
        held: sparse.csr_array,
        relevant: sparse.csr_array,
        seen: sparse.csr_array,
        n: int,
        limits: tuple[float, float],
    ) -> None:
        self.chosen, self.held, self.relevant, self.seen = chosen, held, relevant, seen
        self.n, self.limits = n, limits
        names = [name for name in (*LIST_METRICS, *SCORE_METRICS) if name in chosen]
        self.pairs: Pairs = {name: (np.zeros(held.shape[0]), np.zeros(held.shape[0])) for name in names}
        self.lists = np.full((held.shape[0], n), -1, np.intp)
        self.needs_lists = COVERAGE in chosen or not set(LIST_METRICS).isdisjoint(chosen)

    def fill(self, users: npt.NDArray[np.intp], scores: Scores) -> None:
        """Measure a block of users; writes into `scores`."""
        seen = self.seen[users]
        self._store(users, _of_scores(scores, seen, self.held[users], self.chosen, self.limits))
        if self.needs_lists:
            self.lists[users] = best_of_scores(scores, seen, self.n)
            matches = match(self.lists[users], self.relevant[users], n=self.n)
            self._store(users, _of_lists(matches, self.chosen))

    def _store(self, users: npt.NDArray[np.intp], pairs: Pairs) -> None:
        for name, (totals, weights) in pairs.items():
            self.pairs[name][0][users], self.pairs[name][1][users] = totals, weights


def _of_lists(matches: Matches, chosen: tuple[str, ...]) -> Pairs:
    """Give users with a relevant item weight 1; metrics undefined for an empty list count 0, as in LensKit."""
    weight = (matches.relevant > 0).astype(np.float64)
    names = (name for name in LIST_METRICS if name in chosen)
    return {name: (np.nan_to_num(LIST_FUNCTIONS[name](matches)), weight) for name in names}


def _of_scores(
    scores: Scores, seen: sparse.csr_array, test: sparse.csr_array, chosen: tuple[str, ...], limits: tuple[float, float]
) -> Pairs:
    owners, values = np.repeat(np.arange(len(scores)), np.diff(test.indptr)), test.data.astype(np.float64)

    def summed(numbers: Floats) -> Floats:
        return np.asarray(np.bincount(owners, weights=numbers, minlength=len(scores)), dtype=np.float64)

    pairs: Pairs = {}
    if {"rmse", "mae"} & set(chosen):
        if not np.isfinite(scores[owners, test.indices]).all():
            raise BadNumber(
                "a held-out item has no finite score, and RMSE and MAE need one.",
                fix="leave rmse and mae out of metrics",
                parameter="metrics",
            )
        squares = squared_errors(scores, test, lower=limits[0], bound=limits[1])
        errors = {"rmse": squares, "mae": np.sqrt(squares)}
        pairs |= {name: (summed(one), summed(np.ones(owners.size))) for name, one in errors.items() if name in chosen}
    asked = [name for name in ("mean_rank", "mean_rank_unseen") if name in chosen]
    if asked:
        found = ranks(scores, test, seen=seen)
        places = {"mean_rank": found.among_all, "mean_rank_unseen": found.among_unseen}
        pairs |= {name: (summed(values * places[name]), summed(values)) for name in asked}
    return pairs


def _measured(pairs: Pairs, lists: npt.NDArray[np.intp], n_items: int, covers: bool) -> Measured:
    totals, weights = ({name: pair[part] for name, pair in pairs.items()} for part in (0, 1))
    return Measured(totals=totals, weights=weights, lists=lists, n_items=n_items, covers=covers)


Gain = Literal["binary", "value"]
_BY_GAIN = {"binary": "ndcg", "value": "ndcg_graded"}


def ndcg(
    user_factors: Scores,
    item_factors: Scores,
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
    n, gain
        Length of the list, and the gain of a held-out item; see `user_ndcg`.
    block : int
        Users scored at once; bounds the memory.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0.0, 0.0, 1.0]]))
    >>> round(ndcg(np.array([[1.0]]), np.array([[3.0], [2.0], [1.0]]), test), 4)
    0.6309
    """
    train = sparse.csr_array(test.shape) if seen is None else seen
    metric = _BY_GAIN[choice("gain", gain, tuple(_BY_GAIN))]
    measured = measure(
        (user_factors, item_factors), train, test, feedback="ratings", n=n, metrics=[metric], block=block
    )
    return measured.overall(metric)


def user_ndcg(
    scores: Scores,
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
        Gain of a held-out item.

    Returns
    -------
    array (users,)
        Between 0 and 1; NaN for a user with nothing held out, or without any gain. Items of equal score follow
        the order of the catalog.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0.0, 1.0, 1.0]]))
    >>> user_ndcg(np.array([[3.0, 2.0, 1.0]]), test, n=2).tolist()
    [0.5]
    """
    length = whole_number("n", n)
    shape = (len(scores), np.shape(scores)[1])
    held = as_entries(test, "test", shape)
    known = as_entries(sparse.csr_array(shape) if seen is None else seen, "seen", shape)
    lists = best_of_scores(own_scores(scores, shape), without(known, held), length)
    return ranking.ndcg(match(lists, held, n=length), gain=gain)
