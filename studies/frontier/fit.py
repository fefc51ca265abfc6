"""Fit and measure one split: alone once, then with the factors of each server."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.baselines.base import Everyone, Setting, Tuned, tune
from studies.baselines.registry import find_baseline
from studies.case import Case
from studies.frontier.release import plan_of
from studies.frontier.settings import DataSetting, quarters, sampled
from twofold.entity.adapt import Adapted, _best, adapt, adapted
from twofold.entity.candidates import Candidate, FitSettings, Judged, Losses, candidates, fitted, judge, paired
from twofold.entity.models.blend import Scorer
from twofold.evaluation.measure import user_ndcg
from twofold.evaluation.rmse import squared_errors
from twofold.features import Features
from twofold.federation.factors import ItemFactors

__all__ = ["Bench", "Learner", "Learnt", "PerUser", "Row", "gain", "measure", "places"]

Floats = NDArray[np.floating[Any]]
Score = Callable[[sparse.csr_array], Floats]
Row = dict[str, Any]
BLOCK = 256
TOP = 10
#: Above this number of items our own model of all users is one fit instead of a choice of many.
LONG = 1_500
_SMALLER = (0, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class PerUser:
    """One number per user with held-out entries.

    Attributes
    ----------
    users : array
        Which users.
    ndcg, rank : arrays
        nDCG@10, and the mean place of the held-out items among those without an entry (0 first, 1 last).
    squares, entries : arrays
        Sum of squared errors, and of how many entries.
    """

    users: NDArray[np.intp]
    ndcg: NDArray[np.float64]
    rank: NDArray[np.float64]
    squares: NDArray[np.float64]
    entries: NDArray[np.float64]

    @property
    def figures(self) -> dict[str, float]:
        """Means over users, and the mean squared error over entries.

        An entity without held-out entries has none.
        """
        if not self.users.size:
            return {"ndcg": np.nan, "mean_rank": np.nan, "mse": np.nan}
        return {
            "ndcg": float(self.ndcg.mean()),
            "mean_rank": float(self.rank.mean()),
            "mse": float(self.squares.sum() / self.entries.sum()),
        }


def measure(
    score: Score,
    train: sparse.csr_array,
    test: sparse.csr_array,
    *,
    lower: float,
    bound: float,
    predict: Score | None = None,
) -> PerUser:
    """Judge the scores of users who have something held out; `predict` where ratings are predicted by other numbers.

    Examples
    --------
    >>> none, held = sparse.csr_array((1, 3)), sparse.csr_array(np.array([[0.0, 2.0, 0.0]]))
    >>> made = measure(lambda rows: np.array([[3.0, 2.0, 1.0]]), none, held, lower=0, bound=5)
    >>> made.rank, made.squares
    (array([0.5]), array([0.]))
    """
    users = np.flatnonzero(np.diff(test.indptr))
    parts = []
    for start in range(0, users.size, BLOCK):
        here = users[start : start + BLOCK]
        history, held = train[here], test[here]
        scores = score(history)
        said = scores if predict is None else predict(history)
        errors = squared_errors(said, held, lower=lower, bound=bound)
        owners = np.repeat(np.arange(here.size), np.diff(held.indptr))
        parts.append(
            (
                user_ndcg(scores, held, seen=history, n=TOP),
                places(scores, history, held),
                np.bincount(owners, errors, here.size),
                np.diff(held.indptr).astype(np.float64),
            )
        )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] or [np.zeros(0)] * 4
    return PerUser(users=users, ndcg=columns[0], rank=columns[1], squares=columns[2], entries=columns[3])


def places(scores: Floats, history: sparse.csr_array, held: sparse.csr_array) -> NDArray[np.float64]:
    """Mean place of each user's held-out items among the items without an entry; ties count half.

    Examples
    --------
    >>> none, held = sparse.csr_array((1, 3)), sparse.csr_array(np.array([[1.0, 0.0, 0.0]]))
    >>> places(np.array([[1.0, 2.0, 3.0]]), none, held)
    array([1.])
    """
    found = np.full(held.shape[0], np.nan)
    for user in np.flatnonzero(np.diff(held.indptr)):
        wanted = held.indices[held.indptr[user] : held.indptr[user + 1]]
        open_items = np.ones(scores.shape[1], np.bool_)
        open_items[history.indices[history.indptr[user] : history.indptr[user + 1]]] = False
        open_items[wanted] = True
        order = np.sort(scores[user][open_items])
        own = scores[user][wanted]
        above = order.size - np.searchsorted(order, own, side="right")
        ties = order.size - np.searchsorted(order, own, side="left") - above - 1
        found[user] = np.mean((above + ties / 2) / max(order.size - 1, 1))
    return found


def gain(alone: PerUser, other: PerUser, feedback: str) -> tuple[float, float]:
    """Gain of `other` over `alone` on the same users, with its standard error.

    nDCG for counts, mean squared error for ratings; users are independent of one another.

    Examples
    --------
    >>> users = np.arange(6)
    >>> one = PerUser(users=users, ndcg=np.zeros(6), rank=np.zeros(6), squares=np.ones(6), entries=np.ones(6))
    >>> two = PerUser(users=users, ndcg=np.ones(6), rank=np.zeros(6), squares=np.ones(6), entries=np.ones(6))
    >>> gain(one, two, "counts"), gain(one, two, "ratings")
    ((1.0, 0.0), (0.0, 0.0))
    """
    if feedback == "counts":
        return paired(Losses(values=-alone.ndcg, owners=alone.users), Losses(values=-other.ndcg, owners=other.users))
    if not alone.users.size:
        return 0.0, 0.0
    better = alone.squares - other.squares
    mean = float(better.sum() / alone.entries.sum())
    apart = better - mean * alone.entries
    number = better.size
    error = float(np.sqrt(number / max(number - 1, 1) * np.sum(apart**2)) / alone.entries.sum())
    return mean, error


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
    """`twofold.entity.adapt.adapt` for one entity and many shared models; work without a shared model is done once.

    Counts call `adapt`, and the model alone is kept. An entity with ratings compares its own models with models pulled
    towards the shared one, on the same held-out entries. The first do not depend on what the server sent, so their
    losses are kept from one cell to the next. Choice and model are those of `adapt`; a test compares the two.

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
    _alone: dict[bool, Learnt] = field(default_factory=dict, repr=False)

    def alone(self, *, features: bool = False) -> Learnt:
        """Fit the entity's model without the server, with public features if requested."""
        if features not in self._alone:
            ratings = self.feedback == "ratings"
            self._alone[features] = self._own(self._tried(None, features)) if ratings else self._climbed(None, features)
        return self._alone[features]

    def keeps(self, learnt: Learnt) -> bool:
        """Whether a model stays the same for every server."""
        return any(one is learnt for one in (*self._alone.values(), *self._kept.values()))

    def adapted(self, shared: ItemFactors, *, features: bool = False) -> tuple[Learnt, Learnt | None]:
        """Fit the entity's model with the server's factors, and give the best unchanged shared model.

        The second is None where there is no such candidate, as for counts.
        """
        if self.feedback == "counts":
            return self._climbed(shared, features), None
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

    def _climbed(self, shared: ItemFactors | None, features: bool) -> Learnt:
        found = adapted(self.rows, shared, self._how(features=features))
        return Learnt(candidate=Candidate(kind=found.kind, strength=found.strength), scorer=found.scorer)

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


