"""Item-item weights from own and shared Gram matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from twofold.entity.models.factors import damping_of_items
from twofold.entity.models.item_item import RIDGE, ItemItemFit
from twofold.entity.models.ridge import DenseWeights, LowRankWeights
from twofold.federation.factors import ItemFactors

ITEMS, RANK = 24, 3


def counts(users: int, seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    V = np.random.default_rng(5).gamma(0.4, 1.0, size=(ITEMS, RANK))
    return sparse.csr_array(rng.poisson(rng.gamma(0.5, 1.0, size=(users, RANK)) @ V.T).astype(np.float32))


def shared_of(rows: sparse.csr_array) -> ItemFactors:
    """A shared model that knows these rows exactly: as many factors as items."""
    second = (rows.T @ rows).toarray() / rows.shape[0]
    means = np.asarray(rows.mean(axis=0)).ravel()
    return ItemFactors(
        plan="0" * 64, catalog="0" * 64, factors=np.eye(ITEMS, dtype=np.float32), moments=second.astype(float),
        means=means.astype(float), support=np.full(ITEMS, float(rows.shape[0])), users=float(rows.shape[0]),
        entities=2, private=False,
    )  # fmt: skip


def matrix(fit: ItemItemFit, strength: float) -> np.ndarray:
    return fit.scorer(strength).weights.apply(np.eye(ITEMS))


def test_alone_is_the_ridge_of_damped_counts():
    rows = counts(200)
    damped = np.sqrt(rows.toarray())
    gram = damped.T @ damped
    ridge = RIDGE["counts"] * np.mean(damped[damped > 0] ** 2)
    inverse = np.linalg.inv(gram + ridge * np.eye(ITEMS))
    wanted = -inverse / np.diag(inverse)
    np.fill_diagonal(wanted, 0)
    np.testing.assert_allclose(matrix(ItemItemFit(rows, None, feedback="counts"), 0.0), wanted, atol=1e-5)


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_strength_leads_from_own_to_shared_weights(feedback):
    rows, others = counts(100, 1), counts(3_000, 2)
    fit = ItemItemFit(rows, shared_of(others), feedback=feedback)
    own, shared = matrix(fit, 0.0), matrix(fit, math.inf)
    steps = [np.abs(matrix(fit, strength) - shared).mean() for strength in (1.0, 100.0, 3_000.0)]
    assert np.abs(own - shared).mean() > 0
    assert steps[0] > steps[1] > steps[2]
    np.testing.assert_allclose(matrix(fit, 1e-9), own, atol=1e-4 if feedback == "counts" else 0.05)


def test_the_diagonal_the_prototypes_lack_comes_from_the_means():
    rows, others = counts(100, 1), counts(3_000, 2)
    shared = shared_of(others)
    extra, rest = ItemItemFit(rows, shared, feedback="counts")._shared_part(1.0)
    whole = (extra**2).sum(axis=0) + rest
    # The mean square of a damped count is the mean of the count, unless the factors explain more than that.
    assert (whole >= shared.means - 1e-9).all()
    assert (rest > 0).all()


def test_few_users_keep_the_form_of_the_rows_and_many_the_matrix():
    assert isinstance(ItemItemFit(counts(5), None, feedback="counts").scorer(0.0).weights, LowRankWeights)
    assert isinstance(ItemItemFit(counts(50), None, feedback="counts").scorer(0.0).weights, DenseWeights)


@pytest.mark.parametrize("users", [5, 50])
def test_gain_multiplies_the_pull_and_nothing_else(users):
    fit = ItemItemFit(counts(users), None, feedback="ratings")
    one, three = fit.scorer(0.0), fit.scorer(0.0, gain=3.0)
    np.testing.assert_allclose(three.weights.apply(np.eye(ITEMS)), 3 * one.weights.apply(np.eye(ITEMS)), atol=1e-6)
    np.testing.assert_array_equal(one.means, three.means)


def test_mixed_weights_come_from_the_sum_of_both_gram_matrices():
    rows, shared = counts(100, 1), shared_of(counts(3_000, 2))
    strength, damped = 250.0, np.sqrt(rows.toarray())
    shrink = damping_of_items(rows, 0.5)
    theirs = shrink[:, None] * shared.moments * shrink  # the factors are the identity
    rest = np.maximum(shared.means - np.diag(theirs), 0.05 * np.maximum(shared.means, np.diag(theirs)))
    ridge = RIDGE["counts"] * np.mean(damped[damped > 0] ** 2)
    inverse = np.linalg.inv(damped.T @ damped + strength * (theirs + np.diag(rest)) + ridge * np.eye(ITEMS))
    wanted = -inverse / np.diag(inverse)
    np.fill_diagonal(wanted, 0)
    np.testing.assert_allclose(matrix(ItemItemFit(rows, shared, feedback="counts"), strength), wanted, atol=1e-5)
