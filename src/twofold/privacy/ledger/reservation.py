"""Reserve, then draw, then commit: what a release needs from the ledger, and how its bytes may leave."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from twofold import __version__
from twofold.checks import is_hash
from twofold.errors import BadPrivacyParameter, BudgetExceeded, LedgerBroken, PrivacyError, SeededNoise, UnitMissing
from twofold.privacy.budget import NotPrivate
from twofold.privacy.events import Event, SequentialEvent, flatten, is_seeded
from twofold.privacy.ledger.files import guarded
from twofold.privacy.ledger.keys import resumes
from twofold.privacy.ledger.record import digest, new_nonce
from twofold.privacy.ledger.state import (
    DIGITS,
    Cost,
    Entry,
    Guarantee,
    LedgerState,
    check_digits,
    cost_of,
    cost_text,
    is_version,
)
from twofold.privacy.ledger.writer import Writer
from twofold.privacy.unit import Unit
from twofold.storage import files as disk

__all__ = ["FIRST", "Request", "Reservation", "check", "check_names", "reserving", "takes_source"]

#: The public version of data that were never said to have another one.
FIRST = "1"
#: Most parts of a release: a ledger with more could not be verified in reasonable time.
_MOST_EVENTS = 500


@dataclass(frozen=True, kw_only=True)
class Request:
    """One release: for which plan and version of the data, what it does, whom it protects, what it costs.

    Parameters
    ----------
    plan : str
        SHA-256 of the plan, 64 hexadecimal digits.
    data : str
        SHA-256 of the data, 64 hexadecimal digits. Stays at the entity; only shows it that a release is out of date.
    version : str
        Public version of the data, such as "2020" or "2": with the plan, the key of the release. Chosen without
        looking at the data, for instance by the calendar.
    events : sequence of Event
        Everything the mechanisms will do, in order.
    unit : Unit
        Whose presence is hidden; must be the unit of the ledger and of every event.
    cost : PureDP, ApproxDP or NotPrivate, optional
        What to charge; the accountant's price at δ = 0 by default. Never less than the accountant's price: more is
        allowed, for a caller that knows less than it could. Gaussian noise needs an `ApproxDP` with its δ.
    about : mapping, optional
        Public facts for the card, plain JSON: what leaves, number of items, size of the noise.

    Privacy
    -------
    Everything here is written to the ledger before the draw, so nothing here may depend on private data, except
    `data`, which is a digest and stays at the entity. A nonce goes into the record with it: the hash of the record is
    printed on the card, and without a nonce it would reveal whether a guess at the data is right.
    """

    plan: str
    data: str
    events: Sequence[Event]
    unit: Unit
    version: str = FIRST
    cost: Guarantee | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_names(plan=self.plan, data=self.data, version=self.version)
        if not self.events or not all(isinstance(event, Event) for event in self.events):
            raise BadPrivacyParameter(
                "a release needs at least one event.", expected="a list of Event", parameter="events"
            )
        if sum(1 for event in self.events for _ in flatten(event)) > _MOST_EVENTS:
            raise BadPrivacyParameter(
                "a release has too many parts to be checked again.",
                expected=f"at most {_MOST_EVENTS}",
                parameter="events",
            )
        object.__setattr__(self, "cost", _charged(self.events, self.cost))
        if not cost_of(self.charge).is_short:
            raise BadPrivacyParameter(
                "the cost has more digits than a ledger holds.", expected=f"at most {DIGITS}", parameter="cost"
            )

    @property
    def charge(self) -> Guarantee:
        """What the ledger will charge: `cost`, or the accountant's price."""
        assert self.cost is not None
        return self.cost

    @property
    def seeded(self) -> bool:
        """Whether any of the noise can be repeated."""
        return any(is_seeded(event) for event in self.events)

    def body(self) -> dict[str, Any]:
        """Give the content of a reserve record, with a new nonce at each call."""
        return {
            "kind": "reserve",
            "plan": self.plan,
            "version": self.version,
            "data": self.data,
            "nonce": new_nonce(),
            "unit": self.unit.as_dict(),
            "guarantee": self.charge.as_dict(),
            **cost_of(self.charge).as_dict(),
            "events": [event.as_dict() for event in self.events],
            "about": dict(self.about),
            "seeded": self.seeded,
            "software": f"twofold {__version__}",
        }


