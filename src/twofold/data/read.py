"""Read any table as Ratings."""

from __future__ import annotations

import functools
import operator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from twofold.csr import keep_entries
from twofold.data.catalog import Catalog, Identifiers, check_ids, factorize
from twofold.data.files import text_in_values
from twofold.data.ratings import Feedback, Notes, Ratings, check_values
from twofold.data.tables import open_table
from twofold.errors import (
    BadIdentifier,
    BadValue,
    CatalogError,
    DataError,
    DuplicateEntries,
    Set,
    UnknownItems,
)

__all__ = ["SANE_RANGE", "DuplicateRule", "MissingRule", "Reading", "UnknownRule", "matched", "read_ratings"]

DuplicateRule = Literal["error", "sum", "mean", "last"]
UnknownRule = Literal["error", "drop"]
MissingRule = Literal["error", "drop"]
# Integers up to 2^24 are exact in float32, so no count within the default range is ever rounded.
SANE_RANGE: Final = 1e7
# Integers below it are exact in float64.
_EXACT: Final = 2**53


def read_ratings(
    source: Any,
    catalog: Catalog,
    *,
    user: str = "user",
    item: str = "item",
    value: str | None = "value",
    feedback: Feedback = "counts",
    duplicates: DuplicateRule = "error",
    unknown_items: UnknownRule = "error",
    missing: MissingRule = "error",
    value_range: tuple[float, float] | None = None,
    query: str | None = None,
    separator: str = ",",
    encoding: str = "utf-8",
    decimal: str = ".",
    dtype: npt.DTypeLike = np.float32,
) -> Ratings:
    """Read one entity's interactions, one row per (user, item).

    Privacy
    -------
    Nothing leaves. Errors name columns and rules, never a value or an id. A table without rows is one without users.
    Every row is matched with the catalog by itself: what one person's row holds changes no other row.

    Parameters
    ----------
    source : path, frame, relation or database
        A CSV, CSV.gz or Parquet file, or ``-`` for standard input; a pandas, polars or Arrow table; a DuckDB relation;
        or, with `query`, a SQLAlchemy engine, connection or URL, or an ADBC connection.
    catalog : Catalog
        The agreed item list.
    user, item, value : str
        Names of the columns. ``value=None`` makes every row count 1 (then ``duplicates="sum"`` counts visits).
    feedback : {"counts", "ratings"}
        Whether an absent entry is a zero of smaller weight, or unknown.
    duplicates : {"error", "sum", "mean", "last"}
        What to do with several rows for one user and item; "last" is by the order of the rows.
    unknown_items : {"error", "drop"}
        What to do with rows whose item is not in the catalog; ``ratings.notes`` has the number dropped.
    missing : {"error", "drop"}
        What to do with rows without a user, an item or a value; ``ratings.notes`` has the number dropped.
    value_range : (low, high), optional
        Public limits; a value outside is an error. By default within ten million of zero, counts not below zero.
    query : str, optional
        SQL to run on a database source.
    separator : str, default ","
        Field separator of a CSV file.
    encoding : str, default "utf-8"
        Encoding of a CSV file.
    decimal : {".", ","}
        Decimal mark of the values in a CSV file.
    dtype : dtype, default float32
        Type of the stored values.

    Returns
    -------
    Ratings
        Users sorted by id; the row order of the source does not matter, except for ``duplicates="last"``.

    Examples
    --------
    >>> catalog = Catalog(["creatinine", "heparin"])
    >>> visits = pl.DataFrame({"user": [7, 7, 2], "item": ["heparin", "creatinine", "heparin"], "value": [1, 3, 2]})
    >>> ratings = read_ratings(visits, catalog, feedback="counts")
    >>> ratings, ratings.of(7)
    (Ratings(2 users x 2 items, counts), {'creatinine': 3.0, 'heparin': 1.0})
    """
    reading = Reading(
        catalog=catalog,
        user=user,
        item=item,
        value=value,
        feedback=feedback,
        duplicates=duplicates,
        unknown_items=unknown_items,
        missing=missing,
        value_range=value_range,
        dtype=np.dtype(dtype),
    )
    table = open_table(
        source, ids=(user, item), value=value, query=query, separator=separator, encoding=encoding, decimal=decimal
    )
    return reading.ratings(table)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How rows become ratings: the catalog, the columns and the rules; see `read_ratings`."""

    catalog: Catalog
    user: str
    item: str
    value: str | None
    feedback: Feedback
    duplicates: DuplicateRule
    unknown_items: UnknownRule
    value_range: tuple[float, float] | None
    dtype: np.dtype[Any]
    missing: MissingRule = "error"

    def __post_init__(self) -> None:
        _check_rules(self.duplicates, self.unknown_items, self.missing)
        if not isinstance(self.catalog, Catalog):
            raise CatalogError(
                "read_ratings needs the agreed catalog.",
                found=f"a {type(self.catalog).__name__}",
                fix='read_ratings(table, Catalog.read("items.csv"))',
                parameter="catalog",
            )
        if len(set(self.columns)) < len(self.columns):
            raise DataError(
                "one column was named for two purposes.",
                found=", ".join(self.columns),
                expected="different columns",
                parameter="item",
            )

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read."""
        return [name for name in (self.user, self.item, self.value) if name is not None]

    def nobody(self) -> Ratings:
        """Ratings without users."""
        rows, ids = sparse.csr_array((0, len(self.catalog)), dtype=self.dtype), pl.Series([], dtype=pl.String)
        return Ratings(rows, Identifiers(ids), self.catalog, self.feedback, Notes(rows=0))

    def ratings(self, table: dict[str, pl.Series]) -> Ratings:
        """Turn the rows of whole users into ratings; the table is used up."""
        user, item, catalog = self.user, self.item, self.catalog
        n_rows = len(table[user])
        absent = _drop_missing(table) if self.missing == "drop" else 0
        left = n_rows - absent
        if left == 0:  # an entity without users is one like any other: a refusal would tell that it has none
            return replace(self.nobody(), notes=Notes(rows=n_rows, missing_dropped=absent))
        values = _values(table, self.value, left, self.feedback, self.value_range, self.dtype)
        with ThreadPoolExecutor(max_workers=2) as pool:  # polars and NumPy release the interpreter's lock
            items = pool.submit(_item_columns, table.pop(item), catalog, item, self.unknown_items)
            people = pool.submit(_user_rows, table.pop(user), user)
            columns, (rows, users) = items.result(), people.result()
        del items, people
        known = columns >= 0
        dropped = left - int(np.count_nonzero(known))
        if dropped:
            rows, columns, values = rows[known], columns[known], values[known]
        matrix = _sorted_rows(rows, columns, values, (len(users), len(catalog)))
        del rows, columns, values
        matrix, merged = _merge(matrix, self.duplicates)
        notes = Notes(rows=n_rows, duplicates_merged=merged, unknown_items_dropped=dropped, missing_dropped=absent)
        return Ratings(matrix, users, catalog, self.feedback, notes)