class Bench:
    """Fits and measures the chosen entities of one split; models alone and their figures are kept.

    Parameters
    ----------
    case : Case
        The split.
    setting : DataSetting
        Public numbers of its data set.

    Attributes
    ----------
    plan : Plan
        Without a mechanism.
    quarter : mapping of int
        0 for the quarter of the entities with the fewest users, to 3.
    measured : tuple of str
        Entities that are fitted and measured; all of them are in the statistic.
    """

    def __init__(self, case: Case, setting: DataSetting) -> None:
        self.case, self.setting, self.plan = case, setting, plan_of(case, setting)
        self.quarter, self.measured = quarters(case.sizes), sampled(case.sizes, setting.sample)
        self._learners = {entity: self._learner(entity) for entity in self.measured}
        self._own: dict[tuple[str, int], PerUser] = {}

    def weight(self, entity: str) -> float:
        """Number of entities of its quarter that a measured one represents.

        Every quarter counts in full, however few of its entities are measured.
        """
        here = self.quarter[entity]
        alike = sum(one == here for one in self.quarter.values())
        return alike / sum(self.quarter[one] == here for one in self.measured)

    def control(self, name: str) -> list[Row]:
        """Rows of one system that needs no mechanism."""
        ways = {
            "alone": lambda entity: self._learnt_row(entity, self._learners[entity].alone()),
            "public features": lambda entity: self._learnt_row(entity, self._learners[entity].alone(features=True)),
            "pooled": self._pooled_row,
        }
        return [ways[name](entity) for entity in self.measured]

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
        for entity in self.measured:
            best, as_sent = self._learners[entity].adapted(shared, features=features)
            rows.append(self._learnt_row(entity, best, note=shared.note) | {"directions": _directions(shared.note)})
            if as_sent is not None and self.setting.feedback == "ratings":
                rows.append(self._learnt_row(entity, as_sent, way="shared only"))
        return rows

    def _learner(self, entity: str) -> Learner:
        setting = self.setting
        return Learner(
            rows=self.case.rows[entity],
            feedback=setting.feedback,
            lower=setting.lower,
            bound=setting.bound,
            rank=setting.rank,
            seed=self.case.seed,
            features=self.plan.features_table,
        )

    def _learnt_row(self, entity: str, learnt: Learnt, *, way: str = "adapted", note: str = "") -> Row:
        found = self._figures(entity, learnt)
        return self._row(entity, found, way=way, chosen=learnt.name, note=note)

    def _figures(self, entity: str, learnt: Learnt) -> PerUser:
        """Measure a model; those of an entity alone are measured once."""
        if not self._learners[entity].keeps(learnt):
            return self._measure(entity, learnt.scorer.scores)
        key = entity, id(learnt)
        if key not in self._own:
            self._own[key] = self._measure(entity, learnt.scorer.scores)
        return self._own[key]

    def scored(self, tuned: Tuned, epsilon: float = math.inf) -> list[Row]:
        """Rows of a baseline with the options that tuning took.

        Parameters
        ----------
        tuned : Tuned
            The baseline's name and options.
        epsilon : float
            Of a baseline that is private.
        """
        baseline, everyone = find_baseline(tuned.name, self.setting.feedback), self.everyone(epsilon)
        rows = []
        for entity in self.measured:
            found = self._measure(entity, baseline.fit(everyone.site(entity), tuned.options))
            rows.append(self._row(entity, found, way="adapted", chosen=tuned.words))
        return rows

    def tune(self, name: str, epsilon: float = math.inf) -> Tuned:
        """Tune a baseline on this split: one choice for all measured entities of the smaller half."""
        small = [entity for entity in self.measured if self.quarter[entity] in _SMALLER] or list(self.measured)
        return tune(find_baseline(name, self.setting.feedback), self.everyone(epsilon), self._judged, small)

    def everyone(self, epsilon: float = math.inf) -> Everyone:
        """All rows as baselines take them."""
        return Everyone(self.case.rows, replace(self._baseline_setting, epsilon=epsilon))

    @cached_property
    def _baseline_setting(self) -> Setting:
        setting = self.setting
        return Setting(
            feedback=setting.feedback,
            lower=setting.lower,
            bound=setting.bound,
            delta=setting.delta,
            rank=setting.rank,
            seed=self.case.seed,
            features=self.plan.features_table,
        )

    def _judged(self, entity: str, score: Score) -> float:
        """What an entity adds to the figure that tuning maximises."""
        some, setting = slice(0, self.setting.users), self.setting
        train, test = self.case.rows[entity][some], self.case.held[entity][some]
        users = np.flatnonzero(np.diff(test.indptr))
        scores, held = np.asarray(score(train[users])), test[users]
        if setting.feedback == "ratings":
            errors = squared_errors(scores, held, lower=setting.lower, bound=setting.bound)
            return -self.weight(entity) * float(errors.sum())
        found = user_ndcg(scores, held, seen=train[users], n=TOP)
        return self.weight(entity) * self.case.rows[entity].shape[0] * float(found.mean() if users.size else 0.0)

    def _pooled_row(self, entity: str) -> Row:
        found = self._measure(entity, self._pooled.scorer.scores)
        return self._row(entity, found, way="adapted", chosen=f"{self._pooled.kind} 0")

    @cached_property
    def _pooled(self) -> Adapted:
        """Our own model of all users together; of a long catalog and of ratings the kind that costs least."""
        setting = self.setting
        rows = sparse.csr_array(sparse.vstack(list(self.case.rows.values()), format="csr"))
        cheap = setting.feedback == "ratings" or rows.shape[1] > LONG
        return adapt(
            rows,
            None,
            feedback=setting.feedback,
            lower=setting.lower,
            bound=setting.bound,
            rank=setting.rank,
            seed=self.case.seed,
            threads=1,
            local="item-item" if cheap else "auto",
        )

    @cached_property
    def _public(self) -> Row:
        """Size of the federation: what a prediction from public numbers is made of."""
        sizes = self.case.sizes
        small = [sizes[one] for one, quarter in self.quarter.items() if quarter in _SMALLER]
        return {
            "all_users": sum(sizes.values()),
            "items": len(self.case.train.catalog),
            "entities": len(sizes),
            "small_users": float(np.median(small)),
            "directions": None,
        }

    def _measure(self, entity: str, score: Score, *, predict: Score | None = None) -> PerUser:
        some, setting = slice(0, self.setting.users), self.setting
        train, test = self.case.rows[entity][some], self.case.held[entity][some]
        return measure(score, train, test, lower=setting.lower, bound=setting.bound, predict=predict)

    def _row(self, entity: str, found: PerUser, *, way: str, chosen: str, note: str = "") -> Row:
        alone = self._figures(entity, self._learners[entity].alone())
        better, error = gain(alone, found, self.setting.feedback)
        return {
            "way": way,
            "entity": entity,
            "quarter": self.quarter[entity],
            "weight": self.weight(entity),
            "users": self.case.rows[entity].shape[0],
            **self._public,
            "entries": int(self.case.held[entity].nnz),
            "measured": int(found.users.size),
            **found.figures,
            "gain": better,
            "gain_error": error,
            "chosen": chosen,
            "note": note,
        }


def _directions(note: str) -> int | None:
    """Directions above the noise, as the server's note counts them; None where it does not."""
    first = note.split(" ", 1)[0]
    if "rose above the noise" not in note:
        return None
    return int(first) if first.isdigit() else 0
