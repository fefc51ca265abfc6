"""What the records amount to: ceiling, spent, left, releases. A pure function of the chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from twofold.errors import LedgerBroken
from twofold.privacy.ledger.cost import Cost
from twofold.privacy.ledger.record import Record

__all__ = ["Entry", "LedgerState", "fold"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One reservation and what became of it.

    `status` is "released" (committed), "lost" (spent, nothing left) or "open" (a process is drawing, or died drawing).
    `request` is the body of the reserve record: plan, version, unit, events, about, seeded, software, time; also
    `data` and `nonce`, which stay at the entity, and `draw` if a killed draw can be made again: the name of its key.
    `recovered` and `resumed` say that a process died on the way: after the bytes were stored, or before.
    """

    number: int
    hash: str
    cost: Cost
    request: Mapping[str, Any] = field(repr=False)
    status: str = "open"
    digest: str = ""
    size: int = 0
    recovered: bool = False
    resumed: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Digest of the plan and public version of the data: never paid for twice once it was released."""
        return str(self.request["plan"]), str(self.request["version"])


@dataclass(frozen=True, kw_only=True)
class LedgerState:
    """The account at one moment."""

    dataset: str
    unit: Mapping[str, Any]
    ceiling: Cost
    opened: str
    length: int
    hash: str
    raised: int = 0
    repaired: int = 0
    entries: tuple[Entry, ...] = ()

    @property
    def spent(self) -> Cost:
        """Everything ever reserved, released or not: a crash counts as spent."""
        return sum((entry.cost for entry in self.entries), Cost())

    @property
    def remaining(self) -> Cost:
        """What a next release may cost."""
        return self.ceiling.minus(self.spent)

    @property
    def open(self) -> tuple[Entry, ...]:
        """Reservations that were neither committed nor given up."""
        return tuple(entry for entry in self.entries if entry.status == "open")

    def released(self, plan: str, version: str) -> Entry | None:
        """Find the release for this plan and version of the data, if there was one."""
        found = (entry for entry in self.entries if entry.key == (plan, version) and entry.status == "released")
        return next(found, None)

    def as_dict(self) -> dict[str, Any]:
        """Give the account as plain JSON; digests of data and nonces stay out of it."""
        return {
            "dataset": self.dataset,
            "unit": dict(self.unit),
            "opened": self.opened,
            "ceiling": self.ceiling.as_dict(),
            "spent": self.spent.as_dict(),
            "remaining": self.remaining.as_dict(),
            "raised": self.raised,
            "repaired": self.repaired,
            "records": self.length,
            "head": self.hash,
            "entries": [_entry(entry) for entry in self.entries],
        }


def fold(records: Sequence[Record], *, known: LedgerState | None = None) -> LedgerState:
    """Replay the records from the first to the last.

    Parameters
    ----------
    records : sequence of Record
        The whole chain.
    known : LedgerState, optional
        The account after the first `known.length` records; taken only if its hash is theirs.

    Examples
    --------
    >>> from twofold.privacy.ledger.record import START, seal
    >>> body = {"kind": "open", "dataset": "visits", "unit": {}, "epsilon": "1", "delta": "0", "at": ""}
    >>> fold([seal(number=0, previous=START, body=body)]).remaining.epsilon
    Fraction(1, 1)
    """
    if known is None or known.length > len(records) or records[known.length - 1].hash != known.hash:
        known = _opened(records[0])
    entries = {entry.number: entry for entry in known.entries}
    rest = records[known.length :]
    for record in rest:
        if record.kind in ("reserve", "commit", "lost"):
            entry = _entered(record, entries)
            entries[entry.number] = entry
    raises = [record for record in rest if record.kind == "raise"]
    return replace(
        known,
        ceiling=Cost.from_dict(raises[-1].body) if raises else known.ceiling,
        length=len(records),
        hash=records[-1].hash,
        raised=known.raised + len(raises),
        repaired=known.repaired + sum(record.kind == "repair" for record in rest),
        entries=tuple(entries.values()),
    )


def _opened(record: Record) -> LedgerState:
    body = record.body
    return LedgerState(
        dataset=body["dataset"],
        unit=body["unit"],
        opened=body["at"],
        ceiling=Cost.from_dict(body),
        length=1,
        hash=record.hash,
    )


def _entered(record: Record, entries: Mapping[int, Entry]) -> Entry:
    """Give the entry as this record leaves it."""
    body = record.body
    if record.kind == "reserve":
        return Entry(number=record.number, hash=record.hash, cost=Cost.from_dict(body), request=body)
    if body["reserve"] not in entries:
        raise LedgerBroken("a record settles a reservation that was never made.", found=f"record {record.number}")
    entry = entries[body["reserve"]]
    if record.kind == "lost":
        return replace(entry, status="lost")
    how = {"recovered": body["recovered"], "resumed": body.get("resumed", False)}
    return replace(entry, status="released", digest=body["digest"], size=body["bytes"], **how)


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "record": entry.number,
        "at": entry.request["at"],
        "status": entry.status,
        **entry.cost.as_dict(),
        "plan": entry.request["plan"],
        "version": entry.request["version"],
        "seeded": entry.request["seeded"],
        "software": entry.request["software"],
        "digest": entry.digest,
        "bytes": entry.size,
        "recovered": entry.recovered,
    }
