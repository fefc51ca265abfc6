"""read_ratings: one result from every kind of source, explicit rules, errors that keep secrets."""

from __future__ import annotations

import gzip
import io
import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st

from tests.refused import refused
from twofold import Catalog, read_ratings
from twofold.errors import (
    BadIdentifier,
    BadValue,
    CatalogError,
    DataError,
    DuplicateEntries,
    EmptyTable,
    MissingColumn,
    TwofoldError,
    UnknownItems,
    UnreadableSource,
)

CATALOG = Catalog(["creatinine", "heparin", "lactate"])
ROWS = {
    "patient": ["p-2", "p-1", "p-2", "p-9"],
    "code": ["heparin", "lactate", "creatinine", "heparin"],
    "n": [2, 1, 0, 4],
}
COLUMNS = {"user": "patient", "item": "code", "value": "n"}
QUERY = "SELECT patient, code, n FROM visits"


def expected() -> dict[str, dict[str, float]]:
    return {"p-1": {"lactate": 1.0}, "p-2": {"creatinine": 0.0, "heparin": 2.0}, "p-9": {"heparin": 4.0}}


def database(folder: Path) -> Path:
    path = folder / "visits.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE visits (patient TEXT, code TEXT, n INTEGER)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", list(zip(*ROWS.values(), strict=True)))
    connection.close()
    return path


def csv_file(folder: Path) -> Path:
    pl.DataFrame(ROWS).write_csv(folder / "visits.csv")
    return folder / "visits.csv"


def gzip_file(folder: Path) -> str:
    (folder / "visits.csv.gz").write_bytes(gzip.compress(pl.DataFrame(ROWS).write_csv().encode()))
    return str(folder / "visits.csv.gz")


def parquet_file(folder: Path) -> Path:
    pl.DataFrame(ROWS).write_parquet(folder / "visits.parquet")
    return folder / "visits.parquet"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": csv_file,
    "csv.gz": gzip_file,
    "parquet": parquet_file,
    "polars": lambda _: pl.DataFrame(ROWS),
    "polars lazy": lambda _: pl.LazyFrame(ROWS),
    "polars categories": lambda _: pl.DataFrame(ROWS, schema_overrides={"code": pl.Categorical}),
    "pandas": lambda _: pd.DataFrame(ROWS),
    "pandas objects": lambda _: pd.DataFrame(ROWS).astype({"patient": object, "code": object}),
    "pandas categories": lambda _: pd.DataFrame(ROWS).astype({"code": "category"}),
    "arrow": lambda _: pa.table(ROWS),
    "duckdb": lambda _: duckdb.from_arrow(pa.table(ROWS)),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_table_gives_the_same_ratings(kind: str, tmp_path: Path) -> None:
    ratings = read_ratings(SOURCES[kind](tmp_path), CATALOG, feedback="counts", **COLUMNS)
    assert {user: ratings.of(user) for user in ratings.user_ids} == expected()
    assert ratings.digest() == read_ratings(pl.DataFrame(ROWS), CATALOG, feedback="counts", **COLUMNS).digest()


@pytest.mark.parametrize("kind", ["url", "engine", "connection", "adbc"])
def test_every_kind_of_database_gives_the_same_ratings(kind: str, tmp_path: Path) -> None:
    path = database(tmp_path)
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    adbc = adbc_driver_sqlite.dbapi.connect(str(path))
    with engine.connect() as connection, adbc:
        source = {"url": f"sqlite:///{path}", "engine": engine, "connection": connection, "adbc": adbc}[kind]
        ratings = read_ratings(source, CATALOG, query=QUERY, **COLUMNS)
    engine.dispose()
    assert {user: ratings.of(user) for user in ratings.user_ids} == expected()


def test_row_order_does_not_matter() -> None:
    frame = pl.DataFrame(ROWS)
    one = read_ratings(frame, CATALOG, **COLUMNS)
    assert one.digest() == read_ratings(frame.reverse(), CATALOG, **COLUMNS).digest()


