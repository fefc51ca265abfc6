"""The table of results: groups add up, quarters are by size, intervals cover."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.refused import refused
from twofold.errors import BadParameter, EmptyTable
from twofold.evaluation.measure import Measured
from twofold.evaluation.rmse import rmse_per_entity_mean, rmse_pooled
from twofold.evaluation.summary import quarters, summarize


def entity(n_users: int, seed: int, *, tested: float = 0.7, n_items: int = 30) -> Measured:
    rng = np.random.default_rng(seed)
    counts = (rng.random(n_users) < tested) * rng.integers(1, 5, n_users)
    counted = (counts > 0).astype(float)
    lists = np.where(counted[:, None] > 0, rng.integers(0, n_items, (n_users, 1)), -1)
    return Measured(
        totals={"hit": counted * (rng.random(n_users) < 0.3), "rmse": counts * rng.exponential(2 + seed, n_users)},
        weights={"hit": counted, "rmse": counts.astype(float)},
        lists=lists,
        n_items=n_items,
    )


ENTITIES = {
    name: entity(size, seed) for seed, (name, size) in enumerate(zip("abcdef", (90, 10, 60, 30, 5, 40), strict=True))
}


def value(table: pl.DataFrame, scope: str, name: str, metric: str, column: str = "value") -> float:
    rows = table.filter(scope=scope, name=name, metric=metric)
    assert len(rows) == 1
    return float(rows[column].item())


def test_overall_equals_the_pooled_users() -> None:
    table, pooled = summarize(ENTITIES, rng=0), Measured.pool(ENTITIES.values())
    for metric, label in (("hit", "hit"), ("coverage", "coverage"), ("rmse", "rmse_pooled")):
        assert value(table, "all", "all", label) == pytest.approx(pooled.overall(metric), rel=1e-13)


def test_entities_stand_for_themselves() -> None:
    table = summarize(ENTITIES, rng=0)
    for name, measured in ENTITIES.items():
        for metric, label in (("hit", "hit"), ("coverage", "coverage"), ("rmse", "rmse_pooled")):
            assert value(table, "entity", name, label) == pytest.approx(measured.overall(metric), rel=1e-13)
    assert table.filter(scope="entity", metric="rmse_per_entity_mean").is_empty()


def test_quarters_by_size() -> None:
    assert quarters({name: one.n_users for name, one in ENTITIES.items()}) == {
        "e": 1, "b": 1, "d": 2, "f": 2, "c": 3, "a": 4,
    }  # fmt: skip
    table = summarize(ENTITIES, rng=0)
    for number, members in (("1", "eb"), ("2", "df"), ("3", "c"), ("4", "a")):
        pooled = Measured.pool(ENTITIES[name] for name in members)
        assert value(table, "quarter", number, "hit") == pytest.approx(pooled.overall("hit"))
        assert value(table, "quarter", number, "coverage") == pytest.approx(pooled.overall("coverage"))
        assert value(table, "quarter", number, "hit", "entities") == len(members)


def test_fewer_than_four_entities_make_fewer_quarters() -> None:
    assert quarters({"x": 3, "y": 1}) == {"y": 1, "x": 2}
    assert quarters({}) == {}


def test_both_kinds_of_rmse() -> None:
    table = summarize(ENTITIES, rng=0)
    squares = [one.totals["rmse"].sum() for one in ENTITIES.values()]
    entries = [one.weights["rmse"].sum() for one in ENTITIES.values()]
    assert value(table, "all", "all", "rmse_pooled") == pytest.approx(rmse_pooled(squares, entries))
    assert value(table, "all", "all", "rmse_per_entity_mean") == pytest.approx(rmse_per_entity_mean(squares, entries))


def test_columns_and_lengths() -> None:
    table = summarize(ENTITIES, rng=0)
    assert table.columns == ["scope", "name", "metric", "n", "value", "low", "high", "users", "entities"]
    assert set(table.filter(metric="hit")["n"]) == {1}
    assert table.filter(metric="rmse_pooled")["n"].null_count() == 1 + 4 + 6
    counted = sum(int((one.weights["hit"] > 0).sum()) for one in ENTITIES.values())
    assert value(table, "all", "all", "hit", "users") == counted


def test_intervals_are_seeded_and_hold_the_value() -> None:
    one, again, other = (summarize(ENTITIES, rng=seed) for seed in (0, 0, 1))
    assert one.equals(again)
    assert not one.equals(other)
    assert one["value"].equals(other["value"])
    inner = one.filter(pl.col("metric") != "coverage")
    assert inner.select(((pl.col("low") <= pl.col("value")) & (pl.col("value") <= pl.col("high"))).all()).item()
    assert one.filter(metric="coverage")["low"].null_count() == 11


def test_width_is_that_of_a_stratified_mean() -> None:
    table = summarize(ENTITIES, level=0.9, resamples=20_000, rng=0)
    columns = [one.totals["hit"][one.weights["hit"] > 0] for one in ENTITIES.values()]
    n_users = sum(column.size for column in columns)
    spread = np.sqrt(sum(column.size * column.var() for column in columns)) / n_users
    width = value(table, "all", "all", "hit", "high") - value(table, "all", "all", "hit", "low")
    assert width == pytest.approx(2 * 1.645 * spread, rel=0.06)


@pytest.mark.parametrize("metric", ["hit", "rmse_pooled"])
def test_intervals_cover_the_truth_about_as_often_as_they_say(metric: str) -> None:
    rng = np.random.default_rng(0)
    truth = {"hit": 0.3, "rmse_pooled": 1.0}[metric]
    inside = 0
    for _ in range(300):
        squares = rng.chisquare(4, 100)  # four errors of variance 1 per user
        measured = Measured(
            totals={"hit": (rng.random(100) < 0.3).astype(float), "rmse": squares},
            weights={"hit": np.ones(100), "rmse": np.full(100, 4.0)},
            lists=np.zeros((100, 1), dtype=np.intp),
            n_items=2,
        )
        table = summarize(measured, level=0.9, resamples=300, rng=rng)
        inside += value(table, "all", "all", metric, "low") <= truth <= value(table, "all", "all", metric, "high")
    assert inside / 300 == pytest.approx(0.9, abs=0.06)  # three standard errors, and a little for 100 users


def test_one_entity_more_leaves_the_others_alone() -> None:
    more = summarize(ENTITIES | {"z": entity(20, 9)}, rng=0).filter(scope="entity")
    fewer = summarize(ENTITIES, rng=0).filter(scope="entity")
    assert more.filter(pl.col("name") != "z").equals(fewer)


def test_one_table_of_users_has_one_scope() -> None:
    table = summarize(ENTITIES["a"], rng=0)
    assert table["scope"].unique().to_list() == ["all"]
    assert table["metric"].to_list() == ["hit", "coverage", "rmse_pooled"]


def test_without_intervals() -> None:
    table = summarize(ENTITIES, resamples=0)
    assert table["low"].null_count() == table["high"].null_count() == len(table)


def test_an_entity_with_nothing_held_out_is_empty_not_wrong() -> None:
    empty = entity(8, 3, tested=0.0)
    table = summarize(ENTITIES | {"empty": empty}, rng=0)
    rows = table.filter(scope="entity", name="empty")
    assert rows.filter(pl.col("metric") != "coverage")["value"].null_count() == 2
    without = summarize(ENTITIES, rng=0)
    for metric in ("hit", "rmse_pooled", "rmse_per_entity_mean"):
        assert value(table, "all", "all", metric) == pytest.approx(value(without, "all", "all", metric))


def test_refusals() -> None:
    with pytest.raises(EmptyTable):
        summarize({})
    with refused(BadParameter, "measured"):
        summarize({"a": ENTITIES["a"], "b": entity(10, 1, n_items=31)})
    for wrong in ({"level": 0.0}, {"level": 1.0}, {"resamples": -1}, {"resamples": 2.5}):
        with pytest.raises(BadParameter):
            summarize(ENTITIES, **wrong)  # type: ignore[arg-type]
