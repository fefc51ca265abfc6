"""Measure one split: the same users in their hospital, and each of them alone with a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import sparse

from studies.adaptation import constant, popular
from studies.case import Case
from studies.frontier.fit import Bench, Floats, Learnt, PerUser, Score
from studies.frontier.settings import DataSetting, quarters
from twofold.entity.candidates import Candidate, FitSettings, fitted
from twofold.entity.person import fold_person_in
from twofold.errors import BadNumber
from twofold.features import Features
from twofold.federation.factors import ItemFactors

__all__ = ["PeopleBench"]


class PeopleBench(Bench):
    """The frontier's bench, and the same users without a hospital.

    Parameters
    ----------
    case, setting
        As for `Bench`.
    sample : sequence of int
        Hospitals that are measured, by quarter, the smallest first; 0 for none of that quarter.
    """

    def __init__(self, case: Case, setting: DataSetting, sample: Sequence[int]) -> None:
        place = quarters(case.sizes)
        chosen = replace(setting, sample=tuple(max(one, 1) for one in sample))
        super().__init__(case, chosen)
        self.measured = tuple(one for one in self.measured if sample[place[one]])

    def people(self, shared: ItemFactors, *, features: bool) -> float:
        """Figure of the measured users, each folding their own row into the shared factors."""
        settings = self._how(self.plan.features_table if features else None)
        return self._each(lambda row: fold_person_in(row, shared, settings)[1].scores(row))

    def person_alone(self, *, features: bool) -> float:
        """Figure of the measured users, each with nothing but their row, and public features if asked for."""
        kind = "features" if features else "patterns" if self.setting.feedback == "ratings" else "item-item"
        settings = self._how(self.plan.features_table)
        candidate = Candidate(kind=kind, strength=0.0)

        def score(row: sparse.csr_array) -> Floats:
            try:
                return fitted(candidate, row, None, settings, gain=1.0).scores(row)
            except BadNumber:  # too few entries for this kind of model: every item the same
                return np.full(row.shape, row.data.mean() if row.nnz else self.setting.lower, dtype=np.float32)

        return self._each(score)

    def hospital_alone(self, *, features: bool = False) -> float:
        """Figure of the measured users in hospitals that share nothing."""
        return self._over(lambda entity: self._learnt(entity, self._learners[entity].alone(features=features)))

    def hospitals(self, shared: ItemFactors, *, features: bool) -> float:
        """Figure of the measured users in hospitals that adapt the shared factors."""
        return self._over(
            lambda entity: self._learnt(entity, self._learners[entity].adapted(shared, features=features)[0])
        )

    def own_popularity(self) -> float:
        """Figure of a hospital's own most frequent items, or mean ratings."""
        return self._over(lambda entity: self._popular(entity, self.case.rows[entity]))

    def pooled_popularity(self) -> float:
        """Figure of the most frequent items of all people, or mean ratings; not private."""
        return self._over(lambda entity: self._popular(entity, self._all_rows))

    def pooled(self) -> float:
        """Figure of item-item weights (EASE) of all people together; not private."""
        return self._over(lambda entity: self._measure(entity, self._pooled.scorer.scores))

    @cached_property
    def _all_rows(self) -> sparse.csr_array:
        return sparse.csr_array(sparse.vstack(list(self.case.rows.values()), format="csr"))

    def _popular(self, entity: str, rows: sparse.csr_array) -> PerUser:
        counts, means = popular(rows, self.setting.feedback)
        return self._measure(entity, constant(counts), predict=constant(means))

    def _learnt(self, entity: str, learnt: Learnt) -> PerUser:
        return self._figures(entity, learnt)

    def _how(self, features: Features | None) -> FitSettings:
        setting = self.setting
        return FitSettings(
            feedback=setting.feedback,
            lower=setting.lower,
            bound=setting.bound,
            rank=setting.rank,
            seed=self.case.seed,
            threads=1,
            features=features,
        )

    def _each(self, score: Score) -> float:
        """Score every user by a model of their own."""
        return self._over(
            lambda entity: self._measure(
                entity, lambda rows: np.vstack([score(rows[[number]]) for number in range(rows.shape[0])])
            )
        )

    def _over(self, measured: Callable[[str], PerUser]) -> float:
        """Mean nDCG over all measured users, or RMSE over all their held-out ratings; every user counts alike."""
        every: Iterator[PerUser] = (measured(entity) for entity in self.measured)
        found = list(every)
        if self.setting.feedback == "counts":
            return float(np.concatenate([one.ndcg for one in found]).mean())
        return float(np.sqrt(sum(one.squares.sum() for one in found) / sum(one.entries.sum() for one in found)))
