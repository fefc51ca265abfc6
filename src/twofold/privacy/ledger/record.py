"""One line of the ledger: a numbered record that carries the hash of the record before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twofold.errors import BadPrivacyParameter

__all__ = ["FORMAT", "KINDS", "START", "Record", "canonical", "decode", "digest", "encode", "seal"]

#: Version of the file format. A reader refuses a larger one.
FORMAT = 1
#: What a record can be; a kind not listed here comes from a newer version.
KINDS = ("open", "reserve", "commit", "lost", "raise", "repair")
#: The `previous` of the first record.
START = "0" * 64


@dataclass(frozen=True, kw_only=True)
class Record:
    """A sealed record: its number, the hash before it, its content, its own hash."""

    number: int
    previous: str
    body: Mapping[str, Any]
    hash: str

    @property
    def kind(self) -> str:
        """What happened; one of `KINDS`."""
        return str(self.body["kind"])


def digest(content: bytes) -> str:
    """Give the SHA-256 of bytes as 64 lower-case hexadecimal digits.

    Examples
    --------
    >>> digest(b"twofold")[:16]
    '914a62b73a52f17c'
    """
    return hashlib.sha256(content).hexdigest()


def canonical(value: object) -> bytes:
    """Write a value as JSON in the one form that is hashed: sorted keys, no spaces, ASCII, no NaN.

    Examples
    --------
    >>> canonical({"b": 1, "a": "ε"})
    b'{"a":"\\\\u03b5","b":1}'
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BadPrivacyParameter(
            "a record of the ledger must be plain JSON.",
            found=str(error),
            expected="text, finite numbers, true, false, null, lists and dicts with text keys",
        ) from None
    return text.encode("ascii")


def seal(*, number: int, previous: str, body: Mapping[str, Any]) -> Record:
    """Compute the hash of a record from its number, the hash before it and its content.

    Examples
    --------
    >>> first = seal(number=0, previous=START, body={"kind": "open"})
    >>> second = seal(number=1, previous=first.hash, body={"kind": "raise"})
    >>> decode(encode(second).rstrip()) == second
    True
    """
    content = canonical({"body": body, "number": number, "previous": previous})
    # Through JSON and back, so that a record in memory equals the same record read from disk.
    return Record(number=number, previous=previous, body=json.loads(content)["body"], hash=digest(content))


def encode(record: Record) -> bytes:
    """Write a record as its line, newline included."""
    whole = {"body": record.body, "hash": record.hash, "number": record.number, "previous": record.previous}
    return canonical(whole) + b"\n"


def decode(line: bytes) -> Record:
    """Read a line without its newline; `ValueError` says what is wrong with it.

    Only the canonical form is accepted, so that even an added space is noticed.
    """
    try:
        whole = json.loads(line)
        record = Record(**whole)
        sealed = seal(number=record.number, previous=record.previous, body=record.body)
    except (ValueError, TypeError, RecursionError, BadPrivacyParameter):
        raise ValueError("it is not a whole record") from None
    if sealed.hash != record.hash:
        raise ValueError("its hash does not fit its content")
    if encode(record)[:-1] != line or not isinstance(record.body, dict) or "kind" not in record.body:
        raise ValueError("it is not in the form this ledger writes")
    return record
