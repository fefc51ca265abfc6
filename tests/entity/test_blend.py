"""Own and shared knowledge of items, brought to one scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from twofold.entity.models.blend import rating_means
from twofold.entity.models.factors import damped, damped_rows, damping_of_items, filled_factors
from twofold.entity.models.item_item import _shares, spread_rows
from twofold.federation.factors import ItemFactors

ITEMS = 20


def shared(means: np.ndarray, support: np.ndarray, factors: np.ndarray | None = None) -> ItemFactors:
    V = np.ones((len(means), 2)) if factors is None else factors
    return ItemFactors(
        plan="0" * 64, catalog="0" * 64, factors=V.astype(np.float32), moments=np.eye(V.shape[1]),
        means=means.astype(float), support=support.astype(float), users=1_000.0, entities=3, private=False,
    )  # fmt: skip


def ratings(users: int, truth: np.ndarray, seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    values = np.clip(truth + rng.normal(scale=0.8, size=(users, truth.size)), 1, 5)
    return sparse.csr_array(np.where(rng.random(values.shape) < 0.4, values, 0).astype(np.float32))


def test_own_means_are_drawn_to_the_overall_mean_by_five_ratings():
    rows = sparse.csr_array(np.array([[5.0, 2.0], [5.0, 0.0]]))
    overall = 4.0
    wanted = [(10 + 5 * overall) / 7, (2 + 5 * overall) / 6]
    assert rating_means(rows, None, 0.0).tolist() == pytest.approx(wanted)


def test_shared_means_alone_at_infinity():
    means, support = np.linspace(2, 4, ITEMS), np.full(ITEMS, 1e9)
    found = rating_means(ratings(30, means + 1), shared(means, support), math.inf)
    np.testing.assert_allclose(found, means, atol=1e-6)


def test_means_are_drawn_far_when_entities_are_alike_and_little_when_they_differ():
    truth, support = np.linspace(2, 4.5, ITEMS), np.full(ITEMS, 1e6)
    alike = rating_means(ratings(30, truth), shared(truth, support), 1.0)
    other = truth[::-1]
    apart = rating_means(ratings(30, truth), shared(other, support), 1.0)
    own = rating_means(ratings(30, truth), None, 0.0)
    assert np.abs(alike - truth).mean() < 0.7 * np.abs(own - truth).mean()
    assert np.abs(apart - own).mean() < 0.5 * np.abs(apart - other).mean()


def test_means_of_nobody_are_the_shared_ones_or_nothing():
    empty = sparse.csr_array((0, ITEMS))
    means = np.linspace(2, 4, ITEMS)
    np.testing.assert_allclose(rating_means(empty, shared(means, np.full(ITEMS, 1e9)), 1.0), means, atol=1e-6)
    assert not rating_means(empty, None, 0.0).any()


def test_items_hardly_seen_get_the_usual_factors():
    V = np.array([[4.0, 0.0], [0.0, 2.0], [9.0, 9.0]])
    found = filled_factors(shared(np.ones(3), np.array([3e6, 1e6, 0.0]), V))
    np.testing.assert_allclose(found[:2], V[:2], atol=1e-3)
    np.testing.assert_allclose(found[2], [2.0, 1.0], atol=1e-3)
    nobody = shared(np.ones(3), np.zeros(3), V)
    np.testing.assert_array_equal(filled_factors(nobody), V)
    assert filled_factors(nobody) is not nobody.factors


def test_shares_are_between_nothing_and_everybody():
    found = _shares(shared(np.ones(3), np.array([-5.0, 500.0, 5_000.0])))
    assert found.tolist() == [0.0, 0.5, 1.0]


def test_spread_rows_drop_what_no_real_user_could_have():
    moments = np.array([[1.0, 0.0], [0.0, -1.0]])
    rows = spread_rows(np.eye(2), moments)
    np.testing.assert_allclose(rows.T @ rows, [[1.0, 0.0], [0.0, 0.0]], atol=1e-12)


def test_damping_keeps_signs_and_its_input():
    rows = sparse.csr_array(np.array([[4.0, -9.0]]))
    assert damped_rows(rows, 0.5).data.tolist() == [2.0, -3.0]
    assert rows.data.tolist() == [4.0, -9.0]
    assert damped(np.array([3.0]), 1.0).tolist() == [3.0]


def test_damping_of_an_item_is_its_own_when_there_is_enough_of_it():
    rows = sparse.csr_array(np.column_stack([np.full(5_000, 4.0), np.r_[1.0, np.zeros(4_999)]]))
    own, rare = damping_of_items(rows, 0.5)
    assert own == pytest.approx(0.5, abs=1e-3)
    assert 0.5 < rare < 0.6  # one entry of 1 says little against twenty of all items'
    assert damping_of_items(rows, 1.0).tolist() == [1.0, 1.0]
    assert damping_of_items(sparse.csr_array((3, 2)), 0.5).tolist() == [1.0, 1.0]
