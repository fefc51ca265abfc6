"""The local model of counts: from use alone, step by step, to what the others know; each step has to earn its place.

Rungs, from safe to bold:

0. *use*: how often an item was had here, with as much of the others' use as the entity's own people support;
1. *own taste*: item-item weights of own data (two scalings, three ridges), implicit ALS, or sparse weights in a long
   catalog;
2. *public features*: item-item weights pulled towards what public tables say;
3. *shared taste*: item-item weights pulled towards the denoised second moments of the others (`others`), as they came
   or brought to the entity's own use of each item.

Every rung above the first is stacked on use in the logarithm (`stack`), with weights that hidden entries of the own
people choose under a prior. The next rung is taken only if it tells those entries better by `CAUTION` nats, so many
candidates and few people do not make luck look like knowledge. Everything here stays inside the entity and is free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import keep_entries
from twofold.entity.candidates import Adapted, FitSettings, Losses, sound
from twofold.entity.models.blend import Scorer, Wide
from twofold.entity.models.factors import POWER, damped_rows
from twofold.entity.models.ials import IalsFit
from twofold.entity.models.item_item import ItemItemScorer
from twofold.entity.models.others import MAX_ITEMS, Others, others_of, unit_rows
from twofold.entity.models.ridge import Weights, feature_prior, weights_from_gram, weights_from_rows
from twofold.entity.models.sparse_items import SparseItemFit
from twofold.entity.models.stack import Hidden, StackScorer, Weighed, taste, weigh
from twofold.errors import BadNumber
from twofold.evaluate.measure import user_ndcg
from twofold.federation.factors import ItemFactors

__all__ = ["CAUTION", "climb"]

#: Nats by which a bolder rung has to tell hidden entries better.
CAUTION: Final = 2.0
#: Share of each person's entries that is hidden: enough for so many in all, between these limits; and how many people
#: are asked at most. The less is hidden, the more the histories are like those that lists are made for.
ENOUGH_HIDDEN: Final = 400.0
LEAST_HIDDEN: Final = 0.1
MOST_HIDDEN: Final = 0.2
MOST_ASKED: Final = 500
#: Prior of the weights of use and taste.
CENTRE: Final = (0.5, 1.0)
#: People's worth of the others' use that is tried.
AMOUNTS: Final = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0)
#: Ridges that are tried, in multiples of the default; only the last two in a catalog of more than `SHORT` items.
RIDGES: Final = (0.06, 0.25, 1.0, 4.0)
SHORT: Final = 1_500
#: Ridges of own rows as they are, in entries of average size: the more people, the larger those that are worth trying.
OWN_RIDGES: Final = (10.0, 30.0, 100.0, 300.0, 1_000.0)
MANY: Final = 1_000
#: How much of the others' taste counts, in people: a multiple of the amount of their use, within these limits.
TASTE_PER_USE: Final = 30.0
FEWEST: Final = 30.0
MOST: Final = 1_000.0
MORE: Final = 10.0
#: Ridge for the noise of the others' taste, in parts of its edge.
NOISE_RIDGE: Final = 0.2
#: People that public features weigh as much as.
FEATURE_USERS: Final = 300.0
#: People from whom on implicit ALS is tried.
FACTOR_USERS: Final = 100
#: Multiples of the weight of use that are tried at the end.
LESS_USE: Final = (1.0, 0.5, 0.2, 0.0)
#: Items of a long catalog on which rungs are compared, the most used first, and the length of the list that is judged.
MOST_COLUMNS: Final = 20_000
TOP: Final = 10
#: People scored at once.
_BLOCK: Final = 64
#: Use of an item that nobody had, in people.
_NOBODY: Final = 1e-12


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One candidate.

    Attributes
    ----------
    kind : str
        How tables name it.
    step : int
        0 use, 1 own taste, 2 public features, 3 shared taste.
    strength : float
        How many own people the others' taste weighs as much as.
    fit : function of rows
        Fits it to an entity's rows.
    """

    kind: str
    step: int
    strength: float = 0.0
    fit: Callable[[sparse.csr_array], Scorer] | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tried:
    rung: Rung
    weighed: Weighed
    losses: Losses
    taste: Wide | None = field(default=None, repr=False)


