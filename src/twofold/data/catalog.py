"""Catalog: the public, ordered list of items that all sides agree on."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Final

import polars as pl

from twofold.data.files import read_file, require_columns, write_file
from twofold.data.identifiers import Identifiers
from twofold.errors import BadIdentifier, CatalogError, Set

__all__ = ["Catalog", "same_catalog"]


class Catalog:
    """The public item list of a federation: ids, their columns, and a hash both sides compare.

    A catalog is written down before anyone looks at data. There is no way to make one from ratings, to merge two, or
    to add the items an entity happens to have: the union of private item lists would itself be a release.

    Paper
    -----
    The columns of X, which the paper takes for granted.

    Privacy
    -------
    Public. Its order fixes the columns of everything that is released.

    Parameters
    ----------
    items : iterable or polars.Series
        Item ids of one type, each once, in the agreed order.
    features : polars.DataFrame, optional
        Public facts about the items (titles, classes), one row per item, in the same order.

    Examples
    --------
    >>> catalog = Catalog(["creatinine", "heparin", "lactate"])
    >>> catalog
    Catalog(3 items, e59050cf85cc)
    >>> catalog.column("heparin"), catalog.items[2]
    (1, 'lactate')
    """

    __slots__ = ("_features", "_hash", "_items")

    def __init__(self, items: Iterable[Hashable] | pl.Series, features: pl.DataFrame | None = None) -> None:
        if isinstance(items, (str, bytes)) or hasattr(items, "columns"):
            raise CatalogError(
                "a catalog needs a list of item ids.",
                found=f"a {type(items).__name__}",
                fix='Catalog(["a", "b"]), Catalog(table["item"]) or Catalog.read("items.csv")',
                parameter="items",
            )
        self._items: Final = _unique_items(items)
        if features is not None and features.height != len(self._items):
            raise CatalogError(
                "the features do not fit the items.",
                found=f"{features.height:,} rows of features",
                expected=f"{len(self._items):,}, one per item, in the same order",
                parameter="features",
            )
        self._features: Final = features
        self._hash: Final = self._items.digest()

    @property
    def items(self) -> Identifiers:
        """Item ids in column order."""
        return self._items

    @property
    def features(self) -> pl.DataFrame | None:
        """Public facts about the items, one row per item, or None."""
        return self._features

    @property
    def hash(self) -> str:
        """SHA-256 of the ordered ids by their text; equal for equal lists however they were stored."""
        return self._hash

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalog) and self._hash == other._hash

    def __hash__(self) -> int:
        return hash(self._hash)

    def __repr__(self) -> str:
        return f"Catalog({len(self):,} items, {self._hash[:12]})"

    def column(self, item: object) -> int:
        """Column of an item id; CatalogError if the catalog does not have it."""
        found = self._items.get(item)
        if found is None:
            raise CatalogError(
                "the catalog has no such item.",
                found=f"an id of type {type(item).__name__}",
                expected=f"one of its {len(self):,} ids of type {self._items.kind}",
                parameter="item",
            )
        return found

    @classmethod
    def read(cls, path: str | Path, *, item: str | None = None, separator: str = ",") -> Catalog:
        """Read a catalog from a CSV (also .gz) or Parquet file, one row per item, in the agreed order.

        Parameters
        ----------
        path : str or Path
            The file.
        item : str, optional
            Column with the ids; by default the column called "item". The others become features.
        separator : str, default ","
            Field separator of a CSV file.
        """
        if not isinstance(path, (str, Path)):
            raise CatalogError(
                "not a path.", found=f"a {type(path).__name__}", fix='Catalog.read("items.csv")', parameter="path"
            )
        frame = read_file(Path(path), None, separator=separator, text=(item or "item",))
        name = item or "item"
        require_columns(frame.columns, [name], Set("item", "COLUMN"))
        rest = frame.drop(name)
        return cls(frame[name].alias("item"), rest if rest.width else None)

    def write(self, path: str | Path) -> None:
        """Write to CSV or Parquet by the ending of the name, whole or not at all."""
        ids = self._items.to_polars()
        if ids.dtype == pl.Object:
            ids = pl.Series(self._items.texts())
        frame = ids.alias("item").to_frame()
        write_file(frame if self._features is None else frame.hstack(self._features), Path(path))


def _unique_items(items: Iterable[Hashable] | pl.Series) -> Identifiers:
    try:
        ids = Identifiers(items)
    except TypeError:
        raise CatalogError(
            "not a catalog: its ids cannot be compared.", expected="one plain id per item", parameter="items"
        ) from None
    except BadIdentifier as error:
        raise CatalogError(
            f"not a catalog: {error.summary}",
            found=error.found,
            expected="a public list that names every item once, agreed before anyone looks at data",
            fix="give the agreed list; the item column of a table of ratings is not one",
            parameter="items",
        ) from None
    if len(ids) == 0:
        raise CatalogError("a catalog needs at least one item.", found="an empty list", parameter="items")
    return ids


def same_catalog(one: Catalog, other: Catalog) -> None:
    """Refuse two different catalogs, naming both by size and hash."""
    if one != other:
        raise CatalogError(
            "these belong to different item lists.",
            found=repr(other),
            expected=repr(one),
            fix="read both with the same catalog file",
            parameter="catalog",
        )
