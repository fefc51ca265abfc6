"""Bounds: one user's row at a time, public numbers only, and the caps really hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from twofold import Bounds, Catalog, Ratings
from twofold.data.catalog import Identifiers
from twofold.errors import BadBound

N_ITEMS = 12
VALUES = st.one_of(st.just(0.0), st.floats(0, 1e7, width=32), st.integers(0, 9).map(float))
ROWS = st.lists(st.dictionaries(st.integers(0, N_ITEMS - 1), VALUES, max_size=N_ITEMS), min_size=1, max_size=6)
BOUNDS = st.builds(
    Bounds,
    bound=st.floats(0.01, 1e6),
    max_items=st.one_of(st.none(), st.integers(1, N_ITEMS)),
    keep=st.sampled_from(["random", "largest"]),
    norm=st.just("l1"),
    norm_cap=st.floats(0.01, 1e6),
    seed=st.integers(0, 3),
)


def table(rows: list[dict[int, float]], users: list[int] | None = None, dtype: Any = np.float32) -> Ratings:
    cells = [(row, column, value) for row, entries in enumerate(rows) for column, value in sorted(entries.items())]
    shape = (len(rows), N_ITEMS)
    data = np.array([value for _, _, value in cells], dtype=dtype)
    indptr = np.cumsum([0, *(len(entries) for entries in rows)])
    matrix = sparse.csr_array((data, np.array([c for _, c, _ in cells], dtype=np.int32), indptr), shape=shape)
    return Ratings(matrix, Identifiers(users or range(len(rows))), Catalog(range(N_ITEMS)), "counts")


@given(ROWS, BOUNDS, st.sampled_from([np.float32, np.float64]))
def test_every_cap_holds(rows: list[dict[int, float]], bounds: Bounds, dtype: Any) -> None:
    bounded, _ = bounds.apply(table(rows, dtype=dtype))
    for user in bounded.user_ids:
        entries = bounded.of(user)
        assert len(entries) <= (bounds.max_items or N_ITEMS)
        assert all(0 <= value <= bounds.bound for value in entries.values())
        assert bounds.norm_cap is not None
        assert math.fsum(entries.values()) <= bounds.norm_cap * (1 + 1e-12)


@given(ROWS, st.floats(0.1, 100))
def test_the_l2_cap_holds(rows: list[dict[int, float]], cap: float) -> None:
    bounded, _ = Bounds(bound=1e7, norm="l2", norm_cap=cap).apply(table(rows))
    for user in bounded.user_ids:
        assert math.hypot(*bounded.of(user).values()) <= cap * (1 + 1e-12)


@given(ROWS, BOUNDS)
def test_a_row_is_bounded_alone(rows: list[dict[int, float]], bounds: Bounds) -> None:
    """Taking everyone else away, or adding others, changes nothing for a user."""
    together, _ = bounds.apply(table(rows))
    for user, row in enumerate(rows):
        alone, _ = bounds.apply(table([row], [user]))
        assert alone.of(user) == together.of(user)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_another_user_does_not_move_the_last_bit(norm: Any) -> None:
    """A row at the very cap: had its norm been rounded with somebody else's largest value, it would be scaled."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        row = dict(enumerate(rng.integers(1, 2048, 3) / 2048))
        cap = math.fsum(row.values()) if norm == "l1" else math.hypot(*row.values())
        bounds = Bounds(bound=1, norm=norm, norm_cap=cap)
        alone, _ = bounds.apply(table([row], [0], dtype=np.float64))
        among, _ = bounds.apply(table([row, {0: float(rng.random())}], [0, 1], dtype=np.float64))
        assert alone.of(0) == among.of(0)


@given(ROWS)
def test_wide_bounds_change_nothing(rows: list[dict[int, float]]) -> None:
    ratings = table(rows)
    bounded, report = Bounds(bound=1e9, max_items=N_ITEMS, norm="l1", norm_cap=1e12).apply(ratings)
    assert bounded.digest() == ratings.digest()
    assert report.mass_kept == pytest.approx(1)


@given(ROWS, BOUNDS)
def test_the_report_adds_up(rows: list[dict[int, float]], bounds: Bounds) -> None:
    ratings = table(rows)
    bounded, report = bounds.apply(ratings)
    before, after = ratings.matrix.data.sum(dtype=float), bounded.matrix.data.sum(dtype=float)
    if before > 1e-30:
        assert report.mass_kept == pytest.approx(after / before, abs=1e-6)
    dropped = ratings.n_entries - bounded.n_entries
    assert report.entries_dropped == pytest.approx(dropped / max(ratings.n_entries, 1))


def test_the_largest_entries_stay_and_ties_go_to_the_lower_column() -> None:
    bounded, report = Bounds(bound=9, max_items=2, keep="largest").apply(table([{0: 1, 3: 5, 4: 5, 7: 5}]))
    assert bounded.of(0) == {3: 5.0, 4: 5.0}
    assert report.users_truncated == 1


def test_a_random_subset_is_uniform_over_users_and_differs_between_seeds() -> None:
    rows = [dict.fromkeys(range(N_ITEMS), 1.0)] * 3000
    bounded, _ = Bounds(bound=1, max_items=3).apply(table(rows))
    shares = np.bincount(bounded.matrix.indices, minlength=N_ITEMS) / 3000
    assert np.abs(shares - 3 / N_ITEMS).max() < 5 * math.sqrt(0.25 * 0.75 / 3000)
    other, _ = Bounds(bound=1, max_items=3, seed=1).apply(table(rows))
    assert (other.matrix != bounded.matrix).nnz > 0


def test_observed_zeros_stay_and_negative_scores_are_clipped() -> None:
    bounded, _ = Bounds(bound=5).apply(table([{0: 0.0, 1: 9.0}]))
    assert bounded.of(0) == {0: 0.0, 1: 5.0}
    scores = Ratings(sparse.csr_array([[-7.0, 3.0]]), Identifiers([0]), Catalog(["x", "y"]), "ratings")
    assert Bounds(bound=5, lower=-5).apply(scores)[0].of(0) == {"x": -5.0, "y": 3.0}


def test_whole_counts_at_the_cap_are_left_alone() -> None:
    bounded, report = Bounds(bound=9, norm="l1", norm_cap=6).apply(table([{0: 2, 1: 4}]))
    assert bounded.of(0) == {0: 2.0, 1: 4.0}
    assert report.users_scaled == 0


@pytest.mark.parametrize(
    "keywords",
    [
        {"bound": 0},
        {"bound": math.nan},
        {"bound": math.inf},
        {"bound": 1, "lower": 1},
        {"bound": 1, "max_items": 0},
        {"bound": 1, "max_items": 6.5},
        {"bound": "5"},
        {"bound": None},
        {"bound": 1, "keep": "first"},
        {"bound": 1, "norm": "l1"},
        {"bound": 1, "norm_cap": 3},
        {"bound": 1, "norm": "l3", "norm_cap": 3},
        {"bound": 1, "norm": "l2", "norm_cap": -1},
    ],
)
def test_unusable_bounds_are_refused(keywords: dict[str, Any]) -> None:
    with pytest.raises(BadBound):
        Bounds(**keywords)
