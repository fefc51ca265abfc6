"""The account that follows from the records: ceiling, spent, left, releases. A pure function of the chain.

Costs and ceilings are ε and δ as exact fractions, or infinity, added up plainly. Only the entity is warned
about a stored release that is older than the current data (`StaleRelease`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from twofold.errors import BadPrivacyParameter, LedgerBroken
from twofold.privacy.budget import ApproxDP, NotPrivate, PureDP
from twofold.privacy.ledger.record import Record

__all__ = ["Cost", "Entry", "Guarantee", "LedgerState", "StaleRelease", "cost_of", "cost_text", "fold", "warn_if_stale"]

#: What the ledger can charge. zCDP must be converted with `to_approx(delta)` first.
Guarantee = PureDP | ApproxDP | NotPrivate
Amount = Fraction | float  # the only float is infinity


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One reservation and its outcome.

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
        """The total ever reserved, released or not: a crash counts as spent."""
        return sum((entry.cost for entry in self.entries), Cost())

    @property
    def remaining(self) -> Cost:
        """The most that another release may cost."""
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
    """Give the entry after this record."""
    body = record.body
    if record.kind == "reserve":
        return Entry(number=record.number, hash=record.hash, cost=Cost.from_dict(body), request=body)
    if body["reserve"] not in entries:
        raise LedgerBroken(
            "a record settles a reservation that was never made.", found=f"record {record.number}", parameter="reserve"
        )
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


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An amount of ε and δ that may be zero or infinite.

    Privacy
    -------
    Costs are added: sequential composition in its plainest form, valid for any mechanisms in any order. A tighter
    account of the events inside one release belongs to the accountant; between releases the ledger stays simple.
    δ stops at 1, where nothing is promised any more: a probability cannot be larger.

    Examples
    --------
    >>> third = Cost(epsilon=Fraction(1, 3))
    >>> (third + third + third).epsilon
    Fraction(1, 1)
    """

    epsilon: Amount = Fraction(0)
    delta: Amount = Fraction(0)

    def __add__(self, other: Cost) -> Cost:
        return Cost(epsilon=self.epsilon + other.epsilon, delta=min(self.delta + other.delta, Fraction(1)))

    def minus(self, other: Cost) -> Cost:
        """Give what is left, never below zero."""
        return Cost(epsilon=_rest(self.epsilon, other.epsilon), delta=_rest(self.delta, other.delta))

    def fits(self, ceiling: Cost) -> bool:
        """Tell whether both amounts stay within a ceiling."""
        return self.epsilon <= ceiling.epsilon and self.delta <= ceiling.delta

    def as_dict(self) -> dict[str, str]:
        """Give text for a record: "1/10", "0" or "inf"."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}

    @classmethod
    def from_dict(cls, record: Mapping[str, str]) -> Cost:
        """Read a record of `as_dict`."""
        return cls(epsilon=_amount(record["epsilon"]), delta=_amount(record["delta"]))


def cost_of(guarantee: Guarantee) -> Cost:
    """Turn a guarantee into what the ledger charges for it.

    Examples
    --------
    >>> cost_of(PureDP(epsilon=0.1))
    Cost(epsilon=Fraction(1, 10), delta=Fraction(0, 1))
    >>> cost_of(NotPrivate(reason="seeded")).epsilon
    inf
    """
    if isinstance(guarantee, PureDP):
        return Cost(epsilon=guarantee.epsilon)
    if isinstance(guarantee, ApproxDP):
        return Cost(epsilon=guarantee.epsilon, delta=guarantee.delta)
    if isinstance(guarantee, NotPrivate):
        return Cost(epsilon=math.inf, delta=Fraction(1))
    raise BadPrivacyParameter(
        "the ledger needs a cost in ε and δ.",
        found=type(guarantee).__name__,
        expected="PureDP, ApproxDP or NotPrivate",
        fix="convert with .to_approx(delta)",
        parameter="cost",
    )


def cost_text(cost: Cost) -> str:
    """Print a cost for people.

    Examples
    --------
    >>> cost_text(Cost(epsilon=Fraction(1, 2), delta=Fraction(1, 10**6))), cost_text(Cost(epsilon=Fraction(1, 3)))
    ('ε=0.5, δ=1e-06', 'ε=1/3')
    """
    parts = [f"ε={_short(cost.epsilon)}"]
    if cost.delta:
        parts.append(f"δ={_short(cost.delta)}")
    return ", ".join(parts)


def _short(amount: Amount) -> str:
    """Give a decimal if it is exact, else the fraction: a rounded number could seem to fit when it does not."""
    if isinstance(amount, float):
        return "infinite"
    decimal = f"{float(amount):g}"
    if Fraction(Decimal(decimal)) == amount:
        return decimal
    return str(amount) if amount.denominator < 1000 else repr(float(amount))


def _rest(amount: Amount, spent: Amount) -> Amount:
    if amount == math.inf:
        return amount
    return amount - spent if spent < amount else Fraction(0)


def _amount(text: str) -> Amount:
    return math.inf if text == "inf" else Fraction(text)


class StaleRelease(UserWarning):
    """The data changed since the release that is handed out again.

    Privacy
    -------
    For the screen of the entity only. Whether private data changed is itself private: a receiver of the release
    must see the same bytes either way, so this warning must not be passed on.
    """

    def __init__(self, needs: str = "a new public version: release(version=...)") -> None:
        super().__init__(
            "the data changed since this release; the stored bytes are handed out again and nothing is spent. "
            f"A release of the current data needs {needs}. "
            "Keep this message inside: the fact that data changed is private."
        )


def warn_if_stale(entry: Entry, data: str) -> None:
    """Warn if a stored release was drawn from data other than the caller's current data.

    Examples
    --------
    >>> entry = Entry(number=1, hash="", cost=Cost(), request={"data": "0" * 64})
    >>> warn_if_stale(entry, "0" * 64)
    """
    if entry.request["data"] != data:
        warnings.warn(StaleRelease(), stacklevel=4)
