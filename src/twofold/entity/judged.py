"""Rungs that were tried on hidden entries, and which of them is taken: caution, and lists beside nats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from twofold.entity.candidates import Losses, paired
from twofold.entity.models.blend import Scorer, Wide
from twofold.entity.models.side import Side
from twofold.entity.models.stack import Weighed

__all__ = ["CAUTION", "CONFIDENT", "Rung", "Tried", "failed", "least_use", "path"]

#: Nats by which a bolder rung has to tell hidden entries better.
CAUTION: Final = 2.0
#: Implicit ALS with counts as how sure an entry is. Its lists are better than its nats say (0017), so it is taken
#: unless another of its step is ahead by so many nats, or has lists that are better by `CLEARLY` errors.
CONFIDENT: Final = "implicit ALS, counts as confidence"
BEHIND: Final = 10.0
#: Number of lists (a person asked several times has several) from which on lists count beside nats.
ENOUGH_ASKED: Final = 200
#: Use weighs the least that gives lists which are not worse than the best ones by so many standard errors, from so many
#: lists and so many hidden entries on; before, what gives the best. Lists of one person are taken as independent.
CLEARLY: Final = 2.0
MANY_ASKED: Final = 100
MANY_HIDDEN: Final = 400


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
    ridge : float or None
        As tables show it; None where there is one only.
    fit : function of a side
        Fits it to an entity's rows.
    """

    kind: str
    step: int
    strength: float = 0.0
    ridge: float | None = None
    fit: Callable[[Side], Scorer] | None = field(default=None, repr=False)

    @property
    def words(self) -> str:
        """How sentences name it."""
        return "implicit ALS" if self.kind == "ials" else self.kind


@dataclass(frozen=True, kw_only=True, eq=False)
class Tried:
    """A rung, its weights and what they are worth, its lists and what it said."""

    rung: Rung
    weighed: Weighed
    losses: Losses
    taste: Wide | None = field(default=None, repr=False)


def path(tried: list[Tried]) -> list[Tried]:
    """The rungs that are climbed, the last of which is taken; a step has to be worth more than all that is below it."""
    found, below = [tried[0]], tried[0].weighed.worth
    for step in (1, 2, 3):
        every = [one for one in tried if one.rung.step == step]
        here = _trusted(every, below + CAUTION)
        best = max(here, key=lambda one: one.weighed.worth, default=None)
        if best is not None and best.weighed.worth > below + CAUTION:
            found.append(_better_lists(best, here))
        below = max([below, *(one.weighed.worth for one in every)])
    return found


def _trusted(here: list[Tried], needed: float) -> list[Tried]:
    """Give the confident factors alone, or all the others if one of them tells or lists clearly better.

    Factors below the worth `needed` to be climbed give way, too, or the entity would be left with less than it has.
    Lists count as independent, also those of one person.
    """
    rivals = [one for one in here if one.rung.kind != CONFIDENT]
    sure = next((one for one in here if one.rung.kind == CONFIDENT and one.weighed.worth > needed), None)
    known = [one for one in rivals if math.isfinite(one.weighed.worth)]
    if sure is None or not known:
        return rivals if sure is None else [sure]
    behind = max(one.weighed.worth for one in known) - sure.weighed.worth
    gain, error = paired(min(known, key=lambda one: one.losses.mean).losses, sure.losses)
    return [sure] if behind <= BEHIND and gain >= -CLEARLY * error else rivals


def _better_lists(best: Tried, others: list[Tried]) -> Tried:
    """Among many people, prefer lists that are better by a standard error: nats also judge what no list shows."""
    if best.losses.values.size < ENOUGH_ASKED:
        return best
    gains = [paired(best.losses, one.losses) if one.losses.values.size else (-math.inf, 0.0) for one in others]
    clear = [gain - error for gain, error in gains]
    at = int(np.argmax(clear))
    return others[at] if clear[at] > 0 else best


def failed(rung: Rung) -> Tried:
    """A rung whose numbers failed: shared factors may hold anything a server wrote."""
    nothing = Losses(values=np.zeros(0), owners=np.zeros(0, np.intp))
    return Tried(
        rung=rung,
        losses=nothing,
        weighed=Weighed(weights=np.zeros(2), likelihood=-math.inf, worth=-math.inf),
    )


def least_use(lists: Sequence[Losses], hidden: int) -> int:
    """Choose among weights of use, from the largest to 0, by the lists they give.

    Parameters
    ----------
    lists : sequence of Losses
        Of each weight.
    hidden : int
        Number of hidden entries.

    Examples
    --------
    >>> worse, better = (Losses(values=np.tile([loss, 0.5], 50), owners=np.arange(100)) for loss in (0.6, 0.4))
    >>> least_use([better, worse], 1_000), least_use([worse, better], 1_000), least_use([better, better], 1_000)
    (0, 1, 1)
    """
    best = min(range(len(lists)), key=lambda at: lists[at].mean)
    if lists[best].values.size < MANY_ASKED or hidden < MANY_HIDDEN:
        return best
    worse = [paired(one, lists[best]) for one in lists]
    return max(at for at, (by, error) in enumerate(worse) if by <= CLEARLY * error)
