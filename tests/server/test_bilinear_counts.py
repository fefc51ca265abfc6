"""Shared factors from noisy second moments of counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from twofold.features import Features
from twofold.federation.factors import MOST_PATTERNS
from twofold.federation.plan import CatalogKey, Plan
from twofold.release.content import Moments
from twofold.server.counts import factorize_counts

ITEMS, USERS, RANK = 40, 3_000, 4
CLASSES = np.arange(ITEMS) % 5


def rows() -> sparse.csr_array:
    rng = np.random.default_rng(0)
    V = np.random.default_rng(1).gamma(0.3, 1.0, size=(ITEMS, RANK))
    U = rng.dirichlet(np.full(RANK, 0.3), size=USERS)
    return sparse.csr_array(np.minimum(rng.poisson(1.5 * U @ V.T), 5).astype(np.int64))


def plan(mechanism: str = "gram", **options: object) -> Plan:
    table = Features(matrix=np.eye(5, dtype=np.int64)[CLASSES], names=tuple("abcde"))
    return Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=ITEMS), feedback="counts", bound=5, max_items=ITEMS, l2_cap=20.0,
        mechanism=mechanism, rank=RANK, n_users=USERS, n_prototypes=16, features=table, **options,
    )  # fmt: skip


def bare() -> Plan:
    """Without features."""
    return Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=ITEMS), feedback="counts", bound=5, max_items=ITEMS, l2_cap=20.0,
        mechanism="gram", rank=RANK,
    )  # fmt: skip


def exact(noise: float = 0.0) -> Moments:
    x = np.sqrt(rows().toarray())
    return Moments(
        kind="gram", users=float(USERS), sums=x.sum(axis=0), pairs=x.T @ x, users_noise=noise, sums_noise=noise,
        pairs_noise=noise, cap=20.0, entities=3, seeded=False,
    )  # fmt: skip


def noisy(noise: float, *, signal: float = 1.0, seed: int = 2) -> Moments:
    rng, given = np.random.default_rng(seed), exact(noise)
    upper = np.triu(rng.normal(scale=noise, size=(ITEMS, ITEMS)))
    pairs = signal * given.pairs + upper + np.triu(upper, 1).T
    return replace(given, pairs=pairs, sums=signal * given.sums + rng.normal(scale=noise, size=ITEMS))


def test_without_noise_patterns_squares_and_means_are_exact():
    given = exact()
    found = factorize_counts(given, plan())
    second = found.patterns * found.strengths @ found.patterns.T
    np.testing.assert_allclose(second, given.pairs / USERS, atol=1e-9)
    np.testing.assert_allclose(found.squares, np.diag(given.pairs) / USERS)
    np.testing.assert_allclose(found.means, rows().toarray().mean(axis=0))
    np.testing.assert_allclose(found.support[found.squares > 0], USERS)
    assert found.users == USERS


def test_without_noise_the_factors_know_how_counts_go_together():
    counts = rows().toarray()
    found = factorize_counts(exact(), plan())
    assert (found.factors >= 0).all()
    assert found.factors.shape == (ITEMS, RANK)
    truth = counts.T @ counts / USERS
    off = ~np.eye(ITEMS, dtype=bool)
    assert np.corrcoef((found.factors @ found.moments @ found.factors.T)[off], truth[off])[0, 1] > 0.95


@pytest.mark.parametrize("mechanism", ["gram", "sketch", "features"])
def test_what_a_mechanism_releases_is_understood(mechanism):
    """At a huge ε: the patterns of all mechanisms are those of the exact second moments."""
    agreed = plan(mechanism, epsilon=10**7, delta=1e-6)
    released = agreed.release_mechanism.release(rows(), agreed.parameters)
    found = factorize_counts(agreed.release_mechanism.combine([released.value], agreed.parameters), agreed)
    truth = exact().pairs / USERS
    off = ~np.eye(ITEMS, dtype=bool)
    second = found.patterns * found.strengths @ found.patterns.T
    # A profile over five classes has room for five patterns only.
    assert np.corrcoef(second[off], truth[off])[0, 1] > (0.9 if mechanism != "features" else 0.6)
    np.testing.assert_allclose(second.sum() / truth.sum(), 1, atol=0.01 if mechanism == "gram" else 0.5)
    assert np.corrcoef(found.means, rows().toarray().mean(axis=0))[0, 1] > 0.95


@pytest.mark.parametrize("given", ["no features", "features"])
def test_pure_noise_shares_no_patterns_in_95_of_100_draws(given):
    agreed = plan() if given == "features" else bare()
    risen = sum(len(factorize_counts(noisy(50.0, signal=0.0, seed=at), agreed).strengths) > 0 for at in range(100))
    assert risen <= 5


def test_nothing_above_the_noise_is_said_and_is_no_harm():
    found = factorize_counts(replace(noisy(1e6, signal=0.0), pairs_noise=2e6), plan())
    assert found.patterns.shape == (ITEMS, 0)
    assert "no direction" in found.note
    assert not found.factors.any()
    assert (found.squares > 0).all()
    assert np.isfinite(found.support).all()


def test_the_note_counts_directions():
    found = factorize_counts(noisy(20.0), plan())
    assert 0 < len(found.strengths) < ITEMS
    assert f"of {ITEMS} directions rose above the noise" in found.note


@pytest.mark.parametrize("noise", [60.0, 200.0, 600.0])
def test_denoised_moments_are_nearer_to_the_truth_than_noisy_ones_and_than_none(noise):
    given, truth, off = noisy(noise), exact().pairs / USERS, ~np.eye(ITEMS, dtype=bool)
    found = factorize_counts(given, plan())
    second = found.patterns * found.strengths @ found.patterns.T
    raw, none = np.linalg.norm((given.pairs / USERS - truth)[off]), np.linalg.norm(truth[off])
    assert np.linalg.norm((second - truth)[off]) < min(raw, none)
    assert np.linalg.norm(found.squares - np.diag(truth)) < np.linalg.norm(np.diag(given.pairs / USERS - truth))


def test_fewer_users_than_the_noise_divide_by_the_noise():
    found = factorize_counts(replace(noisy(50.0), users=-20.0, users_noise=30.0), plan())
    assert found.users == 30.0
    assert np.isfinite(found.strengths).all()


def test_no_more_patterns_than_a_message_has_room_for():
    items = MOST_PATTERNS + 20
    large = Plan(catalog=CatalogKey(hash="0" * 64, n_items=items), feedback="counts", bound=5, max_items=9)
    pairs = np.diag(np.arange(1.0, items + 1.0))
    given = replace(exact(), sums=np.ones(items), pairs=pairs, users=1.0)
    found = factorize_counts(given, large)
    np.testing.assert_allclose(found.strengths, np.arange(items, 20, -1))
    np.testing.assert_allclose(found.squares, np.diag(pairs))
    assert f"strongest {MOST_PATTERNS} are sent" in found.note


def test_equal_input_gives_equal_bytes():
    one, other = (factorize_counts(noisy(20.0), plan()) for _ in range(2))
    for name in ("factors", "moments", "means", "support", "patterns", "strengths", "squares"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
