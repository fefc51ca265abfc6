r"""Discrete Laplace noise on integers, whole or as one party's share: pure ε-differential privacy.

The noise: Ghosh, Roughgarden and Sundararajan 2009; Canonne, Kamath and Steinke 2020. H shares add up to exactly
one noise, as shown below.

Discrete Laplace noise of scale b is G - G' with G, G' geometric, q = e^{-1/b}. A geometric variable is
infinitely divisible: it is a sum of Poisson(-ln(1-q)) many variables of the logarithmic series law P(x) =
q^x/(-x ln(1-q)), x = 1, 2, ..., and a difference of two independent copies is a sum of Poisson(-2 ln(1-q))
many with random signs. So one share, the difference of two Pólya (negative binomial) variables of size 1/H,
is

.. math:: \sum_{i=1}^{N} \pm X_i, \qquad N \sim \mathrm{Poisson}(-2 \ln(1-q)/H),

and Poisson counts add: H shares have exactly the law of one whole noise.

How a share is drawn, and why it is exact
-----------------------------------------
N comes from a `LazyTable` whose bounds use a certified logarithm. X is drawn by octaves: J with P(J = j) ∝
exp(-2^j/b) from a `LazyTable`, R uniform on 0 .. 2^J - 1 (plain bits), x = 2^J + R kept with probability
exp(-R/b)·2^J/x, an exact coin. A pair (j, r) survives with probability proportional to
exp(-2^j/b)·2^{-j}·exp(-r/b)·2^j/x = q^x/x, as it should.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.errors import BadPrivacyParameter
from twofold.privacy.budget import Number, PureDP, positive
from twofold.privacy.events import DiscreteLaplaceEvent, DiscreteLaplaceShareEvent, Released
from twofold.privacy.grid import Grid, Integers
from twofold.privacy.mechanisms.lazy import (
    LARGEST_SCALE,
    Bounds,
    LazyTable,
    SymmetricNoise,
    add_noise,
    bernoulli,
    exp_filter,
    exp_minus,
    exp_minus_between,
    minus_log,
    product,
)
from twofold.privacy.rng import Source
from twofold.privacy.unit import Unit

__all__ = ["DiscreteLaplace", "DiscreteLaplaceShare"]


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace:
    """Integer values plus independent noise with P(k) ∝ exp(-|k|·ε/sensitivity).

    Parameters
    ----------
    epsilon : number
        The price of one release, above 0.
    sensitivity : number
        How far one unit can move the values in l1 distance, in grid units (`cap_l1`). Public.
    unit : Unit
        Whose presence is hidden.
    grid : Grid
        Unit of the integers; only recorded, for the caller to convert back.

    Privacy
    -------
    For neighbours with integer values x, x' and any output y, P(y | x)/P(y | x') = exp((|y-x'|₁ - |y-x|₁)/b)
    <= exp(|x-x'|₁/b) = e^ε with b = sensitivity/ε. Everything is an integer and the noise is exact in law, so
    there is no rounding error to account for (Mironov 2012 does not apply).

    Examples
    --------
    >>> laplace = DiscreteLaplace(epsilon=1, sensitivity=60, unit=Unit.person())
    >>> laplace.scale
    Fraction(60, 1)
    >>> laplace.release([10, 20, 30]).value.shape
    (3,)
    >>> DiscreteLaplace(epsilon=0, sensitivity=60, unit=Unit.person())
    Traceback (most recent call last):
    twofold.errors.BadPrivacyParameter: epsilon must be above zero...
    """

    epsilon: Fraction
    sensitivity: Fraction
    unit: Unit
    grid: Grid

    def __init__(self, *, epsilon: Number, sensitivity: Number, unit: Unit, grid: Grid | None = None) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, name="epsilon"))
        object.__setattr__(self, "sensitivity", positive(sensitivity, name="sensitivity"))
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "grid", grid or Grid())
        self._noise()  # a scale no sampler can honour is refused here, before anything is drawn

    @property
    def scale(self) -> Fraction:
        """Scale of the noise in grid units."""
        return self.sensitivity / self.epsilon

    @property
    def guarantee(self) -> PureDP:
        """The guarantee of one release."""
        return PureDP(epsilon=self.epsilon)

    def event(self, coordinates: int, *, seeded: bool = False) -> DiscreteLaplaceEvent:
        """Describe a release of that many values, before it is made."""
        return DiscreteLaplaceEvent(
            unit=self.unit,
            seeded=seeded,
            sensitivity=self.sensitivity,
            scale=self.scale,
            coordinates=coordinates,
            grid=self.grid.step,
        )

    def release(self, values: ArrayLike, *, rng: int | Source | None = None) -> Released[Integers]:
        """Add noise to integers; with a seed the release is marked not private."""
        return add_noise(values, rng, event=self.event, draw=self._noise().draw)

    def _noise(self) -> SymmetricNoise:
        return SymmetricNoise(linear=1 / self.scale)


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplaceShare:
    """Integer values of one party plus its share of the noise.

    Parameters
    ----------
    epsilon : number
        The price of the *sum*, above 0.
    parties : int
        Number of honest parties that add a share. More parties give more noise and at least the same guarantee.
    sensitivity : number
        How far one unit can move one party's values in l1 distance, in grid units. Public.
    unit : Unit
        Whose presence is hidden.
    grid : Grid
        Unit of the integers; the same for all parties.

    Privacy
    -------
    The sum of `parties` shares is one discrete Laplace noise, so a sum over at least that many honest
    parties is ε-differentially private (further shares are independent of the data). A share seen alone
    has no guarantee: use it only with secure aggregation.

    Examples
    --------
    >>> share = DiscreteLaplaceShare(epsilon=1, parties=10, sensitivity=60, unit=Unit.person())
    >>> share.release([10, 20, 30]).value.shape
    (3,)
    """

    epsilon: Fraction
    parties: int
    sensitivity: Fraction
    unit: Unit
    grid: Grid

    def __init__(
        self, *, epsilon: Number, parties: int, sensitivity: Number, unit: Unit, grid: Grid | None = None
    ) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, name="epsilon"))
        object.__setattr__(self, "parties", parties)
        object.__setattr__(self, "sensitivity", positive(sensitivity, name="sensitivity"))
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "grid", grid or Grid())
        self.event(1)  # refuses bad parties
        if self.scale > LARGEST_SCALE:
            raise BadPrivacyParameter(
                "the noise is too wide for its grid.", fix="use a coarser grid", parameter="sensitivity"
            )

    @property
    def scale(self) -> Fraction:
        """Scale of the summed noise in grid units."""
        return self.sensitivity / self.epsilon

    def event(self, coordinates: int, *, seeded: bool = False) -> DiscreteLaplaceShareEvent:
        """Describe a share of that many values, before it is made."""
        return DiscreteLaplaceShareEvent(
            unit=self.unit,
            seeded=seeded,
            sensitivity=self.sensitivity,
            scale=self.scale,
            parties=self.parties,
            coordinates=coordinates,
            grid=self.grid.step,
        )

    def release(self, values: ArrayLike, *, rng: int | Source | None = None) -> Released[Integers]:
        """Add this party's share of the noise; to be sent into secure aggregation only."""
        return add_noise(values, rng, event=self.event, draw=partial(draw_shares, self.scale, self.parties))


def draw_shares(scale: Fraction, parties: int, count: int, noise: Source) -> Integers:
    """Draw `count` independent shares of a discrete Laplace noise of that scale.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> draw_shares(Fraction(5), 3, 4, source(0)).shape
    (4,)
    """
    how_many = _poisson(scale, parties).draw(noise.words(count) >> np.uint64(1), noise)
    ends = np.cumsum(how_many)
    terms = _log_series(scale, int(ends[-1]) if count else 0, noise)
    sums = np.zeros(terms.size + 1, dtype=np.int64)
    np.cumsum(terms, out=sums[1:])
    shares: Integers = sums[ends] - sums[ends - how_many]
    return shares


def _log_series(scale: Fraction, count: int, noise: Source) -> Integers:
    """Signed logarithmic-series draws."""
    drawn = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        missing = count - filled
        kept = _log_series_attempt(scale, min(2 * missing + 8, 1 << 17), noise)[:missing]
        drawn[filled : filled + kept.size] = kept
        filled += kept.size
    return drawn


def _log_series_attempt(scale: Fraction, count: int, noise: Source) -> Integers:
    words = noise.words(count)
    octave = _octaves(scale).draw(words >> np.uint64(1), noise)
    low = (noise.words(count) & ((np.uint64(1) << octave.astype(np.uint64)) - np.uint64(1))).astype(np.int64)
    value = (np.int64(1) << octave) + low
    kept = _keep(scale, octave, low, value, noise)
    return np.where((words & np.uint64(1)).astype(bool), -value, value)[kept]


def _keep(scale: Fraction, octave: Integers, low: Integers, value: Integers, noise: Source) -> NDArray[np.bool_]:
    """Exact coin of probability exp(-low/scale)·2^octave/value."""
    decay = exp_filter(low.astype(np.float64) * float(1 / scale))
    probability = decay * np.ldexp(1.0, octave) / value.astype(np.float64)

    def exact(index: int, bits: int) -> Bounds:
        at_least, at_most = exp_minus(int(low[index]) / scale, bits)
        top, bottom = 1 << int(octave[index]), int(value[index])
        return at_least * top // bottom, -(-at_most * top // bottom)

    return bernoulli(probability, noise.words(value.size), 64, exact, noise)


@lru_cache(maxsize=64)
def _octaves(scale: Fraction) -> LazyTable:
    """P(J = j) ∝ exp(-(2^j - 1)/scale)."""

    def cumulative(bits: int) -> tuple[list[int], list[int]]:
        precision = bits + 32
        lows, highs, at_least, at_most, octave = [], [], 0, 0, 0
        while True:
            weight = exp_minus(((1 << octave) - 1) / scale, precision)
            at_least, at_most = at_least + weight[0], at_most + weight[1]
            lows.append(at_least)
            highs.append(at_most)
            if weight[1] < 1 << 16:
                break
            octave += 1
        # every later weight is below half of the one before, so the rest is below the last weight
        return _normalised(lows, highs, at_least, at_most + weight[1], bits)

    return LazyTable(cumulative)


@lru_cache(maxsize=64)
def _poisson(scale: Fraction, parties: int) -> LazyTable:
    """Poisson with mean -2·ln(1 - exp(-1/scale))/parties."""

    def cumulative(bits: int) -> tuple[list[int], list[int]]:
        precision = bits + 128  # room for the logarithm of a small number and for the mean as a factor
        mean = _mean(scale, parties, precision)
        weight = exp_minus_between(mean, precision)
        lows, highs, order = [weight[0]], [weight[1]], 0
        while weight[1] >= 1 << 112 or order <= 2 * (mean[1] >> precision):
            order += 1
            grown = product(weight, mean, precision)
            weight = grown[0] // order, -(-grown[1] // order)
            lows.append(lows[-1] + weight[0])
            highs.append(highs[-1] + weight[1])
        one = 1 << precision
        return _normalised(lows, highs, one, one, bits)

    return LazyTable(cumulative)


def _mean(scale: Fraction, parties: int, precision: int) -> Bounds:
    """Bounds of the Poisson mean; a scale so small that 1 - q cannot be told from 1 gets more bits."""
    ratio = exp_minus(1 / scale, precision)
    one = 1 << precision
    log = minus_log((one - ratio[1], one - ratio[0]), precision)
    return 2 * log[0] // parties, -(-2 * log[1] // parties)


def _normalised(
    lows: list[int], highs: list[int], total_low: int, total_high: int, bits: int
) -> tuple[list[int], list[int]]:
    full = 1 << bits
    return [(low << bits) // total_high for low in lows], [min(full, -((-high << bits) // total_low)) for high in highs]
