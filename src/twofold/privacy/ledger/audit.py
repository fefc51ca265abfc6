"""Check a ledger: chain, head, stored releases, and the price of every event, counted again.

The chain shows that nothing was changed by somebody who cannot hash. Anyone else can write costs of their own liking
and hash the file again, so `verify` believes no cost: it prices the events with the accountant that priced them before
the draw, adds up the totals and compares them with the ceiling of that time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from twofold.errors import LedgerBroken, TwofoldError
from twofold.privacy.budget import ZCDP, ApproxDP, guarantee_from_dict
from twofold.privacy.events import Event, SequentialEvent, event_from_dict, flatten, is_seeded
from twofold.privacy.ledger.head import Standing
from twofold.privacy.ledger.keys import Keys
from twofold.privacy.ledger.record import RESTORE, Record, canonical
from twofold.privacy.ledger.state import Cost, Entry, Guarantee, LedgerState, cost_of, cost_text
from twofold.privacy.ledger.writer import Reader

__all__ = ["Verdict", "check_account", "check_head", "events_of", "guarantee_of", "readable", "time_notes", "verify"]

#: Most characters of a text inside an event or a guarantee: a number, or a reason in words.
_LONGEST: Final = 5_000
#: Most parts of one release, and of all releases whose price needs Rényi composition: about 10 ms each.
_MOST_EVENTS: Final = 1_000
#: Prices of Gaussian noise are rounded floats; another version of a library may round otherwise.
_ROUNDING: Final = Fraction(1, 10**6)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a check found. There is no verdict on a broken ledger: `LedgerBroken` is raised instead.

    `signer` is the public key whose signature on the head was checked, in hexadecimal; "" if there was none.
    """

    records: int
    releases: int
    head: str
    notes: tuple[str, ...] = ()
    signer: str = ""


def verify(reader: Reader, *, head: str | None = None) -> Verdict:
    """Check chain, head, prices and stored releases, and that a hash kept elsewhere is still in the chain.

    Two files put back together from an older backup fit each other. Newer releases beside them show it; without any,
    only a hash kept elsewhere does, as on a privacy card: give it as `head`.
    """
    chain, how = reader.load()
    state = reader.state(chain)
    check_account(chain.records, state)
    released = [entry for entry in state.entries if entry.status == "released"]
    for entry in released:
        reader.files.check(entry)
    check_head(chain.records, head)
    notes = (*_notes(how, state, Keys(reader.files)), *time_notes(chain.records))
    return Verdict(
        records=len(chain.records), releases=len(released), head=chain.hash, notes=notes, signer=state.signer
    )


def check_head(records: Sequence[Record], head: str | None) -> None:
    """Refuse a ledger without a record of this hash, of which the first 16 digits are enough."""
    if head is None or (len(head) >= 16 and any(record.hash.startswith(head) for record in records)):
        return
    raise LedgerBroken(
        "the given hash is not in this ledger: records were replaced or an older copy was restored.",
        expected=f"a record with hash {head:.64}",
        fix=RESTORE,
        parameter="head",
    )


def check_account(records: Sequence[Record], state: LedgerState) -> None:
    """Price every entry again, add up the costs, and compare each total with the ceiling of its time."""
    entries = {entry.number: entry for entry in state.entries}
    ceiling, spent = Cost.from_dict(records[0].body), Cost()
    prices = _Prices()
    for record in records:
        if record.kind == "raise":
            ceiling = Cost.from_dict(record.body)
        elif record.kind == "reserve":
            entry = entries[record.number]
            _check_entry(entry, state.unit, prices)
            spent += entry.cost
            if not spent.fits(ceiling):
                raise _wrong(entry, f"{cost_text(spent)} spent in all", f"at most the ceiling, {cost_text(ceiling)}")
    if spent != state.spent:
        raise LedgerBroken(
            "the total does not add up.", found=cost_text(state.spent), expected=cost_text(spent), parameter="spent"
        )


class _Prices:
    """Prices that were counted already, and how many parts may still be composed."""

    def __init__(self) -> None:
        self.known: dict[bytes, Cost] = {}
        self.left = _MOST_EVENTS

    def pay(self, event: Event) -> None:
        """Count the parts of an event whose price is costly; hostile ledgers have thousands of different ones."""
        self.left -= len({one.to_json() for one in flatten(event)})
        if self.left < 0:
            raise ValueError("too many different events")


def _check_entry(entry: Entry, unit: Mapping[str, Any], prices: _Prices) -> None:
    asked = entry.request
    if asked["unit"] != dict(unit):
        raise _wrong(entry, "another unit than that of the ledger", "one unit per ledger")
    with readable(entry):
        stated = cost_of(guarantee_of(entry))
        if stated != entry.cost:
            raise _wrong(entry, cost_text(entry.cost), f"what its guarantee says, {cost_text(stated)}")
        name = canonical([asked["events"], asked["seeded"], stated.as_dict()])
        if name not in prices.known:
            prices.known[name] = _price(entry, unit, stated, prices)
        price = prices.known[name]
    slack = 1 + _ROUNDING if stated.delta else 1
    if not price.fits(Cost(epsilon=entry.cost.epsilon * slack, delta=entry.cost.delta)):
        raise _wrong(entry, cost_text(entry.cost), f"at least the price of its events, {cost_text(price)}")


