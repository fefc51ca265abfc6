"""Rows become whole numbers within their bounds, and points within the ball, exactly and one row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from twofold.errors import BadNumber, BadPrivacyParameter, BadShape
from twofold.privacy.grid import Grid
from twofold.release.balcan.projection import (
    RADIUS,
    RowBounds,
    clip_to_ball,
    project,
    projection_matrix,
    record_blocks,
    records,
)

BOUNDS = RowBounds(bound=5, l1=20, l2=9, signed=True, grid=Grid(exponent=-8))


def some_rows(n: int = 200, m: int = 40, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, m)) * rng.choice([0.01, 1, 50], (n, 1)) * (rng.random((n, m)) < 0.4)


def test_records_keep_every_bound_exactly() -> None:
    rows = some_rows()
    rows[0] = np.eye(40)[0] * 1e6
    whole = records(rows, BOUNDS).toarray()
    assert np.abs(whole).max() == BOUNDS.entry_steps == whole[0, 0]
    assert np.abs(whole).sum(axis=1).max() <= BOUNDS.l1_steps
    assert (whole**2).sum(axis=1).max() <= BOUNDS.l2_steps_squared
    # the caps are reached, or the test would prove nothing
    assert np.abs(whole).sum(axis=1).max() > 0.98 * BOUNDS.l1_steps


def test_rows_within_bounds_are_only_rounded() -> None:
    rows = np.round(np.random.default_rng(1).uniform(-1, 1, (30, 10)), 3)
    assert np.abs(BOUNDS.grid.back(records(rows, BOUNDS).toarray()) - rows).max() <= 2.0**-9


def test_negative_entries_are_cut_unless_signed() -> None:
    plain = RowBounds(bound=1, l1=2, l2=2, grid=Grid(exponent=-4))
    assert records([[-1.0, 0.5]], plain).toarray().tolist() == [[0, 8]]


def test_a_user_aligned_with_the_projection_stays_in_the_ball() -> None:
    m, p = 457, 3
    matrix = projection_matrix(m, p, seed=5)
    top = np.linalg.svd(matrix.astype(float), full_matrices=False)[0][:, 0]
    attacker = 9 * top / np.linalg.norm(top)
    bounds = RowBounds(bound=9, l1=400, l2=9, signed=True, grid=Grid(exponent=-8))
    unclipped = np.linalg.norm(attacker @ matrix / 1024 / np.sqrt(p)) / 9
    assert unclipped > 10  # the audit's 13.3 for this shape: without clipping the ball would be left by far
    point = project(attacker[None, :], bounds=bounds, dimension=p, radius=9, seed=5).astype(np.int64)
    assert RADIUS * 0.999 < np.sqrt((point**2).sum()) <= RADIUS


def test_every_point_is_in_the_ball() -> None:
    points = project(some_rows(), bounds=BOUNDS, dimension=4, radius=3, seed=0).astype(np.int64)
    norms = (points**2).sum(axis=1)
    assert norms.max() <= RADIUS**2
    assert (norms > 0.99 * RADIUS**2).sum() > 20  # many were outside before


def test_a_point_depends_on_its_own_row_alone() -> None:
    rows = some_rows(60)
    together = project(rows, bounds=BOUNDS, dimension=4, radius=9, seed=2)
    alone = [project(row[None, :], bounds=BOUNDS, dimension=4, radius=9, seed=2)[0] for row in rows]
    assert (together == np.array(alone)).all()
    assert (together == project(sp.csr_array(rows), bounds=BOUNDS, dimension=4, radius=9, seed=2)).all()


def test_blocks_do_not_matter() -> None:
    rows = some_rows(50)
    joined = np.concatenate([block.toarray() for _, block in record_blocks(rows, BOUNDS, rows=7)])
    assert (joined == records(rows, BOUNDS).toarray()).all()


def test_repeated_sparse_entries_are_added_before_they_are_clipped() -> None:
    doubled = sp.coo_array(([4.0, 4.0], ([0, 0], [1, 1])), shape=(1, 3))
    assert records(doubled, BOUNDS).toarray()[0, 1] == BOUNDS.entry_steps


def test_lengths_survive_on_average_in_many_dimensions() -> None:
    rows = np.random.default_rng(3).uniform(-0.5, 0.5, (20, 400))
    bounds = RowBounds(bound=1, l1=400, l2=20, signed=True, grid=Grid(exponent=-8))
    points = project(rows, bounds=bounds, dimension=300, radius=20, seed=1)
    ratio = np.linalg.norm(points, axis=1) * 20 / RADIUS / np.linalg.norm(rows, axis=1)
    assert ratio == pytest.approx(1, abs=5 / np.sqrt(2 * 300))


def test_few_items_are_not_projected() -> None:
    bounds = RowBounds(bound=1, l1=2, l2=2, grid=Grid(exponent=-8))
    points = project([[1.0, 0.5]], bounds=bounds, dimension=6, radius=2, seed=0)
    assert points.tolist() == [[RADIUS // 2, RADIUS // 4]]


def test_the_matrix_is_public_and_repeatable() -> None:
    assert (projection_matrix(50, 4, seed=1) == projection_matrix(50, 4, seed=1)).all()
    assert (projection_matrix(50, 4, seed=1) != projection_matrix(50, 4, seed=2)).any()


def test_no_rows_give_no_points() -> None:
    assert project(np.zeros((0, 9)), bounds=BOUNDS, dimension=3, radius=1, seed=0).shape == (0, 3)


def test_clip_to_ball_leaves_inner_points_alone() -> None:
    inner = np.array([[RADIUS, 0], [0, 0], [-3, 7]])
    assert (clip_to_ball(inner) == inner).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_what_is_no_number_counts_as_zero_and_changes_no_other_row(bad: float, form: Any) -> None:
    rows = np.array([[0.5, 1.0, 0.25], [1.0, bad, 0.5], [0.0, 0.75, 0.0]])
    clean = np.where(np.isfinite(rows), rows, 0.0)
    assert (records(form(rows), BOUNDS).toarray() == records(clean, BOUNDS).toarray()).all()
    assert not np.isfinite(rows[1, 1])  # the caller's rows are left alone


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(BadShape):
        list(record_blocks([1.0, 2.0], BOUNDS))
    with pytest.raises(BadNumber):
        records(np.array([["a"]]), BOUNDS)


def test_bounds_below_one_step_are_refused() -> None:
    with pytest.raises(BadPrivacyParameter):
        RowBounds(bound="1/10", l1=1, l2=1, grid=Grid())