def _check_rules(duplicates: str, unknown_items: str, missing: str) -> None:
    if duplicates not in ("error", "sum", "mean", "last"):
        raise DataError("{parameter} is not a known rule.", expected="error, sum, mean or last", parameter="duplicates")
    if unknown_items not in ("error", "drop"):
        raise DataError("{parameter} is not a known rule.", expected="error or drop", parameter="unknown_items")
    if missing not in ("error", "drop"):
        raise DataError("{parameter} is not a known rule.", expected="error or drop", parameter="missing")


def _drop_missing(table: dict[str, pl.Series]) -> int:
    """Leave out every row in which a column is empty; give their number.

    Integers that pandas turned into fractions because one of them is missing become integers again: else one person's
    empty cell would change everybody's ids.
    """
    empty = functools.reduce(operator.or_, (_empty(column) for column in table.values()))
    if not empty.any():
        return 0
    for name, column in table.items():
        kept = column.filter(~empty)
        exact = kept.dtype.is_float() and bool(((kept == kept.floor()) & (kept.abs() < _EXACT)).all())
        table[name] = kept.cast(pl.Int64) if exact else kept
    return int(empty.sum())


def _empty(column: pl.Series) -> pl.Series:
    return column.fill_nan(None).is_null() if column.dtype.is_float() else column.is_null()


def _values(
    table: dict[str, pl.Series],
    name: str | None,
    n_rows: int,
    feedback: Feedback,
    value_range: tuple[float, float] | None,
    dtype: np.dtype[Any],
) -> npt.NDArray[Any]:
    if name is None:
        return np.ones(n_rows, dtype=dtype)
    column = table.pop(name)
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise text_in_values(name, column) if column.dtype in (pl.String, pl.Object) else _wrong_type(name, column)
    if _empty(column).any():
        raise BadValue(
            f"the value column {name!r} has rows without a value.",
            expected="a number in every row",
            fix=(Set("missing", "drop"), Set("value", None)),
            parameter="value",
        )
    if column.dtype.is_decimal() or column.dtype in (pl.Int128, pl.UInt128):  # NumPy has no such numbers
        column = column.cast(pl.Float64)
    numbers = column.to_numpy()
    check_values(numbers, feedback)
    _check_range(numbers, name, feedback, value_range)
    return numbers.astype(dtype, copy=False)


def _wrong_type(name: str, column: pl.Series) -> BadValue:
    kind = column.dtype.base_type().__name__
    return BadValue(
        f"the value column {name!r} is not a number.", found=f"type {kind}", expected="numbers", parameter="value"
    )