def climb(rows: sparse.csr_array, shared: ItemFactors | None, settings: FitSettings) -> Adapted:
    """Fit the local model of an entity with counts.

    Parameters
    ----------
    rows : csr array (users, items)
        Private: bounded counts, canonical.
    shared : ItemFactors or None
        What the server sent; None fits the entity alone.
    settings : FitSettings
        Seed, threads and public features.

    Examples
    --------
    >>> rows = sparse.csr_array(np.kron(np.eye(2), np.ones((20, 8))).astype(np.float32))
    >>> found = climb(rows, None, FitSettings(feedback="counts", lower=0, bound=1, rank=2))
    >>> int(found.scorer.one(np.array([0, 1]), np.ones(2))[2:].argmax()) < 6
    True
    """
    return _Climb(rows, shared, settings).result()


class _Climb:
    def __init__(self, rows: sparse.csr_array, shared: ItemFactors | None, settings: FitSettings) -> None:
        self.rows, self.settings = rows, settings
        self.unit = unit_rows(rows)
        self.others: Others | None = None
        self.failed = ""
        if shared is not None:
            try:
                self.others = sound(lambda: others_of(shared, self.unit))
            except BadNumber:
                self.failed = "; what was shared was left out: its numbers overflow"
        self.amount = _amount(self.unit, self.others)

    # What is hidden, and what is left

    @cached_property
    def _split(self) -> tuple[sparse.csr_array, sparse.csr_array, NDArray[np.intp]]:
        """Rows without the hidden entries, the hidden entries, and the people who are asked."""
        rng = np.random.default_rng([self.settings.seed, 6])
        lengths = np.diff(self.rows.indptr)
        owners = np.repeat(np.arange(self.rows.shape[0]), lengths)
        order = np.lexsort((rng.random(owners.size), owners))
        place = np.empty(owners.size, np.intp)
        place[order] = np.arange(owners.size) - np.repeat(self.rows.indptr[:-1], lengths)
        share = min(max(ENOUGH_HIDDEN / max(owners.size, 1), LEAST_HIDDEN), MOST_HIDDEN)
        number = np.where(lengths > 1, np.maximum(np.rint(share * lengths), 1), 0)
        held = place < number[owners]
        asked = np.flatnonzero(number)
        if asked.size > MOST_ASKED:
            asked = np.sort(rng.choice(asked, MOST_ASKED, replace=False))
        return keep_entries(self.rows, ~held), keep_entries(self.rows, held), asked

    @cached_property
    def _columns(self) -> NDArray[np.intp]:
        """Items on which rungs are compared: all, or the most used of a long catalog and what was hidden."""
        _, held, asked = self._split
        items = self.rows.shape[1]
        if items <= MOST_COLUMNS:
            return np.arange(items)
        use = np.argsort(-self._use(self.unit), kind="stable")[:MOST_COLUMNS]
        return np.union1d(use, held[asked].indices).astype(np.intp)

    @cached_property
    def _hidden(self) -> Hidden:
        train, held, asked = self._split
        return Hidden(history=_picked(train[asked], self._columns), held=_picked(held[asked], self._columns))

    # Use

    def _use(self, unit: sparse.csr_array) -> Wide:
        own = np.asarray(unit.sum(axis=0)).ravel()
        return np.asarray(own + self._prior)

    @cached_property
    def _prior(self) -> Wide:
        """What is added to own use: some people's worth of the others' use, or a little of everything."""
        items = self.rows.shape[1]
        if self.amount.shared and self.others is not None:
            return np.asarray(self.amount.people * self.others.shares + _NOBODY)
        return np.full(items, self.amount.people / max(items, 1) + _NOBODY)

    # Rungs

    def _rungs(self) -> Iterator[Rung]:
        users, items = self.rows.shape
        if items > MAX_ITEMS:
            yield Rung(kind="sparse-item-item", step=1, fit=self._sparse)
        else:
            ridges = RIDGES if items <= SHORT else RIDGES[2:]
            for ridge in ridges:
                yield Rung(kind="item-item, unit rows", step=1, fit=_fixed(self._unit_alone, ridge))
            own = OWN_RIDGES[1:] if users >= MANY else OWN_RIDGES[:-1]
            for ridge in own if items <= SHORT else own[1:]:
                yield Rung(kind="item-item", step=1, fit=_fixed(self._own_alone, ridge))
        if users >= FACTOR_USERS:
            yield Rung(kind="ials", step=1, fit=self._ials)
        if items > MAX_ITEMS:
            return
        public = self.settings.features is not None
        if public:
            for ridge in RIDGES[2:]:
                yield Rung(kind="features", step=2, fit=_fixed(self._featured, ridge))
        if self.others is not None and self.others.gram is not None:
            few, many = self._strengths
            for strength, scaled in ((few, False), (few, True), (many, True)):
                for ridge in ridges:
                    yield self._shared_rung(ridge, strength, scaled=scaled)
            if public:
                for ridge in RIDGES[2:]:
                    yield self._shared_rung(ridge, many, scaled=True, public=True)

    def _shared_rung(self, ridge: float, strength: float, *, scaled: bool = False, public: bool = False) -> Rung:
        name = "shared taste" + (", own use" if scaled else "") + (", features" if public else "")
        return Rung(
            kind=name,
            step=3,
            strength=strength,
            fit=lambda rows: self._shared(rows, ridge, strength, scaled=scaled, public=public),
        )

    @cached_property
    def _strengths(self) -> tuple[float, float]:
        """How many people the others' taste counts as: as alike as their use is, or many though their use differs."""
        assert self.others is not None
        people = self.amount.people if self.amount.shared else 0.0
        few = float(np.clip(TASTE_PER_USE * people, FEWEST, MOST))
        return min(few, self.others.users), min(MORE * few, MOST, self.others.users)

    def _sparse(self, rows: sparse.csr_array) -> Scorer:
        return SparseItemFit(rows, threads=self.settings.threads).scorer()

    def _ials(self, rows: sparse.csr_array) -> Scorer:
        return IalsFit(rows, seed=self.settings.seed, threads=self.settings.threads).scorer()

    def _own_alone(self, rows: sparse.csr_array, ridge: float) -> Scorer:
        values = damped_rows(rows, POWER["counts"])
        square = float(np.mean(values.data.astype(np.float64) ** 2)) if values.nnz else 1.0
        return _scorer(_weights(values, None, ridge * max(square, 1e-6)))

    def _unit_alone(self, rows: sparse.csr_array, ridge: float) -> Scorer:
        users, items = rows.shape
        return _scorer(_weights(unit_rows(rows), None, ridge * (1.0 + 2.0 * users / items)))

    def _featured(self, rows: sparse.csr_array, ridge: float) -> Scorer:
        users, items = rows.shape
        values = unit_rows(rows)
        return _scorer(_weights(values, self._public(values), ridge * (1.0 + 2.0 * users / items)))

    def _public(self, values: sparse.csr_array) -> Wide:
        assert self.settings.features is not None
        known, rest = feature_prior(values, self.settings.features.matrix)
        return np.asarray(FEATURE_USERS * (known.T @ known + np.diag(rest)))

    def _shared(self, rows: sparse.csr_array, ridge: float, strength: float, *, scaled: bool, public: bool) -> Scorer:
        """Own sums plus the others', which count as `strength` people."""
        others, (users, items) = self.others, rows.shape
        assert others is not None
        assert others.gram is not None
        share, values = strength / others.users, unit_rows(rows)
        added = share * others.gram
        if scaled:
            people = self.amount.people if self.amount.shared else 1.0
            own = np.asarray(values.sum(axis=0)).ravel() + people * others.shares
            scale = np.sqrt(own / (users + people) / others.shares)
            added = added * scale[:, None] * scale
        if public:
            added = added + self._public(values)
        size = 2.0 * (users + strength) / items + NOISE_RIDGE * share * others.noise * math.sqrt(items)
        return _scorer(_weights(values, added, ridge * size))

    # The climb

    def result(self) -> Adapted:
        asked = self._split[2]
        if not asked.size:
            return self._unasked()
        tried = self._all_judged()
        while True:
            path = _path(tried)
            try:
                scorer, weights = self._final(path[-1])
                break
            except BadNumber:
                tried = [_never(one.rung) if one is path[-1] else one for one in tried]
        best = path[-1]
        alone = next(one for one in reversed(path) if one.rung.step <= 1)
        gain, error = _apart(alone.losses, best.losses)
        return Adapted(
            scorer=scorer,
            kind=best.rung.kind,
            strength=self._pull(best),
            gain=gain,
            gain_error=error,
            table=tuple(self._line(one, taken=one is best) for one in tried),
            note=self._note(path, weights) + _left_out(tried) + self.failed,
        )

    def _all_judged(self) -> list[_Tried]:
        """Every rung; only the best of each step keeps what it said, which takes much memory."""
        tried: list[_Tried] = []
        for one in self._judged():
            alike = [
                at for at, other in enumerate(tried) if other.rung.step == one.rung.step and other.taste is not None
            ]
            for at in alike:
                if tried[at].weighed.worth >= one.weighed.worth:
                    one = replace(one, taste=None)
                else:
                    tried[at] = replace(tried[at], taste=None)
            tried.append(one)
        return tried

    def _judged(self) -> Iterator[_Tried]:
        train, _, asked = self._split
        history, hidden = train[asked], self._hidden
        use = np.log(self._use(unit_rows(train)))[self._columns]
        yield self._tried(Rung(kind="use", step=0), [use], hidden, centre=CENTRE[1:], taste=None)
        for rung in self._rungs():
            assert rung.fit is not None
            try:
                known = sound(lambda: self._tastes(rung, train, history))  # noqa: B023
                yield self._tried(rung, [use, known], hidden, centre=CENTRE, taste=known)
            except BadNumber:
                yield _never(rung)

    def _tastes(self, rung: Rung, train: sparse.csr_array, history: sparse.csr_array) -> Wide:
        assert rung.fit is not None
        scorer = rung.fit(train)
        parts = [
            taste(scorer.scores(history[start : start + _BLOCK]))[:, self._columns]
            for start in range(0, history.shape[0], _BLOCK)
        ]
        found = np.concatenate(parts)
        if not np.isfinite(found).all():
            raise BadNumber("a score is NaN or infinite.")
        return found

    def _tried(
        self, rung: Rung, parts: list[Wide], hidden: Hidden, *, centre: tuple[float, ...], taste: Wide | None
    ) -> _Tried:
        weighed = weigh(parts, hidden, centre=centre)
        scores = sum(weight * part for weight, part in zip(weighed.weights, parts, strict=True))
        return _Tried(rung=rung, weighed=weighed, losses=self._losses(np.asarray(scores)), taste=taste)

    def _losses(self, scores: Wide) -> Losses:
        hidden = self._hidden
        wide = np.broadcast_to(scores, hidden.history.shape)
        values = 1.0 - user_ndcg(wide, hidden.held, seen=hidden.history, n=TOP)
        return Losses(values=values, owners=np.arange(values.size))

    def _final(self, best: _Tried) -> tuple[StackScorer, tuple[float, float]]:
        """Fit to everything; less weight of use where that gives better lists."""
        use = np.log(self._use(self.unit))
        fit, told = best.rung.fit, best.taste
        if fit is None or told is None:
            return StackScorer(use, inner=None, weights=(1.0, 0.0)), (1.0, 0.0)
        train, _, _ = self._split
        known = np.log(self._use(unit_rows(train)))[self._columns]
        first, second = (float(one) for one in best.weighed.weights)
        lists = [self._losses(part * first * known + second * told) for part in LESS_USE]
        weights = (LESS_USE[int(np.argmin([one.mean for one in lists]))] * first, second)
        inner = sound(lambda: fit(self.rows))
        scorer = StackScorer(use, inner=inner, weights=weights)
        if not np.isfinite(scorer.scores(self.rows[:_BLOCK])).all():
            raise BadNumber("a score is NaN or infinite.")
        return scorer, weights

    def _unasked(self) -> Adapted:
        """Nothing can be hidden: the shared model as it came, else use."""
        use = np.log(self._use(self.unit))
        inner, kind, strength = None, "use", 0.0
        if self.others is not None:
            strength = self.others.users
            if self.others.gram is not None:
                rung = self._shared_rung(1.0, self.others.users)
                inner, kind = sound(lambda: rung.fit(self.rows)), rung.kind  # type: ignore[misc]
        note = (
            "nobody here has two entries to judge by: the shared model as it came"
            if self.others is not None
            else "nobody here has two entries to judge by, and nothing was shared: the most used items first"
        )
        return Adapted(
            scorer=StackScorer(use, inner=inner, weights=CENTRE if inner is not None else (1.0, 0.0)),
            kind=kind,
            strength=strength,
            gain=0.0,
            gain_error=0.0,
            table=(),
            note=note + self.failed,
        )

    # What is told

    def _pull(self, best: _Tried) -> float:
        if best.rung.step == 3:
            return best.rung.strength
        return self.amount.people if self.amount.shared else 0.0

    def _line(self, one: _Tried, *, taken: bool) -> dict[str, Any]:
        line: dict[str, Any] = {
            "kind": one.rung.kind,
            "strength": one.rung.strength,
            "loss": one.losses.mean,
            "error": one.losses.error,
            "nats": one.weighed.worth,
        }
        if not math.isfinite(one.weighed.worth):
            line |= {"nats": -math.inf, "remark": "not finite: fitting overflowed"}
        return line | ({"taken": True} if taken else {})

    def _note(self, path: list[_Tried], weights: tuple[float, float]) -> str:
        use = (
            f"use of {self.amount.people:g} people of the others counts with the own"
            if self.amount.shared
            else "use is the own" + ("" if self.others is None else ": the others' does not tell it better")
        )
        best = path[-1]
        if len(path) == 1:
            return f"the most used items first; {use}; nothing bolder told hidden entries better by {CAUTION:g} nats"
        gained = best.weighed.worth - path[-2].weighed.worth
        people = f", worth {best.rung.strength:g} own people" if best.rung.step == 3 else ""
        return (
            f"{best.rung.kind}{people}, weight {weights[1]:.2f}, with use, weight {weights[0]:.2f}; {use}; "
            f"hidden entries are told better than by {path[-2].rung.kind} by {gained:.1f} nats"
        )


