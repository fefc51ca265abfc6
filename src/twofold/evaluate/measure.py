"""Measure any system by the same code: scores in, every metric of every user out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from twofold.errors import BadNumber
from twofold.evaluate import ranking
from twofold.evaluate._entries import as_entries, relevant_entries, without
from twofold.evaluate._lists import best_of_scores
from twofold.evaluate._measure_input import (
    Scores,
    check_weights,
    chosen_metrics,
    own_scores,
    scorer_of_users,
    whole_number,
)
from twofold.evaluate.matches import Matches, match
from twofold.evaluate.measured import COVERAGE, LIST_METRICS, METRICS, SCORE_METRICS, Measured
from twofold.evaluate.ranks import ranks
from twofold.evaluate.rmse import squared_errors

__all__ = ["Scorer", "measure", "measure_lists"]

Scorer = Callable[[sparse.csr_array], Scores]
Pairs = dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]
BLOCK_SCORES = 1 << 20  # scores of one block: 8 MB

LIST_FUNCTIONS: dict[str, Callable[[Matches], npt.NDArray[np.float64]]] = {
    "ndcg": ranking.ndcg,
    "ndcg_graded": lambda matches: ranking.ndcg(matches, gain="value"),
    "recall": ranking.recall,
    "precision": ranking.precision,
    "average_precision": ranking.average_precision,
    "reciprocal_rank": ranking.reciprocal_rank,
    "hit": ranking.hit,
}


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
        What the system may know of these users. Every stored entry is seen and leaves the lists, unless it is also
        held out.
    test : scipy.sparse.csr_array of shape (n_users, n_items)
        What was held out. Only users with at least one entry are scored.
    feedback : {"ratings", "counts"}
        Every held-out rating is relevant; a held-out count of zero is not.
    n : int, default 10
        Length of the lists. Equal scores are listed by column, the lower one first.
    metrics : iterable of str
        Some of `METRICS`; all when not given.
    lower, bound : float
        Predictions are cut to these for RMSE; lists and ranks use the scores as they are.
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
    chosen, length = chosen_metrics(metrics, METRICS), whole_number(n, "n")
    held = as_entries(test, "test")
    seen = as_entries(train, "train", (held.shape[0], held.shape[1]))
    check_weights(held, chosen)
    relevant = relevant_entries(held, feedback=feedback)
    sheet = _Sheet(chosen, held, relevant, without(seen, held), length, (lower, bound))
    score = scorer_of_users(system, seen)
    users = np.flatnonzero(np.diff(held.indptr))
    size = whole_number(max(1, BLOCK_SCORES // max(held.shape[1], 1)) if block is None else block, "block")
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
    feedback : {"ratings", "counts"}
        Every held-out rating is relevant; a held-out count of zero is not.
    n : int, default 10
        Length of the lists.
    metrics : iterable of str
        Some of `LIST_METRICS` and coverage; all of these when not given.

    Examples
    --------
    >>> test = sparse.csr_array(np.array([[0, 0, 3.0, 0], [0, 2.0, 0, 0]]))
    >>> measure_lists([[1, 2], [1, 3]], test, feedback="ratings", n=2).per_user("reciprocal_rank").tolist()
    [0.5, 1.0]
    """
    chosen = chosen_metrics(metrics, (*LIST_METRICS, COVERAGE))
    held = as_entries(test, "test")
    matches = match(lists, relevant_entries(held, feedback=feedback), n=whole_number(n, "n"))
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
    """Users with a relevant item weigh 1; what an empty list leaves undefined counts 0, as in LensKit's summary."""
    weight = (matches.relevant > 0).astype(np.float64)
    names = (name for name in LIST_METRICS if name in chosen)
    return {name: (np.nan_to_num(LIST_FUNCTIONS[name](matches)), weight) for name in names}


def _of_scores(
    scores: Scores, seen: sparse.csr_array, test: sparse.csr_array, chosen: tuple[str, ...], limits: tuple[float, float]
) -> Pairs:
    owners, values = np.repeat(np.arange(len(scores)), np.diff(test.indptr)), test.data.astype(np.float64)

    def summed(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(np.bincount(owners, weights=numbers, minlength=len(scores)), dtype=np.float64)

    pairs: Pairs = {}
    if "rmse" in chosen:
        if not np.isfinite(scores[owners, test.indices]).all():
            raise BadNumber("a held-out item has no finite score, and RMSE needs one.", fix="leave rmse out of metrics")
        errors = squared_errors(scores, test, lower=limits[0], bound=limits[1])
        pairs["rmse"] = summed(errors), summed(np.ones(owners.size))
    asked = [name for name in ("mean_rank", "mean_rank_unseen") if name in chosen]
    if asked:
        found = ranks(scores, test, seen=seen)
        places = {"mean_rank": found.among_all, "mean_rank_unseen": found.among_unseen}
        pairs |= {name: (summed(values * places[name]), summed(values)) for name in asked}
    return pairs


def _measured(pairs: Pairs, lists: npt.NDArray[np.intp], n_items: int, covers: bool) -> Measured:
    totals, weights = ({name: pair[part] for name, pair in pairs.items()} for part in (0, 1))
    return Measured(totals=totals, weights=weights, lists=lists, n_items=n_items, covers=covers)
