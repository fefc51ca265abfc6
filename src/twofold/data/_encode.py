"""From columns of ids to positions: the hot part of reading.

Integers in a narrow range go through a table of positions, everything else through a hash join; both are linear in
the number of rows. Columns polars has no type for fall back to a dictionary.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["NESTED", "factorize", "kind_of", "lookup"]

Codes = npt.NDArray[np.int32]
NESTED: Final = (pl.List, pl.Array, pl.Struct)
TABLE_SLACK: Final = (
    8  # a table of positions may hold this many cells per row before hashing is the better use of memory
)


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
    """Widths may differ between a catalog and a table; 128 bits hold them all."""
    return pl.Int128 if one.is_integer() and other.is_integer() else other
