"""Numbers are read exactly, and those that cannot be are refused quickly."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refused import refused
from twofold.checks import check_entity_name, exact, number, positive, read_delta, shown, whole
from twofold.errors import BadPlan, BadPrivacyParameter


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


@pytest.mark.parametrize(
    "text",
    ["1e400", "1e-400", "9" * 400, "1/" + "9" * 400, "1/" + "9" * 4_000, "0." + "1" * 10**6, 10**400, 10**5000],
    ids=lambda _: "case",
)
def test_numbers_that_no_float_holds_are_refused_at_once(text):
    """Audit L1: they became fractions, and OverflowError at the first use."""
    with refused(BadPrivacyParameter, "epsilon"):
        positive(text, name="epsilon")


def test_numbers_near_the_ends_are_read():
    for text in ("1e-300", "1e300", "5e-324", "1/" + "9" * 300, "0." + "1" * 300):
        assert 0 < float(exact(text)) < float("inf")


def test_whole_numbers_of_any_length_are_refused_in_our_words():
    """Audit L1: `bound` of 400 digits was an OverflowError, and Python does not print numbers of 4,300 digits."""
    for digits in (400, 5_000):
        with refused(BadPlan, "bound"):
            number("bound", 10**digits)
        with refused(BadPlan, "rank"):
            whole("rank", 10**digits, most=10)
    for bad in (float("nan"), float("inf"), True, "1"):
        with refused(BadPlan, "bound"):
            number("bound", bad)
    assert shown(10**5_000) == "int"


@pytest.mark.parametrize(
    "name", ["con", "NUL", "Aux", "com1", "LPT9", "con.keys", "nul.tar.gz", "a.", "a..", "st-anna.", "prn", "CONIN"]
)
def test_names_that_windows_takes_for_devices_or_shortens_are_refused(name):
    """Audit L4."""
    with refused(BadPlan, "entity"):
        check_entity_name(name)


@pytest.mark.parametrize("name", ["console", "null", "com", "com10", "a.b", "auxiliary", "st-con", "nul_", "1"])
def test_other_names_are_taken(name):
    assert check_entity_name(name) == name
