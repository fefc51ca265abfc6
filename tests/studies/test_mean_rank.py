"""Mean rank: cases worked out by hand, and chance is one half."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from studies.mean_rank import mean_rank
from tests.matrices import random_rows
from twofold.errors import BadShape

ITEMS = np.array([[4.0], [3.0], [2.0], [1.0], [0.0]])  # in this order for every user


def entries(rows: list[list[float]]) -> sparse.csr_array:
    return sparse.csr_array(np.array(rows))


def test_top_middle_and_bottom() -> None:
    for item, expected in ((0, 0.0), (2, 0.5), (4, 1.0)):
        row = [0.0] * 5
        row[item] = 1.0
        assert mean_rank(np.ones((1, 1)), ITEMS, entries([row])) == expected


def test_values_weigh_and_users_without_entries_do_not_count() -> None:
    test = entries([[3.0, 0, 0, 0, 1.0], [0, 0, 0, 0, 0]])
    assert mean_rank(np.ones((2, 1)), ITEMS, test) == pytest.approx((3 * 0.0 + 1 * 1.0) / 4)


def test_seen_items_leave_the_list() -> None:
    test, seen = entries([[0, 0, 1.0, 0, 0]]), entries([[1.0, 1.0, 0, 0, 0]])
    assert mean_rank(np.ones((1, 1)), ITEMS, test, seen=seen) == 0.0


def test_ties_share_their_places() -> None:
    tied = np.array([[1.0], [1.0], [1.0], [0.0], [0.0]])
    assert mean_rank(np.ones((1, 1)), tied, entries([[1.0, 0, 0, 0, 0]])) == pytest.approx(1 / 4)
    assert mean_rank(np.ones((1, 1)), tied, entries([[0, 0, 0, 1.0, 0]])) == pytest.approx(3.5 / 4)


def test_random_scores_are_chance() -> None:
    rng = np.random.default_rng(0)
    test = random_rows((400, 60), 0.1, rng)
    rank = mean_rank(rng.normal(size=(400, 5)), rng.normal(size=(60, 5)), test, block=7)
    assert rank == pytest.approx(0.5, abs=0.03)


def test_nothing_held_out_is_not_a_number_and_wrong_shapes_are_refused() -> None:
    assert np.isnan(mean_rank(np.ones((1, 1)), ITEMS, sparse.csr_array((1, 5))))
    with pytest.raises(BadShape):
        mean_rank(np.ones((2, 1)), ITEMS, entries([[1.0, 0, 0, 0, 0]]))
