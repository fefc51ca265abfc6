"""The file of a ledger: numbered records, each with the hash of the one before, and a head that names the last.

A record counts as written once the head names it; the head is replaced atomically after the record is on disk.
Therefore everything up to the head was acknowledged and must be there unchanged, and behind the head there can be at
most one record, whole or torn: the write that a crash interrupted. That is how a crash is told from tampering.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from twofold.errors import BadPrivacyParameter, LedgerBroken

__all__ = [
    "FORMAT",
    "KINDS",
    "START",
    "Chain",
    "Head",
    "Record",
    "Standing",
    "canonical",
    "decode",
    "digest",
    "encode",
    "head_of",
    "new_nonce",
    "only_lacks_its_end",
    "read_chain",
    "read_head",
    "seal",
    "standing",
]

#: Version of the file format; any other is refused. Format 1 had no nonce and no public version in its reservations.
FORMAT = 2
#: What a record can be; a kind not listed here comes from a newer version.
KINDS = ("open", "reserve", "commit", "lost", "raise", "repair")
#: The `previous` of the first record.
START = "0" * 64
RESTORE = "restore the ledger, its .head and its .releases from the same backup; do not edit them by hand"


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


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The records of a file in order, where each one ends, and what could not be read.

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
        """Number of bytes that are explained by records."""
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
    """Tell whether the tail is a whole record, or a torn piece with its whole repair record, without the newline.

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


class Standing(Enum):
    """How the file stands to its head."""

    CLEAN = "clean"
    AHEAD = "one record more than the head: the last write was cut after the record"
    UNENDED = "a whole record without its line end: the last write was cut"
    TORN = "a piece of a record behind the head: the last write was cut"


@dataclass(frozen=True, kw_only=True)
class Head:
    """Number of records, number of bytes, and hash of the last record."""

    format: int = FORMAT
    length: int
    size: int
    hash: str

    def encode(self) -> bytes:
        """Write as one line of canonical JSON."""
        return canonical(asdict(self)) + b"\n"


def head_of(chain: Chain) -> Head:
    """Describe a chain."""
    return Head(length=len(chain.records), size=chain.size, hash=chain.hash)


def read_head(path: Path) -> Head:
    """Read the sidecar; a missing or unreadable one means that the ledger cannot be trusted."""
    try:
        head = Head(**json.loads(path.read_bytes()))
    except FileNotFoundError:
        raise LedgerBroken("the ledger's head file is missing.", expected=path.name, fix=RESTORE) from None
    except (ValueError, TypeError, RecursionError):
        raise LedgerBroken("the ledger's head file is damaged.", found=path.name, fix=RESTORE) from None
    refuse_newer(head.format, "head file")
    return head


def refuse_newer(found: object, where: str) -> None:
    """Refuse a file format this version does not know."""
    if found != FORMAT:
        raise LedgerBroken(
            f"the {where} of this ledger was written by another version of twofold.",
            found=f"format {found}",
            expected=f"format {FORMAT}",
            fix="use the version of twofold that wrote it, or a newer one",
        )


def standing(chain: Chain, head: Head) -> Standing:
    """Compare file and head: a state that a crash can leave, or `LedgerBroken`."""
    _refuse_unknown(chain.records)
    acknowledged = chain.records[: head.length]
    if head.length < 1 or len(acknowledged) < head.length:
        raise _broken(chain.problem or f"it ends after {len(acknowledged)} of {head.length} records")
    if acknowledged[-1].hash != head.hash or chain.ends[head.length - 1] != head.size:
        raise _broken(f"record {head.length - 1} is not the one the head file names")
    extra = len(chain.records) - head.length
    if extra > 1 or (extra == 1 and chain.tail):
        raise _broken("records were added that no single interrupted write explains")
    if extra == 1:
        return Standing.AHEAD
    if not chain.tail:
        return Standing.CLEAN
    return Standing.UNENDED if only_lacks_its_end(chain) else Standing.TORN


def _refuse_unknown(records: tuple[Record, ...]) -> None:
    for record in records:
        if record.kind == "open":
            refuse_newer(record.body.get("format"), "first record")
        if record.kind not in KINDS:
            raise LedgerBroken(
                "this ledger holds a kind of record that this version of twofold does not know.",
                found=repr(record.kind),
                expected=", ".join(KINDS),
                fix="use the version of twofold that wrote it, or a newer one",
            )


def _broken(why: str) -> LedgerBroken:
    return LedgerBroken(
        "the ledger was edited, cut or reordered; nothing was drawn.",
        found=why,
        expected="an unbroken chain up to the record that the head file names",
        fix=RESTORE,
    )
