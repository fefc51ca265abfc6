"""Passes over blocks reach what one table in memory reaches, in bounded memory."""

from __future__ import annotations

import itertools
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from twofold.federation.plan import CatalogKey, Plan
from twofold.release.combine import joined
from twofold.release.content import WeightedRows
from twofold.server import streaming
from twofold.server.descent import Scaling, descend, row_equations, scaling, solve, survey
from twofold.server.rows import factorize_rows, fit_items, usable_rank
from twofold.server.streaming import ahead, factorize_blocks, squeezed

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
    start = np.random.default_rng(0).random((40, 3))
    passed, settled = descend(looks(parts, plan), start, most=100, tolerance=1e-6)
    assert settled
    assert objective(rows, passed.V, scale) == pytest.approx(objective(rows, inside, scale), rel=2e-3)
    shared = factorize_blocks(lambda: iter(parts), plan, start_rows=20)
    stacked = factorize_rows(rows, plan)
    together, apart = (one.factors @ one.moments @ one.factors.T for one in (stacked, shared))
    assert np.linalg.norm(together - apart) < 0.05 * np.linalg.norm(together)
    np.testing.assert_allclose(shared.means, stacked.means, rtol=1e-12)
    np.testing.assert_allclose(shared.support, stacked.support, rtol=1e-12)
    assert shared.users == pytest.approx(stacked.users, rel=1e-12)


def looks(parts: list[WeightedRows], plan: Plan) -> Callable[[Any], Any]:
    """True passes over the parts."""
    seen = survey(parts, plan)
    scale = scaling(seen, plan)
    if plan.feedback == "counts":
        return lambda V: streaming._look_at_counts(lambda: iter(parts), V, seen, scale, 1)
    return lambda V: streaming._look_at_ratings(lambda: iter(parts), V, scale, 1)


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_a_pass_never_raises_the_objective(make_plan: MakePlan, feedback: str) -> None:
    plan = make_plan(catalog=CatalogKey(hash="a" * 64, n_items=40), feedback=feedback, rank=3)
    parts = [block(seed, plan) for seed in range(6)]
    scale, look = scaling(survey(parts, plan), plan), looks(parts, plan)
    V, trace = np.random.default_rng(0).random((40, 3)), []
    for _ in range(8):
        found = look(V)
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
    assert 2 + 2 <= calls <= 2 + 2 * 4  # two to squeeze the rows, and the passes, of which a step may need two


def few(n_items: int, make_plan: MakePlan, **changes: Any) -> Plan:
    return make_plan(catalog=CatalogKey(hash="a" * 64, n_items=n_items), **({"rank": 3} | changes))


def patterned(seed: int, plan: Plan, *, patterns: int, noise: float, n_rows: int = 10) -> WeightedRows:
    """Rows of a few patterns, with noise of a stated size."""
    common, rng = np.random.default_rng(7), np.random.default_rng(seed)
    values = rng.random((n_rows, patterns)) @ (common.random((patterns, plan.n_items)) ** 4 * 3)
    weights = rng.random(n_rows) * 50 + 1
    return WeightedRows(
        values=values + noise * rng.normal(size=values.shape),
        row_weights=weights,
        noise=np.full(n_rows, noise),
        sizes=weights,
        seeded=True,
    )


def test_squeezed_rows_are_the_rows_where_nothing_is_left_out(make_plan: MakePlan) -> None:
    """A catalog of fewer items than directions: every number of a squeezed look is that of a true one."""
    plan = few(20, make_plan)
    parts = [patterned(seed, plan, patterns=3, noise=0.3) for seed in range(6)]
    small, V = squeezed(lambda: iter(parts), plan), np.random.default_rng(1).random((20, 3))
    rows = np.concatenate([small.scale.rows(part)[0] for part in parts])
    np.testing.assert_allclose(small.left @ small.right.T, rows, rtol=1e-9, atol=1e-9)
    ours, true = small.look(V, 1), looks(parts, plan)(V)
    assert ours.objective == pytest.approx(true.objective, rel=1e-9)
    for name in ("gram", "given", "energy"):
        np.testing.assert_allclose(getattr(ours, name), getattr(true, name), rtol=1e-8)
    np.testing.assert_allclose(ours.next_items(), true.next_items(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.1, 1.0])
@pytest.mark.parametrize("patterns", [1, 3, 6])
def test_true_passes_hardly_move_what_squeezed_rows_gave(make_plan: MakePlan, patterns: int, noise: float) -> None:
    """Fewer, as many and more patterns than the rank, without noise and drowned in it."""
    plan = few(300, make_plan, rank=4, regularization=0.02)
    parts = [patterned(seed, plan, patterns=patterns, noise=noise) for seed in range(12)]
    small, look = squeezed(lambda: iter(parts), plan), looks(parts, plan)
    start = look(small.descend(rank=4, seed=0, threads=1))
    end, _ = descend(look, start.V, most=200, tolerance=1e-8)
    assert start.objective <= end.objective * (1 + 2e-3)


