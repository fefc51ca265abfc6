"""Limits: what counts as near, and where another limit would turn the verdict."""

from __future__ import annotations

import math

import polars as pl
import pytest

from studies.paper.figures import figure
from studies.paper.results import SCHEMA, Results
from studies.paper.verdicts import COMPARABLE, SAME, gaps, limit, near


def results(values: dict[str, list[float]]) -> Results:
    one = figure("movielens-rank")
    rows = [
        {"line": name, "x": float(x), "seed": 0, "metric": "mean_rank", "group": "all", "value": value}
        for name, found in values.items()
        for x, value in zip(one.values("quick"), found, strict=True)
    ]
    return Results(figure=one, size="quick", frame=pl.DataFrame(rows, schema=SCHEMA))


def test_gaps_are_shares_of_the_other() -> None:
    found = results({"a": [1.1, 0.9], "b": [1.0, 1.0]})
    assert gaps(found, "a", "b", "mean_rank") == pytest.approx([0.1, -0.1])
    assert gaps(found, "a", "b", "mean_rank", at=(20,)) == pytest.approx([-0.1])
    assert all(math.isnan(gap) for gap in gaps(found, "a", "not run", "mean_rank"))


@pytest.mark.parametrize("most", [SAME, COMPARABLE])
def test_the_limit_is_where_the_verdict_turns(most: float) -> None:
    assert near([most], most) is True
    assert near([most * 1.01], most) is False
    assert near([-most * 1.01], most) is False
    assert near([-most * 1.01], most, below=True) is True


def test_what_was_not_measured_is_not_near() -> None:
    assert near([], SAME) is None
    assert near([0.0, math.nan], SAME) is None
    assert limit([math.nan], SAME) == "a limit of 2% is our choice"


def test_the_words_name_the_turning_point() -> None:
    assert limit([0.3, -0.4], COMPARABLE).endswith("turns at 40.0%")
    assert limit([0.3, -0.4], COMPARABLE, below=True).endswith("turns at 30.0%")
