"""Baselines: each is what its name says, fitted to the entries it may know."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tests.entity.evaluated import CATALOG, federation, people
from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.baselines import BASELINES, Fits, baseline_names, system_of
from twofold.entity.personalize import fit_alone, fitted_model
from twofold.errors import BadParameter


def fits(feedback: str = "counts", **changes: object) -> Fits:
    mechanism = "gram"
    made = federation(60, 90, feedback=feedback, mechanism=mechanism)
    rest = made.models["e0"].history
    given = {"entity": "e0", "rest": rest, "plan": made.plan, "shared": made.factors, "lower": 0.0, "bound": 5.0}
    return Fits(**(given | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_scores_every_item_of_every_row(name: str, feedback: str) -> None:
    one = fits(feedback)
    rows = one.rest.matrix[:7]
    scores = one.baseline(name)(rows)
    assert scores.shape == rows.shape
    assert np.isfinite(scores).all()
    alike = np.ptp(scores, axis=0).max() == 0
    assert alike == (name in ("popularity", "shared-popularity"))


def test_popularity_is_own_use_and_shared_popularity_that_of_all() -> None:
    one = fits()
    rows = one.rest.matrix[:1]
    had = np.bincount(one.rest.matrix.indices, minlength=one.rest.n_items)
    assert one.baseline("popularity")(rows)[0].tolist() == had.tolist()
    assert one.shared is not None
    assert one.baseline("shared-popularity")(rows)[0].tolist() == one.shared.means.tolist()


def test_popularity_of_ratings_is_the_mean_rating() -> None:
    one = fits("ratings")
    scores = one.baseline("popularity")(one.rest.matrix[:1])[0]
    values = one.rest.matrix.toarray()
    many = int(np.argmax((values > 0).sum(axis=0)))
    assert scores[many] == pytest.approx(values[values[:, many] > 0, many].mean(), abs=0.2)


def test_alone_and_the_model_are_those_of_the_two_rounds() -> None:
    one, made = fits(), federation(60, 90)
    rows = one.rest.matrix[:9]
    alone = fitted_model("e0", one.rest, made.plan, None)
    assert (one.baseline("alone")(rows) == system_of(alone)(rows)).all()
    assert (system_of(one.model())(rows) == system_of(made.models["e0"])(rows)).all()
    without = fits(plan=None, shared=None)
    assert (without.baseline("alone")(rows) == system_of(fit_alone(one.rest))(rows)).all()
    assert without.model().alone


def test_a_history_that_says_nothing_is_scored_as_in_recommend() -> None:
    model = fit_alone(people(30, 1))
    [scores] = system_of(model)(sparse.csr_array((1, len(CATALOG)), dtype=np.float32))
    best = [one.item for one in model.recommend({}, n=3)]
    assert [CATALOG.items[at] for at in np.argsort(-scores, kind="stable")[:3]] == best


def test_random_is_seeded() -> None:
    rows = fits().rest.matrix[:5]
    one, again, other = (fits(seed=seed).baseline("random")(rows) for seed in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()
    assert one.min() >= 0
    assert one.max() <= 5


def test_names() -> None:
    assert baseline_names("alone", shared=False) == ("alone",)
    assert baseline_names([], shared=False) == ()
    with refused(BadParameter, "against", found="'pooled'", expected="shared-popularity"):
        baseline_names(["alone", "pooled"], shared=True)
    with refused(BadParameter, "factors", found="shared"):
        baseline_names(["shared"], shared=False)


def test_item_item_of_a_long_catalog_is_refused_by_name() -> None:
    long = Catalog(range(6_001))
    rest = Ratings(sparse.csr_array(np.ones((3, 6_001), np.float32)), Identifiers("abc"), long, "counts")
    with refused(BadParameter, "against", found="6,001 items"):
        Fits(entity="e", rest=rest, plan=None, shared=None, lower=0, bound=1).baseline("item-item")
