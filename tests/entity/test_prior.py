"""What others know, brought to an entity's own items."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from twofold.entity.models.ridge import ALIKE, SQUARE_USERS, UNEXPLAINED, feature_prior, pattern_prior
from twofold.federation.factors import ItemFactors

ITEMS = 12


def shared(patterns: int = 2, *, squares: float = 4.0) -> ItemFactors:
    axes = (
        np.linalg.qr(np.random.default_rng(0).normal(size=(ITEMS, patterns)))[0] if patterns else np.zeros((ITEMS, 0))
    )
    return ItemFactors(
        plan="0" * 64, catalog="0" * 64, factors=np.zeros((ITEMS, 1), np.float32), moments=np.zeros((1, 1)),
        means=np.full(ITEMS, squares), support=np.ones(ITEMS), users=9.0, entities=2, private=False,
        patterns=axes.astype(np.float32), strengths=np.linspace(3.0, 2.0, patterns), squares=np.full(ITEMS, squares),
    )  # fmt: skip


def whole(rows: np.ndarray, rest: np.ndarray) -> np.ndarray:
    return rows.T @ rows + np.diag(rest)


def correlations(matrix: np.ndarray) -> np.ndarray:
    roots = np.sqrt(np.diag(matrix))
    return matrix / np.outer(roots, roots)


def test_as_sent_it_is_the_shared_second_moments():
    given = shared()
    found = whole(*pattern_prior(given, None, 0))
    second = given.patterns * given.strengths @ given.patterns.T
    off = ~np.eye(ITEMS, dtype=bool)
    np.testing.assert_allclose(found[off], second[off], atol=1e-6)
    np.testing.assert_allclose(np.diag(found), 4.0, atol=1e-6)


def test_correlations_stay_and_squares_become_the_entitys_own():
    own = np.linspace(0.0, 9.0, ITEMS)
    as_sent = whole(*pattern_prior(shared(), None, 0))
    found = whole(*pattern_prior(shared(), own * 1e6, 10**6))
    np.testing.assert_allclose(correlations(found)[1:, 1:], correlations(as_sent)[1:, 1:], atol=1e-6)
    np.testing.assert_allclose(np.diag(found), own, atol=1e-3)


def test_with_few_users_the_squares_are_a_compromise():
    own = np.zeros(ITEMS)
    own[0] = ITEMS * 5.0 * SQUARE_USERS
    found = np.diag(whole(*pattern_prior(shared(), own, int(SQUARE_USERS))))
    # Half of its own, half of the shared ones, those brought to the same total.
    np.testing.assert_allclose(found[1:], 2.5, atol=1e-5)
    np.testing.assert_allclose(found[0], 2.5 + ITEMS * 2.5, atol=1e-5)


def test_some_of_every_item_stays_unexplained():
    rows, rest = pattern_prior(shared(squares=0.0), None, 0)
    np.testing.assert_allclose(rest, UNEXPLAINED * (rows**2).sum(axis=0))


def test_no_patterns_leave_only_the_diagonal():
    rows, rest = pattern_prior(shared(0), np.ones(ITEMS), 1)
    assert rows.shape == (0, ITEMS)
    assert (rest > 0).all()


def test_an_entity_without_entries_takes_the_shared_squares():
    np.testing.assert_allclose(np.diag(whole(*pattern_prior(shared(), np.zeros(ITEMS), 0))), 4.0, atol=1e-6)


def test_items_of_one_class_go_together_and_others_do_not():
    rng = np.random.default_rng(1)
    values = sparse.csr_array(rng.poisson(1.0, size=(50, ITEMS)).astype(np.float64))
    classes = np.eye(3, dtype=np.int64)[np.arange(ITEMS) % 3]
    rows, rest = feature_prior(values, classes)
    spread = correlations(whole(rows, rest) - np.outer(rows[0], rows[0]))
    same = np.arange(ITEMS)[:, None] % 3 == np.arange(ITEMS) % 3
    np.testing.assert_allclose(spread, np.where(np.eye(ITEMS, dtype=bool), 1.0, ALIKE * same), atol=1e-9)


@pytest.mark.parametrize("users", [0, 1, 40])
def test_items_without_features_stand_alone(users):
    values = sparse.csr_array(np.ones((users, ITEMS)))
    features = np.zeros((ITEMS, 1), np.int64)
    features[:4] = 7
    rows, rest = feature_prior(values, features)
    assert not rows[1:, 4:].any()
    assert np.isfinite(rest).all()
    assert (rest > 0).all() or not users
