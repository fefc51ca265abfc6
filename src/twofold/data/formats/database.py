"""Ask a database, only to read, and take its answers in batches.

SQLite files need nothing but Python, DuckDB files the package duckdb, all other databases SQLAlchemy and a driver.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import polars as pl

from twofold.data.tables import engine_of, needs_extra
from twofold.errors import TwofoldError, UnreadableSource
from twofold.storage.files import open_plain

__all__ = ["Database", "dialect_of", "open_database"]

BATCH: Final = 100_000
_SQLITE: Final = b"SQLite format 3\x00"
_DUCKDB: Final = b"DUCK"  # from the ninth byte on


class Database(Protocol):
    """What a reader needs of a database."""

    dialect: str

    def stream(self, sql: str) -> Iterator[pl.DataFrame]:
        """Give the answer in batches."""


class _Sqlite:
    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def stream(self, sql: str) -> Iterator[pl.DataFrame]:
        cursor = self.connection.execute(sql)
        names = [one[0] for one in cursor.description]
        while rows := cursor.fetchmany(BATCH):
            yield _frame(rows, names)


class _DuckDB:
    dialect = "duckdb"

    def __init__(self, connection: Any) -> None:
        self.connection = connection.cursor()  # a transaction of its own

    def stream(self, sql: str) -> Iterator[pl.DataFrame]:
        answer = self.connection.sql(sql)
        read = getattr(answer, "to_arrow_reader", None) or answer.fetch_arrow_reader  # the name in DuckDB 1.1
        for batch in read(BATCH):
            frame = pl.from_arrow(batch)
            assert isinstance(frame, pl.DataFrame)
            yield frame


class _Other:
    """SQLAlchemy's connection to any database, in a transaction that is never committed."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.dialect = str(connection.dialect.name)

    def stream(self, sql: str) -> Iterator[pl.DataFrame]:
        from sqlalchemy import text

        options = {"stream_results": True, "yield_per": BATCH}
        answer = self.connection.execution_options(**options).execute(text(sql.replace(":", "\\:")))
        names = list(answer.keys())
        for rows in answer.partitions():
            yield _frame([tuple(row) for row in rows], names)


def _frame(rows: list[Any], names: list[str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None, strict=False)


def dialect_of(source: Any) -> str:
    """Tell the dialect of a source without connecting to it.

    Examples
    --------
    >>> dialect_of("postgresql://me@cdm/omop"), dialect_of("sqlite:///cdm.sqlite")
    ('postgresql', 'sqlite')
    """
    if isinstance(source, (str, Path)):
        if "://" in str(source):
            return str(source).partition("://")[0].partition("+")[0]
        return _kind_of_file(Path(source))
    if isinstance(source, sqlite3.Connection):
        return "sqlite"
    return "duckdb" if _is_duckdb(source) else str(getattr(getattr(source, "dialect", None), "name", "other"))


def _is_duckdb(source: Any) -> bool:
    return type(source).__name__ == "DuckDBPyConnection"


@contextmanager
def open_database(source: Any) -> Iterator[Database]:
    """Open a source for reading; what the caller had opened stays open.

    Parameters
    ----------
    source : str, Path, engine or connection
        The path of a SQLite or DuckDB file, a URL of SQLAlchemy (``duckdb:///cdm.duckdb`` needs no driver), an engine
        or connection of SQLAlchemy, or a connection of sqlite3 or DuckDB.

    Raises
    ------
    UnreadableSource
        The source cannot be opened. Neither a URL, which may hold a password, nor a driver's text is shown.
    """
    if isinstance(source, sqlite3.Connection):
        yield _Sqlite(source)
    elif _is_duckdb(source):
        yield _DuckDB(source)
    elif isinstance(source, (str, Path)):
        with _opened(str(source)) as database:
            yield database
    elif hasattr(source, "dialect") and hasattr(source, "connect"):  # an engine
        with _connected(source) as database:
            yield database
    elif hasattr(source, "dialect") and hasattr(source, "execution_options"):
        yield _Other(source)
    else:
        raise _unusable(f"a {type(source).__name__}")


@contextmanager
def _opened(source: str) -> Iterator[Database]:
    kind, path = dialect_of(source), Path(source)
    if "://" in source:
        path = Path(source.partition(":///")[2].partition("?")[0])
        if kind in ("sqlite", "duckdb") and (not path.name or _kind_of_file(path) != kind):
            raise _unusable(f"a {kind} URL that names no {kind} file")
    if kind == "sqlite":
        with _closing(lambda: sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as opened:
            yield _Sqlite(opened)
    elif kind == "duckdb":
        try:
            import duckdb
            import pyarrow  # noqa: F401 - duckdb hands over its batches with it
        except ModuleNotFoundError:
            raise needs_extra("duckdb", "a DuckDB file") from None
        with _closing(lambda: duckdb.connect(str(path), read_only=True)) as opened:
            yield _DuckDB(opened)
    else:
        engine = engine_of(source)
        try:
            with _connected(engine) as database:
                yield database
        finally:
            engine.dispose()


@contextmanager
def _closing(connect: Any) -> Iterator[Any]:
    try:
        opened = connect()
    except Exception as error:
        raise _unusable(type(error).__name__) from None
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def _connected(engine: Any) -> Iterator[Database]:
    try:
        connection = engine.connect()
        if engine.dialect.name == "postgresql":  # others have no such switch; none of ours is ever committed
            connection = connection.execution_options(postgresql_readonly=True)
    except TwofoldError:
        raise
    except Exception as error:
        raise _unusable(type(error).__name__) from None
    try:
        yield _Other(connection)
    finally:
        with suppress(Exception):  # a connection that broke cannot be ended properly
            connection.rollback()
        connection.close()


def _kind_of_file(path: Path) -> str:
    """SQLite or DuckDB, by the first bytes of the file."""
    try:
        with os.fdopen(open_plain(path, links=True), "rb") as file:  # a pipe would never end
            head = file.read(16)
    except (OSError, ValueError) as error:
        raise _unusable(getattr(error, "strerror", None) or type(error).__name__) from None
    if head == _SQLITE:
        return "sqlite"
    if head[8:12] == _DUCKDB:
        return "duckdb"
    raise _unusable("a file that is neither SQLite nor DuckDB (a gzipped one must be unpacked first)")


def _unusable(found: str) -> UnreadableSource:
    return UnreadableSource(
        "the database cannot be opened.",
        found=found,
        expected="a SQLite or DuckDB file, or dialect+driver://user@host/database with its driver installed",
        fix="try the same address with the database's own client",
        parameter="source",
    )