def test_a_nearly_exact_table_is_finished_after_two_passes(make_plan: MakePlan) -> None:
    plan = few(300, make_plan, rank=6, regularization=1e-3)
    parts, calls = [patterned(seed, plan, patterns=4, noise=1e-4) for seed in range(12)], 0

    def blocks() -> Iterator[WeightedRows]:
        nonlocal calls
        calls += 1
        return iter(parts)

    found = factorize_blocks(blocks, plan)
    assert calls == 4
    assert "not converged" not in found.note


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_the_note_says_that_passes_were_used_up(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch, feedback: str
) -> None:
    plan = few(40, make_plan, feedback=feedback)
    parts = [block(seed, plan) for seed in range(6)]
    monkeypatch.setattr(streaming, "PASS_TOLERANCE", -1.0)
    monkeypatch.setattr(streaming, "MOST_PASSES", 3)
    assert "not converged: the objective still moved after 3 passes" in factorize_blocks(lambda: iter(parts), plan).note
    monkeypatch.setattr(streaming, "PASS_TOLERANCE", 1.0)
    assert "not converged" not in factorize_blocks(lambda: iter(parts), plan).note


def test_blocks_of_zeros_and_of_one_repeated_row(make_plan: MakePlan) -> None:
    plan = few(40, make_plan, regularization=0.0)
    one = patterned(0, plan, patterns=1, noise=0.0)
    zeros = replace(one, values=np.zeros_like(one.values))
    nothing = factorize_blocks(lambda: iter([zeros, zeros]), plan)
    assert not nothing.factors.any()
    assert "all factors are zero" in nothing.note
    same = replace(one, values=np.tile(one.values[:1], (one.n_rows, 1)))
    found = factorize_blocks(lambda: iter([zeros, same, same]), plan)
    expected = np.outer(same.values[0], same.values[0]) * 2 / 3
    np.testing.assert_allclose(found.factors @ found.moments @ found.factors.T, expected, rtol=1e-6, atol=1e-9)


def test_moments_are_those_of_the_rows_fitted_to_the_factors(make_plan: MakePlan) -> None:
    """The last pass has them already, for rows without weight, too."""
    plan = few(40, make_plan, regularization=0.05)
    parts = [patterned(seed, plan, patterns=3, noise=0.0) for seed in range(4)]
    parts[1] = replace(parts[1], row_weights=np.where(np.arange(10) < 4, 0.0, parts[1].row_weights))
    found = factorize_blocks(lambda: iter(parts), plan)
    rows = joined(parts)
    # Of the penalty only a little is left in the fit, so plain least squares are near.
    users = np.linalg.lstsq(found.factors, rows.values.T, rcond=None)[0].T
    expected = (users * rows.row_weights[:, None]).T @ users / rows.row_weights.sum()
    assert np.linalg.norm(found.moments - expected) < 0.01 * np.linalg.norm(expected)


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_threads_change_no_bit_and_blocks_only_rounding(make_plan: MakePlan, feedback: str) -> None:
    plan = few(3000, make_plan, feedback=feedback)
    parts = [block(seed, plan) for seed in range(6)]
    one, two = (factorize_blocks(lambda: iter(parts), plan, threads=threads) for threads in (1, 2))
    for name in ("factors", "moments", "means", "support"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    if feedback == "counts":
        pairs = [joined(parts[first : first + 2]) for first in (0, 2, 4)]
        cut = factorize_blocks(lambda: iter(pairs), plan)
        np.testing.assert_allclose(cut.means, one.means, rtol=1e-12)
        np.testing.assert_allclose(cut.factors, one.factors, rtol=1e-5, atol=1e-7)


def test_the_next_block_is_read_on_another_thread_and_its_errors_arrive(make_plan: MakePlan) -> None:
    plan, readers = make_plan(), set()

    def blocks() -> Iterator[WeightedRows]:
        for seed in range(3):
            readers.add(threading.get_ident())
            yield block(seed, plan)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(ahead(blocks(), 2))
    assert threading.get_ident() not in readers
    for one in itertools.islice(ahead(blocks(), 2), 1):  # left early: the thread ends with the loop
        assert one.n_rows == 10
    readers.clear()
    with pytest.raises(OSError, match="gone"):
        list(ahead(blocks(), 1))
    assert readers == {threading.get_ident()}


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
