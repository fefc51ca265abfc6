"""One line of the ledger: a numbered record that carries the hash of the record before it."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twofold.errors import BadPrivacyParameter

__all__ = ["FORMAT", "KINDS", "START", "Record", "canonical", "decode", "digest", "encode", "new_nonce", "seal"]

#: Version of the file format; any other is refused. Format 1 had no nonce and no public version in its reservations.
FORMAT = 2
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
    '3e6291db8fb5dcf8'
    """
    return hashlib.sha256(content).hexdigest()


def new_nonce() -> str:
    """Give 256 random bits for a record that speaks of private data.

    Privacy
    -------
    Hashes of records are printed. The hash of a record that holds a digest of private data, and else only what can be
    guessed, would let anybody test a guess at the data; with a nonce that stays in the record it tells nothing.

    Examples
    --------
    >>> len(new_nonce()), new_nonce() == new_nonce()
    (64, False)
    """
    return secrets.token_hex(32)


def canonical(value: object) -> bytes:
    r"""Write a value as JSON in the one form that is hashed: sorted keys, no spaces, ASCII, no NaN.

    Examples
    --------
    >>> canonical({"b": 1, "a": "ε"})
    b'{"a":"\\u03b5","b":1}'
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
    plain = canonical(body)
    # Through JSON and back, so that a record in memory equals the same record read from disk.
    return Record(
        number=number, previous=previous, body=json.loads(plain), hash=digest(_form(plain, number, previous, ""))
    )


def encode(record: Record) -> bytes:
    """Write a record as its line, newline included."""
    return _form(canonical(record.body), record.number, record.previous, f'"hash":"{record.hash}",') + b"\n"


def _form(body: bytes, number: int, previous: str, own: str) -> bytes:
    """Write canonical JSON around a body that is canonical already; what is hashed is the line without its hash."""
    return b'{"body":%b,%b"number":%d,"previous":"%b"}' % (body, own.encode(), number, previous.encode())


def decode(line: bytes) -> Record:
    """Read a line without its newline; `ValueError` says what is wrong with it.

    Only the canonical form is accepted, so that even an added space is noticed.
    """
    try:
        whole = json.loads(line)
        body, number, previous = canonical(whole["body"]), int(whole["number"]), str(whole["previous"])
        named = f'"hash":"{whole["hash"]}",'
        fits = digest(_form(body, number, previous, "")) == whole["hash"]
        same = _form(body, number, previous, named) == line and isinstance(whole["body"].get("kind"), str)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BadPrivacyParameter):
        raise ValueError("it is not a whole record") from None
    if not fits:
        raise ValueError("its hash does not fit its content")
    if not same:
        raise ValueError("it is not in the form this ledger writes")
    return Record(number=number, previous=previous, body=whole["body"], hash=whole["hash"])
