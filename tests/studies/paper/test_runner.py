"""Running figures: resumed and not redone, missing data noted, the same numbers however many at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from studies.paper import run as runner
from studies.paper.figures import figure
from studies.paper.measuring import run_cell
from studies.paper.results import SCHEMA
from studies.paper.run import run_figures
from studies.runner import run_cells
from studies.store import Cell
from tests.refused import refused
from twofold.errors import BadParameter, MissingDataset


class Counted:
    """Runs small real cells in place of the asked ones, and counts them."""

    def __init__(self, stop_after: int = 10**6) -> None:
        self.keys: list[str] = []
        self.stop_after = stop_after

    def __call__(self, cell: Cell) -> dict[str, Any]:
        if len(self.keys) == self.stop_after:
            raise KeyboardInterrupt
        self.keys.append(cell.key)
        small = Cell(data={"source": "hospitals", "scale": 0.001}, system="popularity-own", options={}, seed=cell.seed)
        return run_cell(small)


def run(folder: Path, *names: str, **options: Any) -> list[runner.Outcome]:
    return run_figures([figure(name) for name in names], size="quick", folder=folder, **options)


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Counted(stop_after=2)
    monkeypatch.setattr(runner, "run_cell", first)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "noise-control")
    second = Counted()
    monkeypatch.setattr(runner, "run_cell", second)
    done: list[tuple[str, int, int]] = []
    run(tmp_path, "noise-control", tell=lambda *told: done.append(told))
    wanted = [cell.key for cell in figure("noise-control").cells("quick")]
    assert first.keys + second.keys == wanted
    assert done[0] == ("noise-control", 2, len(wanted))
    assert done[-1] == ("noise-control", len(wanted), len(wanted))
    third = Counted()
    monkeypatch.setattr(runner, "run_cell", third)
    run(tmp_path, "noise-control")
    assert third.keys == []


def test_results_are_tidy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "run_cell", Counted())
    (outcome,) = run(tmp_path, "noise-control")
    frame = pl.read_parquet(tmp_path / "noise-control.parquet")
    assert dict(frame.schema) == SCHEMA
    assert frame.filter(metric="mean_rank", group="all").height == len(figure("noise-control").cells("quick"))
    assert "numpy" in frame["versions"][0]
    assert frame["seconds"].min() >= 0
    assert outcome.results is not None
    assert [verdict.claim.key for verdict in outcome.verdicts] == ["noise-is-chance"]
    assert outcome.verdicts[0].holds == "does not hold"  # popularity is no noise


def test_missing_data_is_an_error_alone_and_a_note_among_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path / "nothing"))
    with refused(MissingDataset, "eicu-crd-2.0"):
        run(tmp_path, "eicu-full")
    with refused(MissingDataset, "movielens-1m", "GroupLens"):
        run(tmp_path, "cost")
    monkeypatch.setattr(runner, "run_cell", _without_movielens)
    one, other = run(tmp_path, "cost", "fig1b")
    assert one.results is None
    assert "TWOFOLD_DATA" in one.missing
    assert other.results is not None


def _without_movielens(cell: Cell) -> dict[str, Any]:
    if cell.data["source"] == "movielens":
        return run_cell(cell)
    return Counted()(cell)


def test_the_numbers_do_not_depend_on_how_many_run_at_once() -> None:
    data = {"source": "synthetic", "n_users": 60, "n_items": 12, "rank": 3, "n_entities": 2}
    options = {"rank": 2, "max_iterations": 3}
    pairs = [(name, seed) for name in ("pooled", "individual") for seed in (0, 1)]
    cells = [Cell(data=data, system=name, options=options, seed=seed) for name, seed in pairs]
    found = []
    for workers in (1, 2):
        ran = run_cells([[cell] for cell in cells], runner._measured, workers=workers)
        found.append([ran.found[cell.key]["rows"] for cell in cells])
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]


def test_seeds_are_checked(tmp_path: Path) -> None:
    with pytest.raises(BadParameter) as error:
        run(tmp_path, "cost", seeds=0)
    assert error.value.parameter == "seeds"
    with refused(BadParameter, None, found="'tiny'", expected="quick or paper"):
        run_figures([figure("cost")], size="tiny", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
