"""Read every kind of table: files, frames of any library, DuckDB relations, SQL queries.

Frames go through narwhals, so pandas, polars, Arrow and DuckDB share one path; files and queries become polars frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from twofold.data.catalog import id_column
from twofold.data.columns import require_columns
from twofold.data.files import read_file, text_in_values
from twofold.errors import DataError, MissingExtra, Set, TwofoldError, UnreadableSource, install

__all__ = ["engine_of", "needs_extra", "open_table"]


def open_table(
    source: Any,
    *,
    ids: Sequence[str],
    value: str | None,
    query: str | None = None,
    separator: str = ",",
    encoding: str = "utf-8",
    decimal: str = ".",
) -> dict[str, pl.Series]:
    """Bring the named columns of any source into polars, ids untouched.

    Parameters
    ----------
    source : path, frame, relation, connection or database URL
        Where the rows are.
    ids : sequence of str
        Columns of ids.
    value : str or None
        Column of values.
    query : str, optional
        SQL, needed for a database.
    separator, encoding, decimal : str
        Field separator, encoding and decimal mark of a CSV file.
    """
    columns = [*ids, *([] if value is None else [value])]
    if query is not None or _is_url(source):
        return _columns(_query(source, query), columns, value)
    if isinstance(source, (str, Path)):
        numbers = [] if value is None else [value]
        frame = read_file(
            Path(source),
            columns,
            separator=separator,
            text=ids,
            numbers=numbers,
            encoding=encoding,
            decimal=decimal,
        )
        return {name: frame[name] for name in columns}
    return _columns(source, columns, value)


def _is_url(source: Any) -> bool:
    return isinstance(source, str) and "://" in source


def _columns(native: Any, columns: Sequence[str], value: str | None) -> dict[str, pl.Series]:
    try:
        frame = nw.from_native(native)
        if isinstance(frame, nw.LazyFrame):
            require_columns(frame.collect_schema().names(), columns)
            frame = frame.select(*dict.fromkeys(columns)).collect("polars")
        require_columns(frame.columns, columns)
        return {name: _to_polars(frame[name], is_value=name == value) for name in columns}
    except TypeError:
        raise UnreadableSource(
            "the source is of an unknown kind.",
            found=f"a {type(native).__name__}",
            expected="a path, a pandas, polars or Arrow table, a DuckDB relation, or a database with query=",
            fix="Ratings.from_matrix(matrix, catalog=catalog), or fit_alone(matrix)"
            if hasattr(native, "tocsr") or hasattr(native, "__array__")
            else "make a table of it: polars.DataFrame({'user': [...], 'item': [...], 'value': [...]})",
            parameter="source",
        ) from None
    except ImportError:
        library = type(native).__module__.partition(".")[0]
        extra = {"pandas": "pandas", "duckdb": "duckdb", "pyarrow": "arrow"}.get(library, "all")
        raise needs_extra(extra, "reading this kind of table") from None
    except (nw.exceptions.NarwhalsError, pl.exceptions.PolarsError) as error:
        raise UnreadableSource(
            "the table cannot be used.",
            found=f"{type(error).__name__}",
            expected="a table whose columns have different names and plain types",
            parameter="source",
        ) from None


def _to_polars(column: nw.Series[Any], *, is_value: bool) -> pl.Series:
    """Take ids that pandas keeps as objects one by one: a conversion could change or refuse them."""
    if column.dtype != nw.Object:
        return column.to_polars()
    if is_value and len(column):
        raise text_in_values(column.name)
    native = [None if _is_missing(value) else value for value in column.to_list()]
    return id_column(native, column.name)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))


def _query(source: Any, query: str | None) -> pl.DataFrame:
    if query is None:
        raise DataError(
            "a database needs a query.", fix=Set("query", "SELECT user, item, value FROM t"), parameter="query"
        )
    connection = engine_of(source) if _is_url(source) else source
    try:
        return pl.read_database(query, connection)
    except TwofoldError:
        raise
    except ModuleNotFoundError:
        raise needs_extra("sql", "reading from this database") from None
    except Exception as error:
        # The driver's own text may quote rows or the password of a URL, so only its type is shown.
        raise UnreadableSource(
            "the database did not answer the query.",
            found=type(error).__name__,
            expected="a SQLAlchemy engine or URL, or an ADBC connection, and a query it can run",
            fix="run the query with the database's own client first",
            parameter="query",
        ) from None
    finally:
        if connection is not source:
            connection.dispose()


def engine_of(url: str) -> Any:
    """Make a SQLAlchemy engine of a URL; an error shows neither the URL nor the driver's text."""
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///").split("?")[0]).is_file():
        raise UnreadableSource(
            "the SQLite file does not exist.", fix="check the path; SQLite would create a new file", parameter="source"
        )
    try:
        import sqlalchemy
    except ModuleNotFoundError:
        raise needs_extra("sql", "a database URL") from None
    try:
        return sqlalchemy.create_engine(url)
    except Exception as error:
        raise UnreadableSource(
            "this database URL cannot be used.",
            found=type(error).__name__,
            expected="dialect+driver://user@host/database, and its driver installed",
            parameter="source",
        ) from None


def needs_extra(extra: str, what: str) -> MissingExtra:
    """The error for an optional package that is not installed."""
    return MissingExtra(f"{what} needs an optional package.", fix=install(extra), parameter=extra)
