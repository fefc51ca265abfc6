"""Moments of ratings in noise: offsets and patterns by empirical Bayes, and non-negative factors that say the same."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from twofold.features import Features
from twofold.federation.plan import CatalogKey, Plan
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.content import Moments
from twofold.server.ratings import factorize_ratings, fit_hierarchy, nonnegative_mixtures, sizes_of_items

ITEMS, USERS, KINDS = 40, 1_500, ("features", "sketch", "gram")


def truth(seed: int = 0):
    """Offsets, and loadings on two tastes that public classes tell of."""
    rng = np.random.default_rng(seed)
    classes = np.eye(4, dtype=np.int64)[rng.integers(0, 4, ITEMS)]
    loadings = classes @ np.array([[0.8, 0.0], [-0.8, 0.0], [0.0, 0.7], [0.0, -0.7]]) + 0.1 * rng.normal(
        size=(ITEMS, 2)
    )
    offsets = 0.5 * rng.normal(size=ITEMS)
    return offsets - offsets.mean(), loadings, classes


def people(seed: int = 1) -> sparse.csr_array:
    offsets, loadings, _ = truth()
    rng = np.random.default_rng(seed)
    stars = 3.4 + offsets + rng.normal(size=(USERS, 2)) @ loadings.T + 0.6 * rng.normal(size=(USERS, ITEMS))
    return sparse.csr_array(np.where(rng.random(stars.shape) < 0.5, np.clip(np.rint(stars), 1, 5), 0))


def agreed(kind: str, epsilon: float) -> Plan:
    table = Features(matrix=truth()[2], names=("a", "b", "c", "d")) if kind == "features" else None
    return Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=ITEMS), feedback="ratings", bound=5, lower=1, max_items=ITEMS,
        epsilon=epsilon, mechanism=kind, n_prototypes=12, simulation=True, features=table,
    )  # fmt: skip


def released(kind: str, epsilon: float, rng: int = 0) -> tuple[Moments, Plan]:
    plan, mechanism = agreed(kind, epsilon), Bilinear(kind=kind)
    return mechanism.combine([mechanism.release(people(), plan.parameters, rng=rng).value], plan.parameters), plan


def overlap(patterns: np.ndarray) -> float:
    """How much of the true loadings lies in the space of some patterns."""
    wanted = truth()[1]
    wanted = wanted - wanted.mean(axis=0)
    inside = patterns @ np.linalg.lstsq(patterns, wanted, rcond=None)[0]
    return float((inside**2).sum() / (wanted**2).sum())


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_and_patterns_are_found_when_noise_is_small(kind):
    found = factorize_ratings(*released(kind, 1_000.0))
    offsets = found.means - found.means.mean()
    assert np.corrcoef(offsets, truth()[0])[0, 1] > 0.95
    assert overlap(found.patterns[:, :2]) > 0.8
    assert (found.factors >= 0).all()
    assert np.allclose((found.patterns**2).sum(axis=0), 1.0)
    assert (np.diff(found.strengths) <= 0).all()
    assert (found.squares >= (found.patterns**2 @ found.strengths) - 1e-9).all()


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_stay_finite_and_small_when_noise_drowns_everything(kind):
    found = factorize_ratings(*released(kind, 0.001))
    for part in (found.factors, found.moments, found.means, found.support, found.patterns, found.strengths):
        assert np.isfinite(part).all()
    assert (found.means >= 1).all()
    assert (found.means <= 5).all()
    assert found.support.max() < 0.05 * USERS
    assert found.users >= 0


def test_more_noise_means_less_is_believed():
    clear, noisy = (factorize_ratings(*released("features", epsilon)) for epsilon in (100.0, 0.001))
    assert np.std(noisy.means) < 0.5 * np.std(clear.means)
    assert noisy.support.sum() < 0.1 * clear.support.sum()


def test_public_classes_help_where_noise_is_large():
    moments, plan = released("features", 1.0)
    assert overlap(factorize_ratings(moments, plan).patterns[:, :2]) > 0.5


def test_equal_moments_give_equal_bytes():
    one, other = (factorize_ratings(*released("features", 1.0, rng=3)) for _ in range(2))
    assert one.patterns.tobytes() == other.patterns.tobytes()
    assert one.factors.tobytes() == other.factors.tobytes()
    assert "patterns" in one.note


def test_nobody_and_nothing():
    nothing = Moments(
        kind="features", users=-3.0, sums=np.zeros(ITEMS), pairs=np.zeros((ITEMS, 4)), users_noise=1.0, sums_noise=1.0,
        pairs_noise=1.0, cap=3.0, entities=1, seeded=True, observed=np.zeros(ITEMS), observed_noise=1.0,
    )  # fmt: skip
    found = factorize_ratings(nothing, agreed("features", 1.0))
    assert found.means == pytest.approx(np.full(ITEMS, 3.0), abs=1e-6)
    assert found.strengths.tolist() == [0.0]
    assert found.users == 0


def test_the_second_moments_are_those_of_means_and_patterns():
    rng = np.random.default_rng(0)
    means, loadings = rng.uniform(2, 4, size=9), 0.3 * rng.normal(size=(9, 3))
    V, moments = nonnegative_mixtures(means, loadings, 20)
    assert V.shape == (9, 7)
    assert (V >= 0).all()
    assert np.allclose(V @ moments @ V.T, np.outer(means, means) + loadings @ loadings.T)
    assert np.linalg.eigvalsh(moments).min() > -1e-9


def test_patterns_beyond_the_rank_are_left_out():
    V, moments = nonnegative_mixtures(np.full(4, 3.0), np.eye(4)[:, :3], 4)
    assert V.shape[1] == 3
    assert np.allclose(V @ moments @ V.T, 9.0 + np.diag([1.0, 0, 0, 0]))


def test_no_pattern_at_all_leaves_the_means():
    V, moments = nonnegative_mixtures(np.full(4, 3.0), np.zeros((4, 2)), 20)
    assert np.allclose(V @ moments @ V.T, 9.0)


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