def check_names(*, plan: str, data: str, version: str) -> None:
    """Refuse an invalid name of a release, without repeating it.

    Examples
    --------
    >>> check_names(plan="0" * 64, data="1" * 64, version="2020")
    """
    for name, value in (("plan", plan), ("data", data)):
        if not is_hash(value):
            raise BadPrivacyParameter(
                f"the {name} must be given as a SHA-256, so that nothing readable enters the ledger.",
                found=_shape(value),
                expected="64 hexadecimal digits",
                parameter=name,
            )
    if not is_version(version):
        raise BadPrivacyParameter(
            "the version of the data must be a short public text.",
            found=_shape(version),
            expected="1 to 64 printable characters",
            fix='version="2", chosen without looking at the data',
            parameter="version",
        )


def _shape(value: object) -> str:
    return f"{len(value)} characters" if isinstance(value, str) else type(value).__name__


def _charged(events: Sequence[Event], cost: Guarantee | None) -> Guarantee:
    """Price the events, and refuse a stated cost that is below their price."""
    # Loaded here: the accountant brings the mechanisms with it, and reading a ledger needs neither.
    from twofold.privacy.accountant import spent

    if cost is None:
        return spent(SequentialEvent.of(*events))
    stated = cost_of(cost)
    if isinstance(cost, NotPrivate):
        return cost
    priced = spent(SequentialEvent.of(*events), delta=Fraction(stated.delta))
    if not cost_of(priced).fits(stated):
        raise BadPrivacyParameter(
            "the stated cost is below what the events cost.",
            found=cost_text(stated),
            expected=f"at least {cost_text(cost_of(priced))}",
            fix="leave cost out, or state the price that the accountant gives",
            parameter="cost",
        )
    return cost


def check(request: Request, state: LedgerState, *, name: str) -> None:
    """Refuse a release that the ledger cannot pay for or cannot add to what it holds."""
    if any(unit.as_dict() != state.unit for unit in (request.unit, *(event.unit for event in request.events))):
        raise UnitMissing(
            "this release and its ledger protect different units; their costs cannot be added.",
            found=str(request.unit.as_dict()),
            expected=str(dict(state.unit)),
            fix="write the ledger's unit into the plan. Never start a second ledger: the same people would be in both, "
            "and their budget would be spent twice",
            parameter="unit",
        )
    cost = cost_of(request.charge)
    if request.seeded and state.ceiling.epsilon != float("inf"):
        raise SeededNoise(
            "repeatable noise protects nobody, and this ledger has a ceiling.",
            expected="noise from the operating system, or a ledger without a ceiling, for simulations only",
            parameter="rng",
        )
    if not check_digits(state.spent + cost):
        raise BadPrivacyParameter(
            "the cost and what was spent before have too many digits to be added.",
            expected="short decimals, such as 0.5",
            parameter="cost",
        )
    if not (state.spent + cost).fits(state.ceiling):
        raise _exceeded(cost, state, name)


def _exceeded(cost: Cost, state: LedgerState, name: str) -> BudgetExceeded:
    remaining, enough = state.remaining, state.spent + cost
    return BudgetExceeded(
        "the release was refused; nothing was drawn and nothing was sent.",
        found=f"requested {cost_text(cost)}; remaining {cost_text(remaining)}; "
        f"difference {cost_text(cost.minus(remaining))} ({name}, {len(state.entries)} entries)",
        expected=f"at most what remains of the ceiling, {cost_text(state.ceiling)}",
        fix=f"ask for less, or raise the ceiling: twofold ledger raise {name} --epsilon {enough.epsilon}"
        + (f" --delta {enough.delta}" if enough.delta else "")
        + (f" --keys {name.removesuffix('.ledger')}.keys" if state.signer else "")
        + ' --reason "..." (recorded)',
        parameter="cost",
    )


SPENT = "the cost is spent, and a draw from the ledger's own noise can be finished; room=BYTES claims space beforehand"
OTHERWISE = "asked for again with other data, events or software"


