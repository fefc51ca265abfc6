"""Contract of the four mechanisms that add noise to integers: limits, accounting, marks, refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadPrivacyParameter
from twofold.privacy.accountant import price, spent
from twofold.privacy.budget import ZCDP, ApproxDP, NotPrivate, PureDP
from twofold.privacy.grid import Grid
from twofold.privacy.mechanisms import DiscreteGaussian, DiscreteGaussianShare, DiscreteLaplace, DiscreteLaplaceShare
from twofold.privacy.rng import OperatingSystem, Seeded
from twofold.privacy.unit import Unit

PERSON = Unit.person()


def laplace(epsilon=1, sensitivity=3, **more):
    return DiscreteLaplace(epsilon=epsilon, sensitivity=sensitivity, unit=PERSON, **more)


def laplace_share(epsilon=1, sensitivity=3, parties=4, **more):
    return DiscreteLaplaceShare(epsilon=epsilon, sensitivity=sensitivity, parties=parties, unit=PERSON, **more)


def gaussian(epsilon=1, sensitivity=3, **more):
    return DiscreteGaussian(rho=epsilon, sensitivity_squared=sensitivity, unit=PERSON, **more)


def gaussian_share(epsilon=1, sensitivity=3, parties=4, **more):
    variance = sensitivity / Fraction(str(epsilon)) if isinstance(epsilon, int) and epsilon else epsilon
    return DiscreteGaussianShare(
        variance=variance, sensitivity_squared=sensitivity, parties=parties, unit=PERSON, **more
    )


ALL = [laplace, laplace_share, gaussian, gaussian_share]


class Forbidden:
    """A source that must not be asked."""

    seeded = False

    def words(self, count):
        raise AssertionError(f"something was drawn: {count}")

    bits = words


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_bad_parameters_are_refused(make, bad):
    with pytest.raises(BadPrivacyParameter):
        make(epsilon=bad)
    with pytest.raises(BadPrivacyParameter):
        make(sensitivity=bad)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("values", [[0.5], [math.nan], [2**62], [True], ["a"]])
def test_what_is_not_a_whole_number_is_refused_before_anything_is_drawn(make, values):
    with pytest.raises(BadPrivacyParameter):
        make(sensitivity=300).release(values, rng=Forbidden())


@pytest.mark.parametrize("make", ALL)
def test_a_noise_too_wide_for_the_grid_is_refused_at_once(make):
    with pytest.raises(BadPrivacyParameter):
        make(sensitivity=2**120)


@pytest.mark.parametrize("make", ALL)
def test_a_seed_marks_the_release_and_repeats_it(make):
    mechanism = make(sensitivity=300)
    one, two = mechanism.release(np.arange(50), rng=7), mechanism.release(np.arange(50), rng=7)
    assert one.event.seeded
    assert one.not_private
    assert isinstance(price(one.event), NotPrivate)
    np.testing.assert_array_equal(one.value, two.value)
    fresh = mechanism.release(np.arange(50))
    assert not fresh.event.seeded
    assert not fresh.not_private


@pytest.mark.parametrize("make", ALL)
def test_shape_is_kept_and_noise_is_not_shared(make):
    released = make(sensitivity=10**9).release(np.zeros((40, 5), dtype=np.int64), rng=OperatingSystem())
    assert released.value.shape == (40, 5)
    assert released.event.coordinates == 200
    assert np.unique(released.value).size > 100


@pytest.mark.parametrize("make", [laplace, laplace_share, gaussian])
def test_the_limit_of_no_privacy_is_the_exact_answer(make):
    values = np.arange(-500, 500)
    np.testing.assert_array_equal(make(epsilon=10**6, sensitivity=1).release(values).value, values)


@pytest.mark.parametrize("make", ALL)
def test_the_event_is_known_before_and_does_not_depend_on_the_data(make):
    mechanism = make(sensitivity=300, grid=Grid(exponent=-10))
    before = mechanism.event(3, seeded=True)
    assert mechanism.release([1, 2, 3], rng=Seeded(0)).event == before
    assert mechanism.release([-9, 0, 10**6], rng=Seeded(1)).event == before
    assert before.grid == Fraction(1, 1024)


def test_prices():
    assert price(laplace(epsilon=0.1).event(9)) == PureDP(epsilon="1/10") == laplace(epsilon=0.1).guarantee
    assert price(laplace_share(epsilon=0.1).event(9)) == PureDP(epsilon="1/10")
    assert price(gaussian(epsilon="1/7").event(9)) == ZCDP(rho="1/7") == gaussian(epsilon="1/7").guarantee
    share = DiscreteGaussianShare(variance=1000, parties=10, sensitivity_squared=100, unit=PERSON)
    assert float(price(share.event(1)).rho) == pytest.approx(0.05, rel=1e-9)


def test_gaussian_noise_within_a_budget_keeps_it():
    budget = ApproxDP(epsilon=1, delta=1e-6)
    mechanism = DiscreteGaussian.within(budget, sensitivity_squared=100, unit=PERSON)
    assert spent(mechanism.event(457), delta=1e-6).epsilon <= 1
    with pytest.raises(BadPrivacyParameter):
        DiscreteGaussian.within(ApproxDP(epsilon=1), sensitivity_squared=100, unit=PERSON)


@pytest.mark.parametrize("parties", [0, -1, 1.5, True])
@pytest.mark.parametrize("make", [laplace_share, gaussian_share])
def test_parties_are_a_whole_number_from_one(make, parties):
    with pytest.raises(BadPrivacyParameter):
        make(parties=parties)


def test_a_gaussian_share_too_narrow_for_its_proof_is_refused():
    with refused(BadPrivacyParameter, "variance"):
        DiscreteGaussianShare(variance=1, parties=5, sensitivity_squared=1, unit=PERSON)


def test_neighbouring_values_differ_by_the_shift_alone():
    """Same seed, shifted data: the noise does not look at the values."""
    mechanism = laplace(sensitivity=1000)
    one = mechanism.release(np.zeros(100, dtype=np.int64), rng=3).value
    two = mechanism.release(np.full(100, 7), rng=3).value
    np.testing.assert_array_equal(two - one, 7)


def test_large_values_do_not_overflow():
    top = 2**61 - 1
    released = laplace(sensitivity=2**40).release([top, -top])
    assert released.value[0] > 2**60
    assert released.value[1] < -(2**60)
