"""Read a public table of item features: numbers, or classes separated by ``|``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from twofold.data.catalog import Catalog, check_ids
from twofold.data.columns import listing, plain_name, require_columns
from twofold.data.files import read_file
from twofold.errors import BadValue, DataError, DuplicateEntries, MissingColumn, Set, UnknownItems
from twofold.features import LARGEST_FEATURE, MOST_FEATURES, Features

__all__ = ["class_features", "read_features"]

SEPARATOR = "|"
#: Items times features; eight bytes each.
_MOST_CELLS = 32_000_000
#: Of any catalog; an error for fewer rows says how many items are unknown.
_ROWS_TO_LOOK_UP = 1_000_000
_COLUMNS = (
    "call the column of the item ids item, beside one column of classes (as Comedy|Drama) or columns of whole numbers"
)


def read_features(
    path: str | Path, catalog: Catalog, *, item: str = "item", classes: str | None = None, separator: str = ","
) -> Features:
    r"""Read public features of a catalog's items from a CSV (also .gz) or Parquet file.

    Parameters
    ----------
    path : str or Path
        One row per item, in any order: the id, and either columns of whole numbers, or one column of classes such as
        ``Comedy|Drama``.
    catalog : Catalog
        The public item list. Items the table does not name get zeros; ``described`` of the result counts the others.
    item : str
        Column with the ids.
    classes : str, optional
        Column with classes; the other columns are then left out. Needed only where there are several columns of text.
    separator : str
        Field separator of a CSV file.

    Raises
    ------
    UnknownItems, DuplicateEntries
        An item that the catalog does not have, or one that is there twice.
    BadValue
        A feature that is missing, or not a whole number.

    Privacy
    -------
    Public. Features that were computed from people's data do not belong here.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder, "films.csv")
    ...     _ = table.write_text("item,genres\n7,Drama\n4,Comedy|Drama\n")
    ...     genres = read_features(table, Catalog([4, 5, 7]))
    >>> genres.names, genres.matrix.tolist(), genres.described
    (('Comedy', 'Drama'), [[1, 1], [0, 0], [0, 1]], 2)
    """
    frame = read_file(Path(path), None, separator=separator, text=(item, *([classes] if classes else [])), public=True)
    wanted = [item] if classes is None else [item, classes]
    require_columns(frame.columns, wanted, _COLUMNS)
    rows = _rows(frame[item], catalog)
    facts = frame.drop(item) if classes is None else frame.select(classes)
    if facts.width == 0:
        raise MissingColumn(
            "the table has no features.",
            found=f"the column {item} only",
            expected="one column of classes (as Comedy|Drama), or columns of whole numbers",
            fix="add them beside the ids",
            parameter="classes",
        )
    texts = [name for name, kind in facts.schema.items() if not (kind.is_numeric() or kind == pl.Boolean)]
    if facts.width == 1 and (classes is not None or texts):
        return _of_classes(facts.to_series(), rows, len(catalog))
    if texts:
        raise BadValue(
            "a feature is not a number.",
            found=f"text in the {listing(texts)}",
            expected="whole numbers, or one column of classes separated by |",
            fix=(
                "leave one column of classes beside the ids",
                Set("classes", texts[-1] if plain_name(texts[-1]) else "COLUMN"),
            ),
            parameter="classes",
        )
    return _of_numbers(facts, rows, len(catalog))


def class_features(words: Iterable[Iterable[str]]) -> Features:
    """Give every class a column, in order of name: 1 where an item belongs to it.

    Examples
    --------
    >>> class_features([["b", "a"], []]).matrix.tolist()
    [[1, 1], [0, 0]]
    """
    own = [tuple({word.strip() for word in each if word.strip()}) for each in words]
    names = sorted(set().union(*own))
    if not 1 <= len(names) <= MOST_FEATURES:
        raise BadValue(
            "these are not classes of items.",
            found=f"{len(names):,} classes",
            expected=f"from 1 to {MOST_FEATURES}",
            parameter="classes",
        )
    _check_room(len(own), len(names))
    matrix = np.zeros((len(own), len(names)), dtype=np.int64)
    place = {name: at for at, name in enumerate(names)}
    for row, each in enumerate(own):
        matrix[row, [place[name] for name in each]] = 1
    return Features(matrix=matrix, names=tuple(names))


def _rows(ids: pl.Series, catalog: Catalog) -> npt.NDArray[np.int64]:
    """Position of every row's item in the catalog."""
    if len(ids) > 2 * len(catalog) + _ROWS_TO_LOOK_UP:  # by far too many to look each of them up
        raise UnknownItems(
            "the table has far more rows than the catalog has items.",
            found=f"{len(ids):,} rows",
            expected=f"at most one row for each of {len(catalog):,} items",
            fix="use the catalog that the table was made for",
            parameter="item",
        )
    check_ids(ids, "item")
    rows = catalog.items.encode(ids).astype(np.int64)
    if unknown := int((rows < 0).sum()):
        raise UnknownItems(
            "the table names items that the catalog does not have.",
            found=f"{unknown:,} of {len(rows):,} ids, of type {ids.dtype}",
            expected=f"ids of the catalog, of type {catalog.items.kind}",
            fix="remove those rows, or use the catalog that the table was made for",
            parameter="item",
        )
    if len(np.unique(rows)) != len(rows):
        raise DuplicateEntries(
            "an item has two rows of features.", expected="each item once", fix="remove one of them", parameter="item"
        )
    return rows


def _of_classes(column: pl.Series, rows: npt.NDArray[np.int64], n_items: int) -> Features:
    if column.dtype != pl.String:
        raise BadValue(
            "{parameter} must be text.",
            found=str(column.dtype),
            expected=f"names separated by {SEPARATOR}",
            parameter="classes",
        )
    words: list[Sequence[str]] = [()] * n_items
    for row, text in zip(rows.tolist(), column.to_list(), strict=True):
        words[row] = (text or "").split(SEPARATOR)
    return class_features(words)


def _of_numbers(facts: pl.DataFrame, rows: npt.NDArray[np.int64], n_items: int) -> Features:
    _check_room(n_items, facts.width)
    numbers = facts.cast(pl.Float64).to_numpy()
    sound = np.isfinite(numbers) & (numbers == np.rint(numbers)) & (np.abs(numbers) <= LARGEST_FEATURE)
    if not sound.all():
        at = int(np.argmin(sound.all(axis=0)))
        name = facts.columns[at] if plain_name(facts.columns[at]) else f"feature {at + 1}"
        raise BadValue(
            f"the feature {name!r} is not a whole number everywhere.",
            found="a missing number, a fraction, or one that is too large",
            expected=f"whole numbers from -{LARGEST_FEATURE:,} to {LARGEST_FEATURE:,} in every line",
            fix="fill gaps with 0, and multiply fractions (by 100, say) and round them",
            parameter=name,
        )
    matrix = np.zeros((n_items, facts.width), dtype=np.int64)
    matrix[rows] = numbers
    return Features(matrix=matrix, names=tuple(facts.columns))


def _check_room(n_items: int, width: int) -> None:
    """Refuse a table that would fill the memory, before it is made."""
    if width > MOST_FEATURES or n_items * width > _MOST_CELLS:
        raise DataError(
            "too many features.",
            found=f"{width:,} for {n_items:,} items",
            expected=f"at most {min(MOST_FEATURES, _MOST_CELLS // max(n_items, 1)):,}",
            parameter="path",
        )
