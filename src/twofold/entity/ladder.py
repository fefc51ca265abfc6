"""The local model of counts: from use alone, step by step, to what the others know; each step has to earn its place.

Rungs, from safe to bold:

0. *use*: how often an item was had here, with as much of the others' use as the entity's own people support;
1. *own taste*: item-item weights of own data (two scalings, several ridges), implicit ALS, or sparse weights in a long
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
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.algorithms.implicit_als import EPOCHS
from twofold.csr import keep_entries
from twofold.entity.candidates import UNUSABLE, Adapted, FitSettings, Losses, left_out, paired, sound
from twofold.entity.models.blend import Scorer, Wide
from twofold.entity.models.ials import IalsFit
from twofold.entity.models.item_item import MAX_ITEMS
from twofold.entity.models.others import Others, others_of
from twofold.entity.models.rungs import Rest, Side, featured_taste, own_taste, shared_taste, unit_taste
from twofold.entity.models.sparse_items import SparseItemFit
from twofold.entity.models.stack import Hidden, StackScorer, Weighed, taste, weigh
from twofold.errors import BadNumber
from twofold.evaluation.measure import user_ndcg
from twofold.features import Features
from twofold.federation.factors import ItemFactors

__all__ = ["CAUTION", "climb"]

#: Nats by which a bolder rung has to tell hidden entries better.
CAUTION: Final = 2.0
#: Share of each person's entries that is hidden: enough for so many in all, between these limits; and how many people
#: are asked at most. The less is hidden, the more the histories are like those that lists are made for.
ENOUGH_HIDDEN: Final = 400.0
LEAST_HIDDEN: Final = 0.1
MOST_HIDDEN: Final = 0.2
MOST_ASKED: Final = 300
ENOUGH_ASKED: Final = 200
#: Prior of the weights of use and taste.
CENTRE: Final = (0.5, 1.0)
#: People's worth of the others' use that is tried; of those that tell own people about as well, within so many nats,
#: the most is taken. One or two people cannot tell amounts apart, and then many strangers know more than they do.
AMOUNTS: Final = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0)
ALIKE: Final = 1.0
#: Ridges that are tried, in multiples of the default; only the last two in a catalog of more than `SHORT` items.
RIDGES: Final = (0.06, 0.25, 1.0, 4.0)
SHORT: Final = 1_500
#: Ridges of own rows as they are, in entries of average size: the more people, the larger those that are worth trying.
OWN_RIDGES: Final = (10.0, 30.0, 100.0, 300.0, 1_000.0)
MANY: Final = 1_000
#: How much of the others' taste counts, in people: first a multiple of the amount of their use, within these limits;
#: then `MORE` times as much, up to everybody, as long as that tells own people better by `STRONGER` nats.
TASTE_PER_USE: Final = 30.0
FEWEST: Final = 30.0
MOST: Final = 1_000.0
MORE: Final = 10.0
STRONGER: Final = 2.0
#: People from whom on implicit ALS is tried.
FACTOR_USERS: Final = 1_000
#: Multiples of the weight of use that are tried at the end.
LESS_USE: Final = (1.0, 0.5, 0.2, 0.0)
#: Items of a long catalog on which rungs are compared, the most used first, and the length of the list that is judged.
MOST_COLUMNS: Final = 20_000
TOP: Final = 10
#: People scored at once, at least, and numbers at once.
_BLOCK: Final = 16
_AT_ONCE: Final = 4_000_000
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
    fit : function of a side
        Fits it to an entity's rows.
    """

    kind: str
    step: int
    strength: float = 0.0
    fit: Callable[[Side], Scorer] | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Family:
    """One way to fit, the ridges it may take (the usual one is 1, or the middle), and the same with more of others."""

    kind: str
    step: int
    ridges: tuple[float, ...]
    fit: Callable[[Side, float], Scorer] = field(repr=False)
    strength: float = 0.0
    stronger: Callable[[], Family | None] = field(default=lambda: None, repr=False)

    @property
    def usual(self) -> int:
        """Where among the ridges to begin."""
        return self.ridges.index(1.0) if 1.0 in self.ridges else len(self.ridges) // 2

    def rung(self, at: int) -> Rung:
        """The candidate with one of the ridges."""
        fit, ridge = self.fit, self.ridges[at]
        return Rung(kind=self.kind, step=self.step, strength=self.strength, fit=lambda side: fit(side, ridge))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Tried:
    rung: Rung
    weighed: Weighed
    losses: Losses
    taste: Wide | None = field(default=None, repr=False)


