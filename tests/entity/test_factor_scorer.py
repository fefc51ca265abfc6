"""The scorer over item factors: scores, reasons that add up, likeness, artefact."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from twofold.algorithms.fold_in import fold_in
from twofold.entity.models.blend import Scorer
from twofold.entity.models.factors import FactorScorer
from twofold.errors import BadModel, BadShape

ITEMS, RANK = 30, 4
CASES = [
    {"feedback": "ratings", "regularization": 0.1},
    {"feedback": "counts", "regularization": 0.05, "zero_weight": 0.1},
    {"feedback": "counts", "regularization": 0.02, "zero_weight": 1.0, "power": 0.5},
    {"feedback": "ratings", "regularization": 0.3, "count_scaling": 0.0},
]


def factors(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.gamma(0.6, 1.0, size=(ITEMS, RANK))


def histories(users: int = 12, seed: int = 1) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((users, ITEMS)) < 0.25, rng.integers(1, 6, size=(users, ITEMS)), 0)
    values[3] = 0  # somebody without a history
    return sparse.csr_array(values.astype(np.float32))


def entries(rows: sparse.csr_array, user: int) -> tuple[np.ndarray, np.ndarray]:
    span = slice(rows.indptr[user], rows.indptr[user + 1])
    return rows.indices[span], rows.data[span]


def test_is_a_scorer():
    assert isinstance(FactorScorer(factors(), feedback="counts"), Scorer)


@pytest.mark.parametrize("settings", CASES)
def test_one_equals_its_row(settings):
    rows, scorer = histories(), FactorScorer(factors(), cold_start=np.arange(ITEMS), **settings)
    scores = scorer.scores(rows)
    assert scores.shape == (12, ITEMS)
    assert scores.dtype == np.float32
    for user in range(12):
        np.testing.assert_allclose(scorer.one(*entries(rows, user)), scores[user], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("settings", CASES)
def test_reasons_add_up_to_the_score(settings):
    rows, scorer = histories(), FactorScorer(factors(), **settings)
    for user in (0, 1, 2, 5):
        columns, values = entries(rows, user)
        for item in (0, 7, 29):
            reasons = scorer.reasons(columns, values, item)
            assert reasons.shape == columns.shape
            assert reasons.sum() == pytest.approx(float(scorer.one(columns, values)[item]), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("settings", CASES)
def test_explained_is_one_and_reasons_with_one_folding_in(settings, monkeypatch):
    rows, scorer = histories(), FactorScorer(factors(), cold_start=np.arange(ITEMS), **settings)
    wanted = [(scorer.one(*entries(rows, user)), scorer.reasons(*entries(rows, user), 7)) for user in range(12)]
    folded, fold = [], scorer.ready.one
    monkeypatch.setattr(scorer.ready, "one", lambda *given: folded.append(1) or fold(*given))
    for user, (scores, reasons) in enumerate(wanted):
        told = scorer.explained(*entries(rows, user), 7)
        np.testing.assert_array_equal(told[0], scores)
        np.testing.assert_array_equal(told[1], reasons)
    assert len(folded) == 11  # one has no history


def test_reasons_add_up_without_a_penalty_and_with_factors_that_say_the_same():
    twice = np.repeat(factors()[:, :2], 2, axis=1)
    scorer = FactorScorer(twice, feedback="ratings", regularization=0.0)
    columns, values = np.array([1, 4, 9]), np.array([2.0, 3.0, 1.0])
    score = float(scorer.one(columns, values)[6])
    assert scorer.reasons(columns, values, 6).sum() == pytest.approx(score, rel=1e-3)


def test_a_reason_is_what_the_value_adds_while_the_active_factors_stay():
    scorer = FactorScorer(factors() + 0.5, feedback="counts", zero_weight=0.1, regularization=2.0)
    columns, values = np.array([1, 4, 9]), np.array([2.0, 3.0, 1.0])
    active = scorer.ready.one(columns, values) > 0
    more = values + np.array([0.01, 0.0, 0.0])
    assert ((scorer.ready.one(columns, more) > 0) == active).all()
    step = (scorer.one(columns, more) - scorer.one(columns, values))[6] / 0.01
    assert scorer.reasons(columns, values, 6)[0] == pytest.approx(2.0 * step, rel=0.02)


def test_folds_in_as_the_algorithm_does():
    rows, V = histories(), factors()
    wanted = fold_in(rows, V.astype(np.float32), feedback="counts", zero_weight=0.3, regularization=0.2)
    scorer = FactorScorer(V, feedback="counts", zero_weight=0.3, regularization=0.2)
    np.testing.assert_allclose(scorer.user_factors(rows), wanted, rtol=1e-5, atol=1e-6)


def test_no_history_gets_the_usual_scores_and_no_reasons():
    usual = np.linspace(0, 1, ITEMS).astype(np.float32)
    scorer = FactorScorer(factors(), feedback="ratings", cold_start=usual)
    nobody = np.zeros(0, np.int64), np.zeros(0)
    assert (scorer.one(*nobody) == usual).all()
    assert (scorer.scores(histories())[3] == usual).all()
    assert scorer.reasons(*nobody, 2).size == 0


def test_all_zero_factors_are_no_trouble():
    scorer = FactorScorer(np.zeros((ITEMS, 2)), feedback="counts")
    assert not scorer.scores(histories()).any()
    assert not scorer.reasons(np.array([0, 1]), np.ones(2), 5).any()
    assert np.isneginf(scorer.similar(3)[3])
    assert not np.delete(scorer.similar(3), 3).any()


def test_similar_is_symmetric_and_at_most_one():
    scorer = FactorScorer(factors(), feedback="counts")
    table = np.array([scorer.similar(item) for item in range(ITEMS)])
    np.testing.assert_allclose(table, table.T)
    assert np.isneginf(np.diag(table)).all()
    assert np.max(table) <= 1.0
    V = factors()[[0, 0, 1]]
    assert FactorScorer(V, feedback="counts").similar(0)[1] == pytest.approx(1.0)


def test_rebuilt_gives_the_same_bits():
    rows, scorer = histories(), FactorScorer(factors(), cold_start=np.ones(ITEMS), **CASES[2])
    again = FactorScorer.rebuild(scorer.arrays(), scorer.settings())
    assert (again.scores(rows) == scorer.scores(rows)).all()
    assert again.settings() == scorer.settings()


def test_its_arrays_cannot_be_written_and_the_given_ones_stay():
    given = factors().astype(np.float32)
    scorer = FactorScorer(given, feedback="counts")
    given[0] = 99
    assert scorer.factors.max() < 99
    with pytest.raises(ValueError, match="read-only"):
        scorer.factors[0, 0] = 1


def test_what_does_not_fit_is_refused():
    with pytest.raises(BadShape):
        FactorScorer(factors(), feedback="counts", cold_start=np.ones(3))
    with pytest.raises(BadModel):
        FactorScorer.rebuild({"factors": factors()}, {})


def test_likeness_and_reasons_copy_no_long_catalog() -> None:
    rng = np.random.default_rng(0)
    scorer = FactorScorer(rng.random((60_000, 20)), feedback="counts")
    columns, values = np.array([3, 700, 59_999]), np.array([1.0, 2.0, 4.0])
    scorer.similar(0), scorer.reasons(columns, values, 5)  # what is made once
    for ask, most in ((lambda: scorer.similar(7), 4e6), (lambda: scorer.reasons(columns, values, 5), 1e5)):
        tracemalloc.start()
        ask()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most  # all factors in double precision are 9.6 MB
