"""What a release asks of the ledger, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from twofold import __version__
from twofold.checks import is_hash
from twofold.errors import BadPrivacyParameter, BudgetExceeded, SeededNoise, UnitMissing
from twofold.privacy.budget import NotPrivate
from twofold.privacy.events import Event, SequentialEvent, is_seeded
from twofold.privacy.ledger.record import new_nonce
from twofold.privacy.ledger.state import Cost, Guarantee, LedgerState, cost_of, cost_text
from twofold.privacy.unit import Unit

__all__ = ["FIRST", "Request", "check", "check_names"]

#: The public version of data that were never said to have another one.
FIRST = "1"

_LONGEST = 64


@dataclass(frozen=True, kw_only=True)
class Request:
    """One release: for which plan and version of the data, what it does, whom it protects, what it costs.

    Parameters
    ----------
    plan : str
        SHA-256 of the plan, 64 hexadecimal digits.
    data : str
        SHA-256 of the data, 64 hexadecimal digits. Stays at the entity; only tells it that a release has aged.
    version : str
        Public name of the state of the data, as "2020" or "2": with the plan the key of the release. Decided without
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
    printed on the card, and without a nonce it would tell whether a guess at the data is right.
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
        object.__setattr__(self, "cost", _charged(self.events, self.cost))

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
    """Refuse what cannot name a release, without repeating it.

    Examples
    --------
    >>> check_names(plan="0" * 64, data="1" * 64, version="2020")
    """
    for name, value in (("plan", plan), ("data", data)):
        if not is_hash(value):
            raise BadPrivacyParameter(
                f"the {name} is named by its SHA-256, so that nothing readable enters the ledger.",
                found=_shape(value),
                expected="64 hexadecimal digits",
                parameter=name,
            )
    if not isinstance(version, str) or not version.strip() or not version.isprintable() or len(version) > _LONGEST:
        raise BadPrivacyParameter(
            "the version of the data is a short public text.",
            found=_shape(version),
            expected=f"1 to {_LONGEST} printable characters",
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
            "this release protects another unit than its ledger; their costs cannot be added.",
            found=str(request.unit.as_dict()),
            expected=str(dict(state.unit)),
            fix="keep a ledger for each unit, or make the plan say the unit of the ledger",
            parameter="unit",
        )
    cost = cost_of(request.charge)
    if request.seeded and state.ceiling.epsilon != float("inf"):
        raise SeededNoise(
            "repeatable noise protects nobody, and this ledger has a ceiling.",
            expected="noise from the operating system, or a ledger without a ceiling, for simulations only",
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
        + ' --reason "..." (recorded)',
    )
