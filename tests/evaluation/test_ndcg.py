"""nDCG from factors and from scores: by hand, by the definition, and as that of the lists they give."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from twofold.algorithms.top_items import top_items
from twofold.errors import BadParameter, BadShape
from twofold.evaluation import ranking
from twofold.evaluation.measure import ndcg, user_ndcg
from twofold.evaluation.ranking import match


def rows(*lines: list[float]) -> sparse.csr_array:
    return sparse.csr_array(np.array(lines, dtype=float))


def by_definition(scores, test, seen, n, values):
    """The sum for one user, by sorting everything; the first two places weigh alike, as in LensKit."""
    order = sorted(range(len(scores)), key=lambda item: (-scores[item], item))
    order = [item for item in order if not seen[item] or test[item]]
    worth = [(test[item] if values else float(test[item] != 0)) for item in order]
    dcg = sum(gain / math.log2(max(place, 2)) for place, gain in enumerate(worth[:n], start=1))
    ideal = sorted(worth, reverse=True)[:n]
    best = sum(gain / math.log2(max(place, 2)) for place, gain in enumerate(ideal, start=1))
    return dcg / best if best else math.nan


def test_hand_computed_binary():
    # Held-out items stand at places 1 and 3; the best list has them at 1 and 2.
    found = user_ndcg(np.array([[9.0, 8.0, 7.0, 6.0]]), rows([1, 0, 1, 0]), n=3)
    assert found[0] == pytest.approx((1 + 1 / math.log2(3)) / (1 + 1))


def test_hand_computed_values():
    # Values 2 and 5 at places 2 and 3; the best list has them, turned round, at 1 and 2.
    found = user_ndcg(np.array([[9.0, 8.0, 7.0]]), rows([0, 2, 5]), gain="value")
    assert found[0] == pytest.approx((2 + 5 / math.log2(3)) / (5 + 2))


def test_more_held_out_than_places_can_still_be_perfect():
    assert user_ndcg(np.array([[3.0, 2.0, 1.0]]), rows([1, 1, 1]), n=2)[0] == 1.0


def test_seen_items_leave_the_list_but_held_out_ones_never_do():
    scores, test = np.array([[9.0, 8.0, 7.0]]), rows([0, 1, 0])
    assert user_ndcg(scores, test, n=1)[0] == 0.0
    assert user_ndcg(scores, test, seen=rows([1, 1, 0]), n=1)[0] == 1.0


def test_equal_scores_stand_in_catalog_order():
    scores = np.zeros((2, 5))
    found = user_ndcg(scores, rows([0, 0, 1, 0, 0], [0, 0, 0, 1, 0]), n=3)
    assert found.tolist() == pytest.approx([1 / math.log2(3), 0.0])


def test_nothing_held_out_is_nan_and_does_not_count():
    factors = np.array([[1.0], [1.0]])
    test = rows([1, 0], [0, 0])
    assert np.isnan(user_ndcg(factors @ np.array([[2.0, 1.0]]), test)[1])
    assert ndcg(factors, np.array([[2.0], [1.0]]), test) == 1.0
    assert math.isnan(ndcg(factors, np.array([[2.0], [1.0]]), rows([0, 0], [0, 0])))


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("n", [1, 4, 10, 40])
def test_agrees_with_the_definition(n, values):
    rng = np.random.default_rng(n)
    scores = rng.integers(0, 6, size=(30, 25)).astype(float)  # many ties
    test = np.where(rng.random((30, 25)) < 0.2, rng.integers(1, 6, size=(30, 25)), 0).astype(float)
    seen = (rng.random((30, 25)) < 0.3) & (test == 0)
    found = user_ndcg(
        scores, sparse.csr_array(test), seen=sparse.csr_array(seen), n=n, gain="value" if values else "binary"
    )
    wanted = [by_definition(*parts, n, values) for parts in zip(scores, test, seen, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("gain", ["binary", "value"])
def test_equals_the_metric_of_the_lists(gain):
    rng = np.random.default_rng(0)
    U, V, known = rng.normal(size=(40, 3)), rng.normal(size=(30, 3)), rng.random((40, 30))
    test, seen = (sparse.csr_array(known * mask) for mask in (known > 0.9, known < 0.3))
    lists = top_items(U, V, n=7, exclude=seen).items
    expected = ranking.ndcg(match(lists, test, n=7), gain=gain)
    np.testing.assert_allclose(user_ndcg(U @ V.T, test, seen=seen, n=7, gain=gain), expected, rtol=1e-14)
    assert ndcg(U, V, test, seen=seen, n=7, gain=gain, block=9) == pytest.approx(np.nanmean(expected))


def test_scores_are_not_written_to():
    scores = np.array([[4.0, 3.0, 2.0]])
    user_ndcg(scores, rows([0, 0, 1]), seen=rows([1, 0, 0]))
    assert scores.tolist() == [[4.0, 3.0, 2.0]]


def test_blocks_do_not_matter():
    rng = np.random.default_rng(0)
    U, V = rng.random((23, 3)), rng.random((12, 3))
    test = sparse.csr_array((rng.random((23, 12)) < 0.2).astype(float))
    assert ndcg(U, V, test, block=5) == pytest.approx(ndcg(U, V, test), abs=1e-15)


def test_what_does_not_fit_is_refused():
    with pytest.raises(BadShape):
        user_ndcg(np.zeros((1, 2)), rows([1, 0, 0]))
    with pytest.raises(BadShape):
        ndcg(np.zeros((1, 2)), np.zeros((2, 2)), rows([1, 0, 0]))
    with pytest.raises(BadParameter):
        user_ndcg(np.zeros((1, 2)), rows([1, 0]), n=0)
    with pytest.raises(BadParameter):
        user_ndcg(np.zeros((1, 2)), rows([1, 0]), gain="graded")
