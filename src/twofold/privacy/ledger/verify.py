"""Checking a ledger from its first byte to its last stored release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twofold.errors import LedgerBroken
from twofold.privacy.ledger.files import Files
from twofold.privacy.ledger.head import RESTORE, Standing
from twofold.privacy.ledger.keys import Keys
from twofold.privacy.ledger.reader import Reader
from twofold.privacy.ledger.record import Record
from twofold.privacy.ledger.state import LedgerState

__all__ = ["Verdict", "verify"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a check found. There is no verdict on a broken ledger: `LedgerBroken` is raised instead."""

    records: int
    releases: int
    head: str
    notes: tuple[str, ...] = ()


def verify(files: Files, *, head: str | None = None) -> Verdict:
    """Check chain, head and stored releases, and that a hash noted elsewhere is still in the chain.

    Two files put back together from an older backup fit each other. Only a hash kept elsewhere, as on a privacy
    card, shows that: give it as `head`.
    """
    reader = Reader(files)  # a new one, which remembers nothing
    chain, how = reader.load()
    _check_order(chain.records)
    state = reader.state(chain)
    released = [entry for entry in state.entries if entry.status == "released"]
    for entry in released:
        files.fetch(entry)
    if head is not None and not any(_named(record, head) for record in chain.records):
        raise LedgerBroken(
            "the noted hash is not in this ledger: records were replaced or an older copy was restored.",
            expected=f"a record with hash {head}",
            fix=RESTORE,
        )
    notes = tuple(_notes(how, state, Keys(files)))
    return Verdict(records=len(chain.records), releases=len(released), head=chain.hash, notes=notes)


def _named(record: Record, head: str) -> bool:
    return len(head) >= 16 and record.hash.startswith(head)


def _check_order(records: tuple[Record, ...]) -> None:
    """Refuse a chain that hashes well and tells an impossible story."""
    waiting: set[int] = set()
    for record in records:
        if (record.kind == "open") != (record.number == 0):
            raise _impossible(record)
        if record.kind == "reserve":
            waiting.add(record.number)
        elif record.kind in ("commit", "lost"):
            if record.body.get("reserve") not in waiting:
                raise _impossible(record)
            waiting.remove(record.body["reserve"])


def _impossible(record: Record) -> LedgerBroken:
    return LedgerBroken(
        "the records do not follow the rules of a ledger.",
        found=f"record {record.number} of kind {record.kind!r} out of turn",
        fix=RESTORE,
    )


def _notes(how: Standing, state: LedgerState, keys: Keys) -> Iterator[str]:
    if how is not Standing.CLEAN:
        yield f"{how.value}; the next write mends it and records the repair where bytes were torn"
    for entry in state.open:
        yield (
            f"record {entry.number} is reserved and not committed: a process is drawing, or died; it counts as spent"
            + ("; asking for the same release with the same data resumes it" if keys.whole(entry) else "")
        )
    lost = sum(entry.status == "lost" for entry in state.entries)
    if lost:
        yield f"{lost} reservation(s) spent without a release"
    if state.repaired:
        yield f"{state.repaired} torn line(s) recorded"
