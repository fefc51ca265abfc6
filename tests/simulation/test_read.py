"""A table with an entity column becomes a federation, whatever made the table."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.errors import BadIdentifier, DataError, DuplicateEntries, EmptyTable, MissingColumn, UnknownItems
from twofold.simulation import read_federation

CATALOG = Catalog(["x", "y", "z"])
ROWS = {
    "hospital": ["b", "a", "b", "a"],
    "user": [1, 1, 2, 3],
    "item": ["x", "y", "z", "x"],
    "value": [1.0, 2.0, 3.0, 4.0],
}


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame, pa.table])
def test_rows_go_to_their_entity(kind: type) -> None:
    federation = read_federation(kind(ROWS), CATALOG, entity="hospital", feedback="counts")
    assert list(federation) == ["a", "b"]
    assert federation["a"].of(1) == {"y": 2.0}
    assert federation["b"].of(1) == {"x": 1.0}
    assert federation.feedback == "counts"


def test_the_order_of_the_rows_does_not_matter() -> None:
    frame = pl.DataFrame(ROWS)
    one, other = (read_federation(f, CATALOG, entity="hospital") for f in (frame, frame.reverse()))
    assert [r.digest() for r in one.values()] == [r.digest() for r in other.values()]


def test_ids_that_no_table_has_a_type_for() -> None:
    frame = pd.DataFrame({"entity": [(1, "n"), (2, "s")], "user": [("a", 1), ("a", 2)], "item": ["x", "y"]})
    federation = read_federation(frame, CATALOG, value=None)
    assert federation[(2, "s")].of(("a", 2)) == {"y": 1.0}


def test_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    pl.DataFrame(ROWS).write_csv(tmp_path / "visits.csv")
    assert len(read_federation(tmp_path / "visits.csv", CATALOG, entity="hospital")) == 2


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"hospital": ["b", None, "b", "a"]}, BadIdentifier),
        ({"item": ["x", "y", "q", "x"]}, UnknownItems),
        ({"user": [2, 1, 2, 3], "item": ["z", "y", "z", "x"]}, DuplicateEntries),
    ],
)
def test_odd_rows_are_refused(change: dict[str, list[object]], error: type[Exception]) -> None:
    with pytest.raises(error):
        read_federation(pl.DataFrame(ROWS | change), CATALOG, entity="hospital")


def test_columns_are_named_once_and_exist() -> None:
    with refused(DataError, "entity", found="user, user, item, value"):
        read_federation(pl.DataFrame(ROWS), CATALOG, entity="user")
    with pytest.raises(MissingColumn):
        read_federation(pl.DataFrame(ROWS), CATALOG)
    with pytest.raises(EmptyTable):
        read_federation(pl.DataFrame(ROWS).clear(), CATALOG, entity="hospital")
