"""Picks by integer scores: the exponential mechanism and the one-shot Gumbel top-s, exact in law.

A pick falls on j with probability proportional to exp(q_j/scale) (McSherry and Talwar 2007); the picked one is taken
out and the next pick is made among the rest. Durfee and Rogers 2019: this is exactly the law of adding Gumbel(scale)
noise to every score once and reading off the s largest in order. So the one-shot mechanism needs no Gumbel variable,
and no answer to the floating-point question of how finely one is rounded.

Why it is exact
---------------
A pick is inverse-cdf sampling with one uniform number u. Weights relative to the largest score are computed in log
space, exp(-(max q - q_j)/scale), by `exp_filter`, each to a part of 2^-41; their running sum adds a part of n·2^-53. If
u·W stays on the same index when moved by these errors, the index is proven; otherwise all weights are bounded in
integer arithmetic and as many bits of u are drawn as it takes (`twofold.privacy.mechanisms.lazy`). Weights too small
for floating point are covered by the absolute part of the margin.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from twofold import checks
from twofold.errors import BadPrivacyParameter
from twofold.privacy.budget import Number, PureDP, positive
from twofold.privacy.events import Released, SelectionEvent
from twofold.privacy.grid import Grid, Integers, whole
from twofold.privacy.mechanisms.lazy import RELATIVE, exp_filter, exp_minus, resolve
from twofold.privacy.rng import Source, source
from twofold.privacy.unit import Unit

__all__ = ["ExponentialMechanism", "GumbelTop", "pick"]


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
        """The guarantee of one pick."""
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
        checks.whole("picks", picks, error=BadPrivacyParameter)
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
        """The guarantee of all picks together."""
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


def pick(scores: Integers, scale: Fraction, picks: int, source: Source) -> Integers:
    """Pick `picks` different indices, each with probability ∝ exp(score/scale) among those left.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> pick(np.array([0, 1000, 2000]), Fraction(1), 2, source())
    array([2, 1])
    """
    left = np.arange(scores.size)
    picked = np.empty(picks, dtype=np.int64)
    for turn in range(picks):
        gaps = scores[left].max() - scores[left]
        place = _one(gaps, scale, source)
        picked[turn] = left[place]
        left = np.delete(left, place)
    return picked


def check_scores(scores: Integers, picks: int) -> None:
    """Refuse scores that are not one list of at least `picks` candidates; only public sizes are named.

    Examples
    --------
    >>> check_scores(np.array([1, 2]), 3)
    Traceback (most recent call last):
    twofold.errors.BadPrivacyParameter: there are fewer candidates than picks...
    """
    if scores.ndim != 1:
        raise BadPrivacyParameter(
            "scores must be one list.", found=f"an array of {scores.ndim} dimensions", parameter="scores"
        )
    if scores.size < picks:
        raise BadPrivacyParameter(
            "there are fewer candidates than picks.",
            found=f"{scores.size} candidates, {picks} picks",
            parameter="picks",
        )


def _one(gaps: Integers, scale: Fraction, source: Source) -> int:
    word = int(source.words(1)[0])
    running = np.cumsum(exp_filter(gaps.astype(np.float64) * float(1 / scale)))
    total = float(running[-1])
    aim = (word >> 11) * 2.0**-53 * total
    margin = total * (2 * RELATIVE + (gaps.size + 4) * 2.0**-52) + gaps.size * 2.0**-90
    first, last = np.searchsorted(running, [aim - margin, aim + margin], side="right")
    if first == last and first < gaps.size:
        return int(first)
    return resolve(lambda bits: _cumulative(gaps, scale, bits), word, 64, source)


def _cumulative(gaps: Integers, scale: Fraction, bits: int) -> tuple[list[int], list[int]]:
    """Integer bounds of 2^bits · P(index <= j)."""
    precision = bits + gaps.size.bit_length() + 8
    known = {gap: exp_minus(gap / scale, precision) for gap in map(int, np.unique(gaps))}
    lows, highs, low, high = [], [], 0, 0
    for gap in gaps.tolist():
        low, high = low + known[gap][0], high + known[gap][1]
        lows.append(low)
        highs.append(high)
    full = 1 << bits
    at_least = [(one << bits) // high for one in lows[:-1]]
    at_most = [min(full, -((-one << bits) // low)) for one in highs[:-1]]
    return [*at_least, full], [*at_most, full]
