"""Pooled RMSE and its mean over entities are different numbers, and both are right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import BadShape
from twofold.evaluation.rmse import rmse_per_entity_mean, rmse_pooled


def test_by_hand() -> None:
    # Entity 1: errors 1, 1, 1 (RMSE 1); entity 2: error 3 (RMSE 3).
    assert rmse_pooled([3.0, 9.0], [3, 1]) == pytest.approx(np.sqrt(12 / 4))
    assert rmse_per_entity_mean([3.0, 9.0], [3, 1]) == pytest.approx((3 * 1 + 1 * 3) / 4)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 50)), min_size=1, max_size=9))
def test_the_mean_is_never_above_the_pooled_one(parts: list[tuple[float, int]]) -> None:
    squares, entries = zip(*parts, strict=True)
    assert rmse_per_entity_mean(squares, entries) <= rmse_pooled(squares, entries) * (1 + 1e-12)


def test_equal_where_entities_are_equally_wrong() -> None:
    assert rmse_per_entity_mean([8.0, 4.0], [4, 2]) == pytest.approx(rmse_pooled([8.0, 4.0], [4, 2]))


def test_an_entity_without_entries_changes_nothing() -> None:
    for metric in (rmse_pooled, rmse_per_entity_mean):
        assert metric([3.0, 0.0, 9.0], [3, 0, 1]) == metric([3.0, 9.0], [3, 1])
        assert np.isnan(metric([0.0], [0]))


def test_leading_axes_are_kept() -> None:
    squares, entries = np.array([[3.0, 9.0], [0.0, 0.0]]), np.array([[3, 1], [0, 0]])
    for metric in (rmse_pooled, rmse_per_entity_mean):
        np.testing.assert_array_equal(metric(squares, entries), [metric([3.0, 9.0], [3, 1]), np.nan])


def test_shapes_must_fit() -> None:
    with pytest.raises(BadShape):
        rmse_pooled([1.0], [1, 2])
    with pytest.raises(BadShape):
        rmse_pooled(1.0, 1)
