"""Implicit ALS with counts as confidence: the fold-in minimises the fit's own loss, and reasons add up."""

from __future__ import annotations

import numpy as np
import pytest

from tests.entity.test_ials import ITEMS, RANK, entries, histories, tastes
from tests.refused import refused
from twofold.entity.models.blend import Scorer
from twofold.entity.models.confidence import ConfidenceScorer, confident_factors
from twofold.errors import BadModel, BadParameter


def scorer(**changes) -> ConfidenceScorer:
    factors = np.random.default_rng(0).standard_normal((ITEMS, RANK))
    return ConfidenceScorer(factors, **({"confidence": 4.0, "penalty": 0.5, "cold_start": np.arange(ITEMS)} | changes))


def loss(made: ConfidenceScorer, users: np.ndarray, rows) -> float:
    dense, scores = rows.toarray(), users @ made.factors.T.astype(float)
    weight = np.where(dense > 0, made.confidence * dense, 1.0)
    return float((weight * ((dense > 0) - scores) ** 2).sum() + made.penalty * (users**2).sum())


def test_is_a_scorer_of_its_own_kind():
    assert isinstance(scorer(), Scorer)
    assert scorer().kind == "confidence"


def test_a_history_is_folded_in_by_the_loss_of_the_fit():
    made, rows = scorer(), histories()
    found = made.user_factors(rows).astype(float)
    least = loss(made, found, rows)
    rng = np.random.default_rng(4)
    for _ in range(20):
        assert loss(made, found + 1e-2 * rng.standard_normal(found.shape), rows) > least


def test_one_equals_its_row_and_reasons_add_up():
    made, rows = scorer(), histories()
    scores = made.scores(rows)
    np.testing.assert_array_equal(scores[3], np.arange(ITEMS))
    for user in range(rows.shape[0]):
        columns, values = entries(rows, user)
        np.testing.assert_allclose(made.one(columns, values), scores[user], rtol=2e-4, atol=2e-5)
        if len(columns):
            assert made.reasons(columns, values, 7).sum() == pytest.approx(scores[user, 7], rel=1e-3, abs=1e-4)
        else:
            assert made.reasons(columns, values, 7).size == 0
        told = made.explained(columns, values, 7)
        np.testing.assert_array_equal(told[0], made.one(columns, values))
        np.testing.assert_array_equal(told[1], made.reasons(columns, values, 7))


def test_an_entry_counts_more_the_larger_its_count():
    made = scorer(confidence=1.5)
    columns = np.array([0, 1])
    sure, unsure = (made.one(columns, np.array([count, 1.0]))[0] for count in (5.0, 1.0))
    assert sure > unsure


def test_it_comes_back_from_its_parts():
    made = scorer()
    again = ConfidenceScorer.rebuild(made.arrays(), made.settings())
    np.testing.assert_array_equal(again.scores(histories()), made.scores(histories()))
    with pytest.raises(BadModel):
        ConfidenceScorer.rebuild({"factors": made.factors}, made.settings())


@pytest.mark.parametrize("name", ["confidence", "penalty"])
def test_settings_without_meaning_are_refused(name):
    with refused(BadParameter, parameter=name):
        scorer(**{name: -1.0})


def test_planted_tastes_are_found_and_threads_do_not_matter():
    rows = tastes(80, 40)
    made = confident_factors(rows, threads=1)
    np.testing.assert_array_equal(made.factors, confident_factors(rows, threads=2).factors)
    scores = made.scores(rows)
    alike = (np.arange(80)[:, None] % 4) == (np.arange(40) % 4)
    absent = rows.toarray() == 0
    assert scores[alike & absent].mean() > 3 * scores[~alike & absent].mean()


def test_each_epoch_lowers_the_loss():
    rows = tastes(60, 30)
    losses = []
    for epochs in (1, 2, 4, 8):
        made = confident_factors(rows, rank=6, epochs=epochs)
        both = made.penalty * float((made.factors.astype(float) ** 2).sum())
        losses.append(loss(made, made.user_factors(rows).astype(float), rows) + both)
    assert losses == sorted(losses, reverse=True)


def test_nobody_and_nothing_give_finite_scores():
    empty = histories()[:1] * 0
    empty.eliminate_zeros()
    assert np.isfinite(confident_factors(empty).scores(empty)).all()
