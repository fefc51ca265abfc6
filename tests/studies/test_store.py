"""The results folder: goes on where it was, and takes no other results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from studies.store import Cell, Store
from tests.refused import refused
from twofold.errors import DataError, TransportError

CELL = Cell(data={"source": "hospitals"}, system="pooled", options={"rank": 2}, seed=0)


def test_a_finished_cell_is_found_again(tmp_path: Path) -> None:
    Store.open(tmp_path, "reproduce", "quick").put(CELL, {"rows": [["mean_rank", "all", 0.5, None, None]]})
    found = Store.open(tmp_path, "reproduce", "quick").get(CELL)
    assert found is not None
    assert found["rows"] == [["mean_rank", "all", 0.5, None, None]]


def test_a_damaged_or_foreign_cell_counts_as_not_finished(tmp_path: Path) -> None:
    store = Store.open(tmp_path, "reproduce", "quick")
    path = tmp_path / "cells" / f"{CELL.key}.json"
    assert store.get(CELL) is None
    path.write_text('{"rows": [')
    assert store.get(CELL) is None
    path.write_text(json.dumps({"cell": {"seed": 1}, "rows": []}))
    assert store.get(CELL) is None


@pytest.mark.parametrize(
    ("name", "value"), [("size", "paper"), ("study", "frontier"), ("twofold", "0.0"), ("format", 1)]
)
def test_a_folder_of_other_results_is_refused(tmp_path: Path, name: str, value: object) -> None:
    Store.open(tmp_path, "reproduce", "quick")
    path = tmp_path / "results.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with refused(DataError, None, found=f" {value}"):
        Store.open(tmp_path, "reproduce", "quick")


def test_a_folder_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "hospitals-middle.5000.gram.own.1.parquet").write_bytes(b"")
    with refused(DataError, None, found="size None", expected="size quick"):
        Store.open(tmp_path, "frontier", "quick")


def test_everything_that_is_there_is_listed(tmp_path: Path) -> None:
    store = Store.open(tmp_path, "reproduce", "quick")
    store.put(CELL, {"rows": []})
    (tmp_path / "cells" / "damaged.json").write_text('{"rows": [')
    assert [one["cell"]["system"] for one in store.all()] == ["pooled"]


def test_cells_of_other_numbers_lie_there_unused(tmp_path: Path) -> None:
    store = Store.open(tmp_path, "reproduce", "quick")
    store.put(CELL, {"rows": []})
    assert store.get(replace(CELL, options={"rank": 3})) is None
    assert store.get(replace(CELL, data={"source": "hospitals", "scale": 2.0})) is None
    assert store.get(CELL) is not None


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with refused(TransportError, None, found="taken: "):
        Store.open(tmp_path / "taken", "reproduce", "quick")