def climb(
    rows: sparse.csr_array, shared: ItemFactors | None, settings: FitSettings, rest: Rest | None = None
) -> Adapted:
    """Fit the local model of an entity with counts.

    Parameters
    ----------
    rows : csr array (users, items)
        Private: bounded counts, canonical.
    shared : ItemFactors or None
        What the server sent; None fits the entity alone.
    settings : FitSettings
        Seed, threads and public features.
    rest : Rest, optional
        Sums over everybody else, if the rows are those of some people only: item-item weights are then fitted to all,
        and judged by entries hidden from these. Models that need rows are fitted to these alone.

    Examples
    --------
    >>> rows = sparse.csr_array(np.kron(np.eye(2), np.ones((20, 8))).astype(np.float32))
    >>> found = climb(rows, None, FitSettings(feedback="counts", lower=0, bound=1, rank=2))
    >>> int(found.scorer.one(np.array([0, 1]), np.ones(2))[2:].argmax()) < 6
    True
    """
    return _Climb(rows, shared, settings, rest).result()


class _Climb:
    def __init__(
        self, rows: sparse.csr_array, shared: ItemFactors | None, settings: FitSettings, rest: Rest | None
    ) -> None:
        self.rows, self.settings = rows, settings
        self.whole = Side(rows, rest)
        self.others: Others | None = None
        self.failed = self.stopped = ""
        self.tried: list[_Tried] = []
        if shared is not None:
            try:
                self.others = sound(lambda: others_of(shared, self.whole.unit, rest))
            except BadNumber:
                self.failed = "; what was shared was left out: its numbers overflow"
        self.amount = _amount(self.whole.unit, self.others)

    # What is hidden, and what is left

    @cached_property
    def _split(self) -> tuple[sparse.csr_array, sparse.csr_array, NDArray[np.intp]]:
        """Rows without the hidden entries, the hidden entries, and the people who are asked."""
        rng = np.random.default_rng([self.settings.seed, 6])
        lengths = np.diff(self.rows.indptr)
        owners = np.repeat(np.arange(self.rows.shape[0]), lengths)
        order = np.argsort(owners + rng.random(owners.size))
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
        use = np.argsort(-self._use(self.whole), kind="stable")[:MOST_COLUMNS]
        return np.union1d(use, held[asked].indices).astype(np.intp)

    @cached_property
    def _hidden(self) -> Hidden:
        train, held, asked = self._split
        return Hidden(history=_picked(train[asked], self._columns), held=_picked(held[asked], self._columns))

    # Use

    def _use(self, side: Side) -> Wide:
        return np.asarray(side.use + self._prior)

    @cached_property
    def _prior(self) -> Wide:
        """What is added to own use: some people's worth of the others' use, or a little of everything."""
        items = self.rows.shape[1]
        if self.amount.shared and self.others is not None:
            return np.asarray(self.amount.people * self.others.shares + _NOBODY)
        return np.full(items, self.amount.people / max(items, 1) + _NOBODY)

    # Rungs

    def _families(self) -> Iterator[list[Family]]:
        """Ways to fit that compete with one another, each with the ridges it may take; step by step."""
        users, items = self.whole.users, self.rows.shape[1]
        if items > MAX_ITEMS:
            yield [Family(kind="sparse-item-item", step=1, ridges=(1.0,), fit=lambda side, _: self._sparse(side))]
        else:
            own = OWN_RIDGES[1:] if users >= MANY else OWN_RIDGES[:-1]
            yield [Family(kind="item-item, unit rows", step=1, ridges=self._ridges, fit=unit_taste)]
            yield [Family(kind="item-item", step=1, ridges=own, fit=own_taste)]
        if users >= FACTOR_USERS:
            yield [Family(kind="ials", step=1, ridges=(1.0,), fit=lambda side, _: self._ials(side))]
        if items > MAX_ITEMS:
            return
        features, others = self.settings.features, self.others
        if features is not None:
            fit = partial(featured_taste, features=features)
            yield [Family(kind="features", step=2, ridges=self._ridges, fit=fit)]
        if others is not None and others.gram is not None:
            few, many = self._strengths
            yield [self._shared(few), self._shared(few, scaled=True), self._shared(many, scaled=True)]
            if features is not None:
                best = max((one for one in self.tried if one.rung.step == 3), key=lambda one: one.weighed.worth)
                yield [self._shared(max(many, best.rung.strength), scaled=True, features=features)]

    @property
    def _ridges(self) -> tuple[float, ...]:
        return RIDGES if self.rows.shape[1] <= SHORT else RIDGES[2:]

    def _shared(self, strength: float, *, scaled: bool = False, features: Features | None = None) -> Family:
        assert self.others is not None
        name = "shared taste" + (", own use" if scaled else "") + ("" if features is None else ", features")
        people = (self.amount.people if self.amount.shared else 1.0) if scaled else None
        fit = partial(shared_taste, others=self.others, strength=strength, people=people, features=features)
        most = self.others.users

        def stronger() -> Family | None:
            more = min(MORE * strength, most)
            return self._shared(more, scaled=scaled, features=features) if more > strength else None

        return Family(kind=name, step=3, ridges=self._ridges, strength=strength, fit=fit, stronger=stronger)

    @cached_property
    def _strengths(self) -> tuple[float, float]:
        """How many people the others' taste counts as: as alike as their use is, or many though their use differs."""
        assert self.others is not None
        people = self.amount.people if self.amount.shared else 0.0
        few = float(np.clip(TASTE_PER_USE * people, FEWEST, MOST))
        return min(few, self.others.users), min(MORE * few, MOST, self.others.users)

    def _sparse(self, side: Side) -> Scorer:
        return SparseItemFit(side.rows, threads=self.settings.threads).scorer()

    def _ials(self, side: Side) -> Scorer:
        fit = IalsFit(side.rows, seed=self.settings.seed, threads=self.settings.threads)
        return fit.scorer(stop=self._behind() if side is self._train else None)

    def _behind(self) -> Callable[[int, Scorer], bool]:
        """Whether implicit ALS will not catch up: each doubling of its epochs gains less than the one before."""
        rivals = [one for one in self.tried if one.rung.step <= 1 and one.rung.kind != "ials"]
        best, before = max(rivals, key=lambda one: one.weighed.worth), -math.inf

        def behind(epochs: int, scorer: Scorer) -> bool:
            nonlocal before
            found = self._weighed(Rung(kind="ials", step=1), [self._known, self._told(scorer)], centre=CENTRE)
            gained, before = found.weighed.worth - before, found.weighed.worth
            missing = best.weighed.worth - before
            if missing <= gained or found.losses.mean < best.losses.mean:
                return False
            self.stopped = f"; implicit ALS was stopped after {epochs} of {EPOCHS} epochs, {missing:.0f} nats behind"
            return True

        return behind

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
        failed = sum(not math.isfinite(one.weighed.worth) for one in tried)
        gain, error = paired(alone.losses, best.losses)
        return Adapted(
            scorer=scorer,
            kind=best.rung.kind,
            strength=self._pull(best),
            gain=gain,
            gain_error=error,
            table=tuple(self._line(one, taken=one is best) for one in tried),
            note=self._note(path, weights) + left_out(failed, len(tried)) + self.failed + self.stopped,
        )

    def _all_judged(self) -> list[_Tried]:
        """Every rung; only the best of each step keeps what it said, which takes much memory."""
        tried = self.tried
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
        """Use; then of every group of families the best at the usual ridge, tuned: more of the others, then ridges."""
        yield self._tried(Rung(kind="use", step=0))
        start = np.asarray(CENTRE)
        for group in self._families():
            first = [self._tried(one.rung(one.usual), start) for one in group]
            yield from first
            best = max(range(len(group)), key=lambda at: first[at].weighed.worth)
            family, here = group[best], first[best]
            while (more := family.stronger()) is not None:
                found = self._tried(more.rung(more.usual), here.weighed.weights)
                yield found
                if found.weighed.worth <= here.weighed.worth + STRONGER:
                    break
                family, here = more, found
            middle = here
            for way in (-1, 1):
                at, found = family.usual, here
                while 0 <= (at := at + way) < len(family.ridges):
                    found = self._tried(family.rung(at), here.weighed.weights)
                    yield found
                    if found.weighed.worth <= here.weighed.worth:
                        break
                    here = found
                if here is not middle:
                    break
            start = here.weighed.weights if math.isfinite(here.weighed.worth) else np.asarray(CENTRE)

    def _tried(self, rung: Rung, start: Wide | None = None) -> _Tried:
        if rung.fit is None:
            return self._weighed(rung, [self._known], centre=CENTRE[1:])
        try:
            told = sound(lambda: self._tastes(rung))
            return self._weighed(rung, [self._known, told], centre=CENTRE, start=start)
        except BadNumber:
            return _never(rung)

    @cached_property
    def _train(self) -> Side:
        return Side(self._split[0], self.whole.rest)

    @cached_property
    def _known(self) -> Wide:
        """Use without what is hidden, in the logarithm."""
        return np.asarray(np.log(self._use(self._train))[self._columns])

    @cached_property
    def _histories(self) -> list[sparse.csr_array]:
        """Histories of those who are asked, in blocks."""
        train, _, asked = self._split
        history, size = train[asked], max(_BLOCK, _AT_ONCE // max(train.shape[1], 1))
        return [history[start : start + size] for start in range(0, history.shape[0], size)]

    def _tastes(self, rung: Rung) -> Wide:
        assert rung.fit is not None
        return self._told(rung.fit(self._train))

    def _told(self, scorer: Scorer) -> Wide:
        short = self._columns.size < self.rows.shape[1]
        parts = [taste(scorer.scores(block)) for block in self._histories]
        found = np.concatenate([part[:, self._columns] for part in parts] if short else parts)
        if not np.isfinite(found).all():
            raise BadNumber("a score is NaN or infinite.")
        return found

    def _weighed(
        self, rung: Rung, parts: list[Wide], *, centre: tuple[float, ...], start: Wide | None = None
    ) -> _Tried:
        weighed = weigh(parts, self._hidden, centre=centre, start=start)
        scores = sum(weight * part for weight, part in zip(weighed.weights, parts, strict=True))
        told = parts[1] if len(parts) > 1 else None
        return _Tried(rung=rung, weighed=weighed, losses=self._losses(np.asarray(scores)), taste=told)

    def _losses(self, scores: Wide) -> Losses:
        hidden = self._hidden
        wide = np.broadcast_to(scores, hidden.history.shape)
        values = 1.0 - user_ndcg(wide, hidden.held, seen=hidden.history, n=TOP)
        return Losses(values=values, owners=np.arange(values.size))

    def _final(self, best: _Tried) -> tuple[StackScorer, tuple[float, float]]:
        """Fit to everything; less weight of use where that gives better lists."""
        use = np.log(self._use(self.whole))
        fit = best.rung.fit
        if fit is None:
            return StackScorer(use, inner=None, weights=(1.0, 0.0)), (1.0, 0.0)
        told = sound(lambda: self._tastes(best.rung)) if best.taste is None else best.taste
        first, second = (float(one) for one in best.weighed.weights)
        lists = [self._losses(part * first * self._known + second * told) for part in LESS_USE]
        weights = (LESS_USE[int(np.argmin([one.mean for one in lists]))] * first, second)
        inner = sound(lambda: fit(self.whole))
        scorer = StackScorer(use, inner=inner, weights=weights)
        if not np.isfinite(scorer.scores(self.rows[:_BLOCK])).all():
            raise BadNumber("a score is NaN or infinite.")
        return scorer, weights

    def _unasked(self) -> Adapted:
        """Nothing can be hidden: the shared model as it came, else use."""
        use = np.log(self._use(self.whole))
        inner, kind, strength = None, "use", 0.0
        if self.others is not None:
            strength = self.others.users
            if self.others.gram is not None:
                family = self._shared(self.others.users)
                try:
                    inner, kind = sound(lambda: family.fit(self.whole, 1.0)), family.kind
                except BadNumber:
                    self.failed = "; the others' taste was left out: fitting overflowed"
        why = "nobody here has two entries" if self.rows.nnz else "this entity has no entries of its own"
        taken = "the shared model as it came" if self.others is not None else "nothing was shared: the most used first"
        note = f"{why} to judge by: {taken}"
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
            line |= {"nats": -math.inf, "remark": UNUSABLE}
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
        here = [one for one in tried if one.rung.step == step]
        best = max(here, key=lambda one: one.weighed.worth, default=None)
        if best is not None and best.weighed.worth > path[-1].weighed.worth + CAUTION:
            path.append(_better_lists(best, here))
    return path


def _better_lists(best: _Tried, others: list[_Tried]) -> _Tried:
    """Among many people, prefer lists that are better by a standard error: nats also judge what no list shows."""
    if best.losses.values.size < ENOUGH_ASKED:
        return best
    gains = [paired(best.losses, one.losses) if one.losses.values.size else (-math.inf, 0.0) for one in others]
    clear = [gain - error for gain, error in gains]
    at = int(np.argmax(clear))
    return others[at] if clear[at] > 0 else best


def _never(rung: Rung) -> _Tried:
    """A rung whose numbers failed: shared factors may hold anything a server wrote."""
    nothing = Losses(values=np.zeros(0), owners=np.zeros(0, np.intp))
    return _Tried(
        rung=rung,
        losses=nothing,
        weighed=Weighed(weights=np.zeros(2), likelihood=-math.inf, worth=-math.inf),
    )


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
    """Nats by which people are told, and the most people's worth that tells them `ALIKE`."""
    total = np.asarray(unit.sum(axis=0)).ravel()
    lengths = np.asarray(unit.sum(axis=1)).ravel()
    # Rows of norm 1 count for as many entries as they have.
    entries = np.diff(unit.indptr)
    weight = unit.data * np.repeat(entries / np.maximum(lengths, 1e-300), entries)
    own, theirs = total[unit.indices] - unit.data, shares[unit.indices]
    told_by: dict[float, float] = {}
    for people in [one for one in AMOUNTS if one <= most] or [most]:
        told = np.log(np.maximum(own + people * theirs, _NOBODY))
        rest = np.log(np.maximum(total.sum() - lengths + people * shares.sum(), _NOBODY))
        told_by[people] = float(weight @ told - entries @ rest)
    best = max(told_by.values())
    return best, max(people for people, nats in told_by.items() if nats >= best - ALIKE)


def _picked(rows: sparse.csr_array, columns: NDArray[np.intp]) -> sparse.csr_array:
    return rows if columns.size == rows.shape[1] else sparse.csr_array(rows[:, columns])
