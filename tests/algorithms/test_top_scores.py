"""The best items of given scores: against a plain sort, with ties, filters and seen items."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from twofold.algorithms._jit import without_numba
from twofold.algorithms.top_items import top_items, top_scores
from twofold.errors import BadNumber, BadParameter, BadShape


def plain(scores: np.ndarray, n: int, seen: np.ndarray, allowed: np.ndarray) -> list[list[int]]:
    """By the book: sort all candidates by falling score, then by number."""
    lines = []
    for line, had in zip(scores, seen, strict=True):
        open_ = [c for c in range(line.size) if allowed[c] and not had[c]]
        best = sorted(open_, key=lambda c: (-line[c], c))[:n]
        lines.append(best + [-1] * (n - len(best)))
    return lines


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 10, 60]))
def test_it_is_a_sort_with_ties_by_number(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    users, items = int(rng.integers(0, 6)), int(rng.integers(1, 80))
    scores = rng.integers(-2, 3, (users, items)).astype(np.float32)
    seen, allowed = rng.random((users, items)) < 0.3, rng.random(items) < 0.7
    found = top_scores(scores, n, exclude=sparse.csr_array(seen), allowed=allowed)
    assert found.items.tolist() == plain(scores, n, seen, allowed)
    taken = np.where(found.items >= 0, np.take_along_axis(scores, np.maximum(found.items, 0), axis=1), -np.inf)
    assert np.array_equal(found.scores, taken)


@pytest.mark.parametrize("n", [5, 60])
def test_it_agrees_with_the_product_of_factors_and_with_the_reference(n: int) -> None:
    rng = np.random.default_rng(3)
    users, items = rng.integers(0, 4, (20, 4)).astype(np.float64), rng.integers(0, 4, (90, 4)).astype(np.float64)
    seen = sparse.csr_array(rng.random((20, 90)) < 0.2)
    expected = top_items(users, items, n, exclude=seen)
    found = top_scores(users @ items.T, n, exclude=seen)
    with without_numba():
        slow = top_scores(users @ items.T, n, exclude=seen)
    for one in (found, slow):
        assert np.array_equal(one.items, expected.items)
        assert np.array_equal(one.scores, expected.scores)


def test_what_is_given_stays_as_it_is() -> None:
    scores = np.ones((2, 3), np.float32)
    top_scores(scores, 1, exclude=sparse.csr_array(np.eye(2, 3)))
    assert scores.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_bad_input_is_refused() -> None:
    with pytest.raises(BadParameter):
        top_scores(np.ones((1, 2)), 0)
    with pytest.raises(BadShape):
        top_scores(np.ones(3), 1)
    with pytest.raises(BadNumber):
        top_scores(np.array([[1.0, np.nan]]), 1)
    with pytest.raises(BadShape):
        top_scores(np.ones((1, 2)), 1, exclude=sparse.csr_array((2, 2)))
