"""Empirical Bayes: better than the noisy numbers, exact without noise, and nothing where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.server.ratings import fit_hierarchy, sizes_of_items


def test_sizes_are_never_negative_and_closer_to_the_truth_than_the_noisy_ones():
    rng = np.random.default_rng(0)
    truth = rng.gamma(0.4, 100.0, size=2_000)
    noisy = truth + rng.normal(scale=50.0, size=truth.size)
    found = sizes_of_items(noisy, 50.0)
    assert (found >= 0).all()
    assert np.mean((found - truth) ** 2) < 0.8 * np.mean((np.maximum(noisy, 0.0) - truth) ** 2)


def test_sizes_without_noise_come_back():
    assert sizes_of_items(np.array([3.0, 0.0, -1.0]), 0.0).tolist() == [3.0, 0.0, 0.0]
    assert sizes_of_items(np.array([300.0, 5.0, 1.0]), 1e-6) == pytest.approx([300.0, 5.0, 1.0], abs=1e-3)


def world(noise: float, seed: int = 1):
    """Items whose two numbers follow a public fact, with some of their own."""
    rng = np.random.default_rng(seed)
    facts = np.column_stack([np.ones(800), rng.integers(0, 2, 800)])
    truth = facts @ np.array([[0.2, 0.0], [0.5, -0.4]]) + rng.normal(scale=0.1, size=(800, 2))
    sizes = rng.gamma(0.5, 60.0, size=800)
    scatter = np.sqrt(sizes)[:, None] * 0.9 * rng.normal(size=truth.shape)
    totals = sizes[:, None] * truth + scatter + noise * rng.normal(size=truth.shape)
    return truth, totals, sizes, facts


def test_public_facts_and_own_totals_are_both_used():
    truth, totals, sizes, facts = world(30.0)
    found = fit_hierarchy(totals, sizes, 900.0 * np.eye(2), facts, residual=0.9, spread=np.full(2, 0.02))
    error = np.mean((found.values - truth) ** 2)
    assert error < np.mean((found.expected - truth) ** 2)  # own totals add to what facts say
    plain = totals / np.maximum(sizes, 1e-9)[:, None]
    assert error < 0.02
    assert error < np.mean((np.clip(plain, -1, 1) - truth) ** 2)
    assert np.diag(found.covariance) == pytest.approx([0.01, 0.01], abs=0.006)


def test_pure_noise_gives_next_to_nothing():
    rng = np.random.default_rng(2)
    sizes, facts = np.full(500, 20.0), np.column_stack([np.ones(500), rng.integers(0, 2, 500)])
    totals = 1_000.0 * rng.normal(size=(500, 3))
    found = fit_hierarchy(totals, sizes, 1e6 * np.eye(3), facts, residual=0.9, spread=np.full(3, 0.1))
    plain = np.abs(totals / 20.0).mean()
    assert np.abs(found.values).mean() < 0.1 * plain


def test_without_noise_and_with_many_ratings_totals_are_believed():
    truth, _, sizes, facts = world(0.0)
    sizes = sizes + 1e7
    found = fit_hierarchy(sizes[:, None] * truth, sizes, 1e-9 * np.eye(2), facts, residual=0.9, spread=np.full(2, 0.1))
    assert found.values == pytest.approx(truth, abs=1e-3)
