"""Second moments of counts in noise: patterns, positive numbers, non-negative factors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from twofold.features import Features
from twofold.federation.factors import MOST_PATTERNS
from twofold.federation.plan import CatalogKey, Plan
from twofold.release.bilinear.records import random_signs
from twofold.release.content import Moments
from twofold.server.counts import (
    Patterns,
    factorize_counts,
    feature_basis,
    nonnegative_factors,
    positive_means,
    sketch_patterns,
    symmetric_patterns,
)

ITEMS, USERS, RANK = 40, 3_000, 4
CLASSES = np.arange(ITEMS) % 5
PATTERN_ITEMS = 60


def rows() -> sparse.csr_array:
    rng = np.random.default_rng(0)
    V = np.random.default_rng(1).gamma(0.3, 1.0, size=(ITEMS, RANK))
    U = rng.dirichlet(np.full(RANK, 0.3), size=USERS)
    return sparse.csr_array(np.minimum(rng.poisson(1.5 * U @ V.T), 5).astype(np.int64))


def plan(mechanism: str = "gram", **options: object) -> Plan:
    table = Features(matrix=np.eye(5, dtype=np.int64)[CLASSES], names=tuple("abcde"))
    return Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=ITEMS), feedback="counts", bound=5, max_items=ITEMS,
        mechanism=mechanism, rank=RANK, n_users=USERS, n_prototypes=16, features=table, **options,
    )  # fmt: skip


def bare() -> Plan:
    """Without features."""
    return Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=ITEMS), feedback="counts", bound=5, max_items=ITEMS,
        mechanism="gram", rank=RANK,
    )  # fmt: skip


def unit_rows() -> np.ndarray:
    counts = rows().toarray()
    return np.sqrt(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def exact(noise: float = 0.0) -> Moments:
    x = unit_rows()
    return Moments(
        kind="gram", users=float(USERS), sums=x.sum(axis=0), pairs=x.T @ x, users_noise=noise, sums_noise=noise,
        pairs_noise=noise, cap=1.0, entities=3, seeded=False,
    )  # fmt: skip


def noisy(noise: float, *, signal: float = 1.0, seed: int = 2) -> Moments:
    rng, given = np.random.default_rng(seed), exact(noise)
    upper = np.triu(rng.normal(scale=noise, size=(ITEMS, ITEMS)))
    upper[np.diag_indices(ITEMS)] *= given.diagonal_noise / noise
    pairs = signal * given.pairs + upper + np.triu(upper, 1).T
    return replace(given, pairs=pairs, sums=signal * given.sums + rng.normal(scale=noise, size=ITEMS))


def test_without_noise_patterns_squares_and_means_are_exact():
    given = exact()
    found = factorize_counts(given, plan())
    second = found.patterns * found.strengths @ found.patterns.T
    np.testing.assert_allclose(second, given.pairs / USERS, atol=1e-9)
    np.testing.assert_allclose(found.squares, np.diag(given.pairs) / USERS)
    np.testing.assert_allclose(found.means, (unit_rows() ** 2).mean(axis=0))
    np.testing.assert_allclose(found.support[found.squares > 0], USERS)
    assert found.users == USERS


def test_without_noise_the_factors_know_how_counts_go_together():
    found = factorize_counts(exact(), plan())
    assert (found.factors >= 0).all()
    assert found.factors.shape == (ITEMS, RANK)
    truth = exact().pairs / USERS
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
    assert np.corrcoef(found.means, (unit_rows() ** 2).mean(axis=0))[0, 1] > 0.95
    if mechanism != "gram":
        assert found.totals is None
    else:
        np.testing.assert_allclose(found.totals.pairs, exact().pairs, atol=1.0)
        np.testing.assert_allclose(found.totals.sums, exact().sums, atol=1.0)
        assert found.totals.users == pytest.approx(USERS, abs=0.1)


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


@pytest.mark.parametrize("noise", [4.0, 12.0, 38.0])
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


def second(rank: int = 4, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(PATTERN_ITEMS, rank)))[0]
    return (axes * 100.0 * np.arange(rank, 0, -1)) @ axes.T


def noise(scale: float, seed: int = 1) -> np.ndarray:
    upper = np.triu(np.random.default_rng(seed).normal(scale=scale, size=(PATTERN_ITEMS, PATTERN_ITEMS)))
    return upper + np.triu(upper, 1).T


def matrix(found: Patterns) -> np.ndarray:
    return (found.axes * found.sizes) @ found.axes.T


def test_without_noise_the_exact_eigenvectors_come_back():
    truth = second()
    found = symmetric_patterns(truth, 0.0)
    values, axes = np.linalg.eigh(truth)
    assert found.risen == 4
    np.testing.assert_allclose(found.sizes, values[::-1][:4])
    np.testing.assert_allclose(np.abs(axes[:, ::-1][:, :4].T @ found.axes), np.eye(4), atol=1e-9)
    np.testing.assert_allclose((found.axes**2) @ found.sizes, np.diag(truth), atol=1e-9)


def test_as_the_noise_goes_to_zero_so_does_the_error():
    truth = second()
    errors = [np.linalg.norm(matrix(symmetric_patterns(truth + noise(size), size)) - truth) for size in (3, 0.3, 0.03)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 2


def test_denoised_is_nearer_to_the_truth_and_never_negative():
    truth, noisy = second(), second() + noise(6.0)
    found = symmetric_patterns(noisy, 6.0)
    assert 1 <= found.risen <= 4
    assert np.linalg.norm(matrix(found) - truth) < 0.6 * np.linalg.norm(noisy - truth)
    assert (found.sizes > 0).all()
    np.testing.assert_allclose(found.axes.T @ found.axes, np.eye(found.sizes.size), atol=1e-9)


def test_public_features_show_what_the_whole_matrix_hides():
    """A pattern between two classes, far below the edge of 60 items but above that of 3 classes."""
    features = np.eye(3, dtype=np.int64)[np.arange(PATTERN_ITEMS) % 3]
    basis = feature_basis(np.ones(PATTERN_ITEMS), features)
    axis = basis @ np.array([1.0, -1.0, 0.0]) / np.sqrt(2)
    noisy = 7.0 * np.outer(axis, axis) + noise(1.0)
    alone, helped = symmetric_patterns(noisy, 1.0), symmetric_patterns(noisy, 1.0, basis=basis)
    assert (alone.risen, helped.risen) == (0, 0)
    assert helped.helped >= 1
    assert abs(helped.axes[:, 0] @ axis) > 0.9


def test_features_change_nothing_without_noise():
    basis = feature_basis(np.ones(PATTERN_ITEMS), np.eye(3, dtype=np.int64)[np.arange(PATTERN_ITEMS) % 3])
    one, other = symmetric_patterns(second(), 0.0), symmetric_patterns(second(), 0.0, basis=basis)
    np.testing.assert_array_equal(one.axes, other.axes)


def test_directions_have_one_sign_and_one_order():
    found = symmetric_patterns(second(), 0.0)
    largest = found.axes[np.abs(found.axes).argmax(axis=0), np.arange(4)]
    assert (largest > 0).all()
    assert (np.diff(found.sizes) < 0).all()


def test_second_moments_are_read_off_a_sketch():
    """Users along three patterns; s is what a release makes it: a public map of the row, of norm 1."""
    rng = np.random.default_rng(4)
    axes = np.linalg.qr(rng.normal(size=(PATTERN_ITEMS, 3)))[0]
    rows = rng.normal(size=(4_000, 3)) * [3.0, 2.0, 1.0] @ axes.T
    rows *= 5.0 / np.linalg.norm(rows, axis=1, keepdims=True)
    signs = random_signs(n_items=PATTERN_ITEMS, columns=24, seed=0).astype(float)
    mapped = rows @ signs
    lengths = np.linalg.norm(mapped, axis=1, keepdims=True)
    pairs = rows.T @ (mapped / lengths)
    found = sketch_patterns(pairs, 0.0, signs, length=float(lengths.mean()))
    truth = rows.T @ rows
    assert np.linalg.norm(matrix(found) - truth) < 0.15 * np.linalg.norm(truth)
    noisy = sketch_patterns(pairs + rng.normal(scale=20, size=pairs.shape), 20.0, signs, length=float(lengths.mean()))
    assert noisy.risen == 3
    assert np.linalg.norm(matrix(noisy) - truth) < 0.3 * np.linalg.norm(truth)


@pytest.mark.parametrize("width", [5, PATTERN_ITEMS])
def test_nothing_above_the_noise_gives_no_patterns(width):
    rng = np.random.default_rng(5)
    if width == PATTERN_ITEMS:
        found = symmetric_patterns(0.5 * noise(1.0), 1.0)
    else:
        pairs = rng.normal(scale=0.5, size=(PATTERN_ITEMS, width))
        found = sketch_patterns(pairs, 1.0, np.ones((PATTERN_ITEMS, width)), length=1.0)
    assert (found.axes.shape, found.sizes.shape, found.risen) == ((PATTERN_ITEMS, 0), (0,), 0)


def test_classes_nobody_uses_make_no_basis():
    squares = np.array([1.0, 1.0, 0.0])
    assert feature_basis(squares, np.array([[1, 0], [1, 0], [0, 1]])).shape == (3, 1)


def spectrum(matrix: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    values, axes = np.linalg.eigh(matrix)
    return axes[:, ::-1][:, :rank], values[::-1][:rank]


def mixture(items: int = 50, rank: int = 4) -> np.ndarray:
    rng = np.random.default_rng(0)
    V = rng.gamma(0.3, 1.0, size=(items, rank))
    U = rng.dirichlet(np.full(rank, 0.3), size=2_000)
    return V @ (U.T @ U / 2_000) @ V.T


def test_a_mixture_of_few_patterns_is_found_again():
    truth = mixture()
    V, moments = nonnegative_factors(*spectrum(truth, 4), 4)
    assert (V >= 0).all()
    assert np.linalg.norm(V @ moments @ V.T - truth) < 0.05 * np.linalg.norm(truth)
    assert (np.linalg.eigvalsh(moments) > -1e-9).all()


def test_equal_patterns_give_equal_factors():
    one, other = (nonnegative_factors(*spectrum(mixture(), 4), 3) for _ in range(2))
    assert one[0].tobytes() == other[0].tobytes()
    assert one[1].tobytes() == other[1].tobytes()


def test_the_rank_is_never_above_what_was_asked_for():
    assert nonnegative_factors(*spectrum(mixture(), 4), 2)[0].shape[1] <= 2


def test_more_factors_fit_better():
    truth = mixture(rank=6)
    errors = []
    for rank in (1, 2, 6):
        V, moments = nonnegative_factors(*spectrum(truth, 6), rank)
        errors.append(np.linalg.norm(V @ moments @ V.T - truth))
    assert errors[0] > errors[1] > errors[2]


def test_no_patterns_give_one_factor_of_zeros():
    V, moments = nonnegative_factors(np.zeros((7, 0)), np.zeros(0), 5)
    assert (V.shape, moments.shape, V.any(), moments.any()) == ((7, 1), (1, 1), False, False)


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
