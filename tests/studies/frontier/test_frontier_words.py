"""Sentences of the frontier follow from its numbers."""

from __future__ import annotations

import math

import polars as pl

from studies.frontier.page import verdict, worth_from
from studies.frontier.settings import read_frontier
from studies.frontier.summary import SCHEMA, Results

SETTING = read_frontier("full").of("hospitals-middle")


def results(private: dict[float, float], public: float) -> Results:
    """Alone 0.5, pooled 0.6: so a value of 0.58 is 80 % of the gap. Seeds differ by a thousandth."""
    cells = [
        ("alone", "none", math.inf, 0.5),
        ("pooled", "none", math.inf, 0.6),
        ("public features", "none", math.inf, public),
    ]
    cells += [("gram", "secure", epsilon, value) for epsilon, value in private.items()]
    rows = [
        {
            **{name: "" if kind == pl.String else 1 for name, kind in SCHEMA.items()},
            "data": SETTING.name, "seed": seed, "mechanism": mechanism, "noise": noise, "epsilon": epsilon,
            "way": "adapted", "entity": f"e{quarter}", "quarter": quarter,
            "ndcg": value + seed / 1000 * (mechanism != "alone"),
        }
        for mechanism, noise, epsilon, value in cells
        for seed in (1, 2)
        for quarter in range(4)
    ]  # fmt: skip
    return Results(pl.DataFrame(rows, schema=SCHEMA), SETTING)


def test_it_is_worth_it_where_the_gain_is_clear():
    made = results({0.1: 0.5, 1.0: 0.57, 10.0: 0.6}, public=0.51)
    assert worth_from(made, "gram", "secure") == 1.0
    assert "gains clearly from ε = 1 on" in verdict(made)
    assert "With own noise: not run." in verdict(made)


def test_it_is_not_worth_it_where_public_features_give_as_much():
    made = results({0.1: 0.51, 1.0: 0.57, 10.0: 0.58}, public=0.58)
    assert worth_from(made, "gram", "secure") is None
    assert "do not federate" in verdict(made)


def test_no_gap_is_said():
    assert "nothing to federate for" in verdict(results({1.0: 0.6}, public=0.61))
