"""The account that follows from the records: ceiling, spent, left, releases. A pure function of the chain.

Costs and ceilings are ε and δ as exact fractions, or infinity, added up plainly. Only the entity is warned
about a stored release that is older than the current data (`StaleRelease`).

A file that was edited and hashed again has a valid chain. So every field is checked before it is believed: a cost is
above zero and has a bounded number of digits, a release settles one open reservation, a ceiling never falls. Whether
a cost is the price of its events is checked by `verify`.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from twofold.checks import is_hash
from twofold.errors import BadPrivacyParameter, LedgerBroken, TwofoldError
from twofold.privacy.budget import ApproxDP, NotPrivate, PureDP
from twofold.privacy.ledger.record import RESTORE, Record
from twofold.privacy.unit import Unit

__all__ = [
    "DIGITS",
    "LONGEST_NAME",
    "Cost",
    "Entry",
    "Guarantee",
    "LedgerState",
    "Raise",
    "StaleRelease",
    "check_digits",
    "cost_of",
    "cost_text",
    "fold",
    "is_version",
    "warn_if_stale",
]

#: Most digits of a numerator or a denominator, so that a float can show the number.
DIGITS: Final = 300
#: Most bits of a sum of fractions. Sums of decimals stay far below; of fractions made to have nothing in common, not.
_BITS: Final = 1 << 15
#: Most characters of a data set's name.
LONGEST_NAME: Final = 1_000
_AMOUNT: Final = re.compile(rf"[0-9]{{1,{DIGITS}}}(/[0-9]{{1,{DIGITS}}})?")
_LONGEST_VERSION: Final = 64
_LARGEST_RELEASE: Final = 1 << 40

#: What the ledger can charge. zCDP must be converted with `to_approx(delta)` first.
Guarantee = PureDP | ApproxDP | NotPrivate
Amount = Fraction | float  # the only float is infinity


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One reservation and its outcome.

    `status` is "released" (committed), "lost" (spent, nothing left) or "open" (a process is drawing, or died drawing).
    `request` is the body of the reserve record: plan, version, unit, events, about, seeded, software, time; also
    `data` and `nonce`, which stay at the entity, and `draw` if a killed draw can be made again: the name of its key.
    `ended` is the number of the record that says so; 0 while it is open.
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
    ended: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """Digest of the plan and public version of the data: never paid for twice once it was released."""
        return str(self.request["plan"]), str(self.request["version"])


@dataclass(frozen=True, kw_only=True)
class Raise:
    """One raise of the ceiling: when, to what, and the reason that somebody typed."""

    number: int
    at: str
    ceiling: Cost
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON."""
        return {"record": self.number, "at": self.at, **self.ceiling.as_dict(), "reason": self.reason}


@dataclass(frozen=True, kw_only=True)
class LedgerState:
    """The account at one moment."""

    dataset: str
    unit: Mapping[str, Any]
    ceiling: Cost
    opened: str
    length: int
    hash: str
    raises: tuple[Raise, ...] = ()
    repaired: int = 0
    entries: tuple[Entry, ...] = ()
    #: The total ever reserved, released or not: a crash counts as spent.
    spent: Cost = field(default_factory=lambda: Cost())
    #: The public key that signs the head, in hexadecimal; "" if nobody does.
    signer: str = ""

    @property
    def raised(self) -> int:
        """How often the ceiling was raised."""
        return len(self.raises)

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
            "raises": [one.as_dict() for one in self.raises],
            "repaired": self.repaired,
            "records": self.length,
            "head": self.hash,
            "entries": [_entry(entry) for entry in self.entries],
        }


