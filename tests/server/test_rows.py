"""Noise-aware factorization: plain NMF without noise, little from noise alone, strong patterns at full size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from twofold.algorithms import masked_nmf
from twofold.federation.plan import CatalogKey, Plan
from twofold.release.content import WeightedRows
from twofold.server import factorize_rows
from twofold.server.denoise import canonical
from twofold.server.rows import MOST_ITERATIONS, TOLERANCE, above_noise, unshrunk

MakePlan = Callable[..., Plan]


def table(values: Any, *, weights: Any = None, noise: float = 0.0, entry_weights: Any = None) -> WeightedRows:
    values = np.asarray(values, dtype=np.float64)
    own = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    return WeightedRows(
        values=values,
        row_weights=own,
        noise=np.full(len(values), noise),
        sizes=own,
        seeded=True,
        entry_weights=entry_weights,
    )


def wide(make_plan: MakePlan, n_items: int, **changes: Any) -> Plan:
    return make_plan(catalog=CatalogKey(hash="a" * 64, n_items=n_items), **({"max_items": min(6, n_items)} | changes))


def test_without_noise_it_is_plain_nmf(make_plan: MakePlan) -> None:
    rng, plan = np.random.default_rng(0), wide(make_plan, 30, rank=3, mechanism="kmeans", seed=5)
    X = rng.random((20, 3)) @ rng.random((3, 30)) + 0.1 * rng.random((20, 30))
    weights = rng.integers(1, 9, 20)
    found = factorize_rows(table(X, weights=weights), plan)
    scale = np.sqrt(weights / weights.mean())[:, None]
    U, V = masked_nmf(
        scale * X,
        3,
        regularization=plan.regularization,
        count_scaling=0.0,
        rng=5,
        dtype=np.float64,
        max_iterations=MOST_ITERATIONS,
        tolerance=TOLERANCE,
    )
    users = U / scale
    expected = canonical(V, (users * weights[:, None]).T @ users / weights.sum())
    np.testing.assert_allclose(found.factors, expected[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.moments, expected[1], rtol=1e-6, atol=1e-9)
    assert found.note == ""


def test_without_noise_ratings_are_plain_weighted_nmf(make_plan: MakePlan) -> None:
    rng = np.random.default_rng(1)
    plan = wide(make_plan, 25, feedback="ratings", rank=2, mechanism="kmeans", regularization=0.0)
    X = 1 + (rng.random((15, 2)) @ rng.random((2, 25))) * 2
    weights = rng.integers(0, 9, X.shape).astype(float)
    weights[:, 3], X[weights == 0] = 0.0, 3.0
    found = factorize_rows(table(X, weights=weights.sum(axis=1), entry_weights=weights), plan)
    approximated = _nearest(X, weights, found.factors)
    direct = masked_nmf(X, 2, weights=weights, regularization=0.0, dtype=np.float64, max_iterations=500, tolerance=1e-9)
    ours, plain = (((weights * (X - Z) ** 2).sum()) for Z in (approximated, direct[0] @ direct[1].T))
    assert ours <= plain * 1.05 + 1e-6
    assert (found.factors[3] == 0).all()
    assert found.support[3] == 0
    assert found.means[3] == plan.centre_value


def _nearest(X: Any, weights: Any, V: Any) -> Any:
    """Rows of X seen through V, by weighted least squares."""
    rows = [
        np.linalg.lstsq(V * np.sqrt(w)[:, None], x * np.sqrt(w), rcond=None)[0] @ V.T
        for x, w in zip(X, weights, strict=True)
    ]
    return np.array(rows)


@pytest.mark.parametrize("shape", [(200, 60), (30, 300)])
@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_noise_alone_gives_nothing(make_plan: MakePlan, shape: tuple[int, int], law: str) -> None:
    rng, plan = np.random.default_rng(3), wide(make_plan, shape[1], rank=5, regularization=0.0)
    noise = rng.normal(size=shape) if law == "normal" else rng.laplace(scale=np.sqrt(0.5), size=shape)
    loud = factorize_rows(table(noise, noise=1.0), plan)
    unaware = factorize_rows(table(noise, noise=0.0), plan)
    energy = [np.trace(one.factors @ one.moments @ one.factors.T) for one in (loud, unaware)]
    assert energy[0] <= 0.02 * energy[1]
    quarter = factorize_rows(table(noise, noise=0.25), plan)  # the test can fail: too small an edge lets noise in
    assert np.trace(quarter.factors @ quarter.moments @ quarter.factors.T) > 0.2 * energy[1]


def test_patterns_above_the_edge_survive_and_noise_is_left_out(make_plan: MakePlan) -> None:
    rng, plan = np.random.default_rng(4), wide(make_plan, 100, rank=10, regularization=0.0)
    pattern = np.zeros((2, 100))
    pattern[0, :50], pattern[1, 50:] = 1.0, 1.0
    clean = np.repeat(pattern, 100, axis=0)
    noisy = clean + rng.normal(scale=1.5, size=clean.shape)
    truth = clean.T @ clean / len(clean)
    away = []
    for noise in (1.5, 0.0):
        found = factorize_rows(table(noisy, noise=noise), plan)
        away.append(np.linalg.norm(found.factors @ found.moments @ found.factors.T - truth) / np.linalg.norm(truth))
    assert away[0] < 0.6 * away[1]


def test_rows_with_more_noise_say_less(make_plan: MakePlan) -> None:
    plan = wide(make_plan, 4, rank=1, regularization=0.0)
    X = [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 9.0, 9.0]]
    found = factorize_rows(table(X, weights=[10_000.0, 1.0]), plan)
    assert found.factors[0, 0] > 0
    assert found.factors[2, 0] < found.factors[0, 0] / 100


def test_values_are_not_clipped_before_factorizing(make_plan: MakePlan) -> None:
    rng, plan = np.random.default_rng(5), wide(make_plan, 2, rank=1, regularization=0.0)
    X = np.column_stack([np.ones(4000), rng.normal(scale=0.3, size=4000)])
    found, clipped = (factorize_rows(table(x), plan) for x in (X, np.maximum(X, 0)))
    assert abs(found.means[1]) < 0.02
    assert clipped.means[1] > 0.1
    assert clipped.factors[1, 0] > 0.1 * clipped.factors[0, 0]
    assert found.factors[1, 0] < 0.02 * found.factors[0, 0]


def test_one_row_lowers_the_rank_and_says_so(make_plan: MakePlan) -> None:
    found = factorize_rows(table([[1.0, 2.0, 3.0]]), wide(make_plan, 3, rank=4))
    assert found.factors.shape == (3, 1)
    assert "rank lowered from 4 to 1" in found.note


def test_nobody_there_is_all_zeros(make_plan: MakePlan) -> None:
    found = factorize_rows(table([[1.0, 2.0, 3.0]], weights=[0.0]), wide(make_plan, 3))
    assert not found.factors.any()
    assert (found.users, found.support.tolist()) == (0.0, [0.0] * 3)
    assert "all factors are zero" in found.note


def test_drowned_rows_are_all_zeros_and_the_note_says_so(make_plan: MakePlan) -> None:
    found = factorize_rows(table([[0.1, -0.2, 0.1]] * 5, noise=50.0), wide(make_plan, 3))
    assert not found.factors.any()
    assert "nothing rose above the noise" in found.note


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_threads_change_no_bit(make_plan: MakePlan, feedback: str) -> None:
    rng, plan = np.random.default_rng(6), wide(make_plan, 100, rank=3, feedback=feedback)
    X = rng.random((2500, 100)) * 3 + 1
    weights = rng.random((2500, 100)) * 5 if feedback == "ratings" else None
    rows = table(X, weights=rng.random(2500) * 9, noise=0.01, entry_weights=weights)
    one, two = (factorize_rows(rows, plan, threads=threads) for threads in (1, 2))
    for name in ("factors", "moments", "means", "support"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_units_of_the_weights_do_not_matter(make_plan: MakePlan, scale: float) -> None:
    rng, plan = np.random.default_rng(7), wide(make_plan, 10, rank=2)
    X, weights = rng.random((9, 10)), rng.random(9)
    one, two = (factorize_rows(table(X, weights=weights * by), plan) for by in (1.0, scale))
    np.testing.assert_allclose(one.factors, two.factors, rtol=1e-9, atol=1e-12)
    assert two.users == pytest.approx(one.users * scale)


def test_means_are_weighted(make_plan: MakePlan) -> None:
    found = factorize_rows(table([[1.0, 0.0], [4.0, 1.0]], weights=[3.0, 1.0]), wide(make_plan, 2))
    assert found.means.tolist() == [1.75, 0.25]
    assert found.support.tolist() == [4.0, 4.0]
    assert found.users == 4.0


def test_no_noise_changes_nothing() -> None:
    moments = np.array([[2.0, 1.0], [1.0, 3.0]])
    assert unshrunk(np.eye(3)[:, :2], np.eye(2), moments, 0.0) is moments


@pytest.mark.parametrize("rank", [1, 3])
def test_every_singular_value_gets_its_own_gain(rank: int) -> None:
    rng = np.random.default_rng(rank)
    U, V = rng.random((20, rank)), rng.random((9, rank))
    gram, edge = U.T @ U, 0.7
    found = V @ unshrunk(V, gram, gram, edge) @ V.T
    sizes = np.linalg.svd(U @ V.T, compute_uv=False)[:rank]
    expected = np.sort(sizes * (sizes + 2 * edge))[::-1]
    np.testing.assert_allclose(np.linalg.eigvalsh(found)[::-1][:rank], expected, rtol=1e-9)


def test_a_pattern_in_two_equal_factors_counts_as_one() -> None:
    u, v, edge = np.ones((4, 1)), np.arange(1.0, 4.0)[:, None], 2.0
    once = v @ unshrunk(v, u.T @ u, u.T @ u, edge) @ v.T
    U, V = np.hstack([u, u]) / 2**0.5, np.hstack([v, v]) / 2**0.5
    twice = V @ unshrunk(V, U.T @ U, U.T @ U, edge) @ V.T
    np.testing.assert_allclose(once, twice, rtol=1e-9)


def test_a_factor_below_a_hundredth_of_the_edge_is_dead() -> None:
    V, gram = np.ones((1, 2)), np.diag([1.0, 1e-6])
    assert above_noise(V, gram, 1.0).tolist() == [0]
    assert above_noise(V, gram, 0.0).tolist() == [0, 1]