def _check_range(
    numbers: npt.NDArray[Any], name: str, feedback: Feedback, value_range: tuple[float, float] | None
) -> None:
    limits = value_range or (0.0 if feedback == "counts" else -SANE_RANGE, SANE_RANGE)
    low, high = limits if isinstance(limits, tuple) and len(limits) == 2 else (1.0, 0.0)
    if not low <= high:
        raise DataError("{parameter} is not a range.", expected="(low, high) with low <= high", parameter="value_range")
    if numbers.min() < low or numbers.max() > high:
        raise BadValue(
            f"the value column {name!r} has values outside its range.",
            expected=f"values from {low:g} to {high:g}",
            fix=("correct the values", Set("value_range", (low, high))),
            parameter="value_range",
        )


def _item_columns(column: pl.Series, catalog: Catalog, name: str, rule: UnknownRule) -> npt.NDArray[np.int32]:
    check_ids(column, name)
    codes = matched(column, catalog)
    if rule == "error" and codes.min() < 0:
        probe = Identifiers(column.head(1))
        if probe.kind != catalog.items.kind:
            raise BadIdentifier(
                f"the {name} column and the catalog hold ids of different types.",
                found=f"type {probe.kind}",
                expected=f"type {catalog.items.kind}, as in the catalog",
                fix=f"convert the {name} column, or the catalog",
                parameter=name,
            )
        raise UnknownItems(
            "the table names items that are not in the catalog.",
            expected=f"only the {len(catalog):,} items of catalog {catalog.hash[:12]}",
            fix=Set("unknown_items", "drop"),
            parameter="unknown_items",
        )
    return codes


def matched(column: pl.Series, catalog: Catalog) -> npt.NDArray[np.int32]:
    """Position of every row's item, by its text where one side has integers and the other text.

    Privacy
    -------
    The type of a CSV column depends on all its rows: one id that is no integer makes all of them text. Matched by type,
    one person's row could make everybody's items unknown, and ``unknown_items="drop"`` would then drop them.
    """
    if isinstance(column.dtype, pl.Enum):  # each name is looked up once
        return np.asarray(matched(column.dtype.categories, catalog)[column.to_physical().to_numpy()], dtype=np.int32)
    if column.dtype.is_integer() and catalog.items.kind == "text":
        return catalog.items.encode(column.cast(pl.String))
    if column.dtype == pl.String and catalog.items.kind == "integer":
        numbers = column.cast(pl.Int64, strict=False)
        plain = (numbers.cast(pl.String) == column).fill_null(value=False).to_numpy()
        return np.where(plain, catalog.items.encode(numbers.fill_null(0)), np.int32(-1))
    return catalog.items.encode(column)


def _user_rows(column: pl.Series, name: str) -> tuple[npt.NDArray[np.int32], Identifiers]:
    check_ids(column, name)
    codes, ids = factorize(column)
    return codes, Identifiers(ids)


def _sorted_rows(
    rows: npt.NDArray[np.int32],
    columns: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    shape: tuple[int, int],
) -> sparse.csr_array:
    """Sort by user, then item, keeping the order of duplicates: two counting sorts, linear in the rows."""
    by_item = sparse.coo_array((values, (columns, rows)), shape=(shape[1], shape[0]))
    by_item.has_canonical_format = True  # else SciPy would sum duplicates before our rule sees them
    return by_item.tocsr().T.tocsr()


def _merge(matrix: sparse.csr_array, rule: DuplicateRule) -> tuple[sparse.csr_array, int]:
    """Apply the rule for duplicates to rows that are sorted by column."""
    same = np.zeros(matrix.nnz, dtype=np.bool_)  # an entry that repeats the one before it
    same[1:] = matrix.indices[1:] == matrix.indices[:-1]
    starts = matrix.indptr[:-1]
    same[starts[starts < matrix.nnz]] = False
    merged = int(np.count_nonzero(same))
    if merged and rule == "error":
        raise DuplicateEntries(
            "the same user and item occur in more than one row.",
            expected="one row per user and item",
            fix=(Set("duplicates", "sum"), Set("duplicates", "mean"), Set("duplicates", "last")),
            parameter="duplicates",
        )
    if merged:
        matrix = _merge_groups(matrix, same, rule)
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    return matrix, merged


def _merge_groups(matrix: sparse.csr_array, same: npt.NDArray[np.bool_], rule: DuplicateRule) -> sparse.csr_array:
    firsts = np.flatnonzero(~same)
    sizes = np.diff(np.append(firsts, matrix.nnz))
    if rule == "last":
        data = matrix.data[firsts + sizes - 1]
    else:
        data = np.add.reduceat(matrix.data, firsts, dtype=np.float64)
        data = (data / sizes if rule == "mean" else data).astype(matrix.dtype)
    merged = np.zeros(matrix.nnz, dtype=matrix.dtype)
    merged[firsts] = data
    return keep_entries(matrix, ~same, merged)
