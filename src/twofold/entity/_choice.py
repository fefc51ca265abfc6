"""Which of the judged candidates an entity takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from twofold.entity._candidates import Judged, beyond_measure
from twofold.entity.validation import Losses, paired

__all__ = ["CAUTION", "Choice", "choose"]

#: A model has to gain this many of its standard errors over the best one alone before it is any better.
CAUTION = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """The candidate taken, what it gains over the best one alone, and why in words."""

    best: Judged
    gain: float
    error: float
    note: str


def choose(judged: Sequence[Judged]) -> Choice:
    """Take the candidate with the largest gain over the best one alone, less half the standard error of that gain.

    Gain and error are of the same held-out entries, so what makes some users harder than others drops out. The best one
    alone has gain and error 0: nothing that is only neutral, or better by luck as likely as not, takes its place. An
    entity too small for a model of its own still moves, because there the gain is many times its error.

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
    alone = min((one for one in usable if one.candidate.strength == 0), key=_order, default=min(usable, key=_order))
    gains = [paired(_losses(alone), _losses(one)) for one in usable]
    number = max(range(len(usable)), key=lambda at: (_cautious(*gains[at]), usable[at] is alone))
    gain, error = gains[number]
    said = _words(usable[number], gain, error) if alone.candidate.strength == 0 else _asked(usable[number])
    note = said + _left_out(len(judged) - len(usable), len(judged))
    return Choice(best=usable[number], gain=gain, error=error, note=note)


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
        return f"{kind}, alone: nothing shared was better on held-out entries by more than half a standard error"
    much = "the shared model as it came" if math.isinf(strength) else f"the shared model weighs {strength:g} users"
    return f"{kind}, {much}: held-out loss smaller than alone by {gain:.4f} (standard error {error:.4f})"


def _asked(best: Judged) -> str:
    """Where the strength was given there is nothing to say about alone: only kinds were compared, with each other."""
    return f"{best.candidate.kind}, the better kind at the strength asked for; not compared with alone"


def _left_out(number: int, tried: int) -> str:
    return f"; {number} of {tried} models left out, their numbers are beyond all measure" if number else ""
