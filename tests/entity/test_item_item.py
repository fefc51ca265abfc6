"""The item-item scorer: ridge regressions by definition, by hand, and both forms alike."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.entity.models.blend import Scorer
from twofold.entity.models.item_item import ItemItemScorer, residual_rows
from twofold.entity.models.ridge import DenseWeights, LowRankWeights, weights_from_gram, weights_from_rows
from twofold.errors import BadModel, BadNumber, BadParameter, BadShape

ITEMS = 25


def table(users: int = 12, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((users, ITEMS)) < 0.4, rng.integers(1, 6, size=(users, ITEMS)), 0).astype(np.float64)


def scorers() -> list[ItemItemScorer]:
    rows, ridge, means = table(), np.linspace(1, 3, ITEMS), np.linspace(2, 4, ITEMS)
    dense, low = weights_from_gram(rows.T @ rows, ridge), weights_from_rows(rows, ridge)
    return [
        ItemItemScorer(dense, means=means * 0, feedback="counts", power=0.5),
        ItemItemScorer(low, means=means, feedback="counts"),
        ItemItemScorer(dense, means=means, feedback="ratings", shrinkage=3.0),
        ItemItemScorer(low, means=means, feedback="ratings", shrinkage=3.0),
    ]


def entries(rows: sparse.csr_array, user: int) -> tuple[np.ndarray, np.ndarray]:
    span = slice(rows.indptr[user], rows.indptr[user + 1])
    return rows.indices[span], rows.data[span]


@pytest.mark.parametrize("number", range(4))
def test_one_equals_its_row_and_reasons_add_up(number):
    scorer = scorers()[number]
    assert isinstance(scorer, Scorer)
    assert scorer.kind == "item-item"
    rows = sparse.csr_array(table(seed=5))
    scores = scorer.scores(rows)
    assert scores.dtype == np.float32
    for user in range(rows.shape[0]):
        columns, values = entries(rows, user)
        np.testing.assert_allclose(scorer.one(columns, values), scores[user], rtol=1e-4, atol=1e-4)
        for item in (0, 11, 24):
            total = scorer.reasons(columns, values, item).sum() + scorer.constant(item)
            assert total == pytest.approx(float(scores[user, item]), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("number", range(4))
def test_an_item_says_nothing_of_itself(number):
    scorer = scorers()[number]
    columns, item = np.array([3, 8]), 8
    little = scorer.weights.column(item)[item]
    assert little == pytest.approx(0.0, abs=1e-6)
    if scorer.feedback == "counts":
        scores = [scorer.one(columns, np.array([2.0, value]))[item] for value in (1.0, 5.0)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-4)


def test_each_column_is_the_ridge_regression_on_all_other_items():
    rows, ridge = table(40), np.linspace(1, 3, ITEMS)
    made = weights_from_gram(rows.T @ rows, ridge).matrix
    for item in (0, 7, 24):
        others = np.delete(np.arange(ITEMS), item)
        X, y = rows[:, others], rows[:, item]
        wanted = np.linalg.solve(X.T @ X + np.diag(ridge[others]), X.T @ y)
        np.testing.assert_allclose(made[others, item], wanted, rtol=1e-4, atol=1e-6)
        assert made[item, item] == 0.0


def test_both_forms_are_the_same_weights():
    rows, ridge = table(10), np.linspace(1, 3, ITEMS)
    dense, low = weights_from_gram(rows.T @ rows, ridge), weights_from_rows(rows, ridge)
    np.testing.assert_allclose(low.apply(np.eye(ITEMS)), dense.matrix, atol=1e-5)
    np.testing.assert_allclose(low.apply(sparse.csr_array(np.eye(ITEMS))), dense.matrix, atol=1e-5)
    for item in (0, 9):
        np.testing.assert_allclose(low.column(item), dense.column(item), atol=1e-5)
        np.testing.assert_allclose(low.row(item), dense.row(item), atol=1e-5)


def test_no_rows_at_all_gives_no_weights():
    low = weights_from_rows(np.zeros((0, 4)), np.ones(4))
    assert not low.apply(np.eye(4)).any()
    scorer = ItemItemScorer(low, means=np.array([1.0, 2.0, 3.0, 4.0]), feedback="ratings")
    assert scorer.one(np.zeros(0, int), np.zeros(0)).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_counts_by_hand():
    weights = DenseWeights(matrix=np.array([[0.0, 0.5], [0.25, 0.0]]))
    scorer = ItemItemScorer(weights, means=np.array([1.0, 2.0]), feedback="counts")
    # mean + (x - mean) B: item 0 gets 1 + (0 - 2) 0.25, item 1 gets 2 + (4 - 1) 0.5
    assert scorer.one(np.array([0]), np.array([4.0])).tolist() == [0.5, 3.5]


def test_ratings_by_hand():
    weights = DenseWeights(matrix=np.array([[0.0, 0.5, 1.0], [0.25, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    scorer = ItemItemScorer(weights, means=np.full(3, 3.0), feedback="ratings", shrinkage=1.0)
    # Above the means by 2 and 1: offset 3/(2 + 1) = 1, residuals 1 and 0.
    assert scorer.one(np.array([0, 1]), np.array([5.0, 4.0])).tolist() == [4.0, 4.5, 5.0]


def test_residuals_of_an_empty_row_in_the_middle_and_at_the_end():
    rows = sparse.csr_array(np.array([[4.0, 0.0], [0.0, 0.0], [1.0, 3.0], [0.0, 0.0]]))
    residuals, offsets = residual_rows(rows, np.array([2.0, 2.0]), 0.0)
    assert offsets.tolist() == [2.0, 0.0, 0.0, 0.0]
    assert residuals.data.tolist() == [0.0, -1.0, 1.0]
    assert residual_rows(sparse.csr_array((0, 2)), np.zeros(2), 0.0)[1].size == 0


@pytest.mark.parametrize("number", range(4))
def test_similar_is_symmetric_and_at_most_one(number):
    scorer = scorers()[number]
    likeness = np.array([scorer.similar(item) for item in range(ITEMS)])
    np.testing.assert_allclose(likeness, likeness.T, atol=1e-5)
    assert np.isneginf(np.diag(likeness)).all()
    assert likeness.max() <= 1.0


@pytest.mark.parametrize("number", range(4))
def test_rebuilt_gives_the_same_bits(number):
    scorer, rows = scorers()[number], sparse.csr_array(table(seed=7))
    again = ItemItemScorer.rebuild(scorer.arrays(), scorer.settings())
    assert (again.scores(rows) == scorer.scores(rows)).all()
    assert again.settings() == scorer.settings()


def test_what_does_not_fit_is_refused():
    low = LowRankWeights(basis=np.zeros((1, 3)), left=np.ones(3), right=np.ones(3))
    with pytest.raises(BadShape):
        ItemItemScorer(low, means=np.zeros(4), feedback="counts")
    with pytest.raises(BadParameter):
        ItemItemScorer(low, means=np.zeros(3), feedback="stars")
    with pytest.raises(BadModel):
        ItemItemScorer.rebuild({"means": np.zeros(3)}, {"feedback": "counts", "shrinkage": 0.0, "power": 1.0})
    with pytest.raises(BadModel):
        ItemItemScorer.rebuild({"weights": np.zeros((3, 3))}, {})


@pytest.mark.parametrize(
    "gram",
    [
        np.diag([1.0, -1.0]),
        np.array([[1.0, 2.0], [2.0, 1.0]]),
        np.full((2, 2), np.nan),
        np.zeros((2, 2)),
        np.diag([1.0, np.inf]),
    ],
)
def test_a_gram_matrix_that_is_not_positive_definite_is_refused(gram):
    with refused(BadNumber, "gram"):
        weights_from_gram(gram, np.zeros(2))


def test_rows_without_a_solution_are_refused():
    with refused(BadNumber, "gram"):
        weights_from_rows(np.full((2, 5), np.nan), np.ones(5))
