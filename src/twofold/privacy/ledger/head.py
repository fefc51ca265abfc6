"""The head of a ledger: a small file that names the last record, signed if the ledger has a signer.

A record counts as written once the head names it; the head is replaced atomically after the record is on disk.
Therefore everything up to the head was acknowledged and must be there unchanged, and behind the head there can be at
most one record, whole or torn: the write that a crash interrupted. This distinguishes a crash from tampering.

Hashes show an edit to those who know the last hash; a signature shows it to those who know the signer. The signer is
named in the chain, by the first record or by one of kind "signer": from there on every head must have its signature.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twofold.checks import is_hash
from twofold.errors import LedgerBroken
from twofold.privacy.ledger.files import read_small
from twofold.privacy.ledger.record import FORMAT, KINDS, RESTORE, Chain, Record, canonical, decode, only_lacks_its_end

if TYPE_CHECKING:
    from twofold.storage.signing import SigningKey

__all__ = [
    "Head",
    "Standing",
    "check_signature",
    "head_from_dict",
    "head_of",
    "is_key",
    "raise_statement",
    "read_head",
    "refuse_newer",
    "refuse_unknown_kinds",
    "signed",
    "signer_of",
    "standing",
]

_SIGNATURE: Final = re.compile("[0-9a-f]{128}")
_MOST: Final = 1 << 40


class Standing(Enum):
    """How the file relates to its head."""

    CLEAN = "clean"
    AHEAD = "one record more than the head: the last write was cut after the record"
    UNENDED = "a whole record without its line end: the last write was cut"
    TORN = "a piece of a record behind the head: the last write was cut"


@dataclass(frozen=True, kw_only=True)
class Head:
    """Number of records, number of bytes, and hash of the last record; signer and signature as hexadecimal digits."""

    format: int = FORMAT
    length: int
    size: int
    hash: str
    signer: str = ""
    signature: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Give the plain record; without a signature it is what versions without signatures wrote."""
        plain = {"format": self.format, "hash": self.hash, "length": self.length, "size": self.size}
        return plain | ({"signer": self.signer, "signature": self.signature} if self.signature else {})

    def encode(self) -> bytes:
        """Write as one line of canonical JSON."""
        return canonical(self.as_dict()) + b"\n"

    def statement(self, dataset: str) -> bytes:
        """Give the bytes that are signed."""
        return canonical({"dataset": dataset, "hash": self.hash, "length": self.length})


def head_of(chain: Chain) -> Head:
    """Describe a chain."""
    return Head(length=len(chain.records), size=chain.size, hash=chain.hash)


def signed(head: Head, dataset: str, signer: SigningKey) -> Head:
    """Sign a head: which data set, how many records, and the hash that covers them all.

    Examples
    --------
    >>> from twofold.storage.signing import SigningKey
    >>> key = SigningKey.new()
    >>> head = signed(Head(length=1, size=9, hash="0" * 64), "visits", key)
    >>> check_signature(head, "visits", key.public.hex())
    """
    from twofold.storage.signing import Purpose

    signature = signer.sign(Purpose.LEDGER, head.statement(dataset))
    return replace(head, signer=signer.public.hex(), signature=signature.hex())


def signer_of(records: tuple[Record, ...]) -> str:
    """Give the public key that must sign the head after these records; "" if none was named yet."""
    for record in reversed(records):
        if record.kind == "signer":
            return _key(record.body.get("public"), record)
    named = records[0].body.get("signer") if records else None
    return "" if named is None else _key(named, records[0])


def is_key(value: object) -> bool:
    """Whether a value is a public key as 64 hexadecimal digits."""
    return is_hash(value)


def _key(value: object, record: Record) -> str:
    if not is_key(value):
        raise LedgerBroken(
            "the ledger names a signer without a key.", found=f"record {record.number}", fix=RESTORE, parameter="signer"
        )
    return str(value)


