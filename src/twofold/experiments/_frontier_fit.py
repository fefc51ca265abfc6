"""One split with everything that is fitted to it: alone once, then with whatever a server sent."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import sparse

from twofold.entity._blend import rating_means
from twofold.entity.adapt import Adapted, adapt
from twofold.experiments._frontier_data import Case
from twofold.experiments._frontier_measure import PerUser, gain, measure
from twofold.protocol.factors import ItemFactors

__all__ = ["Bench", "Row"]

Row = dict[str, Any]
Score = Callable[[sparse.csr_array], Any]


class Bench:
    """Fits and measures the chosen entities of one split; models alone are kept.

    Parameters
    ----------
    case : Case
        The split.
    """

    def __init__(self, case: Case) -> None:
        self.case = case

    def control(self, name: str) -> list[Row]:
        """Rows of one way that needs no mechanism."""
        ways = {
            "alone": self._alone_row,
            "own popularity": self._popular_row,
            "public features": self._features_row,
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
        rows = [self._adapted_row(entity, shared, features) for entity in self.case.measured]
        if self.case.setting.feedback == "ratings":
            rows += [self._shared_row(entity, shared) for entity in self.case.measured]
        return rows

    @cached_property
    def _alone(self) -> dict[str, tuple[Adapted, PerUser]]:
        made = {}
        for entity in self.case.measured:
            one = self._fit(entity, None)
            made[entity] = one, self._measure(entity, one.scorer.scores)
        return made

    def _alone_row(self, entity: str) -> Row:
        one, found = self._alone[entity]
        return self._row(entity, found, way="adapted", chosen=f"{one.kind} {one.strength:g}")

    def _adapted_row(self, entity: str, shared: ItemFactors, features: bool) -> Row:
        one = self._fit(entity, shared, features=features)
        alone, known = self._alone[entity]
        # Strength 0 of the same kind is the very model that was chosen alone.
        same = (one.kind, one.strength) == (alone.kind, alone.strength)
        found = known if same else self._measure(entity, one.scorer.scores)
        return self._row(entity, found, way="adapted", chosen=f"{one.kind} {one.strength:g}", note=shared.note)

    def _shared_row(self, entity: str, shared: ItemFactors) -> Row:
        one = self._fit(entity, shared, strength="shared")
        found = self._measure(entity, one.scorer.scores)
        return self._row(entity, found, way="shared only", chosen=f"{one.kind} {one.strength:g}")

    def _popular_row(self, entity: str) -> Row:
        counts, means = _popular(self.case.train[entity], self.case.setting.feedback)
        found = self._measure(entity, _constant(counts), predict=_constant(means))
        return self._row(entity, found, way="adapted", chosen="popularity")

    def _features_row(self, entity: str) -> Row:
        one = self._fit(entity, None, features=True)
        found = self._measure(entity, one.scorer.scores)
        return self._row(entity, found, way="adapted", chosen=f"{one.kind} {one.strength:g}")

    def _pooled_row(self, entity: str) -> Row:
        found = self._measure(entity, self._pooled.scorer.scores)
        return self._row(entity, found, way="adapted", chosen=f"{self._pooled.kind} 0")

    @cached_property
    def _pooled(self) -> Adapted:
        rows = sparse.csr_array(sparse.vstack(list(self.case.train.values()), format="csr"))
        return self._adapt(rows, None, local="item-item")

    def _fit(
        self,
        entity: str,
        shared: ItemFactors | None,
        *,
        strength: Literal["auto", "shared"] = "auto",
        features: bool = False,
    ) -> Adapted:
        return self._adapt(self.case.train[entity], shared, strength=strength, features=features)

    def _adapt(self, rows: sparse.csr_array, shared: ItemFactors | None, **options: Any) -> Adapted:
        setting = self.case.setting
        table = self.case.plan.features_table if options.pop("features", False) else None
        return adapt(
            rows,
            shared,
            feedback=setting.feedback,
            lower=setting.lower,
            bound=setting.bound,
            rank=setting.rank,
            seed=self.case.seed,
            threads=1,
            features=table,
            **options,
        )

    def _measure(self, entity: str, score: Score, *, predict: Score | None = None) -> PerUser:
        some, setting = slice(0, self.case.setting.users), self.case.setting
        train, test = self.case.train[entity][some], self.case.test[entity][some]
        return measure(score, train, test, lower=setting.lower, bound=setting.bound, predict=predict)

    def _row(self, entity: str, found: PerUser, *, way: str, chosen: str, note: str = "") -> Row:
        better, error = gain(self._alone[entity][1], found, self.case.setting.feedback)
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