def _price(entry: Entry, unit: Mapping[str, Any], stated: Cost, prices: _Prices) -> Cost:
    """Price the events of an entry; where a plain sum is within the stated cost, that sum."""
    # Loaded here: the accountant brings the mechanisms with it, and reading a ledger needs neither.
    from twofold.privacy.accountant import fits, spent

    events = events_of(entry)
    if any(event.unit.as_dict() != dict(unit) for event in events):
        raise _wrong(entry, "an event with another unit", "one unit per ledger")
    if entry.request["seeded"] != any(map(is_seeded, events)):
        raise _wrong(entry, "a wrong mark of seeded noise", "the mark of its events")
    if stated.delta == 1:  # nothing is promised, and any price fits
        return Cost()
    whole, delta = SequentialEvent.of(*events), Fraction(stated.delta)
    # The accountant's price is the least of several bounds. If one that is quick to compute fits, the price does.
    single = len({type(one) for one in flatten(whole)}) == 1
    if single and fits(whole, ApproxDP(epsilon=stated.epsilon, delta=delta)):
        return stated
    if delta:
        prices.pay(whole)
    return cost_of(spent(whole, delta=delta))


def events_of(entry: Entry) -> list[Event]:
    """Read the events of an entry, bounded before any of it is computed with.

    Examples
    --------
    >>> events_of(Entry(number=1, hash="", cost=Cost(), request={"events": [{"kind": "magic/1"}]}))
    Traceback (most recent call last):
    twofold.errors.LedgerBroken: an entry of this ledger cannot be read...
    """
    with readable(entry):
        _check_texts(entry.request["events"])
        return [event_from_dict(event) for event in entry.request["events"]]


def guarantee_of(entry: Entry) -> Guarantee:
    """Read the guarantee of an entry; it must be one that a ledger charges."""
    with readable(entry):
        _check_texts(entry.request["guarantee"])
        found = guarantee_from_dict(entry.request["guarantee"])
        if isinstance(found, ZCDP):
            raise ValueError("not a cost in ε and δ")
        return found


def _check_texts(found: object) -> None:
    level, parts = [found], 0
    while level:
        one = level.pop()
        if isinstance(one, dict):
            parts += 1
            level.extend(one.values())
        elif isinstance(one, list):
            level.extend(one)
        elif isinstance(one, str) and len(one) > _LONGEST:
            raise ValueError("a text that is too long")
    if parts > 2 * _MOST_EVENTS:  # an event, and the unit in it
        raise ValueError("too many events")


@contextmanager
def readable(entry: Entry) -> Iterator[None]:
    """Turn whatever a senseless entry causes into one clear refusal.

    Examples
    --------
    >>> with readable(Entry(number=7, hash="", cost=Cost(), request={})):
    ...     {}["events"]
    Traceback (most recent call last):
    twofold.errors.LedgerBroken: an entry of this ledger cannot be read...
    """
    try:
        yield
    except LedgerBroken:
        raise
    except TwofoldError as error:
        raise _unreadable(entry, error.summary) from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise _unreadable(entry, type(error).__name__) from None


def _unreadable(entry: Entry, why: str) -> LedgerBroken:
    return LedgerBroken(
        "an entry of this ledger cannot be read or priced.",
        found=f"record {entry.number}: {why}",
        expected="events and a guarantee that this version of twofold knows",
        fix=f"use the version of twofold that wrote it, or a newer one; if it was edited: {RESTORE}",
        parameter="events",
    )


def _wrong(entry: Entry, found: str, expected: str) -> LedgerBroken:
    return LedgerBroken(
        "an entry of this ledger is not what twofold would have written: it was edited and hashed again.",
        found=f"record {entry.number}: {found}",
        expected=expected,
        fix=RESTORE,
        parameter="cost",
    )


def time_notes(records: Sequence[Record]) -> Iterator[str]:
    """Note where the time runs backwards: a clock was set back, or records were rewritten. Never an error."""
    latest, number, times = "", 0, 0
    for record in records:
        at = record.body.get("at")
        if not isinstance(at, str) or not _TIME.fullmatch(at):
            continue
        if at < latest:
            times += 1
            if times == 1:
                first = f"record {record.number} is dated {at}, before record {number} ({latest})"
        else:
            latest, number = at, record.number
    if times:
        more = f", and {times - 1} more" if times > 1 else ""
        yield f"{first}{more}: the clock was set back, or records were rewritten"


def _notes(how: Standing, state: LedgerState, keys: Keys) -> Iterator[str]:
    if how is not Standing.CLEAN:
        yield f"{how.value}; the next write repairs it and records any torn bytes"
    for entry in state.open:
        yield (
            f"record {entry.number} is reserved and not committed: a process is drawing or has died; it counts as spent"
            + ("; asking for the same release with the same data resumes it" if keys.whole(entry) else "")
        )
    lost = sum(entry.status == "lost" for entry in state.entries)
    if lost:
        yield f"{lost} reservation(s) spent without a release"
    if state.repaired:
        yield f"{state.repaired} torn line(s) recorded"