def _path(tried: list[_Tried]) -> list[_Tried]:
    """The rungs that are climbed, the last of which is taken."""
    path = [tried[0]]
    for step in (1, 2, 3):
        best = max((one for one in tried if one.rung.step == step), key=lambda one: one.weighed.worth, default=None)
        if best is not None and best.weighed.worth > path[-1].weighed.worth + CAUTION:
            path.append(best)
    return path


def _never(rung: Rung) -> _Tried:
    """A rung whose numbers failed: shared factors may hold anything a server wrote."""
    nothing = Losses(values=np.zeros(0), owners=np.zeros(0, np.intp))
    return _Tried(
        rung=rung,
        losses=nothing,
        weighed=Weighed(weights=np.zeros(2), likelihood=-math.inf, worth=-math.inf),
    )


def _left_out(tried: list[_Tried]) -> str:
    number = sum(not math.isfinite(one.weighed.worth) for one in tried)
    return f"; {number} of {len(tried)} models left out: fitting overflowed" if number else ""


@dataclass(frozen=True, kw_only=True)
class Amount:
    """How many people's worth is added to own use, and whether it is the others' use or a little of everything."""

    people: float
    shared: bool


def _amount(unit: sparse.csr_array, others: Others | None) -> Amount:
    """Choose it by how well the people without each one tell that one's items."""
    items = unit.shape[1]
    flat = _best_amount(unit, np.full(items, 1.0 / max(items, 1)))
    if others is None:
        return Amount(people=flat[1], shared=False)
    theirs = _best_amount(unit, others.shares, most=others.users)
    if unit.nnz and theirs[0] <= flat[0] + CAUTION:
        return Amount(people=flat[1], shared=False)
    return Amount(people=theirs[1] if unit.nnz else others.users, shared=True)


