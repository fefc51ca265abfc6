"""Catalog: public, ordered, hashed; nothing private can become one."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refused import refused
from twofold import Catalog, Ratings
from twofold.errors import CatalogError, MissingColumn, UnreadableSource

TEXTS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00\r\n"), min_size=1), min_size=1, unique=True
)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_catalog_survives_the_disk(ending: str, tmp_path: Path) -> None:
    catalog = Catalog(["b", "a", "007"], pl.DataFrame({"title": ["B", "A", "Bond"]}))
    catalog.write(tmp_path / f"items{ending}")
    back = Catalog.read(tmp_path / f"items{ending}")
    assert list(back.items) == ["b", "a", "007"]
    assert back == catalog
    assert back.features is not None
    assert back.features["title"].to_list() == ["B", "A", "Bond"]


@given(TEXTS)
def test_any_text_survives_parquet_and_csv(items: list[str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name in ("items.parquet", "items.csv"):
            path = Path(folder) / name
            Catalog(items).write(path)
            assert Catalog.read(path).hash == Catalog(items).hash


def test_zero_padded_codes_stay_text_and_plain_numbers_become_numbers(tmp_path: Path) -> None:
    (tmp_path / "padded.csv").write_text("item\n017\n4\n")
    (tmp_path / "plain.csv").write_text("item\n17\n4\n")
    assert list(Catalog.read(tmp_path / "padded.csv").items) == ["017", "4"]
    assert list(Catalog.read(tmp_path / "plain.csv").items) == [17, 4]


def test_the_hash_depends_on_order_not_on_storage() -> None:
    assert Catalog([1, 2]).hash == Catalog(["1", "2"]).hash
    assert Catalog([1, 2]) != Catalog([2, 1])


def test_columns_follow_the_order() -> None:
    catalog = Catalog(["x", "y"])
    assert [catalog.column(item) for item in ("x", "y")] == [0, 1]
    with refused(CatalogError, "item"):
        catalog.column("z")


@pytest.mark.parametrize("items", [[], ["a", "a"], [1, "a"], ["a", None], "abc"])
def test_what_is_not_a_list_of_unique_ids_is_refused(items: list[object]) -> None:
    with pytest.raises(CatalogError):
        Catalog(items)


def test_the_item_column_of_a_table_of_ratings_is_not_a_catalog() -> None:
    """A private item list cannot slip in: it repeats items, and nothing merges catalogs."""
    with refused(CatalogError, "items", expected="names every item once"):
        Catalog(pl.Series(["heparin", "lactate", "heparin"]))
    assert not {"union", "merge", "from_ratings", "__or__", "__add__", "extend"} & set(dir(Catalog))
    assert not {"catalog_of", "to_catalog"} & set(dir(Ratings))


def test_features_must_fit() -> None:
    with refused(CatalogError, "features"):
        Catalog(["a"], pl.DataFrame({"title": ["A", "B"]}))


def test_a_file_without_the_column_names_those_it_has(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("code,name\n1,a\n")
    with refused(MissingColumn, "item", found="code, name"):
        Catalog.read(tmp_path / "items.csv")
    assert list(Catalog.read(tmp_path / "items.csv", item="code").items) == [1]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with refused(UnreadableSource, "source", expected=".csv or .parquet"):
        Catalog(["a"]).write(tmp_path / "items.xlsx")
    catalog = Catalog(["a"], pl.DataFrame({"nested": [[1, 2]]}))  # CSV cannot hold lists
    with pytest.raises(pl.exceptions.PolarsError):
        catalog.write(tmp_path / "items.csv")
    assert list(tmp_path.iterdir()) == []


def test_tables_and_nested_ids_are_not_lists() -> None:
    table = pl.DataFrame({"item": ["a"], "name": ["A"]})
    for wrong in (table, table.to_pandas(), table.to_numpy(), [["a"], ["b"]]):
        with pytest.raises(CatalogError):
            Catalog(wrong)
    assert list(Catalog(table.to_pandas()["item"]).items) == ["a"]
    with refused(CatalogError, "path"):
        Catalog.read(table)  # type: ignore[arg-type]


def test_a_list_without_a_header_does_not_lose_its_first_item(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("heparin\nlactate\n")
    with refused(MissingColumn, "item", "item='COLUMN'"):
        Catalog.read(tmp_path / "items.csv")


def test_an_empty_place_is_nobodys_item() -> None:
    with pytest.raises(IndexError):
        Catalog(["a", "b"]).items[-1]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_separator_of_an_item_list_is_found(mark: str, tmp_path: Path) -> None:
    """Of a catalog with semicolons, `check` said that its column was called something else."""
    rows = [["item", "Bezeichnung"], ["a", "Aspirin; 100 mg, or more"], ["b", "x"]]
    text = "\ufeff" + "".join(mark.join(f'"{one}"' for one in row) + "\n" for row in rows)
    (tmp_path / "items.csv").write_text(text, encoding="utf-8")
    found = Catalog.read(tmp_path / "items.csv")
    assert list(found.items) == ["a", "b"]
    assert found.features is not None
    assert found.features.columns == ["Bezeichnung"]


def test_a_notebook_shows_size_and_columns() -> None:
    shown = Catalog(["a", "b"], pl.DataFrame({"title": ["x", "<y>"]}))._repr_html_()
    for words in ("2 of type text", "title"):
        assert words in shown
