"""Two systems on the same users: the difference is paired."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.refused import refused
from twofold.errors import BadParameter
from twofold.evaluation.measure import Measured
from twofold.evaluation.summary import difference, summarize

EASE = np.random.default_rng(0).random(200)  # some users are easy for every system


def system(gain: float, users: slice = slice(None), *, counted: int = 150) -> Measured:
    ease = EASE[users]
    weights = (np.arange(ease.size) < counted).astype(float)
    return Measured(
        totals={"ndcg": weights * (ease + gain), "rmse": weights * (2 - ease - gain)},
        weights={"ndcg": weights, "rmse": weights},
        lists=np.zeros((ease.size, 2), dtype=np.intp),
        n_items=4,
    )


def entities(gain: float) -> dict[str, Measured]:
    return {"a": system(gain, slice(0, 50)), "b": system(gain, slice(50, 120)), "c": system(gain, slice(120, 200))}


def row(table: pl.DataFrame, metric: str, scope: str = "all", name: str = "all") -> dict[str, float]:
    return table.filter(scope=scope, name=name, metric=metric).row(0, named=True)


def test_values_are_those_of_the_two_summaries() -> None:
    table = difference(entities(0.1), entities(0.0), rng=0)
    one, other = (summarize(entities(gain), rng=0) for gain in (0.1, 0.0))
    assert table.select("scope", "name", "metric", "n").equals(one.select("scope", "name", "metric", "n"))
    np.testing.assert_array_equal(table["one"], one["value"])
    np.testing.assert_array_equal(table["other"], other["value"])
    np.testing.assert_allclose(table["value"], one["value"] - other["value"], atol=1e-15)


def test_what_users_have_in_common_cancels() -> None:
    found = row(difference(system(0.01), system(0.0), rng=0), "ndcg")
    assert found["low"] == pytest.approx(0.01)
    assert found["high"] == pytest.approx(0.01)
    single = row(summarize(system(0.0), rng=0), "ndcg")
    assert single["high"] - single["low"] > 0.05  # alone, each system is this uncertain


def test_a_system_against_itself_is_zero() -> None:
    table = difference(entities(0.0), entities(0.0), rng=0).filter(pl.col("metric") != "coverage")
    assert (table["value"] == 0).all()
    assert (table["low"] == 0).all()
    assert (table["high"] == 0).all()


def test_a_generator_may_be_given() -> None:
    one, again = (difference(entities(0.2), entities(0.0), rng=np.random.default_rng(5)) for _ in range(2))
    assert one.equals(again)
    assert row(one, "rmse_pooled")["low"] is not None


def test_other_users_are_refused() -> None:
    for other in (system(0.0, counted=140), system(0.0, slice(0, 100)), entities(0.0)):
        with refused(BadParameter, "other"):
            difference(system(0.0), other)
    with refused(BadParameter, "other"):
        difference(entities(0.0), dict(reversed(entities(0.0).items())))
