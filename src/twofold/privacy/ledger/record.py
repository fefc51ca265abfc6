"""The records of a ledger: numbered lines, each with the hash of the one before.

Lines are read from a disk that may be damaged or in a stranger's hands: their length, nesting and number are bounded
before anything is made of them. The head, which names the last line, is in `twofold.privacy.ledger.head`.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from twofold.errors import BadPrivacyParameter

__all__ = [
    "FORMAT",
    "KINDS",
    "LARGEST",
    "LONGEST",
    "RESTORE",
    "START",
    "Chain",
    "Record",
    "canonical",
    "decode",
    "digest",
    "encode",
    "new_nonce",
    "only_lacks_its_end",
    "parse_line",
    "read_chain",
    "seal",
]

#: Version of the file format; any other is refused. Format 1 had no nonce and no public version in its reservations.
FORMAT = 2
#: What a record can be; a kind not listed here comes from a newer version.
KINDS = ("open", "reserve", "commit", "lost", "raise", "repair", "signer")
#: The `previous` of the first record.
START = "0" * 64
#: Most bytes of a line, and of a file: read as JSON, a file takes up to 22 times its size in memory.
LONGEST: Final = 1 << 18
LARGEST: Final = 1 << 25
#: Most lists and dicts inside each other. Events of events need a few.
_DEEPEST: Final = 32
#: An older copy forgets what was spent after it was made, so no message may send anybody to one.
RESTORE = (
    "put back the newest copy of the ledger, its .head and its .releases, made after the last release; an older copy, "
    "or a new ledger for the same people, would spend their budget twice. Without such a copy, count the whole ceiling "
    "as spent"
)


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
    """Give 256 random bits for a record about private data.

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


#: Made once: `json.dumps` with options makes one at each call.
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical(value: object) -> bytes:
    r"""Write a value as JSON in the form that is hashed: sorted keys, no spaces, ASCII, no NaN.

    Examples
    --------
    >>> canonical({"b": 1, "a": "ε"})
    b'{"a":"\\u03b5","b":1}'
    """
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError) as error:
        raise BadPrivacyParameter(
            "a record of the ledger must be plain JSON.",
            found=str(error),
            expected="text, finite numbers, true, false, null, lists and dicts with text keys",
            parameter="record",
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
    """Write canonical JSON around a body that is already canonical; the hash covers the line without its hash."""
    return b'{"body":%b,%b"number":%d,"previous":"%b"}' % (body, own.encode(), number, previous.encode())


def parse_line(line: bytes) -> Any:
    """Read bounded JSON; `ValueError` if it is too long, too deeply nested or not JSON.

    Examples
    --------
    >>> parse_line(b'{"a":1}')
    {'a': 1}
    """
    if len(line) > LONGEST or _nests_too_deeply(line):
        raise ValueError("too large")
    found = json.loads(line)
    if b"\\ud" in line:  # half a character can be read and hashed, and neither printed nor stored
        json.dumps(found, ensure_ascii=False).encode()
    return found


def decode(line: bytes) -> Record:
    """Read a line without its newline; `ValueError` says what is wrong with it.

    Only the canonical form is accepted, so that even an added space is noticed.
    """
    try:
        whole = parse_line(line)
        body, number, previous = canonical(whole["body"]), int(whole["number"]), str(whole["previous"])
        named = f'"hash":"{whole["hash"]}",'
        fits = digest(_form(body, number, previous, "")) == whole["hash"]
        same = _form(body, number, previous, named) == line and isinstance(whole["body"].get("kind"), str)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, BadPrivacyParameter):
        raise ValueError("it is not a whole record") from None
    if not fits:
        raise ValueError("its hash does not fit its content")
    if not same:
        raise ValueError("it is not in the form this ledger writes")
    return Record(number=number, previous=previous, body=whole["body"], hash=whole["hash"])


def _nests_too_deeply(line: bytes) -> bool:
    """Whether brackets stand inside brackets too often; those in texts count too."""
    if line.count(b"[") + line.count(b"{") <= _DEEPEST:  # nearly every line
        return False
    depth = deepest = 0
    for byte in line.translate(None, delete=_NOT_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest > _DEEPEST


_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The records of a file in order, the end of each one, and the unreadable rest.

    `tail` holds the bytes after the last good record; `problem` says why reading stopped there. Whether a tail is a
    torn write or tampering is decided against the head (`standing`), not here.
    """

    records: tuple[Record, ...]
    ends: tuple[int, ...]
    tail: bytes = b""
    problem: str = ""

    @property
    def hash(self) -> str:
        """Hash of the last record, the `previous` of the next one."""
        return self.records[-1].hash if self.records else START

    @property
    def size(self) -> int:
        """Number of bytes that records account for."""
        return self.ends[-1] if self.ends else 0


def read_chain(content: bytes, *, known: Chain | None = None) -> Chain:
    """Follow the chain from the first byte as far as it holds.

    Parameters
    ----------
    content : bytes
        The whole file.
    known : Chain, optional
        What was read before from bytes that `content` begins with, so that only the rest needs checking.

    Examples
    --------
    >>> line = encode(seal(number=0, previous=START, body={"kind": "open"}))
    >>> len(read_chain(line).records), read_chain(line + line).problem
    (1, 'record 0 stands where record 1 belongs')
    """
    records, ends = (list(known.records), list(known.ends)) if known else ([], [])
    position, problem = (known.size if known else 0), ""
    while position < len(content):
        found, problem = _next(content, position, records)
        if found is None:
            break
        record, position = found
        records.append(record)
        ends.append(position)
    return Chain(records=tuple(records), ends=tuple(ends), tail=content[position:], problem=problem)


def only_lacks_its_end(chain: Chain) -> bool:
    """Whether the tail is a complete record, or a torn piece with its repair record, without the newline.

    Such a tail must be ended and adopted. Called torn, it would become readable the moment a repair ended its line.
    """
    found, _ = _next(chain.tail + b"\n", 0, list(chain.records))
    return found is not None and found[1] == len(chain.tail) + 1


def _next(content: bytes, position: int, records: list[Record]) -> tuple[tuple[Record, int] | None, str]:
    """Give the record that starts at `position`, or the repair record that explains the bytes there."""
    end = content.find(b"\n", position)
    if end < 0:
        return None, "the last line has no end"
    record, problem = _fitting(content[position:end], records)
    if record is not None:
        return (record, end + 1), ""
    repair = _repair_of(content, position, records)
    return (repair, "") if repair else (None, problem)


def _fitting(line: bytes, records: list[Record]) -> tuple[Record | None, str]:
    number, previous = len(records), records[-1].hash if records else START
    try:
        record = decode(line)
    except ValueError as error:
        return None, f"record {number} is damaged: {error}"
    if record.number != number:
        return None, f"record {record.number} stands where record {number} belongs"
    if record.previous != previous:
        return None, f"record {number} does not follow from the record before it"
    return record, ""


def _repair_of(content: bytes, position: int, records: list[Record]) -> tuple[Record, int] | None:
    """Find the repair record that names exactly the bytes from `position` up to itself.

    A torn line is never removed: a repair record behind it states its length and digest, so the file stays
    append-only and the torn bytes stay under the chain.
    """
    start = content.find(b"\n", position) + 1
    while 0 < start < len(content):
        end = content.find(b"\n", start)
        if end < 0:
            return None
        record, _ = _fitting(content[start:end], records)
        if record is not None:
            torn = content[position:start]
            named = record.kind == "repair" and record.body.get("digest") == digest(torn)
            return (record, end + 1) if named and record.body.get("bytes") == len(torn) else None
        start = end + 1
    return None
