"""Which of the judged candidates an entity takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from twofold.entity._candidates import Judged, beyond_measure
from twofold.entity.validation import Losses, paired

__all__ = ["CAUTION", "Choice", "choose"]

#: A step away from an entity's own model, to public features and then to what was shared, has to gain this many of its
#: standard errors. Of 0 to 3, set on development splits: the larger, the fewer entities take what does them harm.
CAUTION = 2.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """The candidate taken, what it gains over the best one alone, and why in words."""

    best: Judged
    gain: float
    error: float
    note: str


def choose(judged: Sequence[Judged]) -> Choice:
    """Start from the best of the entity's own models and leave it only for one that is clearly better.

    The first step is to public features, the second to anything shared. A step is taken to the candidate with the
    largest gain less `CAUTION` standard errors of that gain, if anything is left of it. Gain and error are of the same
    held-out entries, so what makes some users harder than others drops out. Nothing that is only neutral takes the
    place of the entity's own model, and of many candidates one that is better by luck seldom does. An entity too small
    for a model of its own still moves, because there the gain is many times its error.

    A candidate with a remark is never taken.

    Raises
    ------
    BadNumber
        All of them have one.
    """
    usable = [one for one in judged if not one.remark]
    if not usable:
        raise beyond_measure()
    if len(judged) == 1:
        return Choice(best=judged[0], gain=0.0, error=0.0, note="as asked for; nothing was compared")
    own, public, shared = ([one for one in usable if _step(one) == step] for step in range(3))
    alone = min(own or public or shared, key=_order)
    best = alone
    for further in (public, shared):
        best = _further(best, further)
    gain, error = paired(_losses(alone), _losses(best))
    said = _words(best, gain, error) if alone.candidate.strength == 0 else _asked(best)
    note = said + _left_out(len(judged) - len(usable), len(judged))
    return Choice(best=best, gain=gain, error=error, note=note)


def _step(one: Judged) -> int:
    """How far a candidate is from the entity's own data: 0 nothing else, 1 public features, 2 what was shared."""
    if one.candidate.strength != 0:
        return 2
    return 1 if one.candidate.kind == "features" else 0


def _further(held: Judged, others: Sequence[Judged]) -> Judged:
    """Take the best of the others if it is clearly better than the one held, that one otherwise."""
    worth = [_cautious(*paired(_losses(held), _losses(one))) for one in others]
    best = max(range(len(others)), key=worth.__getitem__, default=None)
    return held if best is None or worth[best] <= 0 else others[best]


def _cautious(gain: float, error: float) -> float:
    return gain - CAUTION * error


def _order(one: Judged) -> tuple[float, float]:
    return (_losses(one).mean, one.candidate.strength)


def _losses(one: Judged) -> Losses:
    assert one.losses is not None
    return one.losses


def _words(best: Judged, gain: float, error: float) -> str:
    kind, strength = best.candidate.kind, best.candidate.strength
    if strength == 0:
        where = "public features" if kind == "features" else "alone"
        return f"{kind}, {where}: nothing shared was better on held-out entries by {CAUTION:g} standard errors or more"
    much = "the shared model as it came" if math.isinf(strength) else f"the shared model weighs {strength:g} users"
    return f"{kind}, {much}: held-out loss smaller than alone by {gain:.4f} (standard error {error:.4f})"


def _asked(best: Judged) -> str:
    """Where the strength was given there is nothing to say about alone: only kinds were compared, with each other."""
    return f"{best.candidate.kind}, the better kind at the strength asked for; not compared with alone"


def _left_out(number: int, tried: int) -> str:
    return f"; {number} of {tried} models left out, their numbers are beyond all measure" if number else ""
