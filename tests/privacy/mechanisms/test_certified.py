"""Integer bounds hold, and are close; the oracle is the decimal module at high precision."""

from __future__ import annotations

from decimal import Decimal, getcontext, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.privacy.mechanisms.lazy import _exp_series, _log_series, exp_minus, exp_minus_between, minus_log, product


def true_exp_minus(exponent: Fraction, bits: int) -> Decimal:
    with localcontext() as context:
        context.prec = 400
        value = Decimal(exponent.numerator) / Decimal(exponent.denominator)
        return (-value).exp() * Decimal(2) ** bits


exponents = st.fractions(min_value=0, max_value=300, max_denominator=10**9)


@given(exponents, st.integers(1, 300))
def test_exp_bounds_hold_and_are_close(exponent, bits):
    low, high = exp_minus(exponent, bits)
    truth = true_exp_minus(exponent, bits)
    assert low <= truth <= high
    assert high - low <= 2
    assert getcontext().prec < 400  # the oracle did not leak its precision


@pytest.mark.parametrize("exponent", [Fraction(1, 2**60), Fraction(1, 2), Fraction(1), Fraction(10**30), Fraction(63)])
def test_exp_at_the_edges(exponent):
    low, high = exp_minus(exponent, 64)
    assert low <= true_exp_minus(exponent, 64) <= high
    assert high - low <= 2


@given(st.integers(1, 2**80), st.integers(80, 200))
def test_log_bounds_hold_and_are_close(value, bits):
    low, high = minus_log((value, value), bits)
    with localcontext() as context:
        context.prec = 400
        truth = -(Decimal(value) / Decimal(2) ** bits).ln() * Decimal(2) ** bits
        assert low <= truth <= high
    assert high - low <= 2


def test_log_of_one_is_zero():
    low, high = minus_log((1 << 64, 1 << 64), 64)
    assert low == 0
    assert high <= 1


@given(st.integers(1, 2**60), st.integers(0, 2**20))
def test_an_interval_of_exponents_gives_the_hull(low, width):
    bounds = exp_minus_between((low, low + width), 64)
    assert bounds[0] <= exp_minus(Fraction(low + width, 2**64), 64)[0]
    assert bounds[1] >= exp_minus(Fraction(low, 2**64), 64)[1]


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_products_round_outwards(one, two):
    low, high = product((one, one), (two, two), 32)
    assert low * 2**32 <= one * two <= high * 2**32
    assert high - low <= 1


@given(st.fractions(min_value="1/1000000", max_value="1/2"), st.integers(4, 200))
def test_the_series_of_exp_brackets_at_its_own_precision(small, bits):
    """Without the guard bits of the public function, which would hide a rounding in the wrong direction."""
    low, high = _exp_series(small, bits)
    assert low <= true_exp_minus(small, bits) <= high


def test_the_series_of_exp_needs_its_remainder_and_its_directions():
    """Over many arguments the naive centre is on both sides of the truth: the bracket is not for show."""
    sides = set()
    for numerator in range(1, 200):
        low, high = _exp_series(Fraction(numerator, 400), 12)
        truth = true_exp_minus(Fraction(numerator, 400), 12)
        assert low <= truth <= high
        sides.add(2 * truth < low + high)
    assert sides == {True, False}


@given(st.fractions(min_value=0, max_value="1/3"), st.integers(4, 200))
def test_the_series_of_log_brackets_at_its_own_precision(ratio, bits):
    low, high = _log_series(ratio, bits)
    with localcontext() as context:
        context.prec = 400
        value = Decimal(ratio.numerator) / Decimal(ratio.denominator)
        truth = ((1 + value) / (1 - value)).ln() * Decimal(2) ** bits
        assert low <= truth <= high
