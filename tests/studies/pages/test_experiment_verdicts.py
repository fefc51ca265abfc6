"""Verdicts as tables: short in the index, whole in the text to copy."""

from __future__ import annotations

import polars as pl
import pytest

from studies.pages.experiment_verdicts import tally, verdict_blocks, verdict_table
from studies.paper.figures import figure
from studies.paper.results import SCHEMA, Results
from studies.paper.run import Outcome, judge


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


def test_the_table_of_the_index_is_short_and_its_text_is_whole(outcome: Outcome) -> None:
    table = verdict_table(outcome.verdicts)
    assert [column.name for column in table.columns] == ["claim", "verdict", "recorded", "ours"]
    assert outcome.verdicts[0].judgement.rule in table.text()
    assert len(verdict_blocks(outcome.verdicts, size="quick")) == len(outcome.verdicts) + 2


def test_verdicts_are_counted_in_a_sentence(outcome: Outcome) -> None:
    assert tally(outcome.verdicts).endswith(".")
    assert sum(int(part.split()[0]) for part in tally(outcome.verdicts).split(", ")) == len(outcome.verdicts)
