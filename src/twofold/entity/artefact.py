"""A model as one file: safetensors with one record of canonical JSON, a checksum over every byte, no pickle.

The record is ``{"checksum": ..., "content": {...}, "schema": "twofold.model/1"}``. The checksum is the SHA-256 of the
whole file with 64 zeros in its own place, so that any flipped byte is noticed, in the header too. Within a schema a
later version may add fields to the content; an earlier one ignores them. Arrays and the scorer's settings are exact.

Every id comes back as it went in, of the same type. Histories are looked through before SciPy may trust them. A model
without a plan (`fit_alone`) has no plan in the record, and the range and meaning of its values instead.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import os
import uuid
from collections.abc import Mapping
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

import twofold
from twofold.csr import csr_rows
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Feedback, Ratings
from twofold.entity.model import Model
from twofold.entity.models.blend import Scorer
from twofold.entity.models.confidence import ConfidenceScorer
from twofold.entity.models.factors import FactorScorer
from twofold.entity.models.ials import IalsScorer
from twofold.entity.models.item_item import ItemItemScorer
from twofold.entity.models.patterns import PatternScorer
from twofold.entity.models.sparse_items import SparseItemScorer
from twofold.entity.models.stack import StackScorer
from twofold.errors import BadIdentifier, BadMessage, BadModel, TransportError, TwofoldError
from twofold.federation.factors import MOST_RANK
from twofold.federation.plan import Plan
from twofold.storage.container import (
    LARGEST_HEADER,
    Container,
    canonical_json,
    finite,
    is_sealed,
    open_container,
    pack_sealed,
    printable,
    unpack,
)
from twofold.storage.files import open_plain, write_whole

__all__ = [
    "SCHEMA",
    "StoredIds",
    "decode_model",
    "encode_model",
    "history_arrays",
    "load_model",
    "rebuilt",
    "restore_history",
    "restore_ids",
    "save_model",
    "store_ids",
]

#: A new number means that an older program must not read it.
SCHEMA: Final = "twofold.model/1"
SCORERS: Final[Mapping[str, type[Scorer]]] = {
    "factors": FactorScorer,
    "item-item": ItemItemScorer,
    "patterns": PatternScorer,
    "features": PatternScorer,
    "ials": IalsScorer,
    "confidence": ConfidenceScorer,
    "sparse-item-item": SparseItemScorer,
    "stack": StackScorer,
    "popularity": StackScorer,
}
#: Arrays whose width is a rank.
_WIDE: Final = ("factors", "loadings", "inner_factors")
GROUPS: Final = ("scorer", "users", "items", "history")
_INTEGERS: Final = {str(kind): kind for kind in (pl.Int8, pl.Int16, pl.Int32, pl.Int64)}
_UNSIGNED: Final = {str(kind): kind for kind in (pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)}
_KINDS: Final = ("integer", "text", "bytes", "date", "uuid")
_NOT_FINITE: Final = ("inf", "-inf", "nan")  # figures that JSON has no number for
#: Figures of the validation that are always numbers.
_NUMBERS: Final = ("loss", "error", "strength")
_MOST_LINES: Final = 1_000
_FIX: Final = "copy the file again, or make it again: twofold personalize ... -o FILE"


def save_model(model: Model, path: str | PathLike[str]) -> Path:
    """Write a model, completely or not at all, readable by its owner only.

    Parameters
    ----------
    model : Model
        What to keep.
    path : path
        Where; an older file is replaced at once.
    """
    write_whole(path, encode_model(model), mode=0o600)
    return Path(path)


def load_model(path: str | PathLike[str]) -> Model:
    """Read a file of `save_model`; raises BadModel for other content, TransportError for an unreadable file."""
    source = Path(path)
    try:
        with os.fdopen(open_plain(source, links=True), "rb") as file:
            head = file.read(8 + LARGEST_HEADER)
            size = _header(head, source.name).size
            found = os.fstat(file.fileno()).st_size
            if found != size:
                problem = "is cut off" if found < size else "has bytes after its end"
                raise _bad(f"{source.name} {problem}.", f"{found:,} bytes", f"{size:,} bytes")
            data = head + file.read(size)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TransportError(f"{source.name} cannot be read.", found=reason, expected="a model file") from None
    return decode_model(data, name=source.name)


def encode_model(model: Model) -> bytes:
    """Give a model as bytes; equal models give equal bytes.

    Parameters
    ----------
    model : Model
        What to keep. Features of the catalog are not kept.

    Raises
    ------
    BadIdentifier
        Ids of a type that no file of ours can hold.
    """
    users, items = store_ids(model.history.user_ids, "user"), store_ids(model.catalog.items, "item")
    arrays = {f"scorer.{name}": part for name, part in model.scorer.arrays().items()}
    arrays |= {f"users.{name}": part for name, part in users.arrays.items()}
    arrays |= {f"items.{name}": part for name, part in items.arrays.items()}
    arrays |= history_arrays(model.history)
    content = {
        "software": f"twofold {twofold.__version__}",
        "entity": model.entity,
        **_agreed(model),
        "catalog_hash": model.catalog.hash,
        "factors_hash": model.factors_hash,
        "private": bool(model.private),
        "strength": repr(float(model.strength)),  # a text: it may be infinite, which JSON cannot say
        "note": model.note,
        "validation": plain(model.validation),
        "scorer": {"kind": model.scorer.kind, "settings": plain(model.scorer.settings())},
        "users": users.kind,
        "items": items.kind,
    }
    try:
        return pack_sealed({"content": content, "schema": SCHEMA}, arrays)
    except BadMessage as error:
        raise error.as_(BadModel) from None


def _agreed(model: Model) -> dict[str, Any]:
    if model.plan is not None:
        return {"plan": model.plan.as_dict(), "plan_hash": model.plan.hash}
    values = {"feedback": model.history.feedback, "lower": model.lower, "bound": model.bound}
    return {"plan": None, "values": values}


def decode_model(data: bytes, *, name: str = "the model") -> Model:
    """Read bytes as a model, or say what is wrong with them.

    Parameters
    ----------
    data : bytes
        What `encode_model` gave.
    name : str
        What to call it in an error.
    """
    container = _header(data, name)
    try:
        arrays = unpack(data, container, container.layouts)
    except BadMessage as error:
        raise _bad(f"{name} is damaged: {error.summary}", error.found, error.expected) from None
    if not is_sealed(data, container.record):
        raise _bad(f"{name} is damaged: its checksum does not match.", "at least one changed byte", None)
    content = container.record["content"]
    try:
        return _model(content, arrays)
    except BadModel:
        raise
    except TwofoldError as error:
        found = None if error.found is None else printable(error.found, 200)  # it may repeat what the file holds
        raise _bad(f"{name} is not a valid model: {error.summary}", found, error.expected) from None
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError, ArithmeticError):
        raise _bad(f"{name} is not a valid model.", "a part that is missing or of the wrong type", None) from None


def plain(value: Any) -> Any:
    """Give JSON of a table of figures; a figure that is not finite becomes a word, as JSON has no number for it.

    Examples
    --------
    >>> plain(({"kind": "factors", "rank": np.int64(3), "strength": math.inf},))
    [{'kind': 'factors', 'rank': 3, 'strength': 'inf'}]
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _header(data: bytes, name: str) -> Container:
    """Read the header, and refuse what is not a model of this schema."""
    try:
        container = open_container(data)
    except BadMessage as error:
        raise _bad(f"{name} is an incomplete model.", error.found or error.summary, "a file of Model.save") from None
    schema = str(container.record.get("schema"))
    family, _, number = schema.partition("/")
    if family != "twofold.model":
        raise _bad(f"{name} is not a model.", f"schema {printable(schema, 40)}", f"schema {SCHEMA}")
    if schema != SCHEMA:
        raise BadModel(
            f"{name} was written by an incompatible version of twofold.",
            found=f"model format {printable(number, 20)}",
            expected=f"format {SCHEMA.partition('/')[2]}",
            fix="read it with the version that wrote it, or make the model again with this one",
        )
    if not isinstance(container.record.get("content"), dict):
        raise _bad(f"{name} is damaged.", "a record without content", None)
    return container


