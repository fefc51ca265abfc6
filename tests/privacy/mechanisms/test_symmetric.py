"""The engine of Laplace and Gaussian noise."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import BadPrivacyParameter
from twofold.privacy.mechanisms.lazy import LARGEST_SCALE, SymmetricNoise, _cumulative, _table
from twofold.privacy.rng import source


@given(
    st.fractions(min_value="1/500", max_value=4, max_denominator=1000),
    st.fractions(min_value=0, max_value=2, max_denominator=1000),
)
def test_table_bounds_hold(slope, bend):
    """Against floating point sums of the weights, which are good to 1e-12."""
    low, high = _cumulative(slope, bend, 63)
    assert high == sorted(high)
    weights = np.exp(-(float(slope) * np.arange(60_000) + float(bend) * np.arange(60_000.0) ** 2))
    running = np.cumsum(weights) / weights.sum()
    for index in {0, 1, len(low) // 2, len(low) - 1}:
        assert low[index] <= high[index] <= low[index] + 4
        assert low[index] / 2**63 == pytest.approx(float(running[index]), abs=1e-11)


@pytest.mark.parametrize("scale", [2, 300])
def test_short_words_draw_the_same_law(scale):
    """With eight-bit words most draws walk the slow path of the table; the law must not change."""
    count = 1500
    noise = SymmetricNoise(linear=Fraction(1, scale), word=8)
    drawn = noise.draw(count, source(1))
    ratio = math.exp(-1 / scale)
    inside = 1 - 2 * ratio ** (scale + 1) / (1 + ratio)
    share = float((np.abs(drawn) <= scale).mean())
    assert abs(share - inside) < 5 * math.sqrt(inside * (1 - inside) / count)
    assert abs(float(np.sign(drawn).mean())) < 5 / math.sqrt(count)


@pytest.mark.parametrize("extra", [0, 1, 2])
def test_the_tail_goes_on_past_every_word(extra):
    """A word of all ones, followed by 64·extra ones and then zeros: u = 1 - 2^-(63 + 64·extra), inverted exactly."""

    class Ones:
        seeded = True

        def __init__(self):
            self.left = extra

        def words(self, count):
            raise AssertionError(f"not expected: {count} words")

        def bits(self, count):
            self.left -= 1
            return (1 << count) - 1 if self.left >= 0 else 0

    table = _table(Fraction(1, 100), Fraction(0), 0, 63)
    drawn = int(table.draw(np.array([2**63 - 1], dtype=np.uint64), Ones())[0])
    # P(H <= h) = 1 - e^(-(h+1)/100) first exceeds u where (h + 1)/100 > (63 + 64·extra)·ln 2
    assert drawn == math.floor(100 * (63 + 64 * extra) * math.log(2))


def test_zero_is_counted_once():
    """Minus zero is drawn anew: P(0) = tanh(1/(2b)), not twice that."""
    counts = Counter(SymmetricNoise(linear=Fraction(1)).draw(40_000, source(2)).tolist())
    expected = 40_000 * math.tanh(0.5)
    assert abs(counts[0] - expected) < 5 * math.sqrt(expected)


@pytest.mark.parametrize("count", [0, 1, 7, 200_001])
def test_any_number_of_draws(count):
    assert SymmetricNoise(linear=Fraction(1, 50)).draw(count, source(3)).shape == (count,)


def test_the_widest_noise_fits_and_a_wider_one_is_refused():
    drawn = SymmetricNoise(linear=Fraction(1, LARGEST_SCALE)).draw(1000, source(4))
    assert np.abs(drawn).max() < 2**61
    assert np.unique(drawn % 1024).size > 500  # the lowest bits are alive
    for wide in ({"linear": Fraction(1, 2 * LARGEST_SCALE)}, {"quadratic": Fraction(1, 2 * (2 * LARGEST_SCALE) ** 2)}):
        with pytest.raises(BadPrivacyParameter):
            SymmetricNoise(**wide)


def test_no_scale_is_refused():
    with pytest.raises(BadPrivacyParameter):
        SymmetricNoise()
    with pytest.raises(BadPrivacyParameter):
        SymmetricNoise(linear=Fraction(-1), quadratic=Fraction(2))


def decimal_cdf(slope: Fraction, bend: Fraction, entries: int) -> list[Decimal]:
    """P(H <= h) to a hundred digits, with the sum carried far past the table."""
    weights = []
    for h in range(3 * entries):
        exponent = slope * h + bend * h * h
        weights.append((-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp())
    total = sum(weights)
    running, cdf = Decimal(0), []
    for weight in weights[:entries]:
        running += weight
        cdf.append(running / total)
    return cdf


@pytest.mark.parametrize(("slope", "bend"), [("1/8", "0"), ("0", "1/128"), ("1/5", "1/70")])
@pytest.mark.parametrize("bits", [8, 63])
def test_every_table_entry_brackets_the_truth(slope, bend, bits):
    """Exact to the last unit, the mass beyond the table included in the total."""
    slope, bend = Fraction(slope), Fraction(bend)
    low, high = _cumulative(slope, bend, bits)
    with localcontext() as context:
        context.prec = 100
        for at_least, at_most, truth in zip(low, high, decimal_cdf(slope, bend, len(low)), strict=True):
            assert at_least <= truth * 2**bits <= at_most


class LowBits:
    """A source whose next words are written down."""

    seeded = True

    def __init__(self, words):
        self.next = words

    def words(self, count):
        assert count == len(self.next)
        return np.array(self.next, dtype=np.uint64)

    def bits(self, count):
        raise AssertionError(f"not expected: {count} bits")


@pytest.mark.parametrize(
    "noise", [SymmetricNoise(linear=Fraction(1, 1000)), SymmetricNoise(quadratic=Fraction(1, 2 * 1000**2))]
)
def test_a_proposal_is_kept_with_exactly_its_probability(noise):
    """The coin of step 3 turns at exp(-(g(Lh + r) - g(Lh))), to the last bit of its word."""
    shift = noise._low_bits
    assert shift == 3
    for high, low in ((0, 7), (5, 1), (130, 7), (1000, 4)):
        start = high << shift
        rise = noise.exponent(start + low) - noise.exponent(start)
        with localcontext() as context:
            context.prec = 100
            edge = int((-Decimal(rise.numerator) / Decimal(rise.denominator)).exp() * 2 ** (64 - shift))
        words = [(coin << shift) | low for coin in (0, edge - 1, edge + 1)]
        magnitude, kept = noise._fill(np.full(3, high), LowBits(words))
        assert magnitude.tolist() == [start + low] * 3
        assert kept.tolist() == [True, True, False]
