"""Exponential mechanism and Gumbel top-s: exactness, limits, prices, refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadPrivacyParameter
from twofold.privacy.accountant import price
from twofold.privacy.audit.exact_checks import selection_law
from twofold.privacy.budget import PureDP
from twofold.privacy.mechanisms import ExponentialMechanism, GumbelTop
from twofold.privacy.mechanisms.selection import _cumulative, _one, pick
from twofold.privacy.rng import source
from twofold.privacy.unit import Unit

PERSON = Unit.person()


class Scripted:
    """A source with one prepared word and prepared extra bits."""

    seeded = True

    def __init__(self, word, more=()):
        self.word, self.more, self.asked = word, list(more), 0

    def words(self, count):
        return np.array([self.word] * count, dtype=np.uint64)

    def bits(self, count):
        self.asked += count // 64
        return self.more.pop(0)


def exponential(**change):
    return ExponentialMechanism(**{"epsilon": 1, "sensitivity": 4, "monotone": True, "unit": PERSON} | change)


def top(**change):
    settings = {"epsilon": 1, "picks": 2, "sensitivity": 4, "monotone": True, "unit": PERSON}
    return GumbelTop(**settings | change)


def test_integer_bounds_of_the_cdf_hold():
    gaps = np.array([3, 0, 7, 0, 1000])
    low, high = _cumulative(gaps, Fraction(5, 2), 80)
    law = selection_law((-gaps).tolist(), 2.5, 1)
    running = np.cumsum([law[(index,)] for index in range(5)])
    for index in range(5):
        assert low[index] <= high[index] <= low[index] + 4
        assert low[index] / 2**80 == pytest.approx(float(running[index]), abs=1e-14)


def test_words_at_every_boundary_are_decided_right():
    """One below, on, and one above each boundary of the cdf: the integers settle what floats cannot."""
    gaps, scale = np.array([3, 0, 7]), Fraction(5, 2)
    low, _ = _cumulative(gaps, scale, 64)
    for index in (0, 1):
        assert _one(gaps, scale, Scripted(low[index] - 1)) == index
        assert _one(gaps, scale, Scripted(low[index] + 1)) == index + 1
        at_the_edge = Scripted(low[index], [0])
        assert _one(gaps, scale, at_the_edge) == index
        assert at_the_edge.asked == 1


def test_first_and_last_words_stay_inside():
    gaps = np.array([0, 5, 10**12])
    assert _one(gaps, Fraction(1), Scripted(0)) == 0
    # the last candidate has weight e^-10^12: a word of all ones leaves it open until a zero follows
    assert _one(gaps, Fraction(1), Scripted(2**64 - 1, [2**64 - 1, 0])) == 1


def test_hopeless_candidates_do_not_break_the_sum():
    scores = np.concatenate([np.full(50_000, -(2**60)), [0]])
    assert pick(scores, Fraction(1), 1, source(0))[0] == 50_000


@pytest.mark.parametrize("make", [exponential, top])
def test_the_limit_of_no_privacy_is_the_best(make):
    scores = np.array([5, 9, 7, -3])
    released = make(epsilon=10**6, sensitivity=1).release(scores)
    expected = 1 if make is exponential else [1, 2]
    np.testing.assert_array_equal(released.value, expected)


def test_the_limit_of_full_privacy_is_uniform():
    mechanism, noise = exponential(epsilon="1/1000000"), source(1)
    picked = [mechanism.release([0, 50, 100, 1000], rng=noise).value for _ in range(2000)]
    counts = np.bincount(picked, minlength=4)
    assert np.abs(counts - 500).max() < 5 * math.sqrt(375)


def test_picks_are_different_and_all_can_be_taken():
    released = top(picks=5, epsilon="1/100").release([1, 2, 3, 4, 5])
    assert sorted(released.value.tolist()) == [0, 1, 2, 3, 4]


def test_scales_and_prices():
    assert exponential().scale == 4
    assert exponential(monotone=False).scale == 8
    assert top().scale == 8  # picks · sensitivity / epsilon
    assert top(monotone=False).scale == 16
    for mechanism in (exponential(), exponential(monotone=False), top(), top(monotone=False, picks=7)):
        assert price(mechanism.event(9)) == PureDP(epsilon=1) == mechanism.guarantee


@pytest.mark.parametrize("make", [exponential, top])
@pytest.mark.parametrize("change", [{"epsilon": 0}, {"epsilon": math.inf}, {"sensitivity": 0}, {"sensitivity": -1}])
def test_bad_parameters_are_refused(make, change):
    with pytest.raises(BadPrivacyParameter):
        make(**change)


@pytest.mark.parametrize("picks", [0, -1, 1.0, True])
def test_picks_are_a_whole_number_from_one(picks):
    with pytest.raises(BadPrivacyParameter):
        top(picks=picks)


@pytest.mark.parametrize("make", [exponential, top])
@pytest.mark.parametrize("scores", [[0.5, 1.0, 2.0], [math.nan] * 3, [[1, 2], [3, 4]], [], [2**62, 0, 0]])
def test_bad_scores_are_refused(make, scores):
    with pytest.raises(BadPrivacyParameter):
        make().release(scores, rng=Scripted(0))


def test_too_few_candidates_are_refused():
    with refused(BadPrivacyParameter, "picks"):
        top(picks=3).release([1, 2])


@pytest.mark.parametrize("make", [exponential, top])
def test_a_seed_marks_and_repeats(make):
    one, two = (make().release(np.arange(20), rng=5) for _ in range(2))
    assert one.not_private
    np.testing.assert_array_equal(one.value, two.value)
    assert not make().release(np.arange(20)).not_private


def test_the_event_does_not_depend_on_the_scores():
    assert (
        top().release([1, 2, 3], rng=0).event == top().release([9, 9, -9], rng=1).event == top().event(3, seeded=True)
    )
