"""Posterior means of positive numbers in noise."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.server.counts import positive_means


@pytest.mark.parametrize("value", [-6.0, -0.5, 0.0, 1.0, 7.0])
def test_equals_the_posterior_mean_by_numerical_integration(value):
    values, noise = np.array([value, 3.0, 12.0]), 1.3
    grid = np.linspace(0, 60, 400_001)
    prior = -grid / values.mean()
    weight = np.exp(prior - 0.5 * ((values[0] - grid) / noise) ** 2)
    assert positive_means(values, noise)[0] == pytest.approx((grid * weight).sum() / weight.sum(), rel=1e-3)


def test_is_nearer_to_the_truth_than_cutting_at_zero():
    rng = np.random.default_rng(0)
    truth = rng.exponential(2.0, size=2_000)
    seen = truth + rng.normal(scale=2.0, size=truth.size)
    ours, cut = positive_means(seen, 2.0), np.maximum(seen, 0.0)
    assert np.mean((ours - truth) ** 2) < 0.85 * np.mean((cut - truth) ** 2)


def test_without_noise_values_stay():
    np.testing.assert_array_equal(positive_means(np.array([0.5, 3.0]), 0.0), [0.5, 3.0])


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_is_positive_and_finite_whatever_was_seen(scale):
    seen = scale * np.array([-1e6, -50.0, -1.0, 0.0, 1e6])
    found = positive_means(seen, scale)
    assert np.isfinite(found).all()
    assert (found > 0).all()
    assert (np.diff(found) > 0).all()
