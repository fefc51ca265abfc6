"""Cells of the frontier on disk: kept whole, refused when they are not of these settings."""

from __future__ import annotations

import dataclasses

import polars as pl
import pytest

from studies.frontier.run import cells, table
from studies.frontier.settings import Grid, read_frontier
from studies.frontier.summary import SCHEMA
from studies.store import Cell, Store
from twofold.errors import DataError

TINY = read_frontier("tiny")


def of(grid: Grid) -> Cell:
    """The mechanism gram under a secure sum at ε = 1."""
    found = cells(grid, grid.data[0], 9_000)
    return next(one for one in found if (one.system, one.options["noise"]) == ("gram", "secure"))


def row(entity: str, **other):
    values = {name: "" if kind == pl.String else 1 for name, kind in SCHEMA.items()}
    known = ("data", "seed", "mechanism", "noise", "epsilon", "seconds")
    return {
        **{key: value for key, value in values.items() if key not in known},
        "entity": entity,
        "way": "adapted",
        **other,
    }


def put(store: Store, cell: Cell, *rows) -> None:
    store.put(cell, {"rows": list(rows), "seconds": 1.5})


def test_what_was_put_is_got(tmp_path):
    store = Store.open(tmp_path, "frontier", "tiny")
    assert store.get(of(TINY)) is None
    put(store, of(TINY), row("a", ndcg=float("nan")), row("b", ndcg=0.1 + 0.2))
    found = table(store, TINY)
    assert found["entity"].to_list() == ["a", "b"]
    assert found["epsilon"].to_list() == [1.0, 1.0]
    assert found["seconds"].to_list() == [1.5, 1.5]
    assert found["ndcg"].is_nan().to_list() == [True, False]
    assert found["ndcg"][1] == 0.1 + 0.2
    assert dict(found.schema) == SCHEMA


def test_cells_of_other_settings_count_as_not_finished(tmp_path):
    store = Store.open(tmp_path, "frontier", "tiny")
    put(store, of(TINY), row("a"))
    other = dataclasses.replace(TINY, data=(dataclasses.replace(TINY.data[0], rank=3),))
    assert store.get(of(other)) is None
    assert table(store, other).height == 0
    assert store.get(of(read_frontier("quick"))) is None
    with pytest.raises(DataError):
        Store.open(tmp_path, "frontier", "quick")


def test_another_mechanism_beside_does_not_matter(tmp_path):
    store = Store.open(tmp_path, "frontier", "tiny")
    put(store, of(TINY), row("a"))
    fewer = dataclasses.replace(TINY, data=(dataclasses.replace(TINY.data[0], releases=()),))
    assert table(store, fewer).height == 1


def test_a_damaged_file_counts_as_not_finished(tmp_path):
    store = Store.open(tmp_path, "frontier", "tiny")
    put(store, of(TINY), row("a"))
    (tmp_path / "cells" / f"{of(TINY).key}.json").write_bytes(b'{"cell": ')
    assert store.get(of(TINY)) is None
    assert table(store, TINY).height == 0
