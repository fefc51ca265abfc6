"""List metrics worked out by hand; parity with LensKit is in test_lenskit_parity.py."""

from __future__ import annotations

from collections.abc import Callable
from math import log2

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.errors import BadParameter
from twofold.evaluation.ranking import Matches, average_precision, hit, match, ndcg, precision, recall, reciprocal_rank

HELD = [[0, 5.0, 0, 3.0, 4.0, 0]]  # items 1, 3 and 4


def one(line: list[int], held: list[list[float]] = HELD, n: int | None = None) -> Matches:
    return match([line], sparse.csr_array(np.array(held)), n=n)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (precision, 2 / 4),
        (recall, 2 / 3),
        (hit, 1.0),
        (reciprocal_rank, 1 / 2),
        (average_precision, (1 / 2 + 2 / 4) / 3),
        (ndcg, (1 + 1 / log2(4)) / (1 + 1 + 1 / log2(3))),
    ],
)
def test_second_and_fourth_place(metric: Callable[[Matches], npt.NDArray[np.float64]], expected: float) -> None:
    assert metric(one([0, 3, 2, 1])) == pytest.approx([expected], abs=1e-15)


def test_graded_gain_uses_the_values_and_the_best_order_of_them() -> None:
    expected = (3 / 1 + 5 / log2(4)) / (5 + 4 + 3 / log2(3))
    assert ndcg(one([0, 3, 2, 1]), gain="value") == pytest.approx([expected], abs=1e-15)
    assert ndcg(one([1, 4, 3]), gain="value") == pytest.approx([1.0])
    assert ndcg(one([3, 4, 1]), gain="value")[0] < 1


def test_graded_gain_of_a_cut_list_compares_with_the_largest_values() -> None:
    assert ndcg(one([1, 3], n=2), gain="value") == pytest.approx([(5 + 3) / (5 + 4)])


def test_the_first_two_places_weigh_alike() -> None:
    assert ndcg(one([1, 0])) == ndcg(one([0, 1]))
    assert ndcg(one([0, 1, 2]))[0] > ndcg(one([0, 2, 1]))[0]


def test_more_held_out_than_places() -> None:
    matches = one([1, 0], n=2)
    assert recall(matches) == pytest.approx([1 / 2])  # two places, so two of the three are enough
    assert ndcg(matches) == pytest.approx([1 / 2])
    assert average_precision(matches) == pytest.approx([1 / 2])
    assert recall(one([1, 0])) == pytest.approx([1 / 3])  # lists taken whole: all three could be found


def test_a_short_list_is_divided_by_its_own_length() -> None:
    matches = one([1, -1, -1, -1], n=4)
    assert precision(matches) == pytest.approx([1.0])
    assert average_precision(matches) == pytest.approx([1.0])
    assert recall(matches) == pytest.approx([1 / 3])


def test_an_empty_list() -> None:
    matches = one([-1, -1], n=2)
    assert [metric(matches)[0] for metric in (recall, hit, reciprocal_rank, ndcg)] == [0, 0, 0, 0]
    assert np.isnan([precision(matches)[0], average_precision(matches)[0]]).all()


def test_nothing_held_out() -> None:
    matches = one([0, 1], [[0, 0, 0]], n=2)
    metrics = (recall, hit, reciprocal_rank, ndcg, average_precision)
    assert np.isnan([metric(matches)[0] for metric in metrics]).all()
    assert np.isnan(ndcg(matches, gain="value")[0])
    assert precision(matches) == [0.0]


def test_nothing_found() -> None:
    matches = one([0, 2], n=2)
    metrics = (recall, precision, hit, reciprocal_rank, ndcg, average_precision)
    assert [metric(matches)[0] for metric in metrics] == [0] * 6


def test_perfect_lists() -> None:
    matches = one([4, 1, 3], n=3)
    metrics = (recall, precision, hit, reciprocal_rank, ndcg, average_precision)
    assert [metric(matches)[0] for metric in metrics] == pytest.approx([1] * 6)


def test_users_do_not_mix() -> None:
    rng = np.random.default_rng(0)
    test = sparse.csr_array((rng.random((40, 30)) < 0.2) * rng.random((40, 30)))
    lists = rng.permuted(np.tile(np.arange(30), (40, 1)), axis=1)[:, :7]
    together = match(lists, test, n=5)
    for metric in (recall, precision, hit, reciprocal_rank, average_precision, ndcg, lambda m: ndcg(m, gain="value")):
        alone = [metric(match(lists[[user]], test[[user]], n=5))[0] for user in range(40)]
        np.testing.assert_allclose(metric(together), alone, rtol=1e-14)


def test_unknown_gain() -> None:
    with refused(BadParameter, "gain", expected='"binary" or "value"'):
        ndcg(one([0]), gain="rating")  # type: ignore[arg-type]
