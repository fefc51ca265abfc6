"""Sentences of the frontier follow from its numbers."""

from __future__ import annotations

import math

import polars as pl

from studies.frontier.page import verdict, worth_from
from studies.frontier.settings import read_frontier
from studies.frontier.summary import SCHEMA, Results

SETTING = read_frontier("full").of("hospitals-middle")


def results(private: dict[float, float], public: float) -> Results:
    """Alone 0.5, federated 0.6: so a value of 0.58 is 80 % of the gap. Seeds differ by a thousandth."""
    cells = [
        ("alone", "none", math.inf, 0.5),
        ("gram", "none", math.inf, 0.6),
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


def test_half_of_the_gap_is_worth_it_where_public_features_give_little():
    made = results({0.1: 0.51, 1.0: 0.57, 10.0: 0.6}, public=0.51)
    assert worth_from(made, "gram", "secure") == 1.0
    assert "from ε = 1: federate from there" in verdict(made)


def test_half_of_the_gap_is_not_worth_it_where_public_features_give_as_much():
    made = results({0.1: 0.51, 1.0: 0.57, 10.0: 0.59}, public=0.59)
    assert worth_from(made, "gram", "secure") is None
    assert "reached without any other entity" in verdict(made)
    assert "With own noise: not run." in verdict(made)


def test_less_than_half_is_said_to_be_less():
    assert "do not federate" in verdict(results({0.1: 0.51, 1.0: 0.54}, public=0.5))
