"""Many canaries in one run: the bound holds, has power, and agrees with its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest

from twofold.errors import BadPrivacyParameter
from twofold.privacy.audit.lower_bound import audit_one_run, epsilon_from_guesses
from twofold.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from twofold.privacy.unit import Unit


def laplace(epsilon):
    mechanism = DiscreteLaplace(epsilon=epsilon, sensitivity=2, unit=Unit.person())

    def release(present, noise):
        return mechanism.release(2 * present.astype(np.int64), rng=noise).value - 1.0

    return release


def test_the_bound_inverts_the_binomial_tail():
    from scipy.stats import binom

    found = epsilon_from_guesses(1000, 400, 300, confidence=0.95)
    share = 1 / (1 + math.exp(-found))
    assert binom.sf(299, 400, share) == pytest.approx(0.05, rel=1e-6)


def test_it_comes_near_the_truth_and_stays_below():
    found = audit_one_run(laplace(1), canaries=50_000, guesses=25_000, rng=1)
    assert 0.85 < found.epsilon <= 1.02
    assert found.right > found.guesses / 2


def test_half_the_noise_is_caught():
    assert audit_one_run(laplace(2), canaries=20_000, guesses=10_000, confidence=0.999, rng=2).epsilon > 1


def test_it_is_valid_at_its_confidence():
    bounds = [audit_one_run(laplace(1), canaries=400, guesses=200, rng=seed).epsilon for seed in range(60)]
    assert sum(bound > 1 for bound in bounds) <= 9  # 3 expected at worst; 10 has a chance below 0.2%


def test_delta_weakens_the_bound_and_more_so_with_more_canaries():
    plain = epsilon_from_guesses(10_000, 1000, 800)
    some = epsilon_from_guesses(10_000, 1000, 800, delta=1e-5)
    more = epsilon_from_guesses(100_000, 1000, 800, delta=1e-5)
    assert more < some < plain


def test_a_gaussian_release_with_orthogonal_canaries():
    mechanism = DiscreteGaussian(rho="1/2", sensitivity_squared=256, unit=Unit.person())

    def release(present, noise):
        return mechanism.release(16 * present.astype(np.int64), rng=noise).value - 8.0

    claimed = float(mechanism.guarantee.to_approx(1e-5).epsilon)
    found = audit_one_run(release, canaries=20_000, guesses=500, delta=1e-5, rng=3)
    assert 1.0 < found.epsilon < claimed


def test_half_right_proves_nothing():
    assert epsilon_from_guesses(1000, 1000, 510) == 0.0


@pytest.mark.parametrize("guesses", [0, 11])
def test_the_number_of_guesses_is_between_one_and_all(guesses):
    with pytest.raises(BadPrivacyParameter):
        audit_one_run(laplace(1), canaries=10, guesses=guesses)
