"""The local model of counts: from use alone, step by step, to what the others know; each step has to earn its place.

Rungs, from safe to bold:

0. *use*: how often an item was had here, with as much of the others' use as the entity's own people support;
1. *own taste*: item-item weights of own data (three scalings, several ridges), implicit ALS, or sparse weights in a
   long catalog;
2. *public features*: item-item weights pulled towards what public tables say;
3. *shared taste*: item-item weights pulled towards the denoised second moments of the others (`others`), as they came
   or brought to the entity's own use of each item.

Every rung above the first is stacked on use in the logarithm (`stack`), with weights that hidden entries of the own
people choose under a prior. Few people are asked several times, each time about other entries. The next rung is taken
only if it tells those entries better by `CAUTION` nats, so many candidates and few people do not make luck look like
knowledge. Everything here stays inside the entity and is free.
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
from twofold.entity.judged import CAUTION, CONFIDENT, Rung, Tried, failed, least_use, path
from twofold.entity.models.blend import Scorer, Wide
from twofold.entity.models.confidence import confident_factors
from twofold.entity.models.ials import IalsFit
from twofold.entity.models.item_item import MAX_ITEMS
from twofold.entity.models.others import Others, others_of
from twofold.entity.models.rungs import count_taste, featured_taste, own_taste, shared_taste, unit_taste
from twofold.entity.models.side import Rest, Side
from twofold.entity.models.sparse_items import SparseItemFit
from twofold.entity.models.stack import Hidden, StackScorer, taste, weigh
from twofold.entity.models.use import NOBODY, amount_of_use
from twofold.errors import BadNumber
from twofold.evaluation.measure import user_ndcg
from twofold.features import Features
from twofold.federation.factors import ItemFactors

__all__ = ["climb"]

#: Share of each person's entries that is hidden: enough for so many in all, between these limits. The less is hidden,
#: the more the histories are like those that lists are made for. Where people are many, no more than so many of one
#: person are: otherwise those with the longest histories decide for all.
ENOUGH_HIDDEN: Final = 400.0
LEAST_HIDDEN: Final = 0.1
MOST_HIDDEN: Final = 0.2
MOST_OF_ONE: Final = 5
#: How many people are asked at most: half as many as there are items, between these limits. A fit takes as long as the
#: cube of the items, so in a long catalog answers of more people cost little beside it.
LEAST_ASKED: Final = 300
MOST_ASKED: Final = 2_000
#: Other entries are hidden, again and again, until there are so many hidden ones in all; at most so often, and only
#: while the tables that each time costs, of items by items or few people, have no more cells than this together.
WELL_HIDDEN: Final = 2_000.0
MOST_TIMES: Final = 5
MOST_CELLS: Final = 400_000
#: Prior of the weights of use and taste.
CENTRE: Final = (0.5, 1.0)
#: Ridges that are tried, in multiples of the default; only the last two in a catalog of more than `SHORT` items.
RIDGES: Final = (0.06, 0.25, 1.0, 4.0)
SHORT: Final = 1_500
#: Ridges of own rows as they are, in entries of average size: the more people, the larger those that are worth trying.
OWN_RIDGES: Final = (10.0, 30.0, 100.0, 300.0, 1_000.0)
MANY: Final = 1_000
#: Ridges of own counts as they are, in items of average square.
COUNT_RIDGES: Final = (17.0, 70.0, 280.0)
#: How much of the others' taste counts, in people: first a multiple of the amount of their use, within these limits;
#: then `MORE` times as much, up to everybody, as long as that tells own people better by `STRONGER` nats.
TASTE_PER_USE: Final = 30.0
FEWEST: Final = 30.0
MOST: Final = 1_000.0
MORE: Final = 10.0
STRONGER: Final = 2.0
#: People from whom on implicit ALS is tried, with counts as what is to be told.
FACTOR_USERS: Final = 1_000
#: Nats by which a way to fit may be behind another one of its step before its ridges are no longer searched, unless its
#: lists are better; for up to `WELL_HIDDEN` hidden entries, in proportion for more.
HOPELESS: Final = 100.0
#: Tables of people by items up to this size get implicit ALS with counts as confidence: in larger ones its lists were
#: no better, and it cost as much as all others together.
SMALL_TABLE: Final = 20_000
#: Multiples of the weight of use that are tried at the end.
LESS_USE: Final = (1.0, 0.5, 0.2, 0.0)
#: A weight below this is told as nothing.
LEAST_SHOWN: Final = 0.005
#: Items of a long catalog on which rungs are compared, the most used first, and the length of the list that is judged.
MOST_COLUMNS: Final = 20_000
TOP: Final = 10
#: People scored at once, at least, and numbers at once.
_BLOCK: Final = 16
_AT_ONCE: Final = 4_000_000


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
        return Rung(
            kind=self.kind,
            step=self.step,
            strength=self.strength,
            ridge=ridge if len(self.ridges) > 1 else None,
            fit=lambda side: fit(side, ridge),
        )


class _Fold:
    """Rows without what is hidden, the people who are asked, their histories, and what is hidden of them."""

    def __init__(self, side: Side, held: sparse.csr_array, asked: NDArray[np.intp]) -> None:
        self.side, self.held, self.asked = side, held, asked
        self.history = side.rows[asked]


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
        self, rows: sparse.csr_array, shared: ItemFactors | None, settings: FitSettings, rest: Rest | None = None
    ) -> None:
        self.rows, self.settings = rows, settings
        self.whole = Side(rows, rest)
        self.others: Others | None = None
        self.failed = self.stopped = ""
        self.tried: list[Tried] = []
        if shared is not None:
            try:
                self.others = sound(lambda: others_of(shared, self.whole))
            except BadNumber:
                self.failed = "; what was shared was left out: its numbers overflow"
        self.amount = amount_of_use(self.whole.unit, self.others, caution=CAUTION)

    # What is hidden, and what is left

    @cached_property
    def _folds(self) -> list[_Fold]:
        """Every time something is hidden: other entries of the same people, until enough were hidden."""
        rng = np.random.default_rng([self.settings.seed, 6])
        lengths = np.diff(self.rows.indptr)
        owners = np.repeat(np.arange(self.rows.shape[0]), lengths)
        order = np.argsort(owners + rng.random(owners.size))
        place = np.empty(owners.size, np.intp)
        place[order] = np.arange(owners.size) - np.repeat(self.rows.indptr[:-1], lengths)
        share = min(max(ENOUGH_HIDDEN / max(owners.size, 1), LEAST_HIDDEN), MOST_HIDDEN)
        number = np.where(lengths > 1, np.maximum(np.rint(share * lengths), 1), 0)
        times = min(math.ceil(WELL_HIDDEN / max(share * owners.size, 1.0)), MOST_TIMES)
        times = max(min(times, MOST_CELLS // max(self._cells, 1)), 1)
        if lengths.size >= FACTOR_USERS:  # implicit ALS may be stopped on the way, so it is fitted once
            times, number = 1, np.minimum(number, MOST_OF_ONE)
        most = int(np.clip(self.rows.shape[1] // 2, LEAST_ASKED, MOST_ASKED))
        folds = []
        for time in range(times):
            held = (place >= time * number[owners]) & (place < (time + 1) * number[owners])
            asked = np.flatnonzero(np.bincount(owners[held], minlength=lengths.size))
            if asked.size > most:
                asked = np.sort(rng.choice(asked, most, replace=False))
            if asked.size:
                side = Side(keep_entries(self.rows, ~held), self.whole.rest, rough=True)
                folds.append(_Fold(side, keep_entries(self.rows, held)[asked], asked))
        return folds

    @property
    def _cells(self) -> int:
        """Size of the largest table that a rung makes: of all pairs of items, unless only few own people count."""
        items = int(self.rows.shape[1])
        pulled = self.settings.features is not None or (self.others is not None and self.others.gram is not None)
        return items * (self.whole.users if self.whole.few and not pulled else items)

    @cached_property
    def _columns(self) -> NDArray[np.intp]:
        """Items on which rungs are compared: all, or the most used of a long catalog and what was hidden."""
        items = self.rows.shape[1]
        if items <= MOST_COLUMNS:
            return np.arange(items)
        use = np.argsort(-self._use(self.whole), kind="stable")[:MOST_COLUMNS]
        return np.union1d(use, np.concatenate([one.held.indices for one in self._folds])).astype(np.intp)

    @cached_property
    def _hidden(self) -> Hidden:
        history, held = (
            sparse.csr_array(sparse.vstack([_picked(rows, self._columns) for rows in parts], format="csr"))
            for parts in ([one.history for one in self._folds], [one.held for one in self._folds])
        )
        return Hidden(history=history, held=held)

    # Use

    def _use(self, side: Side) -> Wide:
        return np.asarray(side.use + self._prior)

    @cached_property
    def _prior(self) -> Wide:
        """What is added to own use: some people's worth of the others' use, or a little of everything."""
        items = self.rows.shape[1]
        if self.amount.shared and self.others is not None:
            return np.asarray(self.amount.people * self.others.shares + NOBODY)
        return np.full(items, self.amount.people / max(items, 1) + NOBODY)

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
            if self.rows.nnz and self.rows.data.max() > 1 and self.whole.rest is None:  # it needs all rows
                yield [Family(kind="item-item, counts", step=1, ridges=COUNT_RIDGES, fit=count_taste)]
        if users >= FACTOR_USERS:
            yield [Family(kind="ials", step=1, ridges=(1.0,), fit=lambda side, _: self._ials(side))]
        elif users * items <= SMALL_TABLE:
            yield [Family(kind=CONFIDENT, step=1, ridges=(1.0,), fit=lambda side, _: self._confident(side))]
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
        return fit.scorer(stop=None if side is self.whole else self._behind())

    def _confident(self, side: Side) -> Scorer:
        return confident_factors(side.rows, seed=self.settings.seed, threads=self.settings.threads)

    def _behind(self) -> Callable[[int, Scorer], bool]:
        """Whether implicit ALS will not catch up: each doubling of its epochs gains less than the one before."""
        rivals = [one for one in self.tried if one.rung.step <= 1 and one.rung.kind != "ials"]
        best, before = max(rivals, key=lambda one: one.weighed.worth), -math.inf

        def behind(epochs: int, scorer: Scorer) -> bool:
            nonlocal before
            told = self._told([scorer])
            found = self._weighed(Rung(kind="ials", step=1), [self._known, told], centre=CENTRE)
            gained, before = found.weighed.worth - before, found.weighed.worth
            missing = best.weighed.worth - before
            if missing <= gained or found.losses.mean < best.losses.mean:
                return False
            self.stopped = f"; implicit ALS was stopped after {epochs} of {EPOCHS} epochs, {missing:.0f} nats behind"
            return True

        return behind

    # The climb

    def result(self) -> Adapted:
        if not self._folds:
            return self._unasked()
        tried = self._all_judged()
        while True:
            way = path(tried)
            try:
                scorer, weights = self._final(way[-1])
                break
            except BadNumber:
                tried = [failed(one.rung) if one is way[-1] else one for one in tried]
        best = way[-1]
        alone = next(one for one in reversed(way) if one.rung.step <= 1)
        unusable = sum(not math.isfinite(one.weighed.worth) for one in tried)
        gain, error = paired(alone.losses, best.losses)
        return Adapted(
            scorer=scorer,
            kind=best.rung.kind,
            strength=self._pull(best),
            gain=gain,
            gain_error=error,
            table=tuple(self._line(one, taken=one is best) for one in tried),
            note=self._note(way, weights) + left_out(unusable, len(tried)) + self.failed + self.stopped,
        )

    def _all_judged(self) -> list[Tried]:
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

    def _judged(self) -> Iterator[Tried]:
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
            if self._hopeless(here):
                continue
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

    def _hopeless(self, here: Tried) -> bool:
        """Whether another way of the same step is far ahead, and its lists are no worse."""
        rivals = [one for one in self.tried if one.rung.step == here.rung.step]
        best = max(rivals, key=lambda one: one.weighed.worth, default=here)
        behind = best.weighed.worth - here.weighed.worth
        limit = HOPELESS * max(1.0, self._hidden.held.nnz / WELL_HIDDEN)
        return math.isfinite(behind) and behind > limit and best.losses.mean <= here.losses.mean

    def _tried(self, rung: Rung, start: Wide | None = None) -> Tried:
        if rung.fit is None:
            return self._weighed(rung, [self._known], centre=CENTRE[1:])
        try:
            told = sound(lambda: self._tastes(rung))
            return self._weighed(rung, [self._known, told], centre=CENTRE, start=start)
        except BadNumber:
            return failed(rung)

    @cached_property
    def _known(self) -> Wide:
        """Use without what is hidden, in the logarithm: a row per fold's person, or one for all where there is one."""
        parts = [np.log(self._use(one.side))[self._columns] for one in self._folds]
        if len(parts) == 1:
            return np.asarray(parts[0])
        return np.repeat(np.asarray(parts), [one.asked.size for one in self._folds], axis=0)

    def _tastes(self, rung: Rung) -> Wide:
        fit = rung.fit
        assert fit is not None
        return self._told([fit(one.side) for one in self._folds])

    def _told(self, scorers: list[Scorer]) -> Wide:
        """What one model of each fold says of the histories of those who are asked, a block at a time."""
        size = max(_BLOCK, _AT_ONCE // max(self.rows.shape[1], 1))
        short = self._columns.size < self.rows.shape[1]
        parts = []
        for one, scorer in zip(self._folds, scorers, strict=True):
            for start in range(0, one.asked.size, size):
                told = taste(scorer.scores(one.history[start : start + size]))
                parts.append(told[:, self._columns] if short else told)
        found = np.concatenate(parts)
        if not np.isfinite(found).all():
            raise BadNumber("a score is NaN or infinite.")
        return found

    def _weighed(self, rung: Rung, parts: list[Wide], *, centre: tuple[float, ...], start: Wide | None = None) -> Tried:
        weighed = weigh(parts, self._hidden, centre=centre, start=start)
        scores = sum(weight * part for weight, part in zip(weighed.weights, parts, strict=True))
        told = parts[1] if len(parts) > 1 else None
        return Tried(rung=rung, weighed=weighed, losses=self._losses(np.asarray(scores)), taste=told)

    def _losses(self, scores: Wide) -> Losses:
        hidden = self._hidden
        wide = np.broadcast_to(scores, hidden.history.shape)
        values = 1.0 - user_ndcg(wide, hidden.held, seen=hidden.history, n=TOP)
        return Losses(values=values, owners=np.arange(values.size))

    def _final(self, best: Tried) -> tuple[StackScorer, tuple[float, float]]:
        """Fit to everything; less weight of use where lists allow it (`least_use`)."""
        use = np.log(self._use(self.whole))
        fit = best.rung.fit
        if fit is None:
            return StackScorer(use, inner=None, weights=(1.0, 0.0)), (1.0, 0.0)
        told = sound(lambda: self._tastes(best.rung)) if best.taste is None else best.taste
        first, second = (float(one) for one in best.weighed.weights)
        lists = [self._losses(part * first * self._known + second * told) for part in LESS_USE]
        weights = (LESS_USE[least_use(lists, self._hidden.held.nnz)] * first, second)
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

    def _pull(self, best: Tried) -> float:
        if best.rung.step == 3:
            return best.rung.strength
        return self.amount.people if self.amount.shared else 0.0

    def _line(self, one: Tried, *, taken: bool) -> dict[str, Any]:
        line: dict[str, Any] = {
            "kind": one.rung.kind,
            "strength": one.rung.strength,
            "loss": one.losses.mean,
            "error": one.losses.error,
            "nats": one.weighed.worth,
        }
        if one.rung.ridge is not None:
            line["ridge"] = one.rung.ridge
        if not math.isfinite(one.weighed.worth):
            line |= {"nats": -math.inf, "remark": UNUSABLE}
        return line | ({"taken": True} if taken else {})

    def _note(self, way: list[Tried], weights: tuple[float, float]) -> str:
        use = (
            f"use of {self.amount.people:g} people of the others counts with the own"
            if self.amount.shared
            else "use is the own" + ("" if self.others is None else ": the others' does not tell it better")
        )
        best = way[-1]
        if len(way) == 1:
            return f"the most used items first; {use}; nothing bolder told hidden entries better by {CAUTION:g} nats"
        gained = best.weighed.worth - way[-2].weighed.worth
        people = f", worth {best.rung.strength:,.0f} own people" if best.rung.step == 3 else ""
        beside = "use weighs nothing" if weights[0] < LEAST_SHOWN else f"with use, weight {weights[0]:.2f}; {use}"
        return (
            f"{best.rung.words}{people}, weight {weights[1]:.2f}, {beside}; "
            f"hidden entries are told better than by {way[-2].rung.words} by {gained:.1f} nats"
        )


def _picked(rows: sparse.csr_array, columns: NDArray[np.intp]) -> sparse.csr_array:
    return rows if columns.size == rows.shape[1] else sparse.csr_array(rows[:, columns])
