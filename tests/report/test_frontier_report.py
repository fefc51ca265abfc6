"""The page of the frontier, of a table whose answer is known."""

from __future__ import annotations

import math

import polars as pl

from twofold.experiments._frontier_page import markdown
from twofold.experiments._frontier_settings import read_frontier
from twofold.experiments._frontier_store import SCHEMA
from twofold.experiments._frontier_summary import Results
from twofold.report.frontier_report import frontier_page

GRID = read_frontier("full")
SETTING = GRID.of("hospitals-middle")


def frame() -> pl.DataFrame:
    cells = [("alone", "none", math.inf, 0.5), ("gram", "none", math.inf, 0.6)]
    cells += [("gram", noise, epsilon, 0.58) for noise in ("secure", "own") for epsilon in (0.1, 1.0)]
    rows = [
        {
            **{name: "" if kind == pl.String else 1 for name, kind in SCHEMA.items()},
            "data": SETTING.name, "seed": seed, "mechanism": mechanism, "noise": noise, "epsilon": epsilon,
            "way": "adapted", "entity": f"e{quarter}", "quarter": quarter, "ndcg": value + seed / 1000 * (value > 0.55),
        }
        for mechanism, noise, epsilon, value in cells
        for seed in (1, 2)
        for quarter in range(4)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA)


def test_words_targets_plots_and_tables():
    page = frontier_page([Results(frame(), SETTING)], GRID).html()
    assert page.count("<svg") == 2
    assert "closes at least half of the gap at every ε: federate" in page
    assert "at least 75 % of the gap" in page
    assert "gram, secure sum" in page
    assert page == frontier_page([Results(frame(), SETTING)], GRID).html()


def test_an_empty_run_says_so():
    assert "Nothing was run." in frontier_page([], GRID).html()


def test_markdown_names_what_was_not_run():
    text = markdown(frame(), GRID)
    assert "Not run here:" in text
    assert "Jester in 50 entities, ratings" in text
    assert "gram: secure sum 0 of 5 seeds and own noise 0 of 5 seeds" in text
