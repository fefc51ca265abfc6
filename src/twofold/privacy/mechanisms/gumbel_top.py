"""One-shot Gumbel top-s: which s items have the largest scores, at a price of s picks (Durfee and Rogers
2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from numpy.typing import ArrayLike

from twofold.errors import BadPrivacyParameter
from twofold.privacy.budget import Number, PureDP, positive
from twofold.privacy.events import SelectionEvent
from twofold.privacy.grid import Grid, Integers, whole
from twofold.privacy.mechanisms.released import Released
from twofold.privacy.mechanisms.selection import check_scores, pick
from twofold.privacy.rng import Source, source
from twofold.privacy.unit import Unit

__all__ = ["GumbelTop"]


@dataclass(frozen=True, kw_only=True)
class GumbelTop:
    """Indices of the `picks` largest noisy scores, in order; the law of scores plus Gumbel(scale) noise.

    Parameters
    ----------
    epsilon : number
        The price of all picks together, above 0; one pick costs epsilon/picks.
    picks : int
        How many items to pick. Public.
    sensitivity : number
        How far one unit can move any one score, in grid units. Public.
    monotone : bool
        True when one more unit moves all scores the same way, as sums of non-negative values do.
    unit : Unit
        Whose presence is hidden.
    grid : Grid
        What one grid unit of a score is worth.

    Paper
    -----
    Algorithm 1 line 2. The scale here is s·Δ/ε (monotone) or 2·s·Δ/ε, and depends on public numbers only.

    Deviations
    ----------
    The paper types a Gumbel scale proportional to ε·|μ|: data-dependent, zero on zeros and the wrong way up.

    Privacy
    -------
    s picks without replacement, each an exponential mechanism at ε/s on what is left; adaptive composition
    adds them up, and the bound is attained (all weight on s items that the unit has, none of them picked).

    Examples
    --------
    >>> top = GumbelTop(epsilon=1, picks=2, sensitivity=1, monotone=True, unit=Unit.person())
    >>> top.scale
    Fraction(2, 1)
    >>> top.release([0, 1000, 2000]).value
    array([2, 1])
    """

    epsilon: Fraction
    picks: int
    sensitivity: Fraction
    monotone: bool
    unit: Unit
    grid: Grid

    def __init__(
        self,
        *,
        epsilon: Number,
        picks: int,
        sensitivity: Number,
        monotone: bool,
        unit: Unit,
        grid: Grid | None = None,
    ) -> None:
        if isinstance(picks, bool) or not isinstance(picks, int) or picks < 1:
            raise BadPrivacyParameter("picks is a whole number from 1.", found=repr(picks))
        object.__setattr__(self, "epsilon", positive(epsilon, name="epsilon"))
        object.__setattr__(self, "picks", picks)
        object.__setattr__(self, "sensitivity", positive(sensitivity, name="sensitivity"))
        object.__setattr__(self, "monotone", monotone)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "grid", grid or Grid())

    @property
    def scale(self) -> Fraction:
        """Scale of the Gumbel noise in grid units."""
        return self.picks * self.sensitivity * (1 if self.monotone else 2) / self.epsilon

    @property
    def guarantee(self) -> PureDP:
        """What all picks together promise."""
        return PureDP(epsilon=self.epsilon)

    def event(self, candidates: int, *, seeded: bool = False) -> SelectionEvent:
        """Describe the picks among that many candidates, before they are made."""
        return SelectionEvent(
            unit=self.unit,
            seeded=seeded,
            sensitivity=self.sensitivity,
            scale=self.scale,
            picks=self.picks,
            candidates=candidates,
            monotone=self.monotone,
            grid=self.grid.step,
        )

    def release(self, scores: ArrayLike, *, rng: int | Source | None = None) -> Released[Integers]:
        """Pick indices of the scores; with a seed the release is marked not private."""
        integers, noise = whole(scores), source(rng)
        check_scores(integers, self.picks)
        event = self.event(integers.size, seeded=noise.seeded)
        return Released(value=pick(integers, self.scale, self.picks, noise), event=event)
