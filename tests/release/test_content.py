"""Squares as triangles and back, without the room of a second square."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from twofold.release.content import symmetric, upper_triangle


@pytest.mark.parametrize("items", [1, 2, 7])
@pytest.mark.parametrize("kind", [np.int64, np.float32, np.float64])
def test_a_triangle_and_its_square_say_the_same(items: int, kind: Any) -> None:
    upper = np.arange(1, items * (items + 1) // 2 + 1).astype(kind)
    square = symmetric(upper, items)
    assert square.dtype == np.float64
    np.testing.assert_array_equal(square, square.T)
    np.testing.assert_array_equal(square[np.triu_indices(items)], upper)
    np.testing.assert_array_equal(upper_triangle(square), upper)


def test_both_halves_have_one_zero() -> None:
    """Equal numbers are equal bytes: a negative zero would give factors another hash."""
    assert not np.signbit(symmetric(np.full(3, -0.0), 2)).any()


def test_neither_takes_the_room_of_another_square() -> None:
    items = 300
    upper, square = np.ones(items * (items + 1) // 2), np.ones((items, items))
    tracemalloc.start()
    symmetric(upper, items)
    there = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    upper_triangle(square)
    back = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert there < 1.1 * square.nbytes
    assert back < 0.6 * square.nbytes
