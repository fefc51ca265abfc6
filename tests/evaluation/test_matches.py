"""Looking up lists among held-out items, and refusing what is not a list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tests.refused import refused
from twofold.errors import BadNumber, BadParameter, BadShape
from twofold.evaluation.ranking import match

TEST = sparse.csr_array(np.array([[0, 5.0, 0, 3.0], [0, 0, 0, 0], [1.0, 2.0, 3.0, 4.0]]))
LISTS = [[3, 0, 1], [2, -1, -1], [-1, -1, -1]]


def test_whole_lists() -> None:
    matches = match(LISTS, TEST)
    assert matches.hits.tolist() == [[True, False, True], [False] * 3, [False] * 3]
    assert matches.gains.tolist() == [[3.0, 0.0, 5.0], [0.0] * 3, [0.0] * 3]
    assert matches.lengths.tolist() == [3, 1, 0]
    assert matches.relevant.tolist() == [2, 0, 4]
    assert matches.found.tolist() == [2, 0, 0]
    assert matches.reachable.tolist() == [2, 0, 4]


def test_cut_lists() -> None:
    matches = match(LISTS, TEST, n=1)
    assert matches.hits.tolist() == [[True], [False], [False]]
    assert matches.lengths.tolist() == [1, 1, 0]
    assert matches.reachable.tolist() == [1, 0, 1]


def test_a_cut_beyond_the_lists_changes_only_what_is_reachable() -> None:
    matches = match(LISTS, TEST, n=100)
    assert matches.hits.shape == (3, 3)
    assert matches.reachable.tolist() == [2, 0, 4]


@given(st.integers(0, 2**32))
def test_equals_a_plain_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    test = sparse.csr_array(np.round(rng.random((5, 9)) * (rng.random((5, 9)) < 0.4), 3))
    lists = rng.permuted(np.tile(np.arange(9), (5, 1)), axis=1)[:, :4]
    lists[np.arange(4) >= rng.integers(0, 5, 5)[:, None]] = -1
    matches, dense = match(lists, test), test.toarray()
    for user, line in enumerate(lists):
        gains = [dense[user, item] if item >= 0 else 0.0 for item in line]
        assert matches.gains[user].tolist() == gains
        assert matches.hits[user].tolist() == [gain > 0 for gain in gains]


def test_a_stored_zero_is_held_out() -> None:
    zero = sparse.csr_array((np.array([0.0]), np.array([1]), np.array([0, 1])), shape=(1, 3))
    assert match([[1]], zero).hits.tolist() == [[True]]


def test_unsorted_entries_are_sorted_and_left_alone() -> None:
    crooked = sparse.csr_array((np.array([3.0, 5.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    assert match([[0, 2]], crooked).gains.tolist() == [[5.0, 3.0]]
    assert crooked.indices.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("lists", "fact"),
    [
        ([[4, 0, 1], [2, -1, -1], [-1, -1, -1]], "-1 (no item) to 3"),
        ([[-2, 0, 1], [2, -1, -1], [-1, -1, -1]], "-1 (no item) to 3"),
        ([[-1, 0, 1], [2, -1, -1], [-1, -1, -1]], "then -1 to the end"),
        ([[1, 0, 1], [2, -1, -1], [-1, -1, -1]], "at most once per user"),
        ([[1.0], [2.0], [0.0]], "dtype float64"),
    ],
)
def test_bad_lists(lists: list[list[int]], fact: str) -> None:
    with refused(BadParameter, "lists", fact):
        match(lists, TEST)


def test_bad_shapes_and_entries() -> None:
    with pytest.raises(BadShape):
        match([[0]], TEST)
    with pytest.raises(BadShape):
        match([0, 1, 2], TEST)
    with refused(BadParameter, "test", found="ndarray"):
        match(LISTS, TEST.toarray())
    with refused(BadParameter, "n", expected="a whole number from 1"):
        match(LISTS, TEST, n=0)
    with pytest.raises(BadNumber):
        match([[0]], sparse.csr_array(np.array([[np.nan, 1.0]])))
    twice = sparse.csr_array((np.ones(2), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    with refused(BadParameter, "test", "sum_duplicates"):
        match([[0]], twice)
