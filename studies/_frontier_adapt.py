"""`twofold.entity.adapt.adapt` for one entity and many shared models: what needs no shared model is done once.

An entity compares models of its own with models drawn to the shared one, on the same held-out entries. The first do not
depend on what the server sent, so their losses are kept here from one cell to the next. Choice and model are those of
`adapt`; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from scipy import sparse

from twofold.entity.adapt import _best
from twofold.entity.candidates import Candidate, FitSettings, Judged, candidates, fitted, judge
from twofold.entity.models.blend import Scorer
from twofold.features import Features
from twofold.federation.factors import ItemFactors

__all__ = ["Learner", "Learnt"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Learnt:
    """A model and which candidate it is."""

    candidate: Candidate
    scorer: Scorer = field(repr=False)

    @property
    def name(self) -> str:
        """Kind and strength."""
        return f"{self.candidate.kind} {self.candidate.strength:g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Learner:
    """One entity's rows.

    Parameters
    ----------
    rows : csr array (users, items)
        float32, canonical.
    feedback, lower, bound, rank, seed
        As for `adapt`.
    features : Features, optional
        Public table; used where a call asks for it.

    Examples
    --------
    >>> import numpy as np
    >>> rows = sparse.csr_array(np.kron(np.eye(2), np.ones((6, 4), np.float32)))
    >>> Learner(rows=rows, feedback="counts", lower=0, bound=5, rank=2, seed=0).alone().candidate.strength
    0.0
    """

    rows: sparse.csr_array
    feedback: str
    lower: float
    bound: float
    rank: int
    seed: int
    features: Features | None = None
    _kept: dict[Candidate, Learnt] = field(default_factory=dict, repr=False)

    def alone(self, *, features: bool = False) -> Learnt:
        """What the entity does without the server; with public features if asked for."""
        return self._own(self._tried(None, features))

    def adapted(self, shared: ItemFactors, *, features: bool = False) -> tuple[Learnt, Learnt | None]:
        """What the entity does with the server's factors, and the best model that is the shared one as it is.

        The second is None where there is no such candidate.
        """
        tried = self._tried(shared, features)
        drawn = [one for one in tried if one.strength != 0]
        judged = {one.candidate: one for one in self._judged(drawn, shared, features)}
        known = {one.candidate: one for one in self._judged_alone}
        everything = [known[one] if one.strength == 0 else judged[one] for one in tried]
        fit = self._fitter(shared, features)
        best = self._taken(everything, fit)
        as_sent = [one for one in judged.values() if one.candidate.strength == float("inf") and not one.remark]
        return best, (self._taken(as_sent, fit) if as_sent else None)

    @cached_property
    def _judged_alone(self) -> list[Judged]:
        return judge(self.rows, None, self._tried(None, features=True), self._how(features=True))

    def _how(self, *, features: bool) -> FitSettings:
        return FitSettings(
            feedback=self.feedback,
            lower=self.lower,
            bound=self.bound,
            rank=self.rank,
            seed=self.seed,
            threads=1,
            features=self.features if features else None,
        )

    def _tried(self, shared: ItemFactors | None, features: bool) -> list[Candidate]:
        shape = (self.rows.shape[0], self.rows.shape[1])
        return candidates(shared, self.feedback, shape, "auto", None, self.features if features else None)

    def _judged(self, tried: list[Candidate], shared: ItemFactors, features: bool) -> list[Judged]:
        return judge(self.rows, shared, tried, self._how(features=features))

    def _own(self, tried: list[Candidate]) -> Learnt:
        known = {one.candidate: one for one in self._judged_alone}
        return self._taken([known[one] for one in tried], self._fitter(None, features=True))

    def _fitter(self, shared: ItemFactors | None, features: bool) -> Any:
        cell: dict[Candidate, Learnt] = {}

        def fit(one: Judged) -> Learnt:
            kept = self._kept if one.candidate.strength == 0 else cell
            if one.candidate not in kept:
                scorer = fitted(one.candidate, self.rows, shared, self._how(features=features), gain=one.gain)
                kept[one.candidate] = Learnt(candidate=one.candidate, scorer=scorer)
            return kept[one.candidate]

        return fit

    def _taken(self, judged: list[Judged], fit: Any) -> Learnt:
        found: Learnt = _best(judged, fit)[2]  # type: ignore[assignment]
        return found
