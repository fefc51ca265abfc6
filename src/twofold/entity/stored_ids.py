"""Ids as arrays and back: every id comes back as it went in, of the same type."""

from __future__ import annotations

import datetime
import uuid
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twofold.data.identifiers import Identifiers
from twofold.errors import BadIdentifier, BadModel, TwofoldError

__all__ = ["StoredIds", "restore_ids", "store_ids"]

_INTEGERS: Final = {str(kind): kind for kind in (pl.Int8, pl.Int16, pl.Int32, pl.Int64)}
_UNSIGNED: Final = {str(kind): kind for kind in (pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)}
_KINDS: Final = ("integer", "text", "bytes", "date", "uuid")


class StoredIds(NamedTuple):
    """What kind of ids, and the arrays that hold them."""

    kind: str
    arrays: dict[str, NDArray[Any]]


def store_ids(ids: Identifiers, what: str) -> StoredIds:
    """Turn integers, text, bytes, dates or UUIDs into arrays of whole numbers.

    Parameters
    ----------
    ids : Identifiers
        Of one type.
    what : str
        What they are ids of, for the error.

    Raises
    ------
    BadIdentifier
        Ids of another type, which no other process would know how to read.

    Examples
    --------
    >>> store_ids(Identifiers([3, 5]), "user")
    StoredIds(kind='integer Int64', arrays={'numbers': array([3, 5])})
    >>> restore_ids(store_ids(Identifiers(["a", "bé"]), "user"))[1]
    'bé'
    """
    series = ids.to_polars()
    name = str(series.dtype)
    if name in _INTEGERS or name in _UNSIGNED:
        wide = series.to_numpy().astype(np.int64 if name in _INTEGERS else np.uint64)
        return StoredIds(f"integer {name}", {"numbers": wide.view(np.int64)})
    values = list(ids)
    kind = type(values[0]) if values else str
    if kind is datetime.date:
        return StoredIds("date", {"numbers": np.array([one.toordinal() for one in values], np.int64)})
    if kind is uuid.UUID:
        return StoredIds("uuid", _joined([one.bytes for one in values]))
    if kind is bytes:
        return StoredIds("bytes", _joined(values))
    if kind is str:
        return StoredIds("text", _joined([one.encode() for one in values]))
    raise BadIdentifier(
        f"a model file cannot hold {what} ids of this type.",
        found=f"ids of type {ids.kind}",
        expected=", ".join(_KINDS),
        fix=f"read the data with {what} ids as text",
    )


def restore_ids(stored: StoredIds) -> Identifiers:
    """Make the ids again; anything unsound is BadModel.

    Examples
    --------
    >>> restore_ids(StoredIds("integer UInt8", {"numbers": np.array([7])})).to_polars().dtype
    UInt8
    """
    try:
        return Identifiers(_series(stored))
    except BadModel:
        raise
    except (TwofoldError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise BadModel("the ids of the model are not sound.", expected="every id once, of one type") from None


def _series(stored: StoredIds) -> Any:
    word, _, name = stored.kind.partition(" ")
    if word == "integer" and name in _INTEGERS:
        return pl.Series(_numbers(stored)).cast(_INTEGERS[name])
    if word == "integer" and name in _UNSIGNED:
        return pl.Series(_numbers(stored).view(np.uint64)).cast(_UNSIGNED[name])
    if stored.kind == "date":
        return pl.Series([datetime.date.fromordinal(one) for one in _numbers(stored).tolist()], dtype=pl.Date)
    if stored.kind == "uuid":
        return [uuid.UUID(bytes=one) for one in _parts(stored)]
    if stored.kind == "bytes":
        return pl.Series(_parts(stored), dtype=pl.Binary)
    if stored.kind == "text":
        return pl.Series([one.decode() for one in _parts(stored)], dtype=pl.String)
    raise BadModel("the model holds ids of a kind we do not know.", expected=", ".join(_KINDS), fix="update twofold")


def _joined(parts: list[bytes]) -> dict[str, NDArray[Any]]:
    """All bytes one after another, filled up to whole 64-bit words, and where each part ends."""
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    whole = b"".join(parts)
    words = np.frombuffer(whole + bytes(-len(whole) % 8), dtype="<i8")
    return {"words": words, "ends": ends}


def _numbers(stored: StoredIds) -> NDArray[np.int64]:
    if set(stored.arrays) != {"numbers"} or stored.arrays["numbers"].ndim != 1:
        raise BadModel("the ids of the model are not complete.", expected="one number per id")
    return stored.arrays["numbers"].astype(np.int64, copy=False)


def _parts(stored: StoredIds) -> list[bytes]:
    if set(stored.arrays) != {"words", "ends"} or any(part.ndim != 1 for part in stored.arrays.values()):
        raise BadModel("the ids of the model are not complete.", expected="words and ends")
    whole = np.ascontiguousarray(stored.arrays["words"], dtype="<i8").tobytes()
    ends = stored.arrays["ends"]
    starts = np.concatenate([[0], ends])
    if (np.diff(starts) < 0).any() or -(-int(starts[-1]) // 8) * 8 != len(whole):
        raise BadModel("the ids of the model are not sound.", expected="ends that rise to the last byte")
    edges = starts.tolist()
    return [whole[first:last] for first, last in pairwise(edges)]
