"""The sidecar: how long the ledger is known to be, and how its last record hashes.

A record counts as written once the head names it; the head is replaced atomically after the record is on disk.
Therefore everything up to the head was acknowledged and must be there unchanged, and behind the head there can be at
most one record, whole or torn: the write that a crash interrupted. That is how a crash is told from tampering.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

from twofold.errors import LedgerBroken
from twofold.privacy.ledger.chain import Chain, only_lacks_its_end
from twofold.privacy.ledger.record import FORMAT, KINDS, Record, canonical

__all__ = ["Head", "Standing", "head_of", "read_head", "standing"]

RESTORE = "restore the ledger, its .head and its .releases from the same backup; do not edit them by hand"


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
