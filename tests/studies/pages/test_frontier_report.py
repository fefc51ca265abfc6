"""The page of the frontier, of a table whose answer is known."""

from __future__ import annotations

import math

import polars as pl

from studies.frontier.page import markdown
from studies.frontier.settings import read_frontier
from studies.frontier.summary import SCHEMA, Results
from studies.pages.frontier_report import frontier_page, pictures

GRID = read_frontier("full")
SETTING = GRID.of("hospitals-middle")


def frame(*more: tuple[str, str, float, float]) -> pl.DataFrame:
    cells = [("alone", "none", math.inf, 0.5), ("pooled", "none", math.inf, 0.6), *more]
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
    assert page.count("<svg") == 4  # the figure, two of the data set, predicted against measured
    assert "gains clearly at every ε" in page
    assert "at least 65 % of the gap" in page
    assert "gram, secure sum" in page
    assert page == frontier_page([Results(frame(), SETTING)], GRID).html()


def test_pictures_lie_beside_the_page():
    shown = frame(
        ("public features", "none", math.inf, 0.53),
        ("buckets", "own", 1.0, 0.5),
    )
    drawn = pictures([Results(shown, SETTING)])
    assert list(drawn) == ["frontier.svg", "frontier-hospitals-middle.svg"]
    assert SETTING.short in drawn["frontier.svg"]
    picture = drawn["frontier-hospitals-middle.svg"]
    for words in ("gram, secure sum", "gram, own noise", "buckets, own noise"):
        assert words in picture
    text = markdown(shown, GRID, drawn)
    assert text.index("(frontier.svg)") < text.index("## Targets") < text.index("(frontier-hospitals-middle.svg)")
    assert ".svg" not in markdown(shown, GRID)


def test_an_empty_run_says_so():
    assert "Nothing was run." in frontier_page([], GRID).html()


def test_markdown_names_what_was_not_run():
    text = markdown(frame(), GRID)
    assert "Not run here:" in text
    assert "Jester in 50 entities, ratings" in text
    assert "gram: secure sum 0 of 3 seeds and own noise 0 of 3 seeds" in text
