"""Implicit ALS at an entity: the fold-in minimises the fit's own loss, reasons add up, settings carry over sizes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.entity.models.blend import Scorer
from twofold.entity.models.ials import EPOCHS, LOOKS, IalsFit, IalsScorer
from twofold.errors import BadModel, BadParameter

ITEMS, RANK = 30, 4


def scorer(**changes) -> IalsScorer:
    factors = np.random.default_rng(0).standard_normal((ITEMS, RANK))
    settings = {"unobserved": 0.3, "penalty": 0.02, "power": 0.5, "cold_start": np.arange(ITEMS)} | changes
    return IalsScorer(factors, **settings)


def histories(users: int = 12) -> sparse.csr_array:
    rng = np.random.default_rng(1)
    values = np.where(rng.random((users, ITEMS)) < 0.25, rng.integers(1, 6, size=(users, ITEMS)), 0)
    values[3] = 0  # somebody without a history
    return sparse.csr_array(values.astype(np.float32))


def entries(rows: sparse.csr_array, user: int) -> tuple[np.ndarray, np.ndarray]:
    span = slice(rows.indptr[user], rows.indptr[user + 1])
    return rows.indices[span], rows.data[span]


def tastes(users: int, items: int, seed: int = 0) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    likely = np.where((np.arange(users)[:, None] % 4) == (np.arange(items) % 4), 0.3, 0.03)
    return sparse.csr_array((rng.random((users, items)) < likely).astype(np.float32))


def test_is_a_scorer_of_its_own_kind():
    assert isinstance(scorer(), Scorer)
    assert scorer().kind == "ials"


def test_a_history_is_folded_in_by_the_loss_of_the_fit():
    made, rows = scorer(), histories()
    wide = made.factors.astype(float)
    for user, found in enumerate(made.user_factors(rows)):
        columns, values = entries(rows, user)
        own = wide[columns]
        ridge = 0.02 * (len(columns) + 0.3 * ITEMS)
        matrix = own.T @ own + 0.3 * wide.T @ wide + ridge * np.eye(RANK)
        np.testing.assert_allclose(found, np.linalg.solve(matrix, np.sqrt(values) @ own), rtol=1e-3, atol=1e-5)


def test_one_equals_its_row_and_reasons_add_up():
    made, rows = scorer(), histories()
    scores = made.scores(rows)
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores[3], np.arange(ITEMS))
    for user in range(12):
        columns, values = entries(rows, user)
        np.testing.assert_allclose(made.one(columns, values), scores[user], rtol=2e-4, atol=2e-5)
        if len(columns):
            assert made.reasons(columns, values, 7).sum() == pytest.approx(scores[user, 7], rel=1e-3, abs=1e-4)
        else:
            assert made.reasons(columns, values, 7).size == 0
        told = made.explained(columns, values, 7)
        np.testing.assert_array_equal(told[0], made.one(columns, values))
        np.testing.assert_array_equal(told[1], made.reasons(columns, values, 7))


def test_it_comes_back_from_its_parts():
    made = scorer()
    again = IalsScorer.rebuild(made.arrays(), made.settings())
    np.testing.assert_array_equal(again.scores(histories()), made.scores(histories()))
    with pytest.raises(BadModel):
        IalsScorer.rebuild({"factors": made.factors}, made.settings())


@pytest.mark.parametrize("name", ["unobserved", "penalty"])
def test_settings_without_meaning_are_refused(name):
    with refused(BadParameter, name):
        scorer(**{name: -0.5})


@pytest.mark.parametrize(("users", "items"), [(60, 40), (400, 80)])
def test_the_default_finds_tastes_at_any_size(users, items):
    rows = tastes(users, items)
    scores = IalsFit(rows).scorer().scores(rows)
    unseen = rows.toarray() == 0
    same = (np.arange(users)[:, None] % 4) == (np.arange(items) % 4)
    assert scores[same & unseen].mean() > scores[~same & unseen].mean() + scores[~same & unseen].std()


@pytest.mark.parametrize("last", [*LOOKS, 100])
def test_a_fit_is_looked_at_now_and_then_and_may_end_there(last):
    rows, looks = tastes(80, 40), []

    def reached(epochs, model):
        looks.append(epochs)
        np.testing.assert_array_equal(model.factors, IalsFit(rows).scorer(epochs=epochs).factors)
        return epochs == last

    made = IalsFit(rows).scorer(stop=reached)
    assert looks == [one for one in LOOKS if one <= last]
    np.testing.assert_array_equal(made.factors, IalsFit(rows).scorer(epochs=min(last, EPOCHS)).factors)


def test_a_penalty_of_chance_leaves_nothing_of_chance_and_something_of_tastes():
    rng = np.random.default_rng(4)
    noise = rng.choice([-1.0, 1.0], (300, 120)) * (rng.random((300, 120)) < 0.1)
    left, kept = (
        np.abs(IalsFit(sparse.csr_array(rows.astype(np.float32))).scorer(penalty=1.3, epochs=60).factors).max()
        for rows in (noise, tastes(300, 120).toarray())
    )
    assert left < 1e-4 < 0.1 < kept


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (0, 4)])
def test_hardly_any_data_gives_finite_scores(shape):
    made = IalsFit(sparse.csr_array(np.ones(shape, np.float32))).scorer()
    assert np.isfinite(made.one(np.array([0]), np.array([1.0]))).all()
    assert np.isfinite(made.one(np.zeros(0, int), np.zeros(0))).all()
