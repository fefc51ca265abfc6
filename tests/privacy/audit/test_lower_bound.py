"""The audit is itself audited: intervals cover, bounds do not exceed the truth, broken mechanisms do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from twofold.errors import BadPrivacyParameter
from twofold.privacy.audit.lower_bound import clopper_pearson, likelihood_ratio, lower_bound, repeat
from twofold.privacy.mechanisms import DiscreteLaplace
from twofold.privacy.rng import source
from twofold.privacy.unit import Unit


def laplace(epsilon):
    mechanism = DiscreteLaplace(epsilon=epsilon, sensitivity=1, unit=Unit.person())
    return lambda value, runs, noise: mechanism.release(np.full(runs, value), rng=noise).value


def randomised_response(epsilon):
    """The mechanism with the largest loss at its ε: the truth with odds e^ε."""
    truth = 1 / (1 + math.exp(-epsilon))

    def batch(value, runs, noise):
        honest = noise.words(runs).astype(np.float64) < truth * 2.0**64
        return np.where(honest, value, 1 - value)

    return batch


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (10, 10), (3, 50), (1, 1)])
def test_clopper_pearson_ends_have_the_stated_tails(hits, trials):
    from scipy.stats import binom

    low, high = clopper_pearson(hits, trials, confidence=0.9)
    if hits > 0:
        assert binom.sf(hits - 1, trials, low) == pytest.approx(0.05)
    else:
        assert low == 0
    if hits < trials:
        assert binom.cdf(hits, trials, high) == pytest.approx(0.05)
    else:
        assert high == 1


def test_the_bound_is_valid_at_its_confidence():
    """On a mechanism of known ε the bound exceeds it in at most 5% of repetitions (with slack for chance)."""
    too_high = sum(
        lower_bound(randomised_response(1.0), 0, 1, runs=1000, confidence=0.95, rng=seed).epsilon > 1.0
        for seed in range(100)
    )
    assert too_high <= 12  # 5 expected at worst; 13 or more has a chance below 0.2%


@pytest.mark.parametrize("epsilon", ["1/2", 1, 2])
def test_the_bound_comes_near_the_truth(epsilon):
    found = lower_bound(laplace(epsilon), 0, 1, runs=100_000, rng=1)
    truth = float(laplace_epsilon(epsilon))
    assert 0.9 * truth < found.epsilon <= truth * 1.02


def laplace_epsilon(epsilon):
    return DiscreteLaplace(epsilon=epsilon, sensitivity=1, unit=Unit.person()).epsilon


def test_ten_percent_too_little_noise_is_caught():
    assert lower_bound(laplace("10/9"), 0, 1, runs=100_000, confidence=0.999, rng=2).epsilon > 1


def test_both_directions_are_tried():
    one_sided = repeat(lambda data, noise: int(data == 1 and noise.bits(2) == 0))
    found = lower_bound(one_sided, 1, 0, runs=2000, rng=3), lower_bound(one_sided, 0, 1, runs=2000, rng=3)
    assert min(bound.epsilon for bound in found) > 3
    assert "more likely on data" in found[0].event
    assert "more likely on neighbour" in found[1].event


def test_delta_lowers_the_bound():
    batch = randomised_response(2.0)
    plain = lower_bound(batch, 0, 1, runs=20_000, rng=4).epsilon
    slack = lower_bound(batch, 0, 1, runs=20_000, delta=0.1, rng=4).epsilon
    assert slack < plain - 0.05


def test_a_mechanism_that_ignores_the_data_proves_nothing():
    assert lower_bound(lambda _, runs, noise: noise.words(runs) % 16, 0, 1, runs=20_000, rng=5).epsilon < 0.05


def test_outcomes_of_any_shape_are_scored_by_their_likelihood_ratio():
    def batch(value, runs, noise):
        return np.stack([np.full(runs, 3), randomised_response(2.0)(value, runs, noise)], axis=1)

    assert 1.6 < lower_bound(batch, 0, 1, runs=20_000, rng=6).epsilon < 2.1


def test_words_can_be_outcomes():
    batch = repeat(lambda data, noise: "yes" if noise.bits(3) < (6 if data else 2) else "no")
    assert 0.8 < lower_bound(batch, 0, 1, runs=8000, rng=7).epsilon <= math.log(3)


def test_likelihood_ratio_keeps_unseen_outcomes_neutral():
    score = likelihood_ratio(np.array([1, 1, 2]), np.array([2, 2, 2]))
    assert score(np.array([1, 2, 5])).tolist() == pytest.approx([math.log(3), math.log(0.5), 0.0])


def test_a_seed_repeats_the_verdict():
    assert lower_bound(laplace(1), 0, 1, runs=500, rng=8) == lower_bound(laplace(1), 0, 1, runs=500, rng=8)


@pytest.mark.parametrize("change", [{"runs": 10}, {"confidence": 1.0}, {"confidence": 0}])
def test_hopeless_settings_are_refused(change):
    with pytest.raises(BadPrivacyParameter):
        lower_bound(laplace(1), 0, 1, rng=source(0), **change)