def fold(records: Sequence[Record], *, known: LedgerState | None = None, statement: bool = False) -> LedgerState:
    """Replay the records from the first to the last.

    Parameters
    ----------
    records : sequence of Record
        The whole chain.
    known : LedgerState, optional
        The account after the first `known.length` records; taken only if its hash is theirs.
    statement : bool
        Whether the records are those of a statement, which lack what must stay at the entity.

    Examples
    --------
    >>> from twofold.privacy.ledger.record import START, seal
    >>> unit = Unit.person().as_dict()
    >>> body = {"kind": "open", "dataset": "visits", "unit": unit, "epsilon": "1", "delta": "0", "at": ""}
    >>> fold([seal(number=0, previous=START, body=body)]).remaining.epsilon
    Fraction(1, 1)
    """
    if known is None or known.length > len(records) or records[known.length - 1].hash != known.hash:
        known = _opened(records[0])
    if known.length == len(records):
        return known
    entries = {entry.number: entry for entry in known.entries}
    ceiling, spent, signer = known.ceiling, known.spent, known.signer
    raises, repaired = known.raises, known.repaired
    needed = _IN_STATEMENT if statement else _IN_LEDGER
    for record in records[known.length :]:
        kind, body = record.kind, record.body
        _check_fields(record, needed.get(kind, {}))
        if kind == "reserve":
            cost = _cost(record)
            spent = _added(spent, cost, record)
            entries[record.number] = Entry(number=record.number, hash=record.hash, cost=cost, request=body)
        elif kind in ("commit", "lost"):
            entry = _settled(record, entries)
            entries[entry.number] = entry
        elif kind == "raise":
            before, ceiling = ceiling, _cost(record)
            raises += (_raise(record, ceiling),)
            if not before.fits(ceiling):
                raise _bad(record, "a ceiling below the one before")
        elif kind == "signer":
            signer = body["public"]
        elif kind == "open":
            raise _out_of_turn(record)
        else:
            repaired += 1
    return replace(
        known,
        ceiling=ceiling,
        length=len(records),
        hash=records[-1].hash,
        raises=raises,
        repaired=repaired,
        entries=tuple(entries.values()),
        spent=spent,
        signer=signer,
    )


def _opened(record: Record) -> LedgerState:
    body = record.body
    if record.kind != "open":
        raise _out_of_turn(record)
    _check_fields(record, _OPEN)
    try:
        Unit.from_dict(body["unit"])
    except (TwofoldError, TypeError):
        raise _bad(record, "field 'unit'") from None
    if "signer" in body and not is_hash(body["signer"]):
        raise _bad(record, "field 'signer'")
    return LedgerState(
        dataset=body["dataset"],
        unit=body["unit"],
        opened=body["at"],
        ceiling=_cost(record),
        length=1,
        hash=record.hash,
        signer=body.get("signer", ""),
    )


def _settled(record: Record, entries: Mapping[int, Entry]) -> Entry:
    """Give the entry after the record that ends it."""
    body = record.body
    entry = entries.get(body["reserve"])
    if entry is None or entry.status != "open":
        raise _out_of_turn(record)
    if record.kind == "lost":
        return replace(entry, status="lost", ended=record.number)
    how = {"recovered": body.get("recovered", False), "resumed": body.get("resumed", False) is True}
    return replace(entry, status="released", digest=body["digest"], size=body["bytes"], ended=record.number, **how)


def _raise(record: Record, ceiling: Cost) -> Raise:
    """Give what a raise says; words that are missing or too long for a name are left out, the raise is not."""
    said = {name: record.body.get(name) for name in ("at", "reason")}
    return Raise(
        number=record.number,
        at=str(said["at"]) if _is_time(said["at"]) else "",
        ceiling=ceiling,
        reason=str(said["reason"])[:LONGEST_NAME] if isinstance(said["reason"], str) else "",
    )


def _cost(record: Record) -> Cost:
    """Read the cost or the ceiling of a record; what is negative, zero, not finite or absurdly long is refused."""
    try:
        found = Cost.from_dict(record.body)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        raise _bad(record, "an impossible ε or δ") from None
    if not found.epsilon > 0:  # nothing that was drawn, and no ceiling, is for nothing
        raise _bad(record, "an ε that is not above zero")
    if found.delta > 1:
        raise _bad(record, "a δ above one")
    return found