@pytest.mark.parametrize(
    "users",
    [[3, 1, 2], ["c", "a", "b"], [uuid.UUID(int=3), uuid.UUID(int=1), uuid.UUID(int=2)], [b"c", b"a", b"b"]],
    ids=["integers", "text", "uuids", "bytes"],
)
def test_user_ids_return_as_given(users: list[object]) -> None:
    table = pd.DataFrame({"user": pd.Series(users, dtype=object), "item": ["heparin"] * 3, "value": [1, 2, 3]})
    ratings = read_ratings(table, CATALOG)
    assert set(ratings.user_ids) == set(users)
    assert [ratings.of(user)["heparin"] for user in users] == [1, 2, 3]


def test_csv_ids_keep_their_zeros(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,item,value\n007,heparin,1\n7,heparin,2\n")
    ratings = read_ratings(tmp_path / "t.csv", CATALOG)
    assert ratings.of("007") == {"heparin": 1.0}
    assert ratings.of("7") == {"heparin": 2.0}


@given(st.lists(st.from_regex(r"[+-]?[0-9]{1,4}", fullmatch=True), min_size=1, unique=True))
def test_csv_ids_become_integers_only_if_nothing_is_lost(users: list[str]) -> None:
    from twofold.data.files import lossless_integers

    column = lossless_integers(pl.Series(users))
    plain = all(str(int(user)) == user for user in users)
    assert column.to_list() == ([int(user) for user in users] if plain else users)


TWICE = pl.DataFrame({"user": [1, 1, 2, 1], "item": ["heparin"] * 4, "value": [4, 1, 7, 1]})


@pytest.mark.parametrize(("rule", "value"), [("sum", 6.0), ("mean", 2.0), ("last", 1.0)])
def test_duplicates_by_an_explicit_rule(rule: Any, value: float) -> None:
    ratings = read_ratings(TWICE, CATALOG, duplicates=rule)
    assert ratings.of(1) == {"heparin": value}
    assert ratings.of(2) == {"heparin": 7.0}
    assert ratings.notes.duplicates_merged == 2


ENTRIES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(-8, 8)), min_size=1, max_size=40)


@given(ENTRIES, st.sampled_from(["sum", "mean", "last"]))
def test_duplicate_rules_agree_with_a_slow_reference(entries: list[tuple[int, int, int]], rule: Any) -> None:
    table = pl.DataFrame(entries, schema=["user", "item", "value"], orient="row")
    ratings = read_ratings(table, Catalog(range(4)), feedback="ratings", duplicates=rule, dtype=np.float64)
    groups: dict[tuple[int, int], list[int]] = {}
    for user, item, value in entries:
        groups.setdefault((user, item), []).append(value)
    merge = {"sum": sum, "mean": lambda v: sum(v) / len(v), "last": lambda v: v[-1]}[rule]
    seen = {(user, item): value for user in ratings.user_ids for item, value in ratings.of(user).items()}
    assert seen == pytest.approx({key: merge(values) for key, values in groups.items()})
    assert ratings.notes.duplicates_merged == len(entries) - len(groups)


def test_rows_without_a_value_column_count_one() -> None:
    ratings = read_ratings(TWICE, CATALOG, value=None, duplicates="sum", feedback="counts")
    assert ratings.of(1) == {"heparin": 3.0}


def test_unknown_items_are_dropped_only_when_told_and_counted() -> None:
    table = pl.DataFrame({"user": [1, 1, 2], "item": ["heparin", "aspirin", "aspirin"], "value": [1, 2, 3]})
    with refused(UnknownItems, "unknown_items", "unknown_items='drop'"):
        read_ratings(table, CATALOG)
    ratings = read_ratings(table, CATALOG, unknown_items="drop")
    assert ratings.notes.unknown_items_dropped == 2
    assert ratings.of(2) == {}  # the user stays, with nothing


