"""Coverage counts items, not lists."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.errors import BadParameter
from twofold.evaluation.rmse import coverage, covered_items


def test_by_hand() -> None:
    assert coverage([[0, 1], [1, -1], [-1, -1]], n_items=5) == 2 / 5
    assert covered_items([[4, 0]], n_items=5).tolist() == [True, False, False, False, True]


def test_nothing_listed() -> None:
    assert coverage(np.empty((0, 3), dtype=int), n_items=5) == 0.0
    assert coverage([[-1, -1]], n_items=5) == 0.0


@pytest.mark.parametrize(("lists", "n_items"), [([[5]], 5), ([[-2]], 5), ([[0]], 0)])
def test_unknown_items_are_refused(lists: list[list[int]], n_items: int) -> None:
    with pytest.raises(BadParameter):
        coverage(lists, n_items)
