"""Passes over blocks reach what one table in memory reaches, in bounded memory."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from twofold.federation.plan import CatalogKey, Plan
from twofold.release.combine import joined
from twofold.release.content import WeightedRows
from twofold.server import streaming
from twofold.server.descent import Scaling, descend, row_equations, scaling, solve, survey
from twofold.server.rows import factorize_rows, fit_items, usable_rank
from twofold.server.streaming import factorize_blocks

MakePlan = Callable[..., Plan]


def block(seed: int, plan: Plan, n_rows: int = 10, noise: float = 0.05) -> WeightedRows:
    """Rows with a few common patterns."""
    common, rng = np.random.default_rng(99), np.random.default_rng(seed)
    patterns = common.random((3, plan.n_items)) ** 4 * 3
    values = rng.random((n_rows, 3)) @ patterns + rng.normal(scale=0.3, size=(n_rows, plan.n_items))
    weights, entry_weights = rng.random(n_rows) * 50 + 1, None
    if plan.feedback == "ratings":
        values, entry_weights = 1 + values, rng.random(values.shape) * weights[:, None]
    return WeightedRows(
        values=values,
        row_weights=weights,
        noise=np.full(n_rows, noise),
        sizes=weights,
        seeded=True,
        entry_weights=entry_weights,
    )


def objective(rows: WeightedRows, V: Any, scale: Scaling) -> float:
    Y, weights, _ = scale.rows(rows)
    gram, given, squares = row_equations(Y, weights, V)
    return squares - float((solve(gram, given, scale.ridge) * given).sum()) + scale.ridge * float((V**2).sum())


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_streaming_and_memory_reach_the_same_objective(make_plan: MakePlan, feedback: str, noise: float) -> None:
    plan = make_plan(catalog=CatalogKey(hash="a" * 64, n_items=40), feedback=feedback, rank=3, regularization=0.02)
    parts = [block(seed, plan, noise=noise) for seed in range(12)]
    rows, seen = joined(parts), survey(parts, plan)
    scale = scaling(seen, plan)
    inside = fit_items(rows, scale, rank=usable_rank(plan, seen), seed=0, threads=1)
    start = streaming._start(lambda: iter(parts), scale, plan, 3, 20, 1)
    looks = lambda V: streaming._look(lambda: iter(parts), V, scale, plan, 1)  # noqa: E731
    passed = descend(looks, start, most=streaming.MOST_PASSES, tolerance=streaming.PASS_TOLERANCE)
    one, two, before = (objective(rows, V, scale) for V in (inside, passed, start))
    assert two == pytest.approx(one, rel=2e-3)
    assert two <= before
    shared = factorize_blocks(lambda: iter(parts), plan, start_rows=20)
    stacked = factorize_rows(rows, plan)
    together, apart = (one.factors @ one.moments @ one.factors.T for one in (stacked, shared))
    assert np.linalg.norm(together - apart) < 0.05 * np.linalg.norm(together)
    np.testing.assert_allclose(shared.means, stacked.means, rtol=1e-12)
    np.testing.assert_allclose(shared.support, stacked.support, rtol=1e-12)
    assert shared.users == pytest.approx(stacked.users, rel=1e-12)


def test_a_pass_never_raises_the_objective(make_plan: MakePlan) -> None:
    plan = make_plan(catalog=CatalogKey(hash="a" * 64, n_items=40), rank=3)
    parts = [block(seed, plan) for seed in range(6)]
    scale = scaling(survey(parts, plan), plan)
    V, trace = np.random.default_rng(0).random((40, 3)), []
    for _ in range(8):
        found = streaming._look(lambda: iter(parts), V, scale, plan, 1)
        trace.append(found.objective)
        assert found.objective == pytest.approx(objective(joined(parts), V, scale), rel=1e-9)
        V = found.next_items()
    assert all(after <= before * (1 + 1e-12) for before, after in itertools.pairwise(trace))
    assert trace[-1] < trace[0]


def test_one_block_at_a_time_is_in_memory(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "MOST_PASSES", 4)
    plan = make_plan(catalog=CatalogKey(hash="a" * 64, n_items=5_000), rank=2)
    size, calls = 10 * 5_000 * 8, 0

    def blocks() -> Iterator[WeightedRows]:
        nonlocal calls
        calls += 1
        return (block(seed, plan) for seed in range(40))

    tracemalloc.start()
    factorize_blocks(blocks, plan, start_rows=20, threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15 * size  # all rows together are 40 times that size
    assert 5 < calls <= 5 + 2 * 4  # totals, three for the sketch, moments, and the passes


def test_rows_without_weight_give_zeros(make_plan: MakePlan) -> None:
    plan = make_plan()
    empty = WeightedRows(
        values=np.ones((2, plan.n_items)), row_weights=np.zeros(2), noise=np.ones(2), sizes=np.zeros(2), seeded=True
    )
    found = factorize_blocks(lambda: iter([empty, empty]), plan)
    assert not found.factors.any()


def test_the_start_has_as_many_rows_as_factors(make_plan: MakePlan) -> None:
    plan = make_plan()
    taken = streaming._first(iter([block(0, plan, 2), block(1, plan, 2), block(2, plan, 2)]), rows=1, rank=3)
    assert taken.n_rows == 4