def secret(**columns: Any) -> pl.DataFrame:
    good = {"user": ["patient-17", "patient-18"], "item": ["heparin", "lactate"], "value": [31337.0, 4.0]}
    return pl.DataFrame({**good, **columns}, strict=False)


BAD_TABLES: dict[str, tuple[Any, type[TwofoldError], dict[str, Any]]] = {
    "missing column": (secret().drop("value"), MissingColumn, {}),
    "NaN": (secret(value=[31337.0, float("nan")]), BadValue, {}),
    "infinite": (secret(value=[31337.0, float("inf")]), BadValue, {}),
    "no value": (secret(value=[31337.0, None]), BadValue, {}),
    "negative count": (secret(value=[31337.0, -2.0]), BadValue, {"feedback": "counts"}),
    "text value": (secret(value=["31337", "many"]), BadValue, {}),
    "list value": (secret(value=[[31337], [2]]), BadValue, {}),
    "date value": (
        secret(value=[None, None]).with_columns(pl.lit("2020-01-01").str.to_date().alias("value")),
        BadValue,
        {},
    ),
    "beyond 64 bits": (pl.DataFrame({"user": ["u"], "item": ["heparin"], "value": [10**25]}), BadValue, {}),
    "100 million times too large": (secret(value=[31337.0, 5e8]), BadValue, {}),
    "outside the public range": (secret(), BadValue, {"value_range": (0, 5)}),
    "null user": (secret(user=["patient-17", None]), BadIdentifier, {}),
    "null item": (secret(item=["heparin", None]), BadIdentifier, {}),
    "list user": (secret(user=[["patient-17"], ["patient-18"]]), BadIdentifier, {}),
    "mixed users": (
        pd.DataFrame({"user": ["patient-17", 18], "item": ["heparin"] * 2, "value": [31337, 1]}),
        BadIdentifier,
        {},
    ),
    "items of another type": (secret(item=[1, 2]), BadIdentifier, {}),
    "unknown item": (secret(item=["heparin", "aspirin"]), UnknownItems, {}),
    "duplicate": (pl.concat([secret(), secret()]), DuplicateEntries, {}),
    "not a table": (31337, UnreadableSource, {}),
    "unknown duplicate rule": (secret(), DataError, {"duplicates": "first"}),
    "unknown item rule": (secret(), DataError, {"unknown_items": "keep"}),
    "impossible range": (secret(), DataError, {"value_range": (5, 0)}),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_refused_and_no_value_is_shown(case: str) -> None:
    table, error, keywords = BAD_TABLES[case]
    with pytest.raises(error) as caught:
        read_ratings(table, CATALOG, **keywords)
    for private in ("patient-17", "patient-18", "31337", "aspirin", "many"):
        assert private not in str(caught.value)


BAD_FILES: dict[str, tuple[str, bytes, type[TwofoldError], str]] = {
    "wrong delimiter": ("t.csv", b"user;item;value\np;heparin;1\n", MissingColumn, "separator=';'"),
    "text in values": ("t.csv", b"user,item,value\np,heparin,secret\n", BadValue, "decimal mark"),
    "empty file": ("t.csv", b"", EmptyTable, "0 bytes"),
    "cut gzip": (
        "t.csv.gz",
        gzip.compress(b"user,item,value\n" + b"p,heparin,1\n" * 999)[:40],
        UnreadableSource,
        "cut off",
    ),
    "not Parquet": ("t.parquet", b"user,item,value\np,heparin,1\n", UnreadableSource, "PAR1"),
    "cut Parquet": ("t.parquet", b"PAR1" + b"\x00" * 50, UnreadableSource, "damaged"),
    "not UTF-8": ("t.csv", b"user,item,value\np\xff\xfe,heparin,1\n", UnreadableSource, "UTF-8"),
    "ragged": ("t.csv", b"user,item,value\np,heparin,1,9,9\n", UnreadableSource, "damaged"),
    "line cut off": ("t.csv", b"user,item,value\np,heparin,1\np,lactate", BadValue, "value=None"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused(case: str, tmp_path: Path) -> None:
    name, content, error, fact = BAD_FILES[case]
    (tmp_path / name).write_bytes(content)
    usual = "encoding" if case == "not UTF-8" else "source"
    with refused(error, "user" if error is MissingColumn else "value" if error is BadValue else usual, fact) as caught:
        read_ratings(tmp_path / name, CATALOG)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None  # a parser's own message may quote the data
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_missing_file_a_folder_and_another_type_are_refused(tmp_path: Path) -> None:
    with refused(UnreadableSource, "source", found="No such file"):
        read_ratings(tmp_path / "nowhere.csv", CATALOG)
    with refused(UnreadableSource, "source", found="Is a directory"):
        read_ratings(tmp_path, CATALOG)
    secret(value=["a", "b"]).write_parquet(tmp_path / "text.parquet")
    with refused(BadValue, "value", expected="a number in every row"):
        read_ratings(tmp_path / "text.parquet", CATALOG)


def test_a_database_error_shows_neither_password_nor_row(tmp_path: Path) -> None:
    path = database(tmp_path)
    with pytest.raises(UnreadableSource) as caught:
        read_ratings(f"sqlite:///{path}", CATALOG, query="SELECT hunter2 FROM nowhere")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(UnreadableSource) as caught:
        read_ratings("nodialect://ann:hunter2@host/db", CATALOG, query=QUERY)
    assert "hunter2" not in str(caught.value)
    with refused(DataError, "query"):
        read_ratings(f"sqlite:///{path}", CATALOG)


def test_counts_up_to_the_limit_are_exact_in_the_default_type() -> None:
    table = pl.DataFrame({"user": [1, 2], "item": ["heparin"] * 2, "value": [9_999_999, 1]})
    assert read_ratings(table, CATALOG, feedback="counts").of(1) == {"heparin": 9_999_999.0}


def test_fractions_after_many_whole_numbers_are_read(tmp_path: Path) -> None:
    lines = [f"{user},heparin,{user % 5}" for user in range(300)] + ["300,heparin,2.5"]
    (tmp_path / "t.csv").write_text("user,item,value\n" + "\n".join(lines) + "\n")
    assert read_ratings(tmp_path / "t.csv", CATALOG).of(300) == {"heparin": 2.5}


def test_a_file_without_a_header_does_not_show_its_first_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("patient-17,heparin,31337\npatient-18,lactate,2\n")
    with refused(MissingColumn, "user", found="looks like data") as caught:
        read_ratings(tmp_path / "t.csv", CATALOG)
    assert "patient-17" not in str(caught.value)


@pytest.mark.parametrize("content", [b"PK\x03\x04junk", b"SQLite format 3\x00" + b"\x00" * 80])
def test_workbooks_and_databases_are_not_tables(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(content)
    with refused(UnreadableSource, "source", found="binary file"):
        read_ratings(tmp_path / "t.xlsx", CATALOG)


@pytest.mark.parametrize("separator", ["tab", "\\t", "\t"])
def test_tabs_can_be_named_as_a_shell_can_type_them(separator: str, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("user\titem\tvalue\n1\theparin\t2\n")
    assert read_ratings(tmp_path / "t.tsv", CATALOG, separator=separator).of(1) == {"heparin": 2.0}
    with refused(DataError, "separator", expected="one character"):
        read_ratings(tmp_path / "t.tsv", CATALOG, separator="::")


def test_what_people_pass_by_mistake_gets_our_errors(tmp_path: Path) -> None:
    with refused(CatalogError, "catalog"):
        read_ratings(secret(), "items.csv")  # type: ignore[arg-type]
    with refused(DataError, "value_range"):
        read_ratings(secret(), CATALOG, value_range=5)  # type: ignore[arg-type]
    with refused(UnreadableSource, "source", "SQLite"):
        read_ratings(f"sqlite:///{tmp_path}/typo.db", CATALOG, query=QUERY)
    assert list(tmp_path.iterdir()) == []
    mixed = pd.DataFrame({"user": [1, 2], "item": ["heparin"] * 2, "value": pd.Series([1, "many"], dtype=object)})
    with refused(BadValue, "value"):
        read_ratings(mixed, CATALOG)
    twice = pd.DataFrame([[1, 2, "heparin", 3]], columns=["user", "user", "item", "value"])
    with pytest.raises(TwofoldError):
        read_ratings(twice, CATALOG)


EMPTY: dict[str, Callable[[Path], Any]] = {
    "polars": lambda _: secret().head(0),
    "pandas": lambda _: pd.DataFrame({"user": [], "item": [], "value": []}),
    "pandas of objects": lambda _: pd.DataFrame({"user": [], "item": [], "value": []}, dtype=object),
    "csv": lambda folder: _written(folder / "t.csv", b"user,item,value\n"),
    "gzip": lambda folder: _written(folder / "t.csv.gz", gzip.compress(b"user,item,value\n")),
    "parquet": lambda folder: _parquet(folder / "t.parquet"),
}


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _parquet(path: Path) -> Path:
    secret().head(0).write_parquet(path)
    return path


@pytest.mark.parametrize("kind", EMPTY)
@pytest.mark.parametrize("value", ["value", None])
def test_a_table_without_rows_is_one_without_users(kind: str, value: str | None, tmp_path: Path) -> None:
    """Audit M2: nobody and one person are neighbours; a refusal told them apart."""
    ratings = read_ratings(EMPTY[kind](tmp_path), CATALOG, value=value, feedback="counts")
    assert (ratings.n_users, ratings.n_items, ratings.n_entries, ratings.notes.rows) == (0, len(CATALOG), 0, 0)


def test_a_table_of_unknown_items_only_keeps_its_users() -> None:
    ratings = read_ratings(secret(item=["aspirin", "opium"]), CATALOG, unknown_items="drop")
    assert (ratings.n_users, ratings.n_entries, ratings.notes.unknown_items_dropped) == (2, 0, 2)


@pytest.mark.parametrize(("catalog", "strange"), [([1, 2, 30], "abc"), (["1", "2", "abc"], "abc"), ([1, 2, 30], "007")])
def test_one_persons_item_makes_nobody_elses_unknown(catalog: list[Any], strange: str, tmp_path: Path) -> None:
    """One id that is no integer makes a whole CSV column text; matched by type, everybody's items became unknown."""
    rows = "user,item,value\n1,1,2\n2,2,3\n"
    without, with_one = (
        _written(tmp_path / f"{len(more)}.csv", (rows + more).encode()) for more in ("", f"3,{strange},4\n")
    )
    items = Catalog(catalog)
    before, after = (read_ratings(path, items, feedback="counts", unknown_items="drop") for path in (without, with_one))
    assert before.matrix.toarray().tolist() == after.matrix.toarray()[:2].tolist() == [[2, 0, 0], [0, 3, 0]]


EUROPEAN = "user;item;value\nJosé;heparin;2,5\nZoë;heparin;1\n"


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8"])
@pytest.mark.parametrize("packed", [False, True])
def test_other_encodings_and_a_decimal_comma_are_read(encoding: str, packed: bool, tmp_path: Path) -> None:
    data = EUROPEAN.encode(encoding)
    (tmp_path / "t.csv").write_bytes(gzip.compress(data) if packed else data)
    ratings = read_ratings(tmp_path / "t.csv", CATALOG, separator=";", encoding=encoding, decimal=",")
    assert ratings.of("José") == {"heparin": 2.5}


@pytest.mark.parametrize(
    ("encoding", "named"), [("latin-1", "latin-1"), ("cp1252", "latin-1"), ("cp437", "cp1252"), ("utf-16", "utf-16")]
)
def test_the_likely_encoding_is_named(encoding: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(EUROPEAN.encode(encoding))
    with refused(UnreadableSource, "encoding", f"encoding={named!r}") as caught:
        read_ratings(tmp_path / "t.csv", CATALOG, separator=";")
    assert "Jos" not in str(caught.value)


def test_a_decimal_comma_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(EUROPEAN)
    with refused(BadValue, "decimal", "decimal=','"):
        read_ratings(tmp_path / "t.csv", CATALOG, separator=";")
    (tmp_path / "t.csv").write_text(EUROPEAN.replace("2,5", "much"))
    with refused(BadValue, "value"):
        read_ratings(tmp_path / "t.csv", CATALOG, separator=";", decimal=",")


@pytest.mark.parametrize(("option", "value"), [("encoding", "klingon"), ("encoding", "base64"), ("decimal", ";")])
def test_an_encoding_or_a_mark_that_does_not_exist(option: str, value: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,item,value\np,heparin,1\n")
    with refused(UnreadableSource if value == "base64" else DataError, option):
        read_ratings(tmp_path / "t.csv", CATALOG, **{option: value})


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet"])
def test_standard_input_is_read(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, buffer = pl.DataFrame({"user": [1], "item": ["heparin"], "value": [2]}), io.BytesIO()
    if form == "parquet":
        frame.write_parquet(buffer)
    else:
        buffer.write(frame.write_csv().encode() if form == "csv" else gzip.compress(frame.write_csv().encode()))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(buffer.getvalue())))
    assert read_ratings("-", CATALOG).of(1) == {"heparin": 2.0}


def test_a_column_that_is_there_twice_or_named_twice(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,item,value,value\np,heparin,1,2\n")
    with refused(MissingColumn, "value"):
        read_ratings(tmp_path / "t.csv", CATALOG)
    with refused(DataError, "item"):
        read_ratings(tmp_path / "t.csv", CATALOG, user="item")


def test_a_catalog_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_bytes("item\nKäse\n".encode("latin-1"))
    with refused(UnreadableSource, "encoding"):
        Catalog.read(tmp_path / "items.csv")
    assert Catalog.read(tmp_path / "items.csv", encoding="latin-1") == Catalog(["Käse"])
    (tmp_path / "items.csv").write_text("item\nKäse\n")
    assert Catalog.read(tmp_path / "items.csv", encoding="latin-1") == Catalog(["Käse"])


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_rows_with_something_missing_are_dropped_on_request(missing: object, tmp_path: Path) -> None:
    rows = {"user": [1, 2, missing, 4, 5], "item": [10, missing, 10, 20, 20], "value": [1.0, 2.0, 3.0, missing, 5.0]}
    catalog, table = Catalog([10, 20]), pd.DataFrame(rows)
    pl.DataFrame(rows, strict=False).write_parquet(tmp_path / "rows.parquet")
    pl.DataFrame(rows, strict=False).fill_nan(None).cast({"user": int, "item": int}).write_csv(tmp_path / "rows.csv")
    for source in (table, tmp_path / "rows.parquet", tmp_path / "rows.csv"):
        with refused(BadValue, "value", "missing='drop'"):
            read_ratings(source, catalog)
        ratings = read_ratings(source, catalog, missing="drop")
        assert (ratings.notes.rows, ratings.notes.missing_dropped) == (5, 3)
        assert (ratings.of(1), ratings.of(5), ratings.n_users) == ({10: 1.0}, {20: 5.0}, 2)
    nobody = read_ratings(table.iloc[1:4], catalog, missing="drop")
    assert (nobody.n_users, nobody.notes.rows, nobody.notes.missing_dropped) == (0, 3, 3)
    with refused(DataError, "missing"):
        read_ratings(table, catalog, missing="mean")  # type: ignore[arg-type]
