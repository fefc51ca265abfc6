"""`python -m studies reproduce`: pages, an index and JSON; missing data and wrong names are told, not traced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from studies import __main__ as studies
from studies.paper import run as runner
from studies.paper.claims import CLAIMS
from studies.paper.figures import FIGURES
from studies.paper.measuring import run_cell
from studies.store import Cell
from tests.refused import refused
from twofold.errors import BadParameter, DataError, MissingDataset


def run(*arguments: str) -> None:
    runner.main(list(arguments))


def small(cell: Cell) -> dict[str, Any]:
    """A small real cell in place of the asked one; data that must be fetched stays missing."""
    if cell.data["source"] == "eicu-full":
        return run_cell(cell)
    data = {"source": "synthetic", "n_users": 40, "n_items": 8, "rank": 2, "n_entities": 2}
    if cell.task == "objective":
        return run_cell(Cell(data=data, system="one-mean", options={}, seed=cell.seed, task="objective"))
    if cell.data["source"] != "synthetic":
        data = {"source": "hospitals", "scale": 0.001}
    return _cached(json.dumps(data), cell.seed)


def _cached(data: str, seed: int) -> dict[str, Any]:
    if (data, seed) not in _KNOWN:
        _KNOWN[data, seed] = run_cell(Cell(data=json.loads(data), system="popularity-own", options={}, seed=seed))
    return _KNOWN[data, seed]


_KNOWN: dict[tuple[str, int], dict[str, Any]] = {}


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "run_cell", small)
    monkeypatch.setenv("TWOFOLD_DATA", "nowhere")


@pytest.mark.usefixtures("quickly")
def test_all_makes_an_index_with_every_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("all", "-o", str(tmp_path), "--seeds", "1", "--json")
    found = json.loads(capsys.readouterr().out)
    told = {verdict["claim"] for one in found["figures"] for verdict in one["verdicts"]}
    assert told == {claim.key for claim in CLAIMS} - {"full-same-order"}  # its data may not be passed on
    missing = [one for one in found["figures"] if one["missing"]]
    assert [one["figure"] for one in missing] == ["eicu-full"]
    assert "credentialed licence" in missing[0]["missing"]
    index = (tmp_path / "index.html").read_text()
    for name in FIGURES:
        assert f'href="{name}.html"' in index
        assert (tmp_path / f"{name}.html").exists()
        assert (tmp_path / f"{name}.parquet").exists() == (name != "eicu-full")
    assert "data missing" in index
    text = (tmp_path / "index.md").read_text()
    assert text.count("\n| ") == len(CLAIMS) - 1 + 2  # two headings
    assert "eicu-full" in text


@pytest.mark.usefixtures("quickly")
def test_one_figure_has_a_page_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("fig1a", "-o", str(tmp_path), "--seeds", "1")
    assert "hold" in capsys.readouterr().out
    page = (tmp_path / "fig1a.html").read_text()
    assert "<svg" in page
    assert "recorded by the authors: MF" not in page  # at the quick size nothing was recorded
    assert "As text to copy" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert not (tmp_path / "index.html").exists()
    text = (tmp_path / "fig1a.md").read_text()
    assert text.startswith("# Fig. 1a")
    assert "| MF + k-means |" in text


@pytest.mark.usefixtures("quickly")
def test_an_experiment_is_all_its_figures(tmp_path: Path) -> None:
    run("supplement", "-o", str(tmp_path), "--seeds", "1")
    assert {path.name for path in tmp_path.glob("*.html")} == {"supplement-k.html", "supplement-l.html"}
    assert (tmp_path / "supplement.md").read_text().count("\n## ") == 2


@pytest.mark.usefixtures("quickly")
def test_a_folder_of_another_size_is_refused(tmp_path: Path) -> None:
    run("exp1", "-o", str(tmp_path))
    with refused(DataError, None, found="size quick", expected="size paper"):
        run("exp1", "-o", str(tmp_path), "--size", "paper")


@pytest.mark.usefixtures("quickly")
def test_a_comparison_is_three_figures(tmp_path: Path) -> None:
    runner.compare(["-o", str(tmp_path), "--seeds", "1"])
    assert {path.name for path in tmp_path.glob("*.md")} == {"systems.md", "comparison.md", "cost.md"}


def test_errors_are_told_without_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"BadParameter: [^\n]*\n  Found: 'fig9'"):
        studies.main(["reproduce", "fig9", "-o", str(tmp_path)])


@pytest.mark.parametrize("command", list(studies.COMMANDS))
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        studies.main([command, "--help"])
    assert end.value.code == 0
    assert command in capsys.readouterr().out


def test_an_unknown_figure_is_told_the_known_ones(tmp_path: Path) -> None:
    with refused(BadParameter, None, found="'fig9'", expected="fig1a, fig1b"):
        run("fig9", "-o", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_missing_data_names_licence_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWOFOLD_DATA", raising=False)
    with refused(MissingDataset, "movielens-1m", "MovieLens 1M", "licence", "$TWOFOLD_DATA/movielens-1m"):
        run("masked-truth", "-o", str(tmp_path))
    with refused(MissingDataset, "movielens-1m", "MovieLens 1M"):
        run("movielens", "-o", str(tmp_path))


def test_a_dry_run_counts_what_is_left_and_runs_nothing(tmp_path, capsys):
    from studies.paper.figures import figure
    from studies.paper.run import main
    from studies.store import Store

    store = Store.open(tmp_path, "reproduce", "paper")
    cells = figure("exp1").cells("paper", seeds=1)
    store.put(
        next(one for one in cells if one.system == "balcan"),
        {"rows": [], "seconds": 600.0, "cpu_seconds": 540.0},
    )
    main(["exp1", "--size", "paper", "--seeds", "1", "--dry", "-o", str(tmp_path)])
    said = capsys.readouterr().out
    line = next(one for one in said.splitlines() if one.startswith("exp1"))
    balcan = sum(one.system == "balcan" for one in cells)
    assert line.split()[1:6] == [str(len(cells)), "1", "10.0", "9.0", f"{10 * (balcan - 1):.1f}"]
    assert "stored, one process: 0.2 hours" in said
    assert "as-published" in line
    assert len(list((tmp_path / "cells").iterdir())) == 1


def test_a_missing_cell_lasts_as_long_as_its_system_on_the_same_data(tmp_path):
    from dataclasses import replace

    from studies.paper.figures import figure
    from studies.paper.run import left_to_run
    from studies.store import Store

    store = Store.open(tmp_path, "reproduce", "paper")
    cells = [one for one in figure("exp1").cells("paper", seeds=1) if one.system == "balcan"]
    store.put(cells[0], {"rows": [], "seconds": 60.0})
    store.put(replace(cells[0], data={"source": "movielens"}), {"rows": [], "seconds": 6000.0})
    said = left_to_run([figure("exp1")], size="paper", folder=tmp_path, seeds=1)
    assert f"{len(cells) - 1:.1f} min" in said