def _added(spent: Cost, cost: Cost, record: Record) -> Cost:
    total = spent + cost
    if not check_digits(total):
        raise _bad(record, "costs whose sum has too many digits")
    return total


def check_digits(total: Cost) -> bool:
    """Whether a sum is short enough to be added to without end.

    Examples
    --------
    >>> check_digits(Cost(epsilon=Fraction(1, 3))), check_digits(Cost(epsilon=Fraction(1, 3**40_000)))
    (True, False)
    """
    return _bits(total.epsilon) <= _BITS and _bits(total.delta) <= _BITS


def _bits(amount: Amount) -> int:
    return 0 if isinstance(amount, float) else (amount.numerator | amount.denominator).bit_length()


def is_version(value: object) -> bool:
    """Whether something can name a version of data: short, printable text."""
    return isinstance(value, str) and bool(value.strip()) and value.isprintable() and len(value) <= _LONGEST_VERSION


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_NAME


def _is_time(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and value.isascii() and len(value) <= 40


def _is_secret(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and len(value) <= 200


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST_RELEASE


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


Fields = Mapping[str, Callable[[object], bool]]
_OPEN: Final[Fields] = {"dataset": _is_text, "unit": _is_object, "at": _is_time}
_SHOWN: Final[Fields] = {
    "plan": is_hash,
    "version": is_version,
    "unit": _is_object,
    "events": _is_list,
    "about": _is_object,
    "seeded": _is_flag,
    "software": _is_text,
    "at": _is_time,
}
_COMMIT: Final[Fields] = {"reserve": _is_count, "digest": is_hash, "bytes": _is_count}
_IN_STATEMENT: Final[Mapping[str, Fields]] = {
    "reserve": _SHOWN,
    "commit": _COMMIT,
    "lost": {"reserve": _is_count},
    "signer": {"public": is_hash},
}
_IN_LEDGER: Final[Mapping[str, Fields]] = {
    **_IN_STATEMENT,
    "reserve": {**_SHOWN, "data": is_hash, "nonce": _is_secret},
    "commit": {**_COMMIT, "recovered": _is_flag},
}


def _check_fields(record: Record, needed: Fields) -> None:
    body = record.body
    for name, fits in needed.items():
        if not fits(body.get(name)):  # nothing fits None
            raise _bad(record, f"field {name!r}")


def _out_of_turn(record: Record) -> LedgerBroken:
    return LedgerBroken(
        "the records do not follow the rules of a ledger.",
        found=f"record {record.number} of kind {record.kind!r:.20} out of turn",
        expected="one beginning, and for each reservation one end",
        fix=RESTORE,
        parameter="records",
    )


def _bad(record: Record, what: str) -> LedgerBroken:
    return LedgerBroken(
        "a record of this ledger is not one that twofold writes; nothing was drawn.",
        found=f"record {record.number}: {what}",
        expected="fields that its kind needs, with possible values",
        fix=RESTORE,
        parameter="record",
    )


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "record": entry.number,
        "ended": entry.ended,
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

    @property
    def is_short(self) -> bool:
        """Whether a ledger can hold it: not too many digits."""
        amounts = [one for one in (self.epsilon, self.delta) if isinstance(one, Fraction)]
        return all(max(one.numerator, one.denominator) < 10**DIGITS for one in amounts)

    def as_dict(self) -> dict[str, str]:
        """Give text for a record: "1/10", "0" or "inf"."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}

    @classmethod
    def from_dict(cls, record: Mapping[str, str]) -> Cost:
        """Read a record of `as_dict`; `ValueError` for a number that it never writes, such as a negative one."""
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


@lru_cache(maxsize=256)  # the same few numbers in a thousand records
def _amount(text: str) -> Amount:
    # No sign, no point and no exponent: "1e999999999" would be written out in full.
    if text == "inf":
        return math.inf
    if not _AMOUNT.fullmatch(text):
        raise ValueError("not an amount")
    return Fraction(text)


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
