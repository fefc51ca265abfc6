"""The catalog, the public ordered list of items that all sides agree on, and `Identifiers`, ordered unique ids.

Ids come in as people hold them (integers, text, dates, bytes, UUIDs, tuples) and go out the same. Inside, everything
is a position. Two columns of ids of different types never match silently: ``1`` is not ``"1"``.

Finding positions is the hot part of reading: integers in a narrow range go through a table of positions, everything
else through a hash join, both linear in the number of rows. Columns polars has no type for fall back to a dictionary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from twofold.data.columns import require_columns
from twofold.data.files import read_file, write_file
from twofold.errors import BadIdentifier, CatalogError, Set, UnknownUser
from twofold.html import block, facts_of

__all__ = [
    "Catalog",
    "Identifiers",
    "check_ids",
    "factorize",
    "id_column",
    "kind_of",
    "lookup",
    "same_catalog",
    "type_word",
]

Codes = npt.NDArray[np.int32]
NESTED: Final = (pl.List, pl.Array, pl.Struct)
#: Columns of an item list that may hold the items' titles; the first one that is there counts.
TITLES: Final = ("title", "name", "label", "description")
#: Cells per row a table of positions may have before hashing is the better use of memory.
TABLE_SLACK: Final = 8
#: Ids whose texts are held at once.
_BLOCK: Final = 100_000


class Identifiers(Sequence[Any]):
    """An immutable, ordered list of unique ids with fast positions.

    Parameters
    ----------
    values : iterable or polars.Series
        The ids, all of one type, none missing, none repeated.

    Examples
    --------
    >>> ids = Identifiers(["heparin", "creatinine"])
    >>> ids.position("creatinine"), ids[0], len(ids)
    (1, 'heparin', 2)
    >>> ids
    Identifiers(2 of type text)
    """

    __slots__ = ("_kind", "_places", "_series")

    def __init__(self, values: Iterable[Hashable] | pl.Series) -> None:
        series = values if isinstance(values, pl.Series) else id_column(list(values))
        check_ids(series, "id")
        if _has_duplicates(series):
            raise BadIdentifier("an id occurs twice.", expected="every id once", parameter="ids")
        self._series: Final = series
        self._kind: Final = kind_of(series)  # here, since types of polars are slow to compare
        self._places: tuple[type, dict[Hashable, int]] | None = None

    @property
    def kind(self) -> str:
        """The type of the ids in one word, such as 'integer' or 'text'."""
        return self._kind

    def __len__(self) -> int:
        return len(self._series)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._series.to_list())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._series[index].to_list()
        if index < 0:  # the padding of a short list of recommendations is -1, which is nobody's position
            raise IndexError("positions are 0 or more; -1 marks an empty place")
        return self._series[int(index)]

    def __contains__(self, value: object) -> bool:
        return self.get(value) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identifiers) and self.kind == other.kind and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        return f"Identifiers({len(self):,} of type {self.kind})"

    def get(self, value: object) -> int | None:
        """Position of one id, or None; an id of another type is never found."""
        kind, places = self._places or self._looked_up()
        found = type(value)
        if found is not kind and isinstance(value, np.generic):
            found = type(value.item())  # integers of any width are one type
        return places.get(value) if found is kind else None

    def _looked_up(self) -> tuple[type, dict[Hashable, int]]:
        """The type of all ids and the position of each, made when first asked for."""
        self._places = (type(self[0]) if len(self) else type(None), {key: at for at, key in enumerate(self)})
        return self._places

    def position(self, value: object) -> int:
        """Position of one id; raises UnknownUser, a KeyError, if the id is unknown."""
        found = self.get(value)
        if found is None:
            raise UnknownUser(
                "no such id.",
                found=f"an id of type {type_word(value)}",
                expected=f"a known id of type {self.kind}",
                parameter="id",
            )
        return found

    def take(self, positions: npt.ArrayLike) -> Identifiers:
        """The ids at these positions, in this order."""
        chosen = np.asarray(positions, dtype=np.int64)
        if self._series.dtype == pl.Object:
            return Identifiers([self[int(at)] for at in chosen])
        return Identifiers(self._series.gather(pl.Series(chosen)))

    def encode(self, column: pl.Series) -> Codes:
        """Position of every entry of a column, -1 where the id is not known."""
        return lookup(column, self._series)

    def to_polars(self) -> pl.Series:
        """The ids as a polars Series (type Object where polars has no type for them)."""
        return self._series

    def digest(self) -> str:
        """SHA-256 over the ordered ids by their text, so that storage types do not matter."""
        state = hashlib.sha256(b"twofold ids 1\n")
        for start in range(0, len(self), _BLOCK):  # texts of ten million ids at once would fill the memory
            for text in _texts(self._series[start : start + _BLOCK]):
                raw = text.encode()
                state.update(len(raw).to_bytes(8, "big") + raw)
        return state.hexdigest()

    def texts(self) -> list[str]:
        """Every id as text, the form in which a CSV file holds it."""
        return _texts(self._series)


def _texts(column: pl.Series) -> list[str]:
    if column.dtype.is_integer() or column.dtype == pl.String:
        return column.cast(pl.String).to_list()
    return [value.hex() if isinstance(value, bytes) else str(value) for value in column.to_list()]


def id_column(values: list[Any], name: str = "id") -> pl.Series:
    """Turn Python values into a column without changing one; mixed types are refused.

    >>> id_column([3, 1]).dtype
    Int64
    """
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    types = {type(value) for value in values if value is not None}
    if len(types) > 1:
        raise BadIdentifier(
            f"the {name} column mixes types.",
            found=", ".join(sorted(kind.__name__ for kind in types)),
            expected="ids of one type",
            fix=f"convert the {name} column to text or to integers before reading it",
            parameter=name,
        )
    plain = not types or next(iter(types)) in (int, str, bytes, float, bool)
    try:
        return pl.Series(values, strict=True) if plain else pl.Series(values, dtype=pl.Object)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):  # integers beyond 64 bits
        return pl.Series(values, dtype=pl.Object)


def check_ids(column: pl.Series, name: str) -> None:
    """Refuse nulls, NaN and nested types in a column of ids."""
    if isinstance(column.dtype, NESTED):
        raise BadIdentifier(
            f"the {name} column cannot be used as ids.",
            found=f"type {column.dtype.base_type().__name__}",
            expected="one plain id per row (integers, text, dates, ...)",
            parameter=name,
        )
    missing = column.null_count()
    if column.dtype.is_float() and not missing:
        missing = int(column.is_nan().sum())
    if missing:
        raise BadIdentifier(
            f"the {name} column has rows without an id.",
            found="null or NaN",
            expected=f"an id in every row of the {name} column",
            fix=("correct the join that made them", Set("missing", "drop")),
            parameter=name,
        )


def _has_duplicates(series: pl.Series) -> bool:
    if series.dtype == pl.Object:
        return len(set(series.to_list())) < len(series)
    return series.n_unique() < len(series)


def kind_of(column: pl.Series) -> str:
    """The type of a column of ids in one word.

    >>> kind_of(pl.Series(["a"])), kind_of(pl.Series([1], dtype=pl.UInt8))
    ('text', 'integer')
    """
    dtype = column.dtype
    if dtype.is_integer():
        return "integer"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    if dtype == pl.Object:
        return type(column[0]).__name__ if len(column) else "object"
    return str(dtype.base_type().__name__).lower()


def type_word(value: object) -> str:
    """The type of one id in the word that `kind_of` has for a column.

    >>> type_word("17"), type_word(17)
    ('text', 'integer')
    """
    name = type(value.item() if isinstance(value, np.generic) else value).__name__
    return {"str": "text", "int": "integer", "float": "float64", "bool": "boolean", "bytes": "binary"}.get(name, name)


def factorize(column: pl.Series) -> tuple[Codes, pl.Series]:
    """Sorted unique ids of a column and the position of every row among them.

    Sorted, not by appearance, so that the same table in another row order gives the same result.

    >>> codes, ids = factorize(pl.Series(["b", "a", "b"]))
    >>> codes.tolist(), ids.to_list()
    ([1, 0, 1], ['a', 'b'])
    """
    if column.dtype == pl.Object:
        ids = pl.Series(list(dict.fromkeys(column.to_list())), dtype=pl.Object)
        return lookup(column, ids), ids
    if column.dtype.is_integer() and (window := _window(column, len(column))) is not None:
        return _factorize_in_window(column, *window)
    ids = column.unique().sort()
    return lookup(column, ids), ids


def lookup(column: pl.Series, ids: pl.Series) -> Codes:
    """Position of every row's id in `ids`; -1 where it is not there, also when the types differ.

    >>> lookup(pl.Series([7, 5, 6]), pl.Series([5, 7])).tolist()
    [1, 0, -1]
    """
    if len(column) == 0 or len(ids) == 0 or kind_of(column) != kind_of(ids):
        return np.full(len(column), -1, dtype=np.int32)
    if column.dtype == pl.Object:
        places = {value: at for at, value in enumerate(ids.to_list())}
        return np.fromiter((places.get(v, -1) for v in column.to_list()), np.int32, len(column))
    if column.dtype.is_integer() and (window := _window(ids, len(column) + len(ids))) is not None:
        return _lookup_in_window(column, ids, *window)
    return _hash_join(column, ids)


def _window(column: pl.Series, cells: int) -> tuple[int, int] | None:
    """Smallest and largest integer when a table between them is affordable."""
    low, high = column.min(), column.max()
    if not isinstance(low, int) or not isinstance(high, int):
        return None
    return (low, high) if high - low < TABLE_SLACK * cells and high < 2**62 and low > -(2**62) else None


def _factorize_in_window(column: pl.Series, low: int, high: int) -> tuple[Codes, pl.Series]:
    offsets = _offsets(column, low)
    present = np.zeros(high - low + 1, dtype=np.bool_)
    present[offsets] = True
    places = np.cumsum(present, dtype=np.int32) - np.int32(1)
    ids = pl.Series(np.flatnonzero(present) + low).cast(column.dtype)
    return places[offsets], ids


def _lookup_in_window(column: pl.Series, ids: pl.Series, low: int, high: int) -> Codes:
    places = np.full(high - low + 2, -1, dtype=np.int32)  # the last cell catches everything outside
    places[_offsets(ids, low)] = np.arange(len(ids), dtype=np.int32)
    smallest, largest = column.min(), column.max()
    if isinstance(smallest, int) and isinstance(largest, int) and smallest >= low and largest <= high:
        return np.asarray(places[_offsets(column, low)])
    inside = column.is_between(low, high).to_numpy()
    offsets = np.full(len(column), high - low + 1, dtype=np.int64)
    offsets[inside] = column.filter(pl.Series(inside)).cast(pl.Int64).to_numpy() - low
    return places[offsets]


def _offsets(column: pl.Series, low: int) -> npt.NDArray[np.integer]:
    if low == 0 and column.dtype not in (pl.Int128, pl.UInt128):  # NumPy has no such integers
        return np.asarray(column.to_numpy())
    return np.asarray(column.cast(pl.Int64).to_numpy() - low)


def _hash_join(column: pl.Series, ids: pl.Series) -> Codes:
    if kind_of(ids) == "text":
        column, ids = column.cast(pl.String), ids.cast(pl.String)
    dtype = ids.dtype if column.dtype == ids.dtype else _common_integer(column.dtype, ids.dtype)
    right = ids.alias("id").cast(dtype).to_frame().with_row_index("at")
    left = column.alias("id").cast(dtype).to_frame()
    joined = left.join(right, on="id", how="left", maintain_order="left")
    return np.asarray(joined["at"].cast(pl.Int32).fill_null(-1).to_numpy(), dtype=np.int32)


def _common_integer(one: pl.DataType, other: pl.DataType) -> type[pl.DataType] | pl.DataType:
    """Widen integers to 128 bits, since widths may differ between a catalog and a table."""
    return pl.Int128 if one.is_integer() and other.is_integer() else other


class Catalog:
    """The public item list of a federation: ids, their columns, and a hash that both sides compare.

    A catalog is fixed before anyone looks at data. There is no way to make one from ratings, to merge two, or
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
                "the features do not match the items.",
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
    def titles(self) -> pl.Series | None:
        """What people call the items: the features' column title, name, label or description, the first there is.

        Examples
        --------
        >>> Catalog(["a", "b"], pl.DataFrame({"name": ["Aspirin", "Bilirubin"]})).titles.to_list()
        ['Aspirin', 'Bilirubin']
        """
        features = self._features
        column = None if features is None else next((name for name in TITLES if name in features.columns), None)
        return None if features is None or column is None else features[column].cast(pl.String)

    @property
    def hash(self) -> str:
        """SHA-256 of the text of the ordered ids; equal for equal lists, however they are stored."""
        return self._hash

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalog) and self._hash == other._hash

    def __hash__(self) -> int:
        return hash(self._hash)

    def __repr__(self) -> str:
        return f"Catalog({len(self):,} items, {self._hash[:12]})"

    def _repr_html_(self) -> str:
        features = [] if self._features is None else self._features.columns
        shown = ", ".join(features[:10]) + (f" and {len(features) - 10:,} more" if len(features) > 10 else "")
        facts = {"items": f"{len(self):,} of type {self._items.kind}", "features": shown or "none"}
        return block("Catalog", [], facts_of(facts | {"hash": self._hash[:12], "keep": "public: the same for all"}))

    def column(self, item: object) -> int:
        """Column of an item id; raises CatalogError if the catalog does not have it."""
        found = self._items.get(item)
        if found is None:
            raise CatalogError(
                "the catalog does not have this item.",
                found=f"an id of type {type_word(item)}",
                expected=f"one of its {len(self):,} ids of type {self._items.kind}",
                parameter="item",
            )
        return found

    @classmethod
    def read(
        cls, path: str | Path, *, item: str | None = None, separator: str = ",", encoding: str = "utf-8"
    ) -> Catalog:
        """Read a catalog from a CSV (also .gz) or Parquet file, one row per item, in the agreed order.

        Parameters
        ----------
        path : str or Path
            The file.
        item : str, optional
            Column with the ids; by default the column called "item". The others become features.
        separator : str, default ","
            Field separator of a CSV file; semicolon, tab and bar are found by themselves.
        encoding : str, default "utf-8"
            Encoding of a CSV file that is not UTF-8.
        """
        if not isinstance(path, (str, Path)):
            raise CatalogError(
                "not a path.", found=f"a {type(path).__name__}", fix='Catalog.read("items.csv")', parameter="path"
            )
        given = {"separator": separator, "encoding": encoding}
        frame = read_file(Path(path), None, text=(item or "item",), public=True, **given)
        name = item or "item"
        require_columns(frame.columns, [name], Set("item", "COLUMN"))
        rest = frame.drop(name)
        return cls(frame[name].alias("item"), rest if rest.width else None)

    def write(self, path: str | Path) -> None:
        """Write to CSV or Parquet, by the ending of the name, completely or not at all."""
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
    """Refuse two different catalogs; the error gives size and hash of both."""
    if one != other:
        raise CatalogError(
            "these objects belong to different item lists.",
            found=repr(other),
            expected=repr(one),
            fix="read both with the same catalog file",
            parameter="catalog",
        )
