"""The file of a ledger: numbered records, each with the hash of the one before, and a head that names the last.

`Files` says where everything is: the file itself, and beside it the head, the lock and the stored releases.

A record counts as written once the head names it; the head is replaced atomically after the record is on disk.
Therefore everything up to the head was acknowledged and must be there unchanged, and behind the head there can be at
most one record, whole or torn: the write that a crash interrupted. This distinguishes a crash from tampering.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twofold.errors import BadPrivacyParameter, LedgerBroken
from twofold.storage import files as disk

if TYPE_CHECKING:
    from twofold.privacy.ledger.state import Entry

__all__ = [
    "FORMAT",
    "KINDS",
    "START",
    "Chain",
    "Files",
    "Head",
    "Record",
    "Standing",
    "canonical",
    "decode",
    "digest",
    "encode",
    "guarded",
    "head_of",
    "new_nonce",
    "only_lacks_its_end",
    "read_chain",
    "read_head",
    "seal",
    "standing",
]

#: Claimed beside the release itself: half of it is given back just before the reservation is written, half just before
#: the commit, so that both records fit on a disk that fills up in between.
MARGIN = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Files:
    """The paths of one ledger.

    Examples
    --------
    >>> Files(book=Path("st-anna.ledger")).head.name
    'st-anna.ledger.head'
    """

    book: Path

    def __post_init__(self) -> None:
        if not self.book.name or self.book.is_dir():
            raise LedgerBroken("a ledger must be a file.", found="a folder", expected="a path such as st-anna.ledger")

    def owns(self, path: Path) -> bool:
        """Whether a path is one of the ledger's files, which nothing else may write."""
        own, asked = (self.book, self.head, self.lock), path.resolve()
        return any(asked == one.resolve() for one in own) or self.releases.resolve() in asked.parents

    @property
    def head(self) -> Path:
        """The sidecar with length and hash."""
        return self.book.with_name(self.book.name + ".head")

    @property
    def lock(self) -> Path:
        """The file that a writer locks; its content means nothing."""
        return self.book.with_name(self.book.name + ".lock")

    @property
    def releases(self) -> Path:
        """The folder of stored releases."""
        return self.book.with_name(self.book.name + ".releases")

    def release(self, entry: Entry, fingerprint: str) -> Path:
        """Name the file of a release after its reservation and its own digest.

        The name alone then tells, after a crash, that these bytes belong to that reservation and are whole.
        """
        return self.releases / f"{entry.number:06d}-{entry.hash[:16]}-{fingerprint}.release"

    def claim_room(self, size: int) -> None:
        """Take the disk space for the next release before anything is spent."""
        disk.make_folder(self.releases)
        room = self._room
        disk.remove(room)
        try:
            disk.reserve_room(room, size + MARGIN)
            os.truncate(room, size + MARGIN // 2)
        except OSError:
            disk.remove(room)
            raise

    def store(self, entry: Entry, content: bytes) -> str:
        """Store the complete bytes of a release in the space claimed for them."""
        fingerprint = digest(content)
        path = self.release(entry, fingerprint)
        room = path.with_name(path.name + ".new")
        if self._room.exists():
            disk.step("take room")
            self._room.replace(room)
        disk.replace(path, content)
        return fingerprint

    def find(self, entry: Entry) -> bytes | None:
        """Look for complete bytes that a crash left between storing and committing."""
        pattern = f"{entry.number:06d}-{entry.hash[:16]}-*.release"
        for path in sorted(self.releases.glob(pattern)):
            content = path.read_bytes()
            if path == self.release(entry, digest(content)):
                return content
        return None

    def fetch(self, entry: Entry) -> bytes:
        """Read a committed release back, byte for byte."""
        path = self.release(entry, entry.digest)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise LedgerBroken(
                "a stored release is missing.", expected=path.name, fix=RESTORE, parameter="release"
            ) from None
        if digest(content) != entry.digest:
            raise LedgerBroken("a stored release was changed.", found=path.name, fix=RESTORE, parameter="digest")
        return content

    def tried(self, entry: Entry) -> str | None:
        """Give the digest of bytes whose storing a crash interrupted, if storing had begun."""
        found = sorted(self.releases.glob(f"{entry.number:06d}-{entry.hash[:16]}-*.release.new"))
        return found[0].name.removesuffix(".release.new").rpartition("-")[2] if found else None

    def sweep(self, waiting: Sequence[Entry] = ()) -> None:
        """Remove temporary files that a crash left, except the name of a reservation that waits to be drawn again."""
        kept = tuple(f"{entry.number:06d}-{entry.hash[:16]}-" for entry in waiting)
        for left in [*self.releases.glob("*.new"), self._room]:
            if left.name.startswith(kept):
                os.truncate(left, 0)
            elif left.exists():
                disk.remove(left)

    @property
    def _room(self) -> Path:
        return self.releases / "room"


@contextmanager
def guarded(files: Files, doing: str) -> Iterator[None]:
    """Turn disk errors into one clear refusal."""
    try:
        yield
    except OSError as error:
        raise LedgerBroken(
            f"the ledger could not be written: {_reason(error)}.",
            found=f"{files.book.name}: {error.strerror or error}",
            expected="a folder on a local disk that this user may write to, with room left",
            fix=f"free space or correct the permissions, then ask again; {doing}",
            parameter="disk",
        ) from error


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "the disk is full"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "the disk or folder is read-only"
    return "the disk refused"


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


def canonical(value: object) -> bytes:
    r"""Write a value as JSON in the form that is hashed: sorted keys, no spaces, ASCII, no NaN.

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


class Standing(Enum):
    """How the file relates to its head."""

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
        raise LedgerBroken(
            "the ledger's head file is missing.", expected=path.name, fix=RESTORE, parameter="head"
        ) from None
    except (ValueError, TypeError, RecursionError):
        raise LedgerBroken(
            "the ledger's head file is damaged.", found=path.name, fix=RESTORE, parameter="head"
        ) from None
    refuse_newer(head.format, "head file")
    return head


def refuse_newer(found: object, where: str) -> None:
    """Refuse a file format that this version does not know."""
    if found != FORMAT:
        raise LedgerBroken(
            f"the {where} of this ledger was written by another version of twofold.",
            found=f"format {found}",
            expected=f"format {FORMAT}",
            fix="use the version of twofold that wrote it, or a newer one",
            parameter="format",
        )


def standing(chain: Chain, head: Head) -> Standing:
    """Compare file and head: give a state that a crash can leave, or raise `LedgerBroken`."""
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
                "this ledger holds a kind of record that this version of twofold does not support.",
                found=repr(record.kind),
                expected=", ".join(KINDS),
                fix="use the version of twofold that wrote it, or a newer one",
                parameter="kind",
            )


def _broken(why: str) -> LedgerBroken:
    return LedgerBroken(
        "the ledger was edited, cut or reordered; nothing was drawn.",
        found=why,
        expected="an unbroken chain up to the record that the head file names",
        fix=RESTORE,
        parameter="ledger",
    )
