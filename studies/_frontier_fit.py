"""One split with everything that is fitted to it: alone once, then with whatever a server sent."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from studies._frontier_adapt import Learner, Learnt
from studies._frontier_data import Case
from studies._frontier_measure import PerUser, gain, measure
from twofold.entity.adapt import Adapted, adapt
from twofold.entity.models.blend import rating_means
from twofold.federation.factors import ItemFactors

__all__ = ["Bench", "Row"]

Row = dict[str, Any]
Score = Callable[[sparse.csr_array], Any]


class Bench:
    """Fits and measures the chosen entities of one split; models alone and their figures are kept.

    Parameters
    ----------
    case : Case
        The split.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self._learners = {entity: self._learner(entity) for entity in case.measured}
        self._own: dict[tuple[str, str], PerUser] = {}

    def control(self, name: str) -> list[Row]:
        """Rows of one way that needs no mechanism."""
        ways = {
            "alone": lambda entity: self._learnt_row(entity, self._learners[entity].alone()),
            "own popularity": self._popular_row,
            "public features": lambda entity: self._learnt_row(entity, self._learners[entity].alone(features=True)),
            "pooled": self._pooled_row,
        }
        return [ways[name](entity) for entity in self.case.measured]

    def federated(self, shared: ItemFactors, *, features: bool) -> list[Row]:
        """Rows of every measured entity with these factors: adapted, and for ratings also the shared model as it is.

        Parameters
        ----------
        shared : ItemFactors
            What the server sent.
        features : bool
            Whether the plan, and so the entity, has the public table of features.
        """
        rows = []
        for entity in self.case.measured:
            best, as_sent = self._learners[entity].adapted(shared, features=features)
            rows.append(self._learnt_row(entity, best, note=shared.note))
            if as_sent is not None and self.case.setting.feedback == "ratings":
                rows.append(self._learnt_row(entity, as_sent, way="shared only"))
        return rows

    def _learner(self, entity: str) -> Learner:
        setting = self.case.setting
        return Learner(
            rows=self.case.train[entity],
            feedback=setting.feedback,
            lower=setting.lower,
            bound=setting.bound,
            rank=setting.rank,
            seed=self.case.seed,
            features=self.case.plan.features_table,
        )

    def _learnt_row(self, entity: str, learnt: Learnt, *, way: str = "adapted", note: str = "") -> Row:
        found = self._figures(entity, learnt)
        return self._row(entity, found, way=way, chosen=learnt.name, note=note)

    def _figures(self, entity: str, learnt: Learnt) -> PerUser:
        """Measure a model; those of an entity alone only once."""
        if learnt.candidate.strength != 0:
            return self._measure(entity, learnt.scorer.scores)
        key = entity, learnt.name
        if key not in self._own:
            self._own[key] = self._measure(entity, learnt.scorer.scores)
        return self._own[key]

    def _popular_row(self, entity: str) -> Row:
        counts, means = _popular(self.case.train[entity], self.case.setting.feedback)
        found = self._measure(entity, _constant(counts), predict=_constant(means))
        return self._row(entity, found, way="adapted", chosen="popularity")

    def _pooled_row(self, entity: str) -> Row:
        found = self._measure(entity, self._pooled.scorer.scores)
        return self._row(entity, found, way="adapted", chosen=f"{self._pooled.kind} 0")

    @cached_property
    def _pooled(self) -> Adapted:
        """Item-item weights of all users together: of all kinds the one that costs least."""
        setting = self.case.setting
        return adapt(
            sparse.csr_array(sparse.vstack(list(self.case.train.values()), format="csr")),
            None,
            feedback=setting.feedback,
            lower=setting.lower,
            bound=setting.bound,
            rank=setting.rank,
            seed=self.case.seed,
            threads=1,
            local="item-item",
        )

    def _measure(self, entity: str, score: Score, *, predict: Score | None = None) -> PerUser:
        some, setting = slice(0, self.case.setting.users), self.case.setting
        train, test = self.case.train[entity][some], self.case.test[entity][some]
        return measure(score, train, test, lower=setting.lower, bound=setting.bound, predict=predict)

    def _row(self, entity: str, found: PerUser, *, way: str, chosen: str, note: str = "") -> Row:
        alone = self._figures(entity, self._learners[entity].alone())
        better, error = gain(alone, found, self.case.setting.feedback)
        return {
            "way": way,
            "entity": entity,
            "quarter": self.case.quarter[entity],
            "weight": self.case.weight(entity),
            "users": self.case.train[entity].shape[0],
            "entries": self.case.test[entity].nnz,
            "measured": int(found.users.size),
            **found.figures,
            "gain": better,
            "gain_error": error,
            "chosen": chosen,
            "note": note,
        }


def _popular(rows: sparse.csr_array, feedback: str) -> tuple[Any, Any]:
    """How much each item is used at an entity, and what it is rated on average."""
    items = rows.shape[1]
    if feedback == "counts":
        sums = np.bincount(rows.indices, rows.data, items)
        return sums, sums / max(rows.shape[0], 1)
    return np.bincount(rows.indices, minlength=items).astype(np.float64), rating_means(rows, None, 0.0)


def _constant(line: Any) -> Score:
    return lambda rows: np.tile(line, (rows.shape[0], 1))
