"""Verdicts as tables and as Markdown: claims and controls apart, every question and reason told."""

from __future__ import annotations

import polars as pl
import pytest

from twofold.experiments.reproduce.figures import figure
from twofold.experiments.reproduce.judge import judge
from twofold.experiments.reproduce.results import SCHEMA, Results
from twofold.experiments.reproduce.runner import Outcome
from twofold.report.experiment_verdicts import index_markdown, tally, verdict_blocks, verdict_table


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    one = figure("movielens-rank")
    rows = [
        {"line": line.name, "x": float(x), "seed": 0, "metric": metric, "group": "all", "value": 0.2}
        for line in one.lines
        for x in one.values("quick")
        for metric in one.metrics
    ]
    results = Results(figure=one, size="quick", frame=pl.DataFrame(rows, schema=SCHEMA))
    return Outcome(figure=one, results=results, verdicts=judge(results))


def test_claims_and_controls_are_counted_apart(outcome: Outcome) -> None:
    text = index_markdown([outcome], size="quick")
    paper, control = text.split("## Controls")
    assert paper.count("\n| ") == 3 + 1
    assert control.count("\n| ") == 1 + 1
    assert tally(outcome.verdicts).endswith(".")


def test_documentation_has_every_question_and_reason(outcome: Outcome) -> None:
    text = index_markdown([outcome], size="quick")
    for one in outcome.verdicts:
        assert f"**{one.holds.capitalize()}: {one.claim.words}**" in text
        assert f"- asked as: {one.judgement.rule}" in text
        assert f"- why: {one.judgement.why}" in text


def test_the_table_of_the_index_is_short_and_its_text_is_whole(outcome: Outcome) -> None:
    table = verdict_table(outcome.verdicts)
    assert [column.name for column in table.columns] == ["claim", "verdict", "recorded", "ours"]
    assert outcome.verdicts[0].judgement.rule in table.text()
    assert len(verdict_blocks(outcome.verdicts)) == len(outcome.verdicts) + 2


def test_missing_data_is_named_without_a_path() -> None:
    missing = Outcome(figure=figure("cost"), results=None, missing="It is not there.\n  Found: no /some/folder")
    text = index_markdown([missing], size="quick")
    assert "## Data missing\n\n- `cost`: It is not there.\n" in text
    assert "/some" not in text