def _model(content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
    if foreign := sorted(printable(name, 20) for name in arrays if name.partition(".")[0] not in GROUPS):
        raise _bad("the model holds unknown arrays.", ", ".join(foreign[:6]), None)
    catalog = Catalog(restore_ids(StoredIds(content["items"], _group(arrays, "items"))).to_polars())
    if catalog.hash != content["catalog_hash"]:
        raise _bad("the item ids of the model are not those of its catalog.", None, None)
    plan = _plan(content)
    values: dict[str, Any] = content["values"] if plan is None else plan.as_dict()
    users = restore_ids(StoredIds(content["users"], _group(arrays, "users")))
    return Model(
        entity=_text(content, "entity"),
        catalog=catalog,
        history=restore_history(_group(arrays, "history"), users, catalog, values["feedback"]),
        scorer=_scorer(content["scorer"], _group(arrays, "scorer")),
        plan=plan,
        factors_hash=_text(content, "factors_hash"),
        private=content["private"] is True,
        strength=float(_text(content, "strength")),
        note=_text(content, "note"),
        validation=_validation(content["validation"]),
        lower=finite(values, "lower"),
        bound=finite(values, "bound"),
    )


def _plan(content: dict[str, Any]) -> Plan | None:
    record = content["plan"]
    if record is None:
        return None
    if hashlib.sha256(canonical_json(record).encode()).hexdigest() != content["plan_hash"]:
        raise _bad("the plan of the model is not the one its hash names.", None, None)
    return Plan.from_dict(record)


def _validation(lines: object) -> tuple[dict[str, Any], ...]:
    """Read the table of candidates, of which `summary` prints every figure."""
    if not isinstance(lines, list) or len(lines) > _MOST_LINES or not all(isinstance(line, dict) for line in lines):
        raise _bad("the validation of the model is not a table.", None, f"at most {_MOST_LINES:,} lines of figures")
    return tuple({_shown(key, 40): _figure(key, one) for key, one in line.items()} for line in lines)


def _figure(key: str, one: object) -> float | int | bool | str | None:
    value = float(one) if isinstance(one, str) and one in _NOT_FINITE else one
    plain_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (plain_number or (key not in _NUMBERS and (value is None or isinstance(value, bool | str)))):
        raise _bad("the validation of the model holds something that is not a figure.", None, "numbers and words")
    if isinstance(value, str):
        return _shown(value, 200)
    return value  # type: ignore[return-value]


def _shown(text: str, most: int = 2_000) -> str:
    """Refuse text that a terminal would act on."""
    if len(text) > most or not text.isprintable():
        raise _bad("a text of the model cannot be shown.", None, f"at most {most:,} printable characters")
    return text


def _scorer(record: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Scorer:
    kind = record["kind"]
    # Scores need a table of rank by rank, which a file of one wide row would make as large as it likes.
    if any(arrays[name].shape[-1] > MOST_RANK for name in _WIDE if name in arrays):
        raise _bad("the model has too many factors.", None, f"a rank of at most {MOST_RANK:,}")
    settings = record["settings"]
    if isinstance(settings, dict) and settings.get("inner") in ("stack", "popularity"):
        raise _bad("the model is a stack in a stack.", None, "a stack of use and one other model")
    with np.errstate(all="ignore"):
        scorer = rebuilt(kind, arrays, settings)
        scores = scorer.one(np.zeros(0, np.int64), np.zeros(0, np.float32))
        if scores.shape != (scorer.n_items,) or not np.isfinite(scores).all():
            raise _bad("the scores of the model are not finite.", None, "one finite score per item")
    return scorer


def rebuilt(kind: Any, arrays: dict[str, NDArray[Any]], settings: Any) -> Scorer:
    """Rebuild a scorer of any kind from its parts; a stack asks for the model inside it."""
    if not isinstance(kind, str) or kind not in SCORERS:
        raise _bad(f"the model is of an unknown kind: {printable(kind, 20)}.", None, ", ".join(SCORERS))
    if not isinstance(settings, dict):
        raise _bad("the settings of the model are not a table.", None, "names and values")
    scorer = SCORERS[kind].rebuild(arrays, settings)
    if isinstance(scorer, FactorScorer):
        _ = scorer.ready  # looks at factors and settings now, not at the first question
    return scorer


def _group(arrays: dict[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    return {key.removeprefix(f"{name}."): part for key, part in arrays.items() if key.startswith(f"{name}.")}


def _text(content: dict[str, Any], name: str) -> str:
    if not isinstance(content[name], str):
        raise _bad(f"the field {name} of the model is not text.", None, None)
    return _shown(content[name])


def _bad(summary: str, found: str | None, expected: str | None) -> BadModel:
    return BadModel(summary, found=found, expected=expected, fix=_FIX)


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
        parameter="ids",
    )


def restore_ids(stored: StoredIds) -> Identifiers:
    """Rebuild the ids; anything invalid is BadModel.

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
        raise BadModel("the ids of the model are not valid.", expected="every id once, of one type") from None


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
    raise BadModel("the model holds ids of an unknown kind.", expected=", ".join(_KINDS), fix="update twofold")


def _joined(parts: list[bytes]) -> dict[str, NDArray[Any]]:
    """All bytes one after another, filled up to whole 64-bit words, and where each part ends."""
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    whole = b"".join(parts)
    words = np.frombuffer(whole + bytes(-len(whole) % 8), dtype="<i8")
    return {"words": words, "ends": ends}


def _numbers(stored: StoredIds) -> NDArray[np.int64]:
    if set(stored.arrays) != {"numbers"} or stored.arrays["numbers"].ndim != 1:
        raise BadModel("the ids of the model are incomplete.", expected="one number per id")
    return stored.arrays["numbers"].astype(np.int64, copy=False)


def _parts(stored: StoredIds) -> list[bytes]:
    if set(stored.arrays) != {"words", "ends"} or any(part.ndim != 1 for part in stored.arrays.values()):
        raise BadModel("the ids of the model are incomplete.", expected="words and ends")
    whole = np.ascontiguousarray(stored.arrays["words"], dtype="<i8").tobytes()
    ends = stored.arrays["ends"]
    starts = np.concatenate([[0], ends])
    if (np.diff(starts) < 0).any() or -(-int(starts[-1]) // 8) * 8 != len(whole):
        raise BadModel("the ids of the model are not valid.", expected="ends that rise to the last byte")
    edges = starts.tolist()
    return [whole[first:last] for first, last in pairwise(edges)]


def history_arrays(history: Ratings) -> dict[str, NDArray[Any]]:
    """Give the entries as three arrays.

    Examples
    --------
    >>> rows = csr_rows(np.array([2.0, 1.0]), np.array([1, 0]), np.array([0, 1, 2]), (2, 2))
    >>> history_arrays(Ratings(rows, Identifiers(["a", "b"]), Catalog(["x", "y"])))["history.columns"].tolist()
    [1, 0]
    """
    matrix = history.matrix
    values = matrix.data if matrix.data.dtype in (np.float32, np.float64) else matrix.data.astype(np.float64)
    return {
        "history.ends": matrix.indptr[1:].astype(np.int64),
        "history.columns": matrix.indices.astype(np.int64),
        "history.values": values,
    }


def restore_history(
    arrays: dict[str, NDArray[Any]], users: Identifiers, catalog: Catalog, feedback: Feedback
) -> Ratings:
    """Rebuild the histories; anything invalid is BadModel.

    Parameters
    ----------
    arrays : dict
        `ends`, `columns` and `values`.
    users, catalog, feedback
        What rows, columns and absent entries mean.

    Examples
    --------
    >>> arrays = {"ends": np.array([1, 2]), "columns": np.array([1, 0]), "values": np.array([2.0, 1.0])}
    >>> restore_history(arrays, Identifiers(["a", "b"]), Catalog(["x", "y"]), "ratings").of("a")
    {'y': 2.0}
    """
    if set(arrays) != {"ends", "columns", "values"}:
        raise BadModel("the histories of the model are incomplete.", expected="ends, columns and values")
    ends, columns, values = arrays["ends"], arrays["columns"], arrays["values"]
    kinds = "".join(part.dtype.kind for part in (ends, columns, values))
    if any(part.ndim != 1 for part in arrays.values()) or kinds != "iif":
        raise BadModel("the histories of the model have the wrong form.", expected="vectors of numbers")
    starts = np.concatenate([np.zeros(1, np.int64), ends])
    if len(ends) != len(users) or (np.diff(starts) < 0).any() or not starts[-1] == len(columns) == len(values):
        raise _unsound()
    _check_columns(starts, columns, len(catalog))
    return Ratings(csr_rows(values, columns, starts, (len(users), len(catalog))), users, catalog, feedback)


def _check_columns(starts: NDArray[np.int64], columns: NDArray[np.int64], n_items: int) -> None:
    """Check that columns exist and rise within each row; otherwise SciPy would read beyond its arrays."""
    if columns.size and (columns.min() < 0 or columns.max() >= n_items):
        raise _unsound()
    falls = np.flatnonzero(np.diff(columns) <= 0) + 1
    if not np.isin(falls, starts).all():
        raise _unsound()


def _unsound() -> BadModel:
    return BadModel("the histories of the model are not valid.", expected="rising ends, and known columns in order")
