"""The opening rule: every cell decided, empty ones included."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadPrivacyParameter
from twofold.privacy.accountant import price
from twofold.privacy.audit.exact_checks import threshold_law
from twofold.privacy.budget import PureDP
from twofold.privacy.mechanisms import PrivateThreshold, least_threshold
from twofold.privacy.mechanisms.threshold import _binomial, _opening
from twofold.privacy.rng import source
from twofold.privacy.unit import Unit

PERSON = Unit.person()
NONE = np.empty(0, dtype=np.int64)


def rule(**change):
    return PrivateThreshold(**{"epsilon": 1, "threshold": 20, "unit": PERSON} | change)


class Forbidden:
    """A source that must not be asked."""

    seeded = False

    def words(self, count):
        raise AssertionError(f"something was drawn: {count}")

    bits = words


@pytest.mark.parametrize(("scale", "threshold"), [("1", 5), ("1/10", 0), ("30", 100)])
def test_bounds_of_the_opening_probability_hold(scale, threshold):
    low, high = _opening(Fraction(scale), threshold, 200)
    truth = threshold_law([0], float(Fraction(scale)), threshold)[(True,)]
    assert 0 <= high - low <= 4
    assert low / 2**200 == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("trials", [1, 3, 40, 10**6, 2**55])
def test_bounds_of_the_binomial_hold(trials):
    from scipy.stats import binom

    threshold = least_threshold(cells=trials, epsilon=1, expected=3) if trials > 40 else 1
    low, high = _binomial(trials, Fraction(1), threshold, 63)
    probability = threshold_law([0], 1.0, threshold)[(True,)]
    assert high == sorted(high)
    for index in range(min(len(low), 8)):
        assert low[index] <= high[index] <= low[index] + 2
        assert low[index] / 2**63 == pytest.approx(binom.cdf(index, trials, probability), abs=1e-9)
    assert low[-1] >= 2**63 - 2**12


def test_binomial_with_a_large_mean():
    from scipy.stats import binom

    trials = 10**6
    low, high = _binomial(trials, Fraction(1), 7, 63)
    probability = threshold_law([0], 1.0, 7)[(True,)]
    assert 200 < trials * probability < 300
    for index in (200, 250, 300):
        assert high[index] - low[index] <= 2
        assert low[index] / 2**63 == pytest.approx(binom.cdf(index, trials, probability), abs=1e-9)


def test_the_limit_of_no_privacy_is_the_exact_comparison():
    released = rule(epsilon=10**6).release(codes=[7, 1, 4], counts=[21, 20, 500], cells=2**40)
    assert released.value.tolist() == [4, 7]


def test_a_partition_without_empty_cells():
    released = rule().release(codes=[0, 1], counts=[500, 600], cells=2)
    assert released.value.tolist() == [0, 1]


def test_open_codes_are_sorted_different_and_inside():
    mechanism = rule(epsilon="1/10", threshold=1)
    for seed in range(50):
        opened = mechanism.release(codes=[3, 60], counts=[5, 2], cells=64, rng=seed).value
        assert (np.diff(opened) > 0).all()
        assert opened.size == 0 or (opened[0] >= 0 and opened[-1] < 64)


def test_empty_cells_never_collide_with_occupied_ones():
    """Occupied cells that cannot open leave only empty ones in the result."""
    mechanism = rule(epsilon="1/4", threshold=0)
    for seed in range(100):
        opened = mechanism.release(codes=[0, 2, 3, 7], counts=[-(10**6)] * 4, cells=8, rng=seed).value
        assert set(opened.tolist()) <= {1, 4, 5, 6}


def test_an_empty_cell_can_open():
    mechanism, noise = rule(threshold=0), source(1)
    opened = [mechanism.release(codes=NONE, counts=NONE, cells=4, rng=noise).value.size for _ in range(50)]
    assert max(opened) > 0


@pytest.mark.parametrize("cells", [2, 16, 2**20, 2**54])
@pytest.mark.parametrize("epsilon", ["1/10", "1", "5"])
def test_least_threshold_is_enough_and_least(cells, epsilon):
    found = least_threshold(cells=cells, epsilon=epsilon)
    scale = 1 / float(Fraction(epsilon))

    def expected(threshold):
        return cells * threshold_law([0], scale, threshold)[(True,)]

    assert expected(found) <= 0.1 * (1 + 1e-9)
    assert found == 0 or expected(found - 1) > 0.1


def test_a_threshold_that_lets_empty_cells_flood_is_refused_before_anything_is_drawn():
    with refused(BadPrivacyParameter, "threshold"):
        rule(threshold=3).release(codes=NONE, counts=NONE, cells=2**40, rng=Forbidden())


@pytest.mark.parametrize(
    ("codes", "counts", "cells"),
    [
        ([1, 1], [2, 2], 4),
        ([4], [1], 4),
        ([-1], [1], 4),
        ([1, 2], [1], 4),
        ([1], [0.5], 4),
        ([1], [1], 0),
        ([1], [1], 2.0),
        ([1], [1], 2**62),
    ],
)
def test_bad_cells_are_refused_before_anything_is_drawn(codes, counts, cells):
    with pytest.raises(BadPrivacyParameter):
        rule().release(codes=codes, counts=counts, cells=cells, rng=Forbidden())


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"threshold": -1},
        {"threshold": 1.5},
        {"threshold": True},
        {"cells_per_unit": 0},
        {"cells_per_unit": 1.5},
    ],
)
def test_bad_parameters_are_refused(change):
    with pytest.raises(BadPrivacyParameter):
        rule(**change)


def test_price_and_marks():
    assert price(rule(epsilon="1/7").event()) == PureDP(epsilon="1/7") == rule(epsilon="1/7").guarantee
    assert rule(cells_per_unit=3).scale == 3
    assert price(rule(cells_per_unit=3).event()) == PureDP(epsilon=1)
    assert rule().release(codes=[1], counts=[1], cells=4, rng=0).not_private
    assert not rule().release(codes=[1], counts=[1], cells=4).not_private
