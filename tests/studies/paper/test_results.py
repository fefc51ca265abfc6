"""Results: means over seeds, and comparisons that use that seeds and entities are the same."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest

from studies.paper.figures import figure
from studies.paper.results import SCHEMA, Point, Results, compare, tidy


def results(rows: list[dict[str, Any]]) -> Results:
    filled = [{"x": 10.0, "group": "all", "seed": 0, "metric": "mean_rank", **row} for row in rows]
    frame = pl.DataFrame(filled, schema=SCHEMA)
    return Results(figure=figure("noise-control"), size="quick", frame=frame)


def test_mean_and_spread_over_seeds() -> None:
    found = results([{"line": "a", "seed": seed, "value": value} for seed, value in enumerate((1.0, 2.0, 6.0))])
    point = found.at("a", 10, "mean_rank")
    assert point.mean == 3.0
    assert point.spread == pytest.approx(math.sqrt(7))
    assert point.margin == pytest.approx(4.302653 * math.sqrt(7 / 3))  # Student's 97.5% point, two degrees of freedom
    assert math.isnan(found.at("b", 10, "mean_rank").mean)


def test_one_seed_takes_the_interval_of_the_bootstrap() -> None:
    found = results([{"line": "a", "value": 1.0, "low": 0.804, "high": 1.196}])
    assert found.at("a", 10, "mean_rank").margin == pytest.approx(0.196)


def test_seeds_are_compared_pair_by_pair() -> None:
    rows = [
        {"line": name, "seed": seed, "value": base + gap}
        for name, gap in (("a", 0.0), ("b", 0.01))
        for seed, base in enumerate((1.0, 5.0, 3.0))
    ]
    found = results(rows)
    assert found.order("a", "b", 10, "mean_rank") == "lower"
    assert compare(found.at("a", 10, "mean_rank"), found.at("b", 10, "mean_rank")) == "alike"
    assert found.order("a", "b", 10, "mean_rank", within=0.02) == "alike"


def test_with_one_seed_entities_are_compared_pair_by_pair() -> None:
    rows = [{"line": name, "value": gap + 3.0, "low": 2.0, "high": 4.0} for name, gap in (("a", 0.0), ("b", 0.01))]
    entities = [
        {"line": name, "group": f"entity {entity}", "value": base + gap}
        for name, gap in (("a", 0.0), ("b", 0.01))
        for entity, base in enumerate((1.0, 5.0, 3.0))
    ]
    assert results(rows).order("a", "b", 10, "mean_rank") == "alike"
    assert results(rows + entities).order("a", "b", 10, "mean_rank") == "lower"


def test_two_seeds_are_not_enough_where_there_are_entities() -> None:
    rows = [
        {"line": name, "seed": seed, "group": group, "value": base + gap * sign}
        for name, gap in (("a", 0.0), ("b", 0.1))
        for seed, sign in enumerate((1.0, 1.001))
        for group, base in (("all", 3.0), *((f"entity {entity}", float(entity)) for entity in range(1, 6)))
    ]
    assert results(rows).order("a", "b", 10, "mean_rank") == "lower"
    unsure = [
        {**row, "value": 2 * row["value"]} if row["group"] == "entity 1" and row["line"] == "a" else row for row in rows
    ]
    assert results(unsure).order("a", "b", 10, "mean_rank") == "alike"


def test_two_seeds_that_differ_prove_nothing() -> None:
    rows = [
        {"line": name, "seed": seed, "value": 1.0 + gap * (1 + seed)}
        for name, gap in (("a", 0.0), ("b", 0.01))
        for seed in range(2)
    ]
    assert results(rows).order("a", "b", 10, "mean_rank") == "alike"  # by two standard errors it would be lower


def test_a_sure_but_tiny_difference_is_none() -> None:
    rows = [
        {"line": name, "seed": seed, "value": 1.0 + gap}
        for name, gap in (("a", 0.0), ("b", 0.0015))
        for seed in range(5)
    ]
    assert results(rows).order("a", "b", 10, "mean_rank") == "alike"
    assert results(rows).order("a", "b", 10, "mean_rank", within=0.001) == "lower"


def test_what_is_missing_cannot_be_compared() -> None:
    assert results([{"line": "a", "value": 1.0}]).order("a", "b", 10, "mean_rank") == "unknown"
    assert compare(Point(mean=math.nan), Point(mean=1.0)) == "unknown"


def test_cells_that_were_not_run_leave_gaps_and_a_note() -> None:
    frame, notes = tidy(figure("noise-control"), "quick", {})
    assert frame.height == 0
    assert set(notes) == {line.name for line in figure("noise-control").lines}
