"""Percentiles of held-out items: by hand, against the plain reference, and against `mean_rank`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from studies.mean_rank import mean_rank
from twofold.algorithms._jit import without_numba
from twofold.errors import BadNumber, BadShape
from twofold.evaluation.ranking import ranks


def entries(rows: list[list[float]]) -> sparse.csr_array:
    return sparse.csr_array(np.array(rows))


def test_by_hand() -> None:
    scores = np.array([[9.0, 1.0, 5.0, 7.0, 3.0]])
    test, seen = entries([[0, 1.0, 2.0, 0, 0]]), entries([[1.0, 0, 0, 1.0, 0]])
    found = ranks(scores, test, seen=seen)
    assert found.among_all.tolist() == [4 / 4, 2 / 4]
    assert found.among_unseen.tolist() == [2 / 2, 0 / 2]


def test_ties_share_their_places() -> None:
    scores = np.array([[2.0, 2.0, 2.0, 1.0]])
    found = ranks(scores, entries([[1.0, 0, 0, 0]]), seen=entries([[0, 1.0, 0, 0]]))
    assert found.among_all.tolist() == [1 / 3]
    assert found.among_unseen.tolist() == [0.5 / 2]
    constant = ranks(np.ones((1, 5)), entries([[0, 0, 1.0, 0, 0]]))
    assert constant.among_all.tolist() == [0.5]


def test_an_item_both_seen_and_held_out_stays() -> None:
    found = ranks(np.array([[3.0, 2.0, 1.0]]), entries([[1.0, 0, 1.0]]), seen=entries([[1.0, 0, 0]]))
    assert found.among_unseen.tolist() == found.among_all.tolist() == [0.0, 1.0]


def test_nothing_seen_and_a_single_item() -> None:
    found = ranks(np.array([[1.0]]), entries([[1.0]]))
    assert found.among_all.tolist() == found.among_unseen.tolist() == [0.0]
    assert ranks(np.ones((2, 3)), sparse.csr_array((2, 3))).among_all.size == 0


def test_minus_infinity_ends_the_list() -> None:
    found = ranks(np.array([[1.0, -np.inf, 0.5]]), entries([[0, 1.0, 0]]))
    assert found.among_all.tolist() == [1.0]


@given(st.integers(0, 2**32), st.sampled_from([np.float32, np.float64]))
def test_compiled_equals_reference(seed: int, kind: type) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, (7, 11)).astype(kind)  # many ties
    test = sparse.csr_array((rng.random((7, 11)) < 0.3).astype(float))
    seen = sparse.csr_array((rng.random((7, 11)) < 0.4).astype(float))
    compiled = ranks(scores, test, seen=seen)
    with without_numba():
        plain = ranks(scores, test, seen=seen)
    assert compiled.among_all.tolist() == plain.among_all.tolist()
    assert compiled.among_unseen.tolist() == plain.among_unseen.tolist()


def test_counts_item_by_item() -> None:
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 9, (20, 15)).astype(np.float64)
    test, seen = rng.random((20, 15)) < 0.2, rng.random((20, 15)) < 0.3
    found = ranks(scores, sparse.csr_array(test.astype(float)), seen=sparse.csr_array(seen.astype(float)))
    wanted = [
        [_by_counting(scores[user], item, others) for others in (np.ones(15, bool), ~seen[user] | test[user])]
        for user, item in zip(*np.nonzero(test), strict=True)
    ]
    np.testing.assert_allclose(np.column_stack(found), wanted, rtol=1e-14)


def _by_counting(scores: np.ndarray, item: int, others: np.ndarray) -> float:
    rivals = [other for other in np.flatnonzero(others) if other != item]
    above = sum(scores[other] > scores[item] for other in rivals)
    tied = sum(scores[other] == scores[item] for other in rivals)
    return float(above + tied / 2) / len(rivals)


def test_mean_rank_weighs_them_by_value() -> None:
    rng = np.random.default_rng(1)
    U, V = rng.normal(size=(50, 4)), rng.normal(size=(40, 4))
    test = sparse.csr_array(rng.integers(1, 6, (50, 40)) * (rng.random((50, 40)) < 0.1))
    seen = sparse.csr_array((rng.random((50, 40)) < 0.2).astype(float))
    found = ranks(U @ V.T, test, seen=seen)
    assert found.among_all @ test.data / test.data.sum() == pytest.approx(mean_rank(U, V, test), abs=1e-12)
    unseen = mean_rank(U, V, test, seen=seen)
    assert found.among_unseen @ test.data / test.data.sum() == pytest.approx(unseen, abs=1e-12)


def test_refusals() -> None:
    with pytest.raises(BadNumber):
        ranks(np.array([[np.nan, 1.0]]), entries([[1.0, 0]]))
    with pytest.raises(BadShape):
        ranks(np.ones((1, 3)), entries([[1.0, 0]]))
    with pytest.raises(BadShape):
        ranks(np.ones((1, 2)), entries([[1.0, 0]]), seen=entries([[1.0, 0, 0]]))
    with pytest.raises(BadShape):
        ranks(np.ones(3), entries([[1.0, 0, 0]]))