class Reservation:
    """A cost already in the ledger, waiting for the bytes it pays for."""

    def __init__(self, writer: Writer, entry: Entry, *, resumed: bool = False) -> None:
        self._writer = writer
        self.entry = entry
        self.resumed = resumed
        self.committed = False
        # Of the first bytes that were tried, by this process or the one before: no others may follow them.
        self._fingerprint = writer.files.tried(entry)
        self._lock = threading.Lock()

    def drawn(self, draw: Callable[..., bytes]) -> bytes:
        """Draw from the key of this reservation and check the result.

        An error of the draw closes the reservation as lost: the same key would fail again or, once the program is
        corrected, serve a different program. If the process ends instead (an interrupt, too little memory), the
        reservation stays open, as after a kill, and asking again gives the same bytes.
        """
        source = self._writer.keys.source(self.entry)
        try:
            if source is None:
                raise LedgerBroken(
                    "the key of this draw did not reach the disk.", fix="try another disk", parameter="key"
                )
            content = _bytes(draw(source))
            self._claim(digest(content))
        except MemoryError:
            raise
        except Exception:
            self.give_up("the draw failed")
            raise
        finally:
            if source is not None:
                source.close()
        return content

    def commit(self, content: bytes) -> bytes:
        """Store the release and record its digest; only the bytes returned here may be sent.

        After a full disk it accepts the same bytes again, and no others: the cost is already paid.
        """
        self._writer.check_holder()  # before the lock below, which a forked child may find taken for ever
        _bytes(content)
        with self._lock:
            self._claim(digest(content))
            disk.step("drawn")
            with guarded(self._writer.files, SPENT):
                fingerprint = self._writer.files.store(self.entry, content)
                self._writer.commit(self.entry, fingerprint, len(content), resumed=self.resumed)
            self.committed = True
            with suppress(OSError):  # what is left of it is swept by the next writer, and by the next one who asks
                self._writer.keys.destroy(self.entry)
        return content

    def _claim(self, fingerprint: str) -> None:
        """Bind the reservation to the first bytes that were tried, even if the disk refused them."""
        if self.committed:
            raise PrivacyError(
                "a reservation pays for one release.", fix="reserve again for another one", parameter="reservation"
            )
        if self._fingerprint not in (None, fingerprint):
            raise LedgerBroken(
                "a reservation pays for one release, and other bytes were tried before; these may not be sent.",
                expected="the same bytes as at the first commit",
                fix="commit those again, or reserve again for another release",
                parameter="content",
            )
        self._fingerprint = fingerprint

    def give_up(self, reason: str) -> None:
        """Close the reservation without a release; it stays spent. If the disk refuses, treat it like a kill."""
        with suppress(OSError, LedgerBroken):
            self._writer.settle(reason=reason, given_up=self.entry)

    def leave(self, reason: str) -> None:
        """Give up, unless the draw can be made again from its key or its bytes are stored already."""
        with suppress(OSError, LedgerBroken):
            self._writer.settle(reason=reason)


@contextmanager
def reserving(writer: Writer, request: Request, *, room: int, keyed: bool = False) -> Iterator[Reservation]:
    """Check, claim disk space, write the reservation or find the one to resume, and hand it over for the draw."""
    reservation = _reserved(writer, request, room=room, keyed=keyed)
    disk.step("reserved")
    try:
        yield reservation
    except BaseException:
        if not reservation.committed:
            reservation.leave("the draw failed")
        raise
    if not reservation.committed:
        reservation.give_up("nothing was committed")


def _reserved(writer: Writer, request: Request, *, room: int, keyed: bool) -> Reservation:
    """Find the reservation of exactly this request, or close any other under its name and pay for a new one.

    A refused request leaves open reservations unchanged: nothing is drawn for it.
    """
    files, body = writer.files, request.body()
    waiting = [one for one in writer.state.open if one.key == (request.plan, request.version)]
    same = next((one for one in waiting if keyed and resumes(one, body)), None)
    if same is None:
        check(request, writer.state, name=files.book.name)
    with guarded(files, "nothing was drawn"):
        files.claim_room(room)
        for other in waiting:
            if other is not same:
                writer.lose(other, OTHERWISE)
        if same is not None:
            return Reservation(writer, same, resumed=True)
        record = writer.append(body | ({"draw": writer.keys.make(body["nonce"])} if keyed else {}))
    return Reservation(writer, next(one for one in writer.state.open if one.number == record.number))


def takes_source(draw: Callable[..., Any]) -> bool:
    """Whether a draw takes the noise as an argument: it does if it cannot be called without one.

    Examples
    --------
    >>> takes_source(lambda source: b""), takes_source(lambda: b""), takes_source(lambda rows=1: b"")
    (True, False, False)
    """
    try:
        signature = inspect.signature(draw)
    except ValueError:  # some functions written in C do not say
        return False
    for given in ((), (None,)):
        with suppress(TypeError):
            signature.bind(*given)
            return bool(given)
    raise BadPrivacyParameter(
        "draw takes nothing, or the noise to draw from.", fix="draw=lambda source: ...", parameter="draw"
    )


def _bytes(content: object) -> bytes:
    if not isinstance(content, bytes):
        raise PrivacyError("a release is bytes.", found=type(content).__name__, expected="bytes", parameter="content")
    return content
