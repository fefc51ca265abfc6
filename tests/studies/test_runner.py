"""The one runner: what a store has is not run, missing data is noted, units stay together, workers change nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from studies.runner import run_cells
from studies.store import Cell, Found, Store
from twofold.errors import MissingDataset


def cell(source: str, seed: int) -> Cell:
    return Cell(data={"source": source}, system="pooled", options={}, seed=seed)


def doubled(cells: Sequence[Cell]) -> Iterator[Found]:
    """Twice the seed, and the process; one source is never there."""
    for one in cells:
        if one.data["source"] == "nowhere":
            raise MissingDataset("this data set is not here.")
        yield {"value": 2 * one.seed, "process": os.getpid()}


def test_missing_data_stops_its_unit_and_no_other() -> None:
    units = [[cell("here", 1)], [cell("nowhere", 2), cell("here", 3)], [cell("here", 4)]]
    ran = run_cells(units, doubled)
    assert {key: found["value"] for key, found in ran.found.items()} == {units[0][0].key: 2, units[2][0].key: 8}
    assert [one.seed for one, _ in ran.missing] == [2]


def test_only_what_is_missing_of_a_unit_is_run(tmp_path: Path) -> None:
    store, unit = Store.open(tmp_path, "reproduce", "quick"), [cell("here", seed) for seed in range(3)]
    store.put(unit[1], {"value": -1})
    seen: list[tuple[str, int, int]] = []
    ran = run_cells([unit], doubled, store=store, name="here", tell=lambda *told: seen.append(told))
    assert [ran.found[one.key]["value"] for one in unit] == [0, -1, 4]
    assert seen == [("here", done, 3) for done in (1, 2, 3)]
    assert [found["value"] for found in map(store.get, unit) if found] == [0, -1, 4]


def test_workers_are_processes_that_keep_a_unit_together(tmp_path: Path) -> None:
    store = Store.open(tmp_path, "reproduce", "quick")
    units = [[cell("here", 1), cell("here", 2)], [cell("nowhere", 3)], [cell("here", 4)]]
    ran = run_cells(units, doubled, store=store, workers=2)
    alone = run_cells(units, doubled)
    assert {key: one["value"] for key, one in ran.found.items()} == {k: one["value"] for k, one in alone.found.items()}
    assert [one.seed for one, _ in ran.missing] == [3]
    processes = [ran.found[one.key]["process"] for one in units[0]]
    assert processes[0] == processes[1] != os.getpid()
    assert store.get(units[0][1]) is not None


def test_work_that_gives_too_little_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        run_cells([[cell("here", 1), cell("here", 2)]], lambda cells: doubled(cells[:1]))
