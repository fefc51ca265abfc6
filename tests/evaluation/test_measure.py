"""One code measures every system: by hand, whatever form the system has, and in blocks."""

from __future__ import annotations

import tracemalloc
from math import log2, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse

from studies.mean_rank import mean_rank
from tests.matrices import random_rows
from tests.refused import refused
from twofold.algorithms._jit import without_numba
from twofold.algorithms.top_items import top_items
from twofold.errors import BadNumber, BadParameter, BadShape
from twofold.evaluation.measure import LIST_METRICS, METRICS, Measured, measure, measure_lists

SCORES = np.array([[5.0, 4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 3.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
TRAIN = sparse.csr_array(np.array([[4.0, 0, 0, 0, 0], [0, 0, 0, 0, 2.0], [1.0, 0, 0, 0, 0]]))
TEST = sparse.csr_array(np.array([[0, 0, 3.0, 0, 1.0], [2.0, 0, 0, 5.0, 0], [0, 0, 0, 0, 0]]))


def random_case(seed: int = 0, n_users: int = 60, n_items: int = 80) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    known = rng.random((n_users, n_items))
    values = rng.integers(1, 6, (n_users, n_items)).astype(np.float64)
    train, test = (sparse.csr_array(values * mask) for mask in (known < 0.2, known > 0.9))
    return rng.random((n_users, 5)), rng.random((n_items, 5)), train, test


def same(one: Measured, other: Measured, *, rtol: float = 1e-12) -> None:
    assert one.metrics == other.metrics
    np.testing.assert_array_equal(one.lists, other.lists)
    for name in one.totals:
        np.testing.assert_allclose(one.totals[name], other.totals[name], rtol=rtol, atol=1e-15, err_msg=name)
        np.testing.assert_array_equal(one.weights[name], other.weights[name], err_msg=name)


def test_lists_leave_out_what_was_seen_and_the_lower_column_comes_first() -> None:
    measured = measure(SCORES, TRAIN, TEST, feedback="ratings", n=2)
    assert measured.lists.tolist() == [[1, 2], [2, 3], [-1, -1]]


def test_every_metric_by_hand() -> None:
    # User 0 lists 1, 2 and held out 2 (value 3) and 4 (1); user 1 lists 2, 3 and held out 0 (2) and 3 (5).
    measured = measure(SCORES, TRAIN, TEST, feedback="ratings", n=2)
    expected = {
        "ndcg": [1 / 2, 1 / 2],
        "ndcg_graded": [3 / 4, 5 / 7],
        "recall": [1 / 2, 1 / 2],
        "precision": [1 / 2, 1 / 2],
        "average_precision": [1 / 4, 1 / 4],
        "reciprocal_rank": [1 / 2, 1 / 2],
        "hit": [1.0, 1.0],
        "rmse": [0.0, sqrt((1 + 4) / 2)],
        "mae": [0.0, (1 + 2) / 2],
        "mean_rank": [(3 * 2 / 4 + 1 * 4 / 4) / 4, (2 * 3 / 4 + 5 * 0.5 / 4) / 7],
        "mean_rank_unseen": [(3 * 1 / 3 + 1 * 3 / 3) / 4, (2 * 3 / 3 + 5 * 0.5 / 3) / 7],
    }
    assert set(expected) == set(measured.totals)
    for name, values in expected.items():
        np.testing.assert_allclose(measured.per_user(name), [*values, np.nan], rtol=1e-14, err_msg=name)
    assert measured.overall("ndcg_graded") == pytest.approx((3 / 4 + 5 / 7) / 2)
    assert measured.overall("rmse") == pytest.approx(sqrt(5 / 4))
    assert measured.overall("mean_rank") == pytest.approx((3 * 0.5 + 1 * 1 + 2 * 0.75 + 5 * 0.125) / 11)
    assert measured.overall("coverage") == 3 / 5


def test_mean_rank_is_the_papers() -> None:
    U, V, train, test = random_case()
    measured = measure((U, V), train, test, feedback="counts")
    assert measured.overall("mean_rank") == pytest.approx(mean_rank(U, V, test), abs=1e-12)
    assert measured.overall("mean_rank_unseen") == pytest.approx(mean_rank(U, V, test, seen=train), abs=1e-12)


def test_lists_are_those_of_top_items() -> None:
    U, V, train, test = random_case()
    for n in (5, 60):  # short lists and long ones are made by different code
        lists = measure((U, V), train, test, feedback="ratings", n=n).lists
        np.testing.assert_array_equal(lists, top_items(U, V, n=n, exclude=train).items)


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_blocks_do_not_matter(block: int) -> None:
    U, V, train, test = random_case()
    same(
        measure((U, V), train, test, feedback="ratings", block=block), measure((U, V), train, test, feedback="ratings")
    )


def test_factors_scores_and_callables_are_measured_alike() -> None:
    U, V, train, test = random_case()
    scores = U @ V.T
    lines = {tuple(train[[user]].indices): user for user in range(len(U))}

    def system(rows: sparse.csr_array) -> npt.NDArray[np.float64]:
        return scores[[lines[tuple(rows[[row]].indices)] for row in range(rows.shape[0])]]

    of_scores = measure(scores, train, test, feedback="ratings", block=9)
    same(of_scores, measure(system, train, test, feedback="ratings", block=9))
    same(of_scores, measure((U, V), train, test, feedback="ratings", block=9))


def test_compiled_equals_reference() -> None:
    U, V, train, test = random_case()
    compiled = measure((U, V), train, test, feedback="ratings")
    with without_numba():
        same(measure((U, V), train, test, feedback="ratings"), compiled)


def test_single_precision_scores_stay_single() -> None:
    U, V, train, test = random_case()
    single = (U @ V.T).astype(np.float32)
    same(
        measure(single, train, test, feedback="ratings"), measure(single.astype(float), train, test, feedback="ratings")
    )


def test_only_users_with_held_out_entries_are_scored() -> None:
    asked: list[int] = []

    def system(rows: sparse.csr_array) -> npt.NDArray[np.float64]:
        asked.append(rows.shape[0])
        return np.ones(rows.shape)

    measure(system, TRAIN, TEST, feedback="ratings")
    assert sum(asked) == 2


def test_the_systems_own_array_is_not_written_to() -> None:
    given = SCORES.copy()
    measure(lambda rows: given[: rows.shape[0]], TRAIN, TEST, feedback="ratings")
    np.testing.assert_array_equal(given, SCORES)
    measure(given, TRAIN, TEST, feedback="ratings")
    np.testing.assert_array_equal(given, SCORES)


def test_a_held_out_count_of_zero_is_not_relevant() -> None:
    zero = sparse.csr_array((np.array([0.0, 2.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 3))
    none = sparse.csr_array((1, 3))
    scores = np.array([[3.0, 2.0, 1.0]])
    assert measure(scores, none, zero, feedback="ratings", n=1).overall("hit") == 1
    measured = measure(scores, none, zero, feedback="counts", n=1)
    assert measured.overall("hit") == 0
    assert measured.overall("rmse") == pytest.approx(sqrt((9 + 0) / 2))  # but it has an error


def test_a_held_out_item_never_leaves_the_list() -> None:
    both = sparse.csr_array(np.array([[1.0, 0, 1.0]]))
    measured = measure(np.array([[3.0, 2.0, 1.0]]), both, sparse.csr_array(np.array([[1.0, 0, 0]])), feedback="counts")
    assert measured.lists[0, :3].tolist() == [0, 1, -1]
    assert measured.overall("mean_rank_unseen") == 0


def test_predictions_are_cut_for_rmse_alone() -> None:
    whole = measure(3 * SCORES, TRAIN, TEST, feedback="ratings", n=2)
    cut = measure(3 * SCORES, TRAIN, TEST, feedback="ratings", n=2, lower=1, bound=5)
    assert cut.overall("rmse") == pytest.approx(sqrt((2**2 + 2**2 + 1**2 + 0**2) / 4))
    assert whole.overall("rmse") == pytest.approx(sqrt((6**2 + 2**2 + 1**2 + 4**2) / 4))
    np.testing.assert_array_equal(cut.lists, whole.lists)
    assert cut.overall("mean_rank") == whole.overall("mean_rank")


def test_what_an_empty_list_leaves_undefined_counts_zero() -> None:
    everything = sparse.csr_array(np.array([[1.0, 1.0, 0], [1.0, 0, 0]]))
    test = sparse.csr_array(np.array([[0, 0, 1.0], [0, 0, 1.0]]))
    scores = np.array([[2.0, 1.0, -np.inf], [2.0, 1.0, 3.0]])
    measured = measure(scores, everything, test, feedback="counts", n=1, metrics=LIST_METRICS)
    assert measured.lists.tolist() == [[-1], [2]]
    for name in LIST_METRICS:
        assert measured.per_user(name).tolist() == [0.0, 1.0], name


def test_lists_alone() -> None:
    U, V, train, test = random_case()
    whole = measure((U, V), train, test, feedback="ratings", n=5)
    lists = top_items(U, V, n=9, exclude=train).items
    alone = measure_lists(lists, test, feedback="ratings", n=5)
    assert set(alone.metrics) == {*LIST_METRICS, "coverage"}
    for name in alone.metrics:
        assert alone.overall(name) == pytest.approx(whole.overall(name), abs=1e-14), name


def test_lists_shorter_than_n_are_filled() -> None:
    measured = measure_lists([[2], [3], [0]], TEST, feedback="ratings", n=3)
    assert measured.lists.tolist() == [[2, -1, -1], [3, -1, -1], [-1, -1, -1]]
    assert measured.per_user("ndcg").tolist() == pytest.approx([1 / 2, 1 / 2, np.nan], nan_ok=True)
    assert measured.overall("ndcg") == pytest.approx(1 / (1 + 1 / log2(2)))


def test_some_metrics_only() -> None:
    assert measure(SCORES, TRAIN, TEST, feedback="ratings", metrics=["rmse"]).metrics == ("rmse",)
    assert measure(SCORES, TRAIN, TEST, feedback="ratings", metrics="hit").metrics == ("hit",)
    only = measure(SCORES, TRAIN, TEST, feedback="ratings", metrics=["coverage"], n=2)
    assert only.overall("coverage") == 3 / 5
    assert measure(SCORES, TRAIN, TEST, feedback="ratings").metrics == METRICS


def test_nothing_held_out() -> None:
    measured = measure(SCORES, TRAIN, sparse.csr_array((3, 5)), feedback="ratings")
    assert np.isnan([measured.overall(name) for name in measured.totals]).all()
    assert measured.overall("coverage") == 0


def test_memory_is_that_of_a_block() -> None:
    n_users, n_items = 4000, 2000  # 64 MB of scores if all were held at once
    test = random_rows((n_users, n_items), 0.001, np.random.default_rng(0))
    train = sparse.csr_array((n_users, n_items))
    line = np.arange(n_items, dtype=np.float64)
    small = sparse.csr_array(np.eye(2, n_items))
    measure(lambda rows: np.tile(line, (rows.shape[0], 1)), small, small, feedback="counts")  # compiled before counting
    tracemalloc.start()
    measure(lambda rows: np.tile(line, (rows.shape[0], 1)), train, test, feedback="counts", block=50)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6


def test_refusals() -> None:
    for metrics in (["ndgc"], [], ["hit", "speed"]):
        with refused(BadParameter, "metrics", expected="ndcg_graded"):
            measure(SCORES, TRAIN, TEST, feedback="ratings", metrics=metrics)
    with refused(BadParameter, "metrics", expected="ndcg_graded"):
        measure_lists([[0], [0], [0]], TEST, feedback="ratings", metrics=["rmse"])
    for wrong in ({"n": 0}, {"block": 0}, {"feedback": "clicks"}):
        with pytest.raises(BadParameter):
            measure(SCORES, TRAIN, TEST, **({"feedback": "ratings"} | wrong))
    with pytest.raises(BadShape):
        measure(SCORES[:2], TRAIN, TEST, feedback="ratings")
    with pytest.raises(BadShape):
        measure((np.ones((3, 1)), np.ones((4, 1))), TRAIN, TEST, feedback="ratings")
    with refused(BadShape, "system", expected="5 columns"):
        measure(lambda rows: np.ones((rows.shape[0], 4)), TRAIN, TEST, feedback="ratings")
    with pytest.raises(BadShape):
        measure(SCORES, TRAIN[:2], TEST, feedback="ratings")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers(bad: float) -> None:
    with pytest.raises(BadNumber):
        measure(np.where(SCORES == 5, bad, SCORES), TRAIN, TEST, feedback="ratings")


def test_values_that_cannot_weigh_or_be_predicted() -> None:
    with refused(BadNumber, "test"):
        measure(SCORES, TRAIN, -TEST, feedback="ratings")
    assert measure(SCORES, TRAIN, -TEST, feedback="ratings", metrics=["rmse"]).overall("rmse") > 0
    hidden = np.where(TEST.toarray() > 0, -np.inf, SCORES)
    with refused(BadNumber, "metrics"):
        measure(hidden, TRAIN, TEST, feedback="ratings")
