"""Exponential mechanism on integer scores, in log space and exact in law (McSherry and Talwar 2007)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from numpy.typing import ArrayLike

from twofold.privacy.budget import Number, PureDP, positive
from twofold.privacy.events import SelectionEvent
from twofold.privacy.grid import Grid, whole
from twofold.privacy.mechanisms.released import Released
from twofold.privacy.mechanisms.selection import check_scores, pick
from twofold.privacy.rng import Source, source
from twofold.privacy.unit import Unit

__all__ = ["ExponentialMechanism"]


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism:
    """Pick one candidate with probability ∝ exp(score/scale).

    Parameters
    ----------
    epsilon : number
        The price of the pick, above 0.
    sensitivity : number
        How far one unit can move any one score, in grid units. Public.
    monotone : bool
        True when one more unit moves all scores the same way (a sum of losses, a sum of counts). Then
        scale = sensitivity/ε; otherwise 2·sensitivity/ε.
    unit : Unit
        Whose presence is hidden.
    grid : Grid
        What one grid unit of a score is worth.

    Privacy
    -------
    Monotone, one unit added: every weight is multiplied by a factor in [1, e^(Δ/scale)] (or all in
    [e^(-Δ/scale), 1]), and so is their sum; the ratio of the two moves by at most e^(±Δ/scale). Otherwise
    weight and sum may move in opposite ways: e^(±2Δ/scale). Replace-one costs twice the monotone price.

    Examples
    --------
    >>> swap = ExponentialMechanism(epsilon=1, sensitivity=4, monotone=True, unit=Unit.person())
    >>> swap.scale
    Fraction(4, 1)
    >>> swap.release([-1000, 0, -2000]).value
    1
    """

    epsilon: Fraction
    sensitivity: Fraction
    monotone: bool
    unit: Unit
    grid: Grid

    def __init__(
        self, *, epsilon: Number, sensitivity: Number, monotone: bool, unit: Unit, grid: Grid | None = None
    ) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, name="epsilon"))
        object.__setattr__(self, "sensitivity", positive(sensitivity, name="sensitivity"))
        object.__setattr__(self, "monotone", monotone)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "grid", grid or Grid())

    @property
    def scale(self) -> Fraction:
        """Scale of the scores in grid units."""
        return self.sensitivity * (1 if self.monotone else 2) / self.epsilon

    @property
    def guarantee(self) -> PureDP:
        """What one pick promises."""
        return PureDP(epsilon=self.epsilon)

    def event(self, candidates: int, *, seeded: bool = False) -> SelectionEvent:
        """Describe a pick among that many candidates, before it is made."""
        return SelectionEvent(
            unit=self.unit,
            seeded=seeded,
            sensitivity=self.sensitivity,
            scale=self.scale,
            picks=1,
            candidates=candidates,
            monotone=self.monotone,
            grid=self.grid.step,
        )

    def release(self, scores: ArrayLike, *, rng: int | Source | None = None) -> Released[int]:
        """Pick one index of the scores; with a seed the release is marked not private."""
        integers, noise = whole(scores), source(rng)
        check_scores(integers, 1)
        event = self.event(integers.size, seeded=noise.seeded)
        return Released(value=int(pick(integers, self.scale, 1, noise)[0]), event=event)
