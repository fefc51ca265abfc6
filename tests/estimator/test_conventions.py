"""scikit-learn's conventions, checked by scikit-learn's own functions.

``check_estimator`` itself runs nothing here: the tags say that the input is no plain 2-d array, and its other checks
make arrays of random numbers to fit. What it would have checked and what needs no such array is run one by one below;
the rest is covered with frames:

* check_estimators_fit_returns_self, _overwrite_params, _dont_overwrite_parameters, _pickle, _fit_check_is_fitted,
  _n_features_in: their counterparts with a frame are in this folder;
* check_fit_idempotent, _methods_sample_order_invariance, _dict_unchanged: a seeded fit and a shuffled frame, here;
* check_estimators_dtypes, _nan_inf, _empty_data_messages, _complex_data, _dtype_object, sparse and array-API checks:
  about matrices of numbers. Frames are checked by read_ratings, and tests/data/test_read.py has their counterparts;
* check_parameters_default_constructible: there is no default plan, on purpose; scikit-learn skips such parameters by a
  list of its own names.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.errors import BadParameter, NotFitted, SilentSpending
from twofold.estimator import FederatedRecommender
from twofold.estimator.spending import GUARD
from twofold.federation.plan import Plan

pytest.importorskip("sklearn")
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.validation import check_is_fitted

CATALOG = Catalog([f"item-{number}" for number in range(8)])
APPLICABLE = (
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_get_params_invariance",
    "check_set_params",
    "check_estimators_unfitted",
)


@pytest.fixture(autouse=True)
def _fresh_account() -> Iterator[None]:
    GUARD.forget()
    yield
    GUARD.forget()


def make_plan(**changes: Any) -> Plan:
    public = {"feedback": "counts", "bound": 5, "max_items": 8, "rank": 2, "n_prototypes": 2, "n_users": 20}
    return Plan(**({"catalog": CATALOG, "n_entities": 2, "epsilon": 3, "simulation": True} | public | changes))


def visits() -> pd.DataFrame:
    rows, columns = np.nonzero(np.random.default_rng(0).random((60, 8)) < 0.4)
    items = [CATALOG.items[column] for column in columns.tolist()]
    return pd.DataFrame({"entity": np.where(rows % 2, "north", "south"), "user": rows, "item": items, "value": 1.0})


def make(**options: Any) -> FederatedRecommender:
    return FederatedRecommender(**({"plan": make_plan(), "local": "factors", "strength": "shared"} | options))


@pytest.mark.parametrize("check", APPLICABLE)
def test_scikit_learns_own_check(check: str) -> None:
    getattr(estimator_checks, check)("FederatedRecommender", make())


def test_tags_say_that_a_frame_is_wanted() -> None:
    tags = get_tags(make())
    assert not tags.input_tags.two_d_array
    assert tags.non_deterministic
    assert not is_classifier(make())
    assert not is_regressor(make())


def test_check_is_fitted_agrees() -> None:
    estimator = make(rng=0)
    with pytest.raises(NotFittedError):
        check_is_fitted(estimator)
    check_is_fitted(estimator.fit(visits()))
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(estimator))


def test_asked_too_early_is_their_error_and_ours_and_crosses_processes() -> None:
    with pytest.raises(NotFittedError) as caught:
        make().recommend(1)
    assert isinstance(caught.value, NotFitted)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), NotFittedError)


def test_a_clone_shares_its_parameters_and_forgets_its_fit() -> None:
    with ThreadPoolExecutor(1) as pool:
        estimator = make(executor=pool, rng=0).fit(visits())
        copy = clone(estimator)
    assert copy.executor is pool
    assert copy.get_params() == estimator.get_params()
    assert not hasattr(copy, "models_")


def test_parameters_of_the_plan_have_names() -> None:
    estimator = make()
    assert estimator.get_params()["plan__rank"] == 2
    assert "plan__rank" not in estimator.get_params(deep=False)
    assert estimator.set_params(plan__rank=1, rng=4) is estimator
    assert (estimator.plan, estimator.rng) == (make_plan(rank=1), 4)
    for parameter, wrong in (
        ("ranks", {"plan__ranks": 1}),
        ("rank", {"rank": 1}),
        ("rank", {"rank": 1, "plan__rank": 2}),
    ):
        with refused(BadParameter, parameter):
            estimator.set_params(**wrong)
    assert estimator.plan == make_plan(rank=1)


def test_the_repr_is_short_and_names_what_was_set() -> None:
    text = repr(make(rng=3))
    assert text.startswith("FederatedRecommender(plan=<plan federation ")
    assert "rng=3" in text
    assert "executor" not in text


def test_pickles_fitted_and_unfitted() -> None:
    estimator = make(rng=0)
    assert pickle.loads(pickle.dumps(estimator)).get_params() == estimator.get_params()
    estimator.fit(visits())
    assert pickle.loads(pickle.dumps(estimator)).recommend(3) == estimator.recommend(3)


def test_a_seeded_fit_does_not_depend_on_the_order_of_the_rows_and_changes_nothing() -> None:
    frame = visits()
    before = frame.copy()
    lists = [make(rng=0).fit(rows).recommend(3) for rows in (frame, frame, frame.sample(frac=1, random_state=1))]
    assert lists[0] == lists[1] == lists[2]
    pd.testing.assert_frame_equal(frame, before)


def test_the_last_step_of_a_pipeline() -> None:
    renamed = FunctionTransformer(lambda frame: frame.rename(columns={"patient": "user"}))
    pipeline = Pipeline([("rename", renamed), ("recommend", make(rng=0))])
    frame = visits().rename(columns={"user": "patient", "entity": "hospital"})
    pipeline.fit(frame, recommend__entity="hospital")
    assert pipeline[-1].recommend(3, 2)
    assert pipeline.predict(frame).shape == (len(frame),)
    assert pipeline[-1].entities_ == ("north", "south")


def one_split(frame: pd.DataFrame) -> list[tuple[Any, Any]]:
    order = np.random.default_rng(1).permutation(len(frame))
    return [(order[len(frame) // 5 :], order[: len(frame) // 5])]


def test_a_grid_search_over_plans_would_spend_and_is_refused() -> None:
    frame, plans = visits(), [make_plan(simulation=False), make_plan(simulation=False, rank=1)]
    search = GridSearchCV(make(), {"plan": plans}, cv=one_split(frame), error_score="raise", refit=False)
    with refused(SilentSpending, "plan"):
        search.fit(frame)


def test_folds_of_one_plan_would_spend_too() -> None:
    search = GridSearchCV(make(), {"plan": [make_plan(simulation=False)]}, cv=3, error_score="raise")
    with refused(SilentSpending, "data"):
        search.fit(visits())


def test_worker_processes_of_a_search_cannot_forget_what_they_spent() -> None:
    plans = [make_plan(simulation=False), make_plan(simulation=False, rank=1)]
    frame = visits()
    search = GridSearchCV(make(), {"plan": plans}, cv=one_split(frame), error_score="raise", n_jobs=2)
    with refused(SilentSpending, "n_jobs"):
        search.fit(frame)


def test_in_a_simulation_the_search_runs_and_is_marked() -> None:
    search = GridSearchCV(make(rng=0), {"plan__rank": [1, 2], "plan__epsilon": [3, 30]}, cv=2, error_score="raise")
    search.fit(visits())
    best = search.best_estimator_
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert not best.private_
    assert not best.factors_.private
    assert not any(model.private for model in best.models_.values())


def test_scikit_learn_is_not_needed() -> None:
    code = "import sys, twofold.estimator; print(any(name.split('.')[0] == 'sklearn' for name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
