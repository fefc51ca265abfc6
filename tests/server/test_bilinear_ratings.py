"""Shared patterns of ratings from moments of every kind, with and without noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from twofold.features import Features
from twofold.federation.plan import CatalogKey, Plan
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.content import Moments
from twofold.server.ratings import factorize_ratings

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
