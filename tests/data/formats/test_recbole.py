"""RecBole's .inter and .item files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.data.formats.recbole import read_recbole, recbole_catalog
from twofold.errors import (
    BadIdentifier,
    BadValue,
    CatalogError,
    DuplicateEntries,
    EmptyTable,
    MissingColumn,
    UnknownItems,
    UnreadableSource,
)

FILMS = Catalog([661, 1193])
INTER = (
    "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    "1\t1193\t5\t978300760\n1\t661\t3.5\t978302109\n2\t1193\t4\t978298413\n"
)


def write(folder: Path, content: str | bytes, name: str = "films.inter") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_ratings_and_counts(tmp_path: Path) -> None:
    path = write(tmp_path, INTER)
    assert read_recbole(path, FILMS).of(1) == {661: 3.5, 1193: 5.0}
    counts = read_recbole(write(tmp_path, INTER + "1\t661\t2\t978302110\n"), FILMS, feedback="counts")
    assert counts.of(1) == {661: 2.0, 1193: 1.0}
    assert counts.feedback == "counts"


def test_a_file_without_ratings_counts_and_other_columns_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, "session:token\tarticle:token\tseconds:float\na\t661\t3\n")
    given = {"user": "session", "item": "article"}
    assert read_recbole(path, FILMS, feedback="counts", **given).of("a") == {661: 1.0}
    assert read_recbole(path, FILMS, feedback="counts", value="seconds", **given).of("a") == {661: 3.0}
    with refused(MissingColumn, "value"):
        read_recbole(path, FILMS, feedback="ratings", **given)


def test_a_gzipped_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(INTER.encode()), "films.inter.gz")
    assert read_recbole(path, FILMS).n_users == 2


@pytest.mark.parametrize(
    ("header", "kind", "parameter"),
    [
        ("user\titem\trating", UnreadableSource, "source"),
        ("user_id:token,item_id:token,rating:float", MissingColumn, "user"),
        ("user_id:token\titem_id:tokens\trating:float", UnreadableSource, "source"),
        ("Jane Doe\t661\t5", UnreadableSource, "source"),
        ("user_id:token_seq\titem_id:token\trating:float", BadIdentifier, "user"),
        ("user_id:token\titem_id:float\trating:float", BadIdentifier, "item"),
        ("user_id:token\titem_id:token\trating:token", BadIdentifier, "value"),
        ("person:token\titem_id:token\trating:float", MissingColumn, "user"),
    ],
)
def test_a_header_that_is_not_recboles_is_refused(tmp_path: Path, header: str, kind: type, parameter: str) -> None:
    path = write(tmp_path, f"{header}\nJane Doe\t661\t5\n")
    with refused(kind, parameter) as caught:
        read_recbole(path, FILMS)
    assert "Jane" not in str(caught.value)


def test_bad_rows_are_refused_as_in_any_table(tmp_path: Path) -> None:
    with refused(UnknownItems, "unknown_items"):
        read_recbole(write(tmp_path, INTER + "1\t9\t2\t1\n"), FILMS)
    assert read_recbole(write(tmp_path, INTER + "1\t9\t2\t1\n"), FILMS, unknown_items="drop").n_users == 2
    with refused(DuplicateEntries, "duplicates"):
        read_recbole(write(tmp_path, INTER + "1\t661\t2\t1\n"), FILMS)
    with refused(BadValue):
        read_recbole(write(tmp_path, INTER + "2\t661\tJane\t1\n"), FILMS)
    with refused(EmptyTable):
        read_recbole(write(tmp_path, ""), FILMS)
    with refused(UnreadableSource):
        read_recbole(tmp_path / "nowhere.inter", FILMS)
    with refused(UnreadableSource):
        read_recbole(write(tmp_path, gzip.compress(INTER.encode())[:30]), FILMS)


def test_an_item_file_is_a_catalog_with_titles(tmp_path: Path) -> None:
    items = "item_id:token\trelease_year:token\tmovie_title:token_seq\n661\t1996\tJames\n1193\t1975\tCuckoo\n"
    path = write(tmp_path, items, "films.item")
    catalog = recbole_catalog(path, public=True)
    assert catalog.features is not None
    assert list(catalog.items) == [661, 1193]
    assert catalog.features["title"].to_list() == ["James", "Cuckoo"]
    years = recbole_catalog(path, title="release_year", public=True)
    assert years.features is not None
    assert years.features["title"].to_list() == ["1996", "1975"]
    assert recbole_catalog(write(tmp_path, "item_id:token\n661\n", "bare.item"), public=True).features is None
    with refused(MissingColumn, "title"):
        recbole_catalog(path, title="genre", public=True)
    with refused(CatalogError, "public"):
        recbole_catalog(path)
