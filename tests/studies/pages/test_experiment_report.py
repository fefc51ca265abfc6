"""Pages of reproduced experiments: what was recorded stands beside what we find, and what is missing is said."""

from __future__ import annotations

from html import unescape

import polars as pl
import pytest

from studies.pages.experiment_report import experiment_index, experiment_page
from studies.paper.figures import figure
from studies.paper.results import SCHEMA, Results
from studies.paper.run import Outcome, judge


def outcome(*, seeds: int = 2) -> Outcome:
    one = figure("movielens-rank")
    rows = [
        {
            "line": line.name,
            "data": "made <up>",
            "options": "{}",
            "versions": '{"numpy": "2"}',
            "x": float(x),
            "seed": seed,
            "metric": metric,
            "group": "all",
            "value": 0.2 + 0.01 * seed,
            "seconds": 1.5,
        }
        for line in one.lines
        for x in one.values("quick")
        for metric in one.metrics
        for seed in range(seeds)
    ]
    results = Results(figure=one, size="quick", frame=pl.DataFrame(rows, schema=SCHEMA), notes={"MF": "a note"})
    return Outcome(figure=one, results=results, verdicts=judge(results))


@pytest.fixture(scope="module")
def page() -> str:
    return experiment_page(outcome()).html()


def test_recorded_values_stand_beside_ours(page: str) -> None:
    assert "recorded by the authors: centralised MF" in page
    assert "0.130" in page  # the recorded rank at ten factors
    assert "0.205 ± 0.007" in page


def test_every_metric_has_a_plot_and_a_table(page: str) -> None:
    assert page.count("<svg") == 2
    assert page.count("As text to copy") == 3  # verdicts and two tables
    assert "Mean ± standard deviation over 2 seeds" in page
    assert "made &lt;up&gt;" in page


def test_every_verdict_has_its_reason(page: str) -> None:
    for one in outcome().verdicts:
        for said in (one.claim.place, f"{one.holds.capitalize()}: {one.claim.words}", one.judgement.rule):
            assert said in unescape(page)
        assert one.judgement.why in unescape(page)


def test_missing_data_is_said_first() -> None:
    missing = Outcome(figure=figure("cost"), results=None, missing="it is not there; licence: L")
    assert "licence: L" in experiment_page(missing).html()
    index = experiment_index([missing, outcome()], size="quick").html()
    assert "data missing" in index
    assert 'href="cost.html"' in index


def test_one_point_each_stands_side_by_side() -> None:
    one = figure("comparison")
    rows = [
        {
            "line": line.name,
            "data": "made up",
            "options": "{}",
            "versions": "{}",
            "x": 20.0,
            "seed": 0,
            "metric": "ndcg",
            "group": "all",
            "value": 0.1,
            "seconds": 1.0,
        }
        for line in one.lines
    ]
    results = Results(figure=one, size="quick", frame=pl.DataFrame(rows, schema=SCHEMA))
    found = experiment_page(Outcome(figure=one, results=results, verdicts=())).html()
    assert "systems, at latent factors = 20" in found
    assert found.count("<svg") == 1
