"""The whole flow as one estimator: fit a frame with an entity column, recommend, predict, score."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.errors import (
    BadIdentifier,
    BadPlan,
    CatalogError,
    DataError,
    EmptyTable,
    NotFitted,
    NotForRealUse,
    PlanMismatch,
    UnknownItems,
    UnknownUser,
)
from twofold.estimator import FederatedRecommender
from twofold.federation.plan import Plan

CATALOG = Catalog([f"item-{number}" for number in range(12)])


QUICK: Any = {"local": "factors", "strength": "shared"}  # nothing is compared, for tests of something else


def make_plan(**changes: Any) -> Plan:
    public = {"feedback": "counts", "bound": 5, "max_items": 12, "rank": 3, "n_prototypes": 3, "n_users": 30}
    return Plan(**({"catalog": CATALOG, "n_entities": 2, "epsilon": 8, "simulation": True} | public | changes))


def visits(seed: int = 0, users: int = 30) -> pl.DataFrame:
    """Two hospitals whose users like one of three groups of items; ids of the second start at 1000."""
    rng = np.random.default_rng(seed)
    frames = []
    for start, name in ((0, "north"), (1000, "south")):
        liked = np.arange(12) // 4 == rng.integers(3, size=users)[:, None]
        values = rng.poisson(np.where(liked, 2.5, 0.1))
        rows, columns = np.nonzero(values)
        items = [CATALOG.items[column] for column in columns.tolist()]
        frames.append(
            pl.DataFrame({"hospital": name, "user": start + rows, "item": items, "value": values[rows, columns]})
        )
    return pl.concat(frames)


@pytest.fixture(scope="module")
def fitted() -> FederatedRecommender:
    return FederatedRecommender(make_plan(), rng=0).fit(visits(), entity="hospital")


def test_fit_returns_itself_and_leaves_its_parameters() -> None:
    plan = make_plan()
    estimator = FederatedRecommender(plan, rng=0, **QUICK)
    before = estimator.get_params()
    assert estimator.fit(visits(), entity="hospital") is estimator
    assert estimator.get_params() == before
    assert estimator.plan is plan


def test_what_a_fit_leaves_behind(fitted: FederatedRecommender) -> None:
    assert fitted.entities_ == ("north", "south")
    assert set(fitted.models_) == {"north", "south"}
    assert fitted.factors_.rank == 3
    assert not fitted.private_
    assert fitted.n_features_in_ == 4
    assert list(fitted.feature_names_in_) == ["hospital", "user", "item", "value"]


@pytest.mark.parametrize("kind", [pl.DataFrame.to_pandas, pl.DataFrame.to_arrow, pl.DataFrame.lazy])
def test_any_kind_of_frame_gives_the_same(kind: Any) -> None:
    frames = (visits(), kind(visits()))
    one, other = (FederatedRecommender(make_plan(), rng=0, **QUICK).fit(f, entity="hospital") for f in frames)
    assert other.recommend(3) == one.recommend(3)
    assert other.n_features_in_ == 4


def test_an_executor_gives_the_same(fitted: FederatedRecommender) -> None:
    with ThreadPoolExecutor(2) as pool:
        other = FederatedRecommender(make_plan(), rng=0, executor=pool).fit(visits(), entity="hospital")
    assert other.recommend(3) == fitted.recommend(3)


def test_a_user_is_found_wherever_they_are(fitted: FederatedRecommender) -> None:
    assert fitted.recommend(1003, n=4) == fitted.models_["south"].recommend(1003, 4)
    assert fitted.recommend(3, entity="north") == fitted.recommend(3)
    assert [one.item for one in fitted.recommend(3, items=["item-1"], exclude_seen=False)] == ["item-1"]
    with pytest.raises(UnknownUser):
        fitted.recommend(500)
    with refused(DataError, "entity"):
        fitted.recommend(3, entity="west")


def test_a_new_person_needs_an_entity(fitted: FederatedRecommender) -> None:
    assert len(fitted.recommend({"item-1": 2}, 3, entity="south")) == 3
    with refused(BadIdentifier, "entity"):
        fitted.recommend({"item-1": 2})


def test_an_id_at_two_entities_means_two_people() -> None:
    both = visits().with_columns(user=pl.col("user") % 1000)
    fitted = FederatedRecommender(make_plan(), rng=0, **QUICK).fit(both, entity="hospital")
    with refused(BadIdentifier, "entity") as caught:
        fitted.recommend(3)
    assert "entity=" in str(caught.value.fix)
    assert fitted.recommend(3, entity="south") == fitted.models_["south"].recommend(3)


# The catalog


def test_a_plan_read_from_elsewhere_needs_the_list() -> None:
    bare = Plan.from_dict(make_plan().as_dict())
    with refused(CatalogError, "catalog") as caught:
        FederatedRecommender(bare, rng=0).fit(visits(), entity="hospital")
    assert "catalog=" in str(caught.value.fix)
    ways = (
        FederatedRecommender(bare, rng=0, **QUICK).fit(visits(), entity="hospital", catalog=CATALOG),
        FederatedRecommender(bare, rng=0, catalog=CATALOG, **QUICK).fit(visits(), entity="hospital"),
    )
    assert ways[0].recommend(3) == ways[1].recommend(3)
    assert ways[0].factors_.hash == ways[1].factors_.hash
    with refused(PlanMismatch, "catalog"):
        FederatedRecommender(bare, catalog=Catalog(["a", "b"])).fit(visits(), entity="hospital")


def test_a_plan_keeps_its_list_out_of_everything_that_is_compared() -> None:
    plan = make_plan()
    bare = Plan.from_dict(plan.as_dict())
    assert (bare == plan, bare.hash == plan.hash, hash(bare) == hash(plan)) == (True, True, True)
    assert plan.catalog_items is CATALOG
    assert plan.with_(rank=2).catalog_items is CATALOG
    assert bare.catalog_items is None
    assert pickle.loads(pickle.dumps(plan)).catalog_items == CATALOG


# Asked for the wrong thing


def test_before_fit_everything_says_so() -> None:
    estimator = FederatedRecommender(make_plan())
    for ask in (lambda: estimator.recommend(3), lambda: estimator.predict(visits()), lambda: estimator.score(visits())):
        with refused(NotFitted):
            ask()


def test_what_is_no_plan_or_no_seed_is_refused_by_fit() -> None:
    with refused(BadPlan, "plan", found="str"):
        FederatedRecommender("plan.toml").fit(visits(), entity="hospital")  # type: ignore[arg-type]
    with refused(NotForRealUse, "rng"):
        FederatedRecommender(make_plan(simulation=False), rng=0).fit(visits(), entity="hospital")


# Scores


def test_predictions_follow_the_order_of_the_rows(fitted: FederatedRecommender) -> None:
    rows = visits().sample(40, seed=1, shuffle=True)
    found = fitted.predict(rows)
    for at, row in enumerate(rows.iter_rows(named=True)):
        model = fitted.models_[row["hospital"]]
        lists = {one.item: one.score for one in model.recommend(row["user"], 12, exclude_seen=False)}
        assert found[at] == pytest.approx(lists[row["item"]], rel=1e-4, abs=1e-5)


def test_predictions_do_not_depend_on_the_size_of_a_block(
    fitted: FederatedRecommender, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pl.concat([visits(), pl.DataFrame({"hospital": "north", "user": 777, "item": "item-2", "value": 1})])
    whole = fitted.predict(rows)
    monkeypatch.setattr("twofold.estimator.score.SCORE_BYTES", 4 * 12 * 7)
    assert np.allclose(fitted.predict(rows), whole, atol=1e-5)


def test_a_perfect_list_scores_one_and_a_useless_one_zero(fitted: FederatedRecommender) -> None:
    user = next(u for u in range(30) if len(fitted.recommend(u, 12)) >= 4)
    order = [one.item for one in fitted.recommend(user, 12)]
    best, worst = ({"hospital": "north", "user": user, "item": items, "value": 1} for items in (order[:3], order[10:]))
    assert fitted.score(pl.DataFrame(best)) == pytest.approx(1.0)
    if order[10:]:
        assert fitted.score(pl.DataFrame(worst)) == 0.0
    third = pl.DataFrame({"hospital": "north", "user": user, "item": [order[2]], "value": 1})
    assert fitted.score(third) == pytest.approx(1 / np.log2(3))  # the first two places weigh alike


def test_what_a_user_had_before_does_not_count(fitted: FederatedRecommender) -> None:
    with refused(EmptyTable, "frame"):
        fitted.score(visits())


def test_somebody_new_is_scored_by_what_everyone_gets(fitted: FederatedRecommender) -> None:
    first = fitted.recommend({}, 1, entity="north")[0].item
    row = pl.DataFrame({"hospital": "north", "user": 777, "item": first, "value": 1})
    assert fitted.score(row) == pytest.approx(1.0)


def test_ratings_are_scored_by_their_error() -> None:
    rated = visits().with_columns(value=pl.col("value").clip(1, 5).cast(pl.Float64))
    plan = make_plan(feedback="ratings", lower=1)
    fitted = FederatedRecommender(plan, rng=0).fit(rated, entity="hospital")
    found = fitted.predict(rated)
    assert found.min() >= 1
    assert found.max() <= 5
    expected = -np.sqrt(np.mean((found - rated["value"].to_numpy()) ** 2))
    assert fitted.score(rated.to_pandas()) == pytest.approx(expected)


def test_rows_of_strangers_are_refused(fitted: FederatedRecommender) -> None:
    row = {"hospital": ["north"], "user": [3], "item": ["item-1"], "value": [1]}
    for change, error in (({"hospital": ["west"]}, DataError), ({"item": ["item-99"]}, UnknownItems)):
        for ask in (fitted.predict, fitted.score):
            with pytest.raises(error):
                ask(pd.DataFrame(row | change))
    assert fitted.predict(pa.table(row)).shape == (1,)


def test_entities_that_were_not_in_the_fit_do_not_count_in_a_score(fitted: FederatedRecommender) -> None:
    """A table sorted by hospital gave folds of whole hospitals, and scores of NaN alone."""
    both = visits(seed=1)
    stranger = both.filter(pl.col("hospital") == "south").with_columns(hospital=pl.lit("west"))
    assert fitted.score(pl.concat([both, stranger])) == fitted.score(both)
    with refused(DataError, "entity"):
        fitted.score(stranger)
    rated = both.with_columns(value=pl.col("value").clip(1, 5).cast(pl.Float64))
    known = FederatedRecommender(make_plan(feedback="ratings", lower=1), rng=0).fit(rated, entity="hospital")
    more = stranger.with_columns(value=pl.lit(5.0))
    assert known.score(pl.concat([more, rated])) == pytest.approx(known.score(rated))
    with refused(DataError, "entity"):
        known.score(more)