def _best_amount(unit: sparse.csr_array, shares: Wide, *, most: float = math.inf) -> tuple[float, float]:
    total = np.asarray(unit.sum(axis=0)).ravel()
    lengths = np.asarray(unit.sum(axis=1)).ravel()
    owners = np.repeat(np.arange(unit.shape[0]), np.diff(unit.indptr))
    # Rows of norm 1 count for as many entries as they have.
    entries = np.diff(unit.indptr) / np.maximum(lengths, 1e-300)
    best = (-math.inf, AMOUNTS[0])
    for people in [one for one in AMOUNTS if one <= most] or [most]:
        told = total[unit.indices] - unit.data + people * shares[unit.indices]
        rest = total.sum() - lengths + people * shares.sum()
        chance = np.log(np.maximum(told, _NOBODY) / np.maximum(rest[owners], _NOBODY))
        value = float((unit.data * entries[owners]) @ chance)
        if value > best[0]:
            best = value, people
    return best


def _apart(one: Losses, other: Losses) -> tuple[float, float]:
    gaps = one.values - other.values
    if not gaps.size:
        return 0.0, 0.0
    return float(gaps.mean()), Losses(values=gaps, owners=one.owners).error


def _fixed(fit: Callable[[sparse.csr_array, float], Scorer], ridge: float) -> Callable[[sparse.csr_array], Scorer]:
    return lambda rows: fit(rows, ridge)


def _weights(values: sparse.csr_array, added: Wide | None, ridge: float) -> Weights:
    """Item-item weights of rows and of what is added to their Gram matrix; few rows need no matrix of all items."""
    users, items = values.shape
    if added is None and users < items // 2:
        return weights_from_rows(values.toarray().astype(np.float64), np.full(items, ridge))
    gram = (values.T @ values).toarray().astype(np.float64)
    return weights_from_gram(gram if added is None else gram + added, np.full(items, ridge))


def _scorer(weights: Weights) -> ItemItemScorer:
    items = next(iter(weights.arrays().values())).shape[-1]
    return ItemItemScorer(weights, means=np.zeros(items), feedback="counts", power=POWER["counts"])


def _picked(rows: sparse.csr_array, columns: NDArray[np.intp]) -> sparse.csr_array:
    return rows if columns.size == rows.shape[1] else sparse.csr_array(rows[:, columns])
