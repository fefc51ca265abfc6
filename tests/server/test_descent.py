"""Scaled rows say the same as weighted ones, the edge is where noise ends, and normal equations are solved exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from twofold.algorithms import fold_in
from twofold.algorithms._reference import non_negative_quadratic
from twofold.federation.plan import CatalogKey, Plan
from twofold.release.combine import weighted_rows
from twofold.release.content import Prototypes, WeightedRows
from twofold.server import descent
from twofold.server.descent import Survey, add_item_equations, noise_edge, row_equations, scaling, solve, survey

MakePlan = Callable[..., Plan]


def rated(rng: np.random.Generator, shape: tuple[int, int]) -> WeightedRows:
    weights = rng.random(shape) * 4
    weights[:, 1], weights[2] = 0.0, 0.0
    own = weights.sum(axis=1)
    return WeightedRows(
        values=rng.random(shape) * 4 + 1,
        row_weights=own,
        noise=np.zeros(shape[0]),
        sizes=own,
        seeded=True,
        entry_weights=weights,
    )


def test_the_scaled_loss_and_penalty_are_those_of_the_sum_form(make_plan: MakePlan) -> None:
    rng, plan = np.random.default_rng(0), make_plan(feedback="ratings", mechanism="kmeans", regularization=0.3)
    rows = rated(rng, (6, plan.n_items))
    found = scaling(survey([rows], plan), plan)
    Y, weights, own = found.rows(rows)
    assert found.items is not None
    assert weights is not None
    U, V = rng.random((6, 2)), rng.random((plan.n_items, 2))
    alive = (own > 0)[:, None] & (found.items > 0)
    scaled = (own[:, None] * U) @ (found.items[:, None] * V).T
    ours = (weights * (Y - scaled) ** 2)[alive].sum()
    plain = (rows.entry_weights * (rows.values - U @ V.T) ** 2)[alive].sum() / found.unit
    assert ours == pytest.approx(plain, rel=1e-12)
    # 2 sqrt(ab)|u||v| is what a|u|² + b|v|² costs at its best split.
    rows_total, items_total = (rows.entry_weights.sum(axis=side) / found.unit for side in (1, 0))
    cost = [(rows_total @ (U**2)).sum() * 0.3, (items_total @ (V**2)).sum() * 0.3]
    scaled_cost = [((own[:, None] * U) ** 2).sum(), ((found.items[:, None] * V) ** 2).sum()]
    assert np.sqrt(np.prod(cost)) == pytest.approx(found.base * np.sqrt(np.prod(scaled_cost)), rel=1e-12)


@pytest.mark.parametrize("weights", ["equal", "uneven"])
def test_the_edge_is_where_noise_ends(make_plan: MakePlan, weights: str) -> None:
    rng = np.random.default_rng(1)
    plan = make_plan(catalog=CatalogKey(hash="a" * 64, n_items=200))
    own = np.ones(150) if weights == "equal" else rng.uniform(0.5, 1.5, 150)
    noise = 1 / np.sqrt(own)
    values = rng.normal(size=(150, 200)) * noise[:, None]
    rows = WeightedRows(values=values, row_weights=own, noise=noise, sizes=own, seeded=True)
    edge = noise_edge(survey([rows], plan))
    largest = np.linalg.norm(values * np.sqrt(own)[:, None], ord=2)
    assert largest / np.sqrt(2) == pytest.approx(edge, rel=0.05)


@pytest.mark.parametrize("shape", [(40, 60), (200, 30), (10, 200)])
def test_the_edge_is_where_noise_lies_on_average_and_not_every_draw(shape: tuple[int, int]) -> None:
    rng, seen = np.random.default_rng(4), Survey(n_items=shape[1], row_noise=float(shape[1]))
    seen.item_noise += shape[0]
    found = np.array([_best_direction(rng.normal(size=shape), rng) for _ in range(40)]) / noise_edge(seen)
    assert 0.9 < np.median(found) < 1
    assert 1 < found.max() < 1.5  # some draws pass it, none by much


def _best_direction(noise: np.ndarray, rng: np.random.Generator) -> float:
    """Largest u·Nv over unit vectors that are not negative, from several starts at once."""
    v = rng.random((noise.shape[1], 10))
    for _ in range(40):
        u = np.maximum(noise @ v, 0)
        u /= np.linalg.norm(u, axis=0)
        v = np.maximum(noise.T @ u, 0)
        v /= np.linalg.norm(v, axis=0)
    return float((u * (noise @ v)).sum(axis=0).max())


def test_the_noise_of_rated_entries_is_that_of_the_mechanism(make_plan: MakePlan) -> None:
    """Weighted errors of many drawn messages against what the server computes from the rows alone."""
    plan = make_plan(feedback="ratings", n_users=10_000, n_prototypes=1, mechanism="popularity", epsilon=1)
    known, observations = plan.spec, 4000.0
    rng, m = np.random.default_rng(2), plan.n_items
    truth, errors, said = 0.8, [], []
    for _ in range(400):
        rows = weighted_rows([_drawn(rng, known, observations, truth, m)], plan.parameters)
        seen = survey([rows], plan)
        said.append(seen.item_noise.mean())
        assert rows.entry_weights is not None
        errors.append((rows.entry_weights * (rows.values - plan.centre_value - truth) ** 2).mean())
    assert np.mean(said) == pytest.approx(np.mean(errors), rel=0.1)


def _drawn(rng: np.random.Generator, known: Any, observations: float, truth: float, m: int) -> Prototypes:
    units, noise = known.units, known.noise

    def whole(exact: float, deviation: float, unit: float, shape: tuple[int, ...]) -> Any:
        return np.round((exact + rng.normal(scale=deviation, size=shape)) / unit).astype(np.int64)

    return Prototypes(
        mechanism=known.mechanism,
        sums=whole(observations * truth, noise.values, units.values, (1, m)),
        counts=whole(2 * observations, noise.counts, units.counts, (1,)),
        observed=whole(observations, noise.observed, units.observed, (1, m)),
        units=units,
        noise=noise,
        seeded=True,
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_rows_are_fitted_as_fold_in_fits_them(weighted: bool, ridge: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "_CHUNK", 4)
    rng = np.random.default_rng(0)
    Y, V = rng.normal(size=(7, 11)), rng.random((11, 3))
    weights = rng.random((7, 11)) if weighted else None
    gram, given, squares = row_equations(Y, weights, V)
    found = solve(gram, given, ridge)
    expected = fold_in(Y, V, weights=weights, regularization=ridge, count_scaling=0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert squares == pytest.approx((Y**2 if weights is None else weights * Y**2).sum())


@pytest.mark.parametrize("weighted", [False, True])
def test_items_are_the_same_equations_turned(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "_CHUNK", 4)
    rng = np.random.default_rng(1)
    Y, U = rng.normal(size=(9, 11)), rng.random((9, 3))
    weights = rng.random((9, 11)) if weighted else None
    gram, given = np.zeros((11, 3, 3) if weighted else (3, 3)), np.zeros((11, 3))
    for part in (slice(0, 5), slice(5, 9)):
        add_item_equations(Y[part], None if weights is None else weights[part], U[part], gram, given)
    turned = None if weights is None else np.ascontiguousarray(weights.T)
    expected = fold_in(np.ascontiguousarray(Y.T), U, weights=turned, regularization=0.1, count_scaling=0.0)
    np.testing.assert_allclose(solve(gram, given, 0.1), expected, rtol=1e-8, atol=1e-10)


def test_a_singular_gram_matrix_is_no_problem() -> None:
    U = np.ones((4, 2))
    gram, given = U.T @ U, np.array([[8.0, 8.0], [-3.0, -3.0]])
    found = solve(gram, given, 0.0)
    assert (found >= 0).all()
    np.testing.assert_allclose(found @ gram, [[8.0, 8.0], [0.0, 0.0]], atol=1e-9)
    assert not solve(np.zeros((2, 2)), np.zeros((3, 2)), 0.0).any()
    np.testing.assert_allclose(gram @ non_negative_quadratic(gram, given[0]), [8.0, 8.0])
