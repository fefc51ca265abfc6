"""Cells on disk: kept whole, refused when they are not of these settings."""

from __future__ import annotations

import dataclasses

import polars as pl

from studies._frontier_settings import read_frontier
from studies._frontier_store import SCHEMA, Cell, Store

CELL = Cell(data="hospitals-middle", seed=5_000, mechanism="gram", noise="secure", epsilon=1.0)


def row(entity: str, **other):
    values = {name: "" if kind == pl.String else 1 for name, kind in SCHEMA.items()}
    return {**values, "entity": entity, "way": "adapted", **other}


def test_what_was_put_is_got(tmp_path):
    store = Store(tmp_path, read_frontier("tiny"))
    assert store.get(CELL) is None
    store.put(CELL, [row("a"), row("b", ndcg=0.5)])
    found = store.get(CELL)
    assert found["entity"].to_list() == ["a", "b"]
    assert found["epsilon"].to_list() == [1.0, 1.0]
    assert store.all().height == 2


def test_cells_of_other_settings_count_as_not_finished(tmp_path):
    grid = read_frontier("tiny")
    Store(tmp_path, grid).put(CELL, [row("a")])
    other = dataclasses.replace(grid, data=(dataclasses.replace(grid.data[0], rank=3),))
    assert Store(tmp_path, other).get(CELL) is None
    assert Store(tmp_path, other).all().height == 0
    assert Store(tmp_path, read_frontier("quick")).get(CELL) is None


def test_another_mechanism_beside_does_not_matter(tmp_path):
    grid = read_frontier("tiny")
    Store(tmp_path, grid).put(CELL, [row("a")])
    fewer = dataclasses.replace(grid, data=(dataclasses.replace(grid.data[0], releases=()),))
    assert Store(tmp_path, fewer).get(CELL) is not None


def test_a_damaged_file_counts_as_not_finished(tmp_path):
    store = Store(tmp_path, read_frontier("tiny"))
    store.put(CELL, [row("a")])
    (tmp_path / "cells" / f"{CELL.key}.parquet").write_bytes(b"PAR1 and nothing else")
    assert store.get(CELL) is None
    assert store.all().height == 0
