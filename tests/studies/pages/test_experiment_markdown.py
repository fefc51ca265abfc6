"""Markdown for documentation: claims and controls apart, every question and reason told, tables as on the pages."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from studies.pages.experiment_markdown import figures_markdown, index_markdown
from studies.paper.figures import figure
from studies.paper.results import SCHEMA, Results
from studies.paper.run import Outcome, judge


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    one = figure("movielens-rank")
    rows = [
        {
            "line": line.name,
            "x": float(x),
            "seed": 0,
            "metric": metric,
            "group": "all",
            "value": 0.2,
            "seconds": 1.0,
            "versions": '{"numpy": "2.0"}',
            "data": "made up",
        }
        for line in one.lines
        for x in one.values("quick")
        for metric in one.metrics
    ]
    results = Results(figure=one, size="quick", frame=pl.DataFrame(rows, schema=SCHEMA))
    return Outcome(figure=one, results=results, verdicts=judge(results))


def test_claims_and_controls_are_counted_apart(outcome: Outcome) -> None:
    text = index_markdown([outcome], size="quick")
    assert "Made with numpy 2.0." in text
    paper, control = text.split("## Controls")
    assert paper.count("\n| ") == 3 + 1
    assert control.count("\n| ") == 1 + 1


def test_documentation_has_every_question_and_reason(outcome: Outcome) -> None:
    text = index_markdown([outcome], size="quick")
    for one in outcome.verdicts:
        assert f"**{one.holds.capitalize()}: {one.claim.words}**" in text
        assert f"- asked as: {one.judgement.rule}" in text
        assert f"- why: {one.judgement.why}" in text


def test_figures_have_their_tables(outcome: Outcome) -> None:
    text = figures_markdown([outcome], name="movielens-rank", size="quick")
    assert text.startswith("# MovieLens 1M: mean rank of held-out entries\n")
    assert "python -m studies reproduce movielens-rank --size quick" in text
    assert "| system | latent factors = 10 | latent factors = 20 |\n|---|---:|---:|" in text
    assert "| individual models | 0.200 | 0.200 |" in text
    assert "| recorded by the authors: individual models | 0.157 | 0.166 |" in text
    assert text.count("\n## ") == 0
    assert "--seeds" not in text
    assert outcome.results is not None
    twice = outcome.results.frame.with_columns(seed=pl.lit(1, dtype=pl.Int64))
    more = replace(outcome, results=replace(outcome.results, frame=pl.concat([outcome.results.frame, twice])))
    assert "--size quick --seeds 2 -o DIR" in figures_markdown([more], name="movielens-rank", size="quick")
    assert figures_markdown([outcome, outcome], name="movielens", size="quick").count("\n## ") == 2


def test_missing_data_is_named_without_a_path() -> None:
    missing = Outcome(figure=figure("cost"), results=None, missing="It is not there.\n  Found: no /some/folder")
    text = index_markdown([missing], size="quick")
    assert "## Data missing\n\n- `cost`: It is not there.\n" in text
    assert "/some" not in text
