"""Public features from files: numbers, classes, and everything that is wrong with a table."""

from __future__ import annotations

import polars as pl
import pytest

from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.data.features import class_features, read_features
from twofold.errors import BadValue, DuplicateEntries, MissingColumn, UnknownItems

CATALOG = Catalog(["a", "b", "c", "d"])


def table(folder, text, name="features.csv"):
    path = folder / name
    path.write_text(text)
    return path


def test_numbers_in_the_order_of_the_catalog_and_gaps_are_zeros(tmp_path):
    found = read_features(table(tmp_path, "item,weight,old\nc,7,0\na,-2,1\n"), CATALOG)
    assert found.names == ("weight", "old")
    assert found.matrix.tolist() == [[-2, 1], [0, 0], [7, 0], [0, 0]]
    assert found.described == 2


def test_classes_in_one_column(tmp_path):
    found = read_features(table(tmp_path, "item,kind\nd, lab |drug\nb,lab\na,\n"), CATALOG)
    assert found.names == ("drug", "lab")
    assert found.matrix.tolist() == [[0, 0], [0, 1], [0, 0], [1, 1]]


def test_classes_named_among_other_columns(tmp_path):
    path = table(tmp_path, "id,title,kind\na,first,x|y\nb,second,y\n")
    assert read_features(path, CATALOG, item="id", classes="kind").names == ("x", "y")


def test_parquet_with_integer_ids_and_booleans(tmp_path):
    path = tmp_path / "features.parquet"
    pl.DataFrame({"item": [4, 2], "generic": [True, False], "level": [3, 1]}).write_parquet(path)
    assert read_features(path, Catalog([2, 3, 4])).matrix.tolist() == [[0, 1], [0, 0], [1, 3]]


@pytest.mark.parametrize(
    ("text", "error", "parameter", "fact"),
    [
        ("item,x\nz,1\n", UnknownItems, "item", "1 of 1 ids"),
        ("item,x\na,1\na,2\n", DuplicateEntries, "item", "each item once"),
        ("item,x\na,0.5\n", BadValue, "x", "from -1,000 to 1,000"),
        ("item,x\na,1001\n", BadValue, "x", "from -1,000 to 1,000"),
        ("item,x,y\na,,1\n", BadValue, "classes", "text in the columns x"),
        ("item,x,y\na,word,1\n", BadValue, "classes", "classes='x'"),
        ("item\na\n", MissingColumn, "classes", "the column item only"),
        ("name,x\na,1\n", MissingColumn, "item", "columns name, x"),
        ("item\na\n", MissingColumn, "classes", "(as Comedy|Drama)"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, error, parameter, fact):
    with refused(error, parameter, fact):
        read_features(table(tmp_path, text), CATALOG)


def test_a_table_without_any_class_is_refused():
    with refused(BadValue, "classes", found="classes"):
        class_features([[], [""]])
