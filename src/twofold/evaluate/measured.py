"""Measured: every metric of every user, as a total and a weight, so that any group of users can be averaged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from twofold.errors import BadParameter, BadShape
from twofold.evaluate.coverage import coverage

__all__ = ["COVERAGE", "LIST_METRICS", "METRICS", "SCORE_METRICS", "Measured"]

Floats = npt.NDArray[np.float64]
LIST_METRICS: Final = ("ndcg", "ndcg_graded", "recall", "precision", "average_precision", "reciprocal_rank", "hit")
SCORE_METRICS: Final = ("rmse", "mean_rank", "mean_rank_unseen")
COVERAGE: Final = "coverage"
METRICS: Final = (*LIST_METRICS, COVERAGE, *SCORE_METRICS)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one system is worth to each of some users.

    A metric of a group of users is ``totals.sum() / weights.sum()``, and the root of it for RMSE: a user counts once
    in list metrics, once per test entry in RMSE, and with the sum of the held-out values in mean rank (Eq. 3). Users
    with nothing held out weigh nothing.

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
        Whether coverage was asked for.
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
        """All users, those with nothing held out included."""
        return len(self.lists)

    def per_user(self, metric: str) -> Floats:
        """One number per user, NaN where the metric says nothing about them."""
        totals, weights = self._of(metric)
        return finish(metric, totals, weights)

    def overall(self, metric: str) -> float:
        """The metric of all users together."""
        if metric == COVERAGE and self.covers:
            return coverage(self.lists, self.n_items)
        totals, weights = self._of(metric)
        return float(finish(metric, totals.sum(), weights.sum()))

    def _of(self, metric: str) -> tuple[Floats, Floats]:
        if metric not in self.totals:
            raise BadParameter(
                "this metric was not measured per user.", found=repr(metric), expected=", ".join(self.totals)
            )
        return self.totals[metric], self.weights[metric]

    @classmethod
    def pool(cls, parts: Iterable[Measured]) -> Measured:
        """The users of several parts, one after the other."""
        several = list(parts)
        if len({(part.metrics, part.n, part.n_items) for part in several}) != 1:
            raise BadShape("the parts were not measured alike.", expected="equal metrics, n and number of items")
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
    ratio = np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0)
    return np.asarray(np.sqrt(ratio) if metric == "rmse" else ratio)
