"""Rounding to the grid is explicit, and its price is in the sensitivity."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from twofold.errors import BadPrivacyParameter
from twofold.privacy.grid import LIMIT, Grid, whole


@given(
    hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(-8, 8)),
    st.integers(-20, 2),
)
def test_the_proven_norms_hold_for_any_record(record, exponent):
    """A record with exact norms B and R never exceeds the integer bounds derived from them."""
    grid = Grid(exponent=exponent)
    entries = int((record != 0).sum())
    if entries == 0:
        return
    exact = [Fraction(float(value)) for value in record]
    l1 = sum(map(abs, exact))
    placed = [int(value) for value in grid.put(record)]
    assert sum(map(abs, placed)) <= l1 / grid.step + Fraction(entries, 2)
    l2_squared = sum(value**2 for value in exact)
    # smallest convenient rational root from above
    root = Fraction(math.isqrt(math.ceil(l2_squared * 2**200)) + 1, 2**100)
    added = Fraction(math.isqrt(entries << 128) + 1, 1 << 64) / 2
    assert sum(value**2 for value in placed) <= (root / grid.step + added) ** 2


def test_the_bound_is_attained():
    """Half-way values all round away from zero: the inflation by entries/2 is needed."""
    record = np.array([1.5, 3.5, 5.5])  # half to even rounds all three up
    assert int(Grid().put(record).sum()) == 12 == Fraction("10.5") + Fraction(3, 2)


def test_there_and_back_is_within_half_a_step():
    values = np.random.default_rng(0).normal(size=1000)
    grid = Grid(exponent=-8)
    assert np.abs(grid.back(grid.put(values)) - values).max() <= 0.5 / 256


def test_zero_stays_zero_and_integers_stay_themselves():
    np.testing.assert_array_equal(Grid().put([0.0, -3.0, 7.0]), [0, -3, 7])
    assert Grid(exponent=-30).put([0.0, -0.0]).tolist() == [0, 0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300, float(LIMIT)])
def test_a_float_that_cannot_be_put_on_the_grid_is_refused_without_its_value(bad):
    with pytest.raises(BadPrivacyParameter) as caught:
        Grid().put([1.0, bad])
    assert "1e+300" not in str(caught.value)


@pytest.mark.parametrize(
    "bad", [["a"], [2**53 + 1], [1 + 2j], [True], np.array([1.5], dtype=np.longdouble), [None], [[1.0], [2.0, 3.0]]]
)
def test_what_would_be_rounded_unseen_is_refused(bad):
    with pytest.raises((BadPrivacyParameter, ValueError)) as caught:
        Grid().put(bad)
    if not isinstance(bad[-1], list):
        assert isinstance(caught.value, BadPrivacyParameter)


def test_a_fine_grid_refuses_sooner():
    assert Grid(exponent=-50).put([1.0])[0] == 2**50
    with pytest.raises(BadPrivacyParameter):
        Grid(exponent=-62).put([1.0])


@pytest.mark.parametrize("exponent", [1.0, True, 2000, "1"])
def test_an_exponent_is_a_whole_number(exponent):
    with pytest.raises(BadPrivacyParameter) as caught:
        Grid(exponent=exponent)
    assert caught.value.parameter == "exponent"


@given(st.integers(-300, 300))
def test_a_step_is_a_power_of_two_without_rounding(exponent):
    assert Grid(exponent=exponent).step == Fraction(2) ** exponent
    assert Grid(exponent=exponent).back([1])[0] == Grid(exponent=exponent).step


def test_a_mechanism_takes_whole_numbers_of_a_size_it_can_add_to():
    assert whole(np.array([1, 2], dtype=np.uint8)).dtype == np.int64
    for bad in ([0.0], [True], [LIMIT], [-LIMIT], np.array([2**63], dtype=np.uint64)):
        with pytest.raises(BadPrivacyParameter):
            whole(bad)
    assert whole([]).size == 0
