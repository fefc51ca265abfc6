"""Sums over redrawn users: seeded, the same in any block, with the right spread."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.evaluation.summary import resampled_sums, with_interval


def test_blocks_do_not_matter() -> None:
    columns = np.random.default_rng(0).random((17, 3))
    sums = [resampled_sums(columns, 50, np.random.default_rng(1), block_draws=size) for size in (1, 40, 10**6)]
    np.testing.assert_allclose(sums[0], sums[1], rtol=1e-13)
    np.testing.assert_allclose(sums[0], sums[2], rtol=1e-13)


def test_every_sum_is_of_as_many_users() -> None:
    sums = resampled_sums(np.ones((17, 1)), 50, np.random.default_rng(1))
    assert sums.tolist() == [[17.0]] * 50


def test_the_same_users_for_all_columns() -> None:
    column = np.random.default_rng(0).random(17)
    sums = resampled_sums(np.column_stack([column, 2 * column]), 50, np.random.default_rng(1))
    np.testing.assert_allclose(2 * sums[:, 0], sums[:, 1])


def test_the_spread_is_that_of_a_mean() -> None:
    column = np.random.default_rng(0).normal(size=400)
    means = resampled_sums(column[:, None], 20_000, np.random.default_rng(1))[:, 0] / 400
    assert means.mean() == pytest.approx(column.mean(), abs=4 * column.std() / np.sqrt(400 * 20_000))
    assert means.std() == pytest.approx(column.std() / np.sqrt(400), rel=0.03)


def test_nobody_to_draw() -> None:
    assert resampled_sums(np.empty((0, 2)), 3, np.random.default_rng(0)).tolist() == [[0.0, 0.0]] * 3


def test_interval_holds_its_share() -> None:
    replicates = np.random.default_rng(0).random(10_001)
    found = with_interval(np.concatenate([[0.4], replicates]), 0.8)
    assert found["value"] == 0.4
    assert found["low"] is not None
    assert found["high"] is not None
    assert np.mean((replicates >= found["low"]) & (replicates <= found["high"])) == pytest.approx(0.8, abs=1e-3)


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert with_interval(np.array([0.4]), 0.8) == {"value": 0.4, "low": None, "high": None}
    assert with_interval(np.array([0.4, 1.0, np.nan]), 0.8) == {"value": 0.4, "low": None, "high": None}
