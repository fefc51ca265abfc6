"""The law of a share: Poisson counts of logarithmic-series steps, to the letter."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from twofold.privacy.mechanisms.laplace import _keep, _log_series, _mean, _octaves, _poisson, draw_shares
from twofold.privacy.rng import source


@pytest.mark.parametrize("scale", ["1/2", "3", "1000"])
@pytest.mark.parametrize("parties", [1, 7])
def test_the_convolution_of_all_shares_is_discrete_laplace(scale, parties):
    """Exact, by characteristic functions: exp(parties·mean·(φ(t) - 1)/1) equals that of discrete Laplace."""
    value = float(Fraction(scale))
    ratio = math.exp(-1 / value)
    bounds = _mean(Fraction(scale), parties, 200)
    mean = bounds[0] / 2**200
    assert (bounds[1] - bounds[0]) / bounds[0] < 1e-50
    for angle in (0.1, 1.0, 3.0):
        point = ratio * np.exp(1j * angle)
        step = (np.log(1 - point) / np.log(1 - ratio)).real  # mean of φ(t) and φ(-t)
        summed = np.exp(parties * mean * (step - 1))
        laplace = (1 - ratio) ** 2 / abs(1 - point) ** 2
        assert summed == pytest.approx(laplace, rel=1e-9)


def test_poisson_table_bounds_hold():
    from scipy.stats import poisson

    scale, parties = Fraction(50), 3
    low, high = _poisson(scale, parties).cumulative(63)
    mean = -2 * math.log(1 - math.exp(-1 / 50)) / 3
    for index in range(12):
        assert low[index] <= high[index] <= low[index] + 2
        assert low[index] / 2**63 == pytest.approx(poisson.cdf(index, mean), abs=1e-12)


@pytest.mark.parametrize("scale", ["1/1000", "1/3", "20", "1048576"])
def test_octave_table_bounds_hold(scale):
    low, high = _octaves(Fraction(scale)).cumulative(63)
    weights = np.exp(-(2.0 ** np.arange(40) - 1) / float(Fraction(scale)))
    running = np.cumsum(weights) / weights.sum()
    for index, (at_least, at_most) in enumerate(zip(low, high, strict=True)):
        assert at_least <= at_most <= at_least + 2
        assert at_least / 2**63 == pytest.approx(float(running[index]), abs=1e-12)


def test_steps_follow_the_logarithmic_series():
    from scipy.stats import chi2

    ratio = math.exp(-1 / 6)
    drawn = np.abs(_log_series(Fraction(6), 30_000, source(1)))
    support = np.arange(1, 25)
    expected = 30_000 * ratio**support / (-support * math.log(1 - ratio))
    observed = np.array([(drawn == value).sum() for value in support])
    assert chi2.sf(float(((observed - expected) ** 2 / expected).sum()), 24) > 1e-3


def test_a_share_is_mostly_zero_when_there_are_many_parties():
    share = draw_shares(Fraction(1), 1000, 20_000, source(2))
    zero = (1 - math.exp(-1)) ** (2 / 1000)  # P(N = 0)
    assert abs((share == 0).mean() - zero) < 5 * math.sqrt(zero * (1 - zero) / 20_000)


def test_no_values_no_noise():
    assert draw_shares(Fraction(1), 3, 0, source(0)).size == 0


class Coins:
    """A source with written words, and zeros for every further bit."""

    seeded = True

    def __init__(self, words):
        self.next = words

    def words(self, count):
        assert count == len(self.next)
        return np.array(self.next, dtype=np.uint64)

    def bits(self, count):
        return 0 * count


@pytest.mark.parametrize(("scale", "octave", "low"), [("7", 3, 5), ("1000", 9, 500), ("1/3", 0, 0), ("2", 5, 31)])
def test_a_step_is_kept_with_exactly_its_probability(scale, octave, low):
    """The coin turns at exp(-low/scale)·2^octave/(2^octave + low), to the last bit."""
    scale, value = Fraction(scale), (1 << octave) + low
    with localcontext() as context:
        context.prec = 100
        exponent = low / scale
        decay = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
        edge = int(decay * (1 << octave) / value * 2**64)
    words = [edge - 1, min(edge, 2**64 - 1), min(edge + 1, 2**64 - 1)]
    kept = _keep(scale, np.full(3, octave), np.full(3, low), np.full(3, value), Coins(words))
    # on the edge itself the bits that follow are zero, so u is still below
    assert kept.tolist() == [True, True, edge + 1 >= 2**64]
