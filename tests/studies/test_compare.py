"""The comparison: its settings, splits, store, verdicts and pages."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from studies import compare
from studies.__main__ import main
from studies.baselines.base import Options, Score, Site
from studies.baselines.registry import OURS, find_baseline
from studies.case import HELD, SOURCES
from studies.compare_page import SCHEMA, Compared, compare_markdown, compare_page, picture
from studies.frontier.settings import quarters
from tests.refused import refused
from twofold.errors import BadParameter


def _frame(figures: dict[str, list[float]], *, scopes: dict[str, str] | None = None) -> pl.DataFrame:
    rows = [
        {
            "data": "made up",
            "seed": seed,
            "baseline": name,
            "scope": (scopes or {}).get(name, "alone"),
            "seconds": 1.0,
            "entity": "a",
            "weight": 2.0,
            "users": 5,
            "measured": 5,
            "ndcg": value,
            "squares": value**2 * 10,
            "entries": 10.0,
            "taken": "",
        }
        for name, values in figures.items()
        for seed, value in enumerate(values)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


@pytest.mark.parametrize("size", compare.SIZES)
def test_settings_name_what_exists(size: str) -> None:
    plan = compare.read_plan(size)
    assert {one.source for one in plan.data} <= set(SOURCES)
    assert {one.held for one in plan.data} <= set(HELD)
    for one in plan.data:
        assert plan.development not in range(one.first_seed, one.first_seed + 100), (
            "nothing is tuned on what is reported"
        )


def test_the_full_size_has_every_data_set_of_the_target() -> None:
    names = {one.name for one in compare.read_plan("full").data}
    assert {"cj-categories", "cj-types", "assistments", "movielens-zip1", "movielens-zip3", "movielens-one"} <= names
    assert {"hospitals-middle", "hospitals-weak", "hospitals-strong", "eicu-regions"} <= names


def test_a_single_entity_has_nobody_to_pool_with() -> None:
    plan = compare.read_plan("full")
    one, many = (compare.cells(plan, plan.of(name)) for name in ("movielens-one", "movielens-zip1"))
    assert "EASE pooled" not in {cell.system for cell in one}
    assert "EASE pooled" in {cell.system for cell in many}


def test_the_smaller_half_is_measured_and_stands_for_all_of_it() -> None:
    plan = compare.read_plan("tiny")
    split = compare._Split(plan, dataclasses.replace(plan.data[0], sample=(1, 1)), 6000)
    sizes = split.case.sizes
    assert max(sizes[one] for one in split.entities) <= sorted(sizes.values())[(len(sizes) - 1) // 2]
    assert sum(split.weight.values()) == sum(place < 2 for place in quarters(sizes).values())


def test_a_run_is_kept_and_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only two cheap baselines, so that it takes a moment; the second call fits nothing."""
    fits: list[str] = []
    cheap = {name: find_baseline(name, "counts") for name in ("own popularity", "pooled popularity")}

    def counting(name: str) -> Any:
        def fit(site: Site, options: Options) -> Score:
            fits.append(name)
            return cheap[name].fit(site, options)

        return dataclasses.replace(cheap[name], fit=fit)

    monkeypatch.setattr(compare, "find_baseline", lambda name, _: counting(name))
    monkeypatch.setattr(compare, "baselines", lambda *_, **__: list(cheap.values()))
    frame, missing = compare.run("tiny", tmp_path, seeds=1)
    assert missing == []
    assert set(frame["baseline"]) == set(cheap)
    assert frame["ndcg"].is_between(0, 1).all()
    done = len(fits)
    again, _ = compare.run("tiny", tmp_path, seeds=1)
    assert len(fits) == done > 0
    assert again.equals(frame)
    text = compare.write(frame, compare.read_plan("tiny"), tmp_path)
    assert "own popularity" in text
    assert {"compare.md", "compare.html", "compare.parquet"} <= {path.name for path in tmp_path.iterdir()}


def test_data_that_is_not_here_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path))
    frame, missing = compare.run("quick", tmp_path / "out", names=["assistments"], seeds=1)
    assert missing == ["assistments"]
    assert frame.is_empty()


@pytest.mark.parametrize(
    ("ours", "reached"),
    [([0.50, 0.52], True), ([0.49, 0.52], True), ([0.40, 0.41], False), ([0.48, 0.50], False)],
    ids=["equal", "within one error", "far below", "below at both seeds"],
)
def test_verdicts_are_of_paired_seeds(ours: list[float], reached: bool) -> None:
    found = Compared(_frame({OURS: ours, "EASE alone": [0.50, 0.52]}), title="t", feedback="counts")
    assert found.verdict[0] is reached


def test_the_error_of_ratings_is_better_when_smaller() -> None:
    figures = {OURS: [0.9, 0.91], "item and user offsets, own": [0.95, 0.96]}
    found = Compared(_frame(figures), title="t", feedback="ratings")
    assert found.figure(OURS).mean == pytest.approx(0.905)
    assert found.over(OURS, "item and user offsets, own").mean == pytest.approx(0.05)
    assert found.verdict[0] is True


def test_public_features_pooled_and_shared_rows_are_not_rivals_of_alone() -> None:
    scopes = {"EASE pooled": "pooled", "FedCIA, private": "shared"}
    better = {name: [0.9, 0.9] for name in ("EASE with public features", "GF-CF alone", *scopes)}
    found = Compared(
        _frame({OURS: [0.5, 0.5], "own popularity": [0.4, 0.4], **better}, scopes=scopes), title="t", feedback="counts"
    )
    assert found.verdict[0] is True
    assert "GF-CF alone" in found.verdict[1], "shown, though beside the target"


def test_one_seed_has_no_error_and_no_verdict() -> None:
    found = Compared(_frame({OURS: [0.5], "EASE alone": [0.4]}), title="t", feedback="counts")
    assert math.isnan(found.figure(OURS).error)
    assert found.verdict[0] is None
    assert Compared(_frame({OURS: [0.5, 0.6]}), title="t", feedback="counts").verdict[0] is None, "no rival was run"


def test_pages_show_every_baseline_and_the_plot_every_data_set() -> None:
    scopes = {"EASE pooled": "pooled", "FedCIA, private": "shared"}
    figures = {OURS: [0.5, 0.5], "EASE alone": [0.4, 0.4], "EASE pooled": [0.6, 0.6], "FedCIA, private": [0.44, 0.44]}
    found = [Compared(_frame(figures, scopes=scopes), title=title, feedback="counts") for title in ("one", "two")]
    plot = picture(found)
    assert plot is not None
    [line] = plot.series
    assert line.y == pytest.approx([0.1, 0.1])
    assert line.spread == pytest.approx([0, 0])
    text, page = (
        compare_markdown(found, size="tiny", epsilon=1, drawn=True),
        compare_page(found, size="tiny", epsilon=1),
    )
    assert all(name in text and name in page.html() for name in figures)


def test_the_command_keeps_the_systems_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr("studies.paper.run.compare", asked.append)
    main(["compare", "--paper", "--size", "quick"])
    assert asked == [["--size", "quick"]]


def test_wrong_arguments(tmp_path: Path) -> None:
    with refused(BadParameter, None, found="'netflix'"):
        compare.run("tiny", tmp_path, names=["netflix"])
    with pytest.raises(SystemExit):
        compare.main(["--seeds", "0"])
