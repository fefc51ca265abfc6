"""A model as one file: safetensors with one record of canonical JSON, a checksum over every byte, no pickle.

The record is ``{"checksum": ..., "content": {...}, "schema": "twofold.model/1"}``. The checksum is the SHA-256 of the
whole file with 64 zeros in its own place, so that any flipped byte is noticed, in the header too. Within a schema a
later version may add fields to the content; an earlier one ignores them. Arrays and the scorer's settings are exact.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import twofold
from twofold.data.catalog import Catalog
from twofold.entity.factor_scorer import FactorScorer
from twofold.entity.item_item import ItemItemScorer
from twofold.entity.model import Model
from twofold.entity.pattern_scorer import PatternScorer
from twofold.entity.scorer import Scorer
from twofold.entity.stored_history import history_arrays, restore_history
from twofold.entity.stored_ids import StoredIds, restore_ids, store_ids
from twofold.errors import BadMessage, BadModel, TransportError, TwofoldError
from twofold.protocol.codec import LARGEST_HEADER, Container, open_container, unpack
from twofold.protocol.files import write_whole
from twofold.protocol.plan import Plan
from twofold.protocol.seal import is_sealed, pack_sealed
from twofold.protocol.strict_json import canonical_json, printable

__all__ = ["SCHEMA", "decode_model", "encode_model", "load_model", "save_model"]

#: A new number means that an older program must not read it.
SCHEMA: Final = "twofold.model/1"
SCORERS: Final[Mapping[str, type[Scorer]]] = {
    "factors": FactorScorer,
    "item-item": ItemItemScorer,
    "patterns": PatternScorer,
    "features": PatternScorer,
}
GROUPS: Final = ("scorer", "users", "items", "history")
_WORDS: Final = ("inf", "-inf", "nan")  # figures that JSON has no number for
_FIX: Final = "copy the file again, or make it again: twofold personalize ... -o FILE"


def save_model(model: Model, path: str | PathLike[str]) -> Path:
    """Write a model, whole or not at all, readable by its owner only.

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
    """Read what `save_model` wrote; BadModel for anything else, TransportError for a file that cannot be read."""
    source = Path(path)
    try:
        with source.open("rb") as file:
            head = file.read(8 + LARGEST_HEADER)
            size = _header(head, source.name).size
            found = source.stat().st_size
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
        "plan": model.plan.as_dict(),
        "plan_hash": model.plan.hash,
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
        raise BadModel(error.summary, found=error.found, expected=error.expected, fix=error.fix) from None


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
        raise _bad(f"{name} is damaged: its checksum does not fit.", "at least one changed byte", None)
    content = container.record["content"]
    try:
        return _model(content, arrays)
    except BadModel:
        raise
    except TwofoldError as error:
        raise _bad(f"{name} is not a sound model: {error.summary}", error.found, error.expected) from None
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError, ArithmeticError):
        raise _bad(f"{name} is not a sound model.", "a part that is missing or of another type", None) from None


def plain(value: Any) -> Any:
    """Give JSON of a table of figures; one that is not finite becomes a word, as JSON has no number for it.

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
    """Read the header, and refuse what is no model of this schema."""
    try:
        container = open_container(data)
    except BadMessage as error:
        raise _bad(f"{name} is not a whole model file.", error.found or error.summary, "a file of Model.save") from None
    schema = str(container.record.get("schema"))
    family, _, number = schema.partition("/")
    if family != "twofold.model":
        raise _bad(f"{name} is not a model.", f"schema {printable(schema, 40)}", f"schema {SCHEMA}")
    if schema != SCHEMA:
        raise BadModel(
            f"{name} was written by another generation of twofold.",
            found=f"model format {printable(number, 20)}",
            expected=f"format {SCHEMA.partition('/')[2]}",
            fix="read it with the version that wrote it, or make the model again with this one",
        )
    if not isinstance(container.record.get("content"), dict):
        raise _bad(f"{name} is damaged.", "a record without content", None)
    return container


def _model(content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
    if foreign := sorted(printable(name, 20) for name in arrays if name.partition(".")[0] not in GROUPS):
        raise _bad("the model holds arrays we do not know.", ", ".join(foreign[:6]), None)
    catalog = Catalog(restore_ids(StoredIds(content["items"], _group(arrays, "items"))).to_polars())
    if catalog.hash != content["catalog_hash"]:
        raise _bad("the item ids of the model are not those of its catalog.", None, None)
    record = content["plan"]
    if hashlib.sha256(canonical_json(record).encode()).hexdigest() != content["plan_hash"]:
        raise _bad("the plan of the model is not the one its hash names.", None, None)
    plan = Plan.from_dict(record)
    users = restore_ids(StoredIds(content["users"], _group(arrays, "users")))
    return Model(
        entity=_text(content, "entity"),
        catalog=catalog,
        history=restore_history(_group(arrays, "history"), users, catalog, plan.feedback),
        scorer=_scorer(content["scorer"], _group(arrays, "scorer")),
        plan=plan,
        factors_hash=_text(content, "factors_hash"),
        private=content["private"] is True,
        strength=float(_text(content, "strength")),
        note=_text(content, "note"),
        validation=tuple(_figures(line) for line in content["validation"]),
    )


def _figures(line: dict[str, Any]) -> dict[str, Any]:
    return {key: float(one) if one in _WORDS else one for key, one in line.items()}


def _scorer(record: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Scorer:
    kind = record["kind"]
    if kind not in SCORERS:
        raise _bad(f"the model is of a kind we do not know: {printable(kind, 20)}.", None, ", ".join(SCORERS))
    with np.errstate(all="ignore"):
        scorer = SCORERS[kind].rebuild(arrays, record["settings"])
        if isinstance(scorer, FactorScorer):
            _ = scorer.ready  # looks at factors and settings now, not at the first question
        if not np.isfinite(scorer.one(np.zeros(0, np.int64), np.zeros(0, np.float32))).all():
            raise _bad("the numbers of the model are beyond all measure.", None, "scores that are finite")
    return scorer


def _group(arrays: dict[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    return {key.removeprefix(f"{name}."): part for key, part in arrays.items() if key.startswith(f"{name}.")}


def _text(content: dict[str, Any], name: str) -> str:
    if not isinstance(content[name], str):
        raise _bad(f"the field {name} of the model is not a text.", None, None)
    return str(content[name])


def _bad(summary: str, found: str | None, expected: str | None) -> BadModel:
    return BadModel(summary, found=found, expected=expected, fix=_FIX)
