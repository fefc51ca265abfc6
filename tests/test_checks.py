"""Numbers are read exactly, and those that cannot be are refused quickly."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.checks import exact, positive, read_delta
from twofold.errors import BadPrivacyParameter


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_becomes_its_shortest_text_and_rounds_back(value):
    assert float(exact(value)) == value
    assert exact(value) == Fraction(Decimal(repr(value)))


@pytest.mark.parametrize("text", ["1e999999999", "-1E+999999999", "1e-999999999", Decimal("1e999999")])
def test_numbers_that_would_fill_the_memory_are_refused(text):
    with pytest.raises(BadPrivacyParameter):
        exact(text)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "", " ", "1//2", "0x10", Decimal("nan"), Decimal("inf")])
def test_words_are_refused(text):
    with pytest.raises(BadPrivacyParameter):
        exact(text)


def test_ranges():
    assert positive(" 1/3 ", name="epsilon") == Fraction(1, 3)
    assert read_delta(0) == 0
    for bad in (0, "-1/3"):
        with pytest.raises(BadPrivacyParameter, match="epsilon"):
            positive(bad, name="epsilon")
    for bad in (1, -0.1):
        with pytest.raises(BadPrivacyParameter, match="delta"):
            read_delta(bad)


@pytest.mark.parametrize("number", [np.int64(2**62), np.uint8(200), Fraction(np.int64(2**62), np.int64(3))])
def test_whole_numbers_of_numpy_become_plain_and_do_not_wrap(number):
    value = exact(number)
    assert type(value.numerator) is int
    assert type(value.denominator) is int
    assert value * value == Fraction(int(number.numerator), int(number.denominator)) ** 2