def check_signature(head: Head, dataset: str, signer: str) -> None:
    """Refuse a head that this key did not sign for this data set."""
    if not head.signature:
        raise _unsigned("no signature", signer)
    if head.signer != signer:
        raise _unsigned(f"signed by {head.signer[:16]}...", signer)
    from twofold.storage.signing import Purpose, verify

    if not verify(bytes.fromhex(signer), Purpose.LEDGER, head.statement(dataset), bytes.fromhex(head.signature)):
        raise _unsigned("a signature that does not fit", signer)


def raise_statement(dataset: str, previous: str, body: Mapping[str, Any]) -> bytes:
    """Give the bytes that are signed for a raise.

    One record may stand behind the head after a crash, and the next writer adopts it. A stranger could put one there;
    only a raise would gain anything, so a raise has its own signature.
    """
    said = {name: body.get(name) for name in ("epsilon", "delta", "reason")}
    return canonical({"dataset": dataset, "previous": previous, "raise": said})


def _unsigned(found: str, signer: str) -> LedgerBroken:
    return LedgerBroken(
        "the head of this ledger lacks the signature it must have: records were replaced, or it is another ledger.",
        found=found,
        expected=f"the signature of key {signer[:16]}... for this data set and these records",
        fix=RESTORE,
        parameter="signature",
    )


def read_head(path: Path) -> Head:
    """Read the sidecar; a missing or unreadable one means that the ledger cannot be trusted."""
    try:
        return head_from_dict(json.loads(read_small(path)))
    except FileNotFoundError:
        raise LedgerBroken(
            "the ledger's head file is missing.",
            expected=f"{path.name}: a ledger is three things that stay together, the file, its .head and its .releases",
            fix=("twofold ledger export, at the entity: one file that others can check", RESTORE),
            parameter="head",
        ) from None
    except (ValueError, RecursionError):
        raise LedgerBroken(
            "the ledger's head file is damaged.", found=path.name, fix=RESTORE, parameter="head"
        ) from None


def head_from_dict(found: object) -> Head:
    """Read a head; `ValueError` for anything that is not one, `LedgerBroken` for one of another format."""
    if not isinstance(found, dict) or not {"format", "hash", "length", "size"} <= set(found):
        raise ValueError
    refuse_newer(found["format"], "head file")
    rest = set(found) - {"format", "hash", "length", "size"}
    if rest and (rest != {"signer", "signature"} or not is_key(found["signer"]) or not _is_signature(found)):
        raise ValueError
    if not is_hash(found["hash"]) or not all(type(found[name]) is int for name in ("format", "length", "size")):
        raise ValueError
    if not (0 <= found["length"] <= _MOST and 0 <= found["size"] <= _MOST):
        raise ValueError
    return Head(**found)


def _is_signature(found: dict[str, Any]) -> bool:
    return isinstance(found["signature"], str) and _SIGNATURE.fullmatch(found["signature"]) is not None


def refuse_newer(found: object, where: str) -> None:
    """Refuse a file format that this version does not know."""
    if found != FORMAT:
        raise LedgerBroken(
            f"the {where} of this ledger was written by another version of twofold.",
            found=f"format {found!r:.20}",
            expected=f"format {FORMAT}",
            fix="use the version of twofold that wrote it, or a newer one",
            parameter="format",
        )


def standing(chain: Chain, head: Head) -> Standing:
    """Compare file and head: give a state that a crash can leave, or raise `LedgerBroken`."""
    refuse_unknown_kinds(chain.records)
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
    if only_lacks_its_end(chain):
        return Standing.UNENDED
    if any(_is_record(line) for line in chain.tail.split(b"\n")):
        raise _broken("a whole record of another ledger stands behind the last one")
    return Standing.TORN


def _is_record(line: bytes) -> bool:
    """Whether a line is whole: a write that was cut leaves none, but for the one it was writing."""
    try:
        decode(line)
    except ValueError:
        return False
    return True


def refuse_unknown_kinds(records: tuple[Record, ...]) -> None:
    """Refuse records of a kind or format that this version does not know."""
    for record in records:
        if record.kind == "open":
            refuse_newer(record.body.get("format"), "first record")
        if record.kind not in KINDS:
            raise LedgerBroken(
                "this ledger holds a kind of record that this version of twofold does not support.",
                found=f"{record.kind!r:.40}",
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
