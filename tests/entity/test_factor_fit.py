"""Item factors drawn to given ones are exact solves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, sparse

from twofold.entity.models.factors import FactorFit, drawn_factors

ITEMS, RANK = 12, 2


def table(users: int = 15, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.gamma(0.5, 1.0, size=(users, RANK)) @ rng.gamma(0.5, 1.0, size=(RANK, ITEMS)) + 0.5
    return np.where(rng.random(values.shape) < 0.5, values, 0.0)


def test_each_item_solves_its_own_drawn_problem():
    """One step from a given start is an exact solve of ||x - Uv||² + s (v - v0)' M (v - v0) over v >= 0."""
    X, rng = table(), np.random.default_rng(1)
    towards = rng.random((ITEMS, RANK)).astype(np.float32)
    root = np.array([[1.0, 0.3], [0.3, 0.7]])
    strength, rows = 5.0, sparse.csr_array(X.astype(np.float32))
    found = drawn_factors(
        rows, towards, root @ root, strength, start=towards, feedback="ratings", penalty=0.1, iterations=1
    )
    from twofold.algorithms.fold_in import fold_in

    U = fold_in(rows, towards, feedback="ratings", regularization=0.1)
    for item in range(ITEMS):
        seen = X[:, item] > 0
        A = np.vstack([U[seen], np.sqrt(strength) * root])
        b = np.concatenate([X[seen, item], np.sqrt(strength) * root @ towards[item]])
        np.testing.assert_allclose(found[item], optimize.nnls(A, b)[0], rtol=2e-3, atol=2e-3)


def test_an_item_without_entries_keeps_what_it_is_drawn_to():
    X = table()
    X[:, 4] = 0
    towards = np.random.default_rng(1).random((ITEMS, RANK)).astype(np.float32)
    found = drawn_factors(
        sparse.csr_array(X.astype(np.float32)),
        towards,
        np.eye(RANK),
        1.0,
        start=towards,
        feedback="ratings",
        penalty=0.1,
    )
    np.testing.assert_array_equal(found[4], towards[4])
    assert not np.allclose(found[3], towards[3])


def test_what_was_given_is_not_written_to():
    towards = np.ones((ITEMS, RANK), np.float32)
    towards.flags.writeable = False
    rows = sparse.csr_array(table().astype(np.float32))
    drawn_factors(rows, towards, np.eye(RANK), 1.0, start=towards, feedback="counts", penalty=0.1)
    assert (towards == 1).all()


def test_alone_an_item_nobody_rated_gets_what_users_usually_give():
    X = np.clip(np.rint(table(60) + 2.5), 1, 5)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = 0
    X[:, 4] = 0
    scorer = FactorFit(sparse.csr_array(X.astype(np.float32)), None, feedback="ratings", rank=3).scorer(0.0)
    scores = scorer.scores(sparse.csr_array(X.astype(np.float32)))
    given = np.array([row[row > 0].mean() for row in X])
    assert np.abs(scores[:, 4] - given).mean() < 0.5


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_usual_scores_are_the_items_means(feedback):
    X = table(50)
    fit = FactorFit(sparse.csr_array(X.astype(np.float32)), None, feedback=feedback, rank=2)
    usual = fit.scorer(0.0).one(np.zeros(0, int), np.zeros(0))
    if feedback == "counts":
        np.testing.assert_allclose(usual, X.mean(axis=0), rtol=1e-5)
    else:
        assert X[X > 0].min() < usual.min()
        assert usual.max() < X.max()
