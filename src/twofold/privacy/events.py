r"""Complete descriptions of what was released: frozen records that compute nothing.

An event is known before anything is drawn, so that a ledger can reserve its cost first. It names the
mechanism, the sensitivity, the noise, the grid, the unit with its adjacency, and whether the noise was
seeded. Mechanisms make events, the accountant prices them, and neither knows the other.

Compatibility laws
------------------
1. A kind (``"discrete-laplace/1"``) is never removed and its fields never change their meaning; a change of
   meaning is a new kind with a higher number.
2. Numbers are whole or exact fractions written as text ("1/10"); no float is ever stored.
3. A record with an unknown kind, an unknown field or a missing field is refused, not guessed.
4. ``from_dict(event.as_dict()) == event``, and ``as_dict()`` holds only str, int, bool, list and dict.

All lengths are in grid units: an event on a grid of step 1/1024 with ``sensitivity`` 2048 lets one unit move
the true values by 2 in l1 distance.

`Released` is what a mechanism returns: the value that may leave, and the event that says what it cost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeVar, cast

from twofold import checks
from twofold.errors import BadPrivacyParameter, Set, UnsupportedEvent
from twofold.privacy.budget import Number, positive
from twofold.privacy.unit import Unit

__all__ = [
    "DiscreteGaussianEvent",
    "DiscreteGaussianShareEvent",
    "DiscreteLaplaceEvent",
    "DiscreteLaplaceShareEvent",
    "Event",
    "NonPrivateEvent",
    "OperatorSumEvent",
    "ParallelEvent",
    "Released",
    "SelectionEvent",
    "SequentialEvent",
    "ThresholdEvent",
    "event_from_dict",
    "flatten",
    "is_seeded",
]

T = TypeVar("T")
_KINDS: dict[str, type[Event]] = {}


@dataclass(frozen=True, kw_only=True)
class Event:
    """The common part of all events: whose presence is hidden, and whether the noise can be repeated.

    Parameters
    ----------
    unit : Unit
        Whose presence is hidden, under add-or-remove-one.
    seeded : bool
        True if the noise came from a seed: the release is then *not private*, whatever its parameters say.

    Examples
    --------
    >>> event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=60, scale=60, coordinates=457)
    >>> event_from_dict(event.as_dict()) == event
    True
    """

    kind: ClassVar[str] = "event/0"
    unit: Unit
    seeded: bool = False

    def __init_subclass__(cls) -> None:
        known = _KINDS.setdefault(cls.kind, cls)
        if known.__qualname__ != cls.__qualname__:
            raise UnsupportedEvent(
                "this kind of event exists.", found=cls.kind, fix="give the class its own kind", parameter="kind"
            )

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(self, field.name, str(field.type))
        _check_inner(self)

    def as_dict(self) -> dict[str, Any]:
        """Give the plain record, ready for JSON."""
        return {"kind": self.kind, **{field.name: _plain(getattr(self, field.name)) for field in fields(self)}}

    def to_json(self) -> str:
        """Give the record as canonical JSON: sorted keys, no spaces."""
        return json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplaceEvent(Event):
    """Integer values plus independent discrete Laplace noise, P(k) ∝ exp(-|k|/scale).

    Parameters
    ----------
    sensitivity : Fraction
        How far one unit can move the values, in l1 distance, in grid units.
    scale : Fraction
        Scale of the noise in grid units. The guarantee is ε = sensitivity/scale.
    coordinates : int
        Number of released values.
    grid : Fraction
        Value of one grid unit.
    """

    kind: ClassVar[str] = "discrete-laplace/1"
    sensitivity: Fraction
    scale: Fraction
    coordinates: int
    grid: Fraction = Fraction(1)


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplaceShareEvent(Event):
    """One party's share of a discrete Laplace noise: `parties` such shares add up to exactly one noise.

    The guarantee ε = sensitivity/scale holds for the *sum* over at least `parties` honest parties, when only
    the sum is seen (secure aggregation). A share seen alone has no guarantee.

    Parameters
    ----------
    sensitivity, scale, coordinates, grid
        As for `DiscreteLaplaceEvent`, of the sum.
    parties : int
        Number of honest shares that make one whole noise.
    """

    kind: ClassVar[str] = "discrete-laplace-share/1"
    sensitivity: Fraction
    scale: Fraction
    parties: int
    coordinates: int
    grid: Fraction = Fraction(1)


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussianEvent(Event):
    """Integer values plus independent discrete Gaussian noise, P(k) ∝ exp(-k²/(2·variance)).

    Parameters
    ----------
    sensitivity_squared : Fraction
        How far one unit can move the values, in squared l2 distance, in grid units.
    variance : Fraction
        The σ² of the noise in grid units. The guarantee is ρ = sensitivity_squared/(2·variance) in zCDP.
    coordinates : int
        Number of released values.
    grid : Fraction
        Value of one grid unit.
    """

    kind: ClassVar[str] = "discrete-gaussian/1"
    sensitivity_squared: Fraction
    variance: Fraction
    coordinates: int
    grid: Fraction = Fraction(1)


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussianShareEvent(Event):
    """One party's share of a Gaussian noise: a discrete Gaussian of `variance`, summed over `parties`.

    The guarantee holds for the sum over at least `parties` honest parties when only the sum is seen; the
    accountant prices it with theorem 1 of Kairouz, Liu and Steinke 2021.

    Parameters
    ----------
    sensitivity_squared, coordinates, grid
        As for `DiscreteGaussianEvent`.
    variance : Fraction
        σ² of one share (not of the sum).
    parties : int
        Number of honest shares in the sum.
    """

    kind: ClassVar[str] = "discrete-gaussian-share/1"
    sensitivity_squared: Fraction
    variance: Fraction
    parties: int
    coordinates: int
    grid: Fraction = Fraction(1)


@dataclass(frozen=True, kw_only=True)
class OperatorSumEvent(Event):
    """A sum over entities that two operators hold in shares, each adding its own whole noise before they join it.

    The price is that of `noise`: of the two noises, an adversary who works with one operator and any number of entities
    knows one and not the other. Both operators together open every entity's exact numbers, or what `shares` hides.

    Parameters
    ----------
    noise : DiscreteGaussianEvent or DiscreteLaplaceEvent
        Noise of one operator, over the whole sum.
    operators : int
        How many add one: at least two, since one would open every message.
    shares : tuple of Event
        The entity's own share of a further noise, if it adds one; empty otherwise.

    Privacy
    -------
    Proof in docs/reference/operators.md. Noise of another kind is refused: nothing is proved of it here.

    Examples
    --------
    >>> noise = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=60, scale=60, coordinates=457)
    >>> OperatorSumEvent(unit=Unit.person(), noise=noise).operators
    2
    """

    kind: ClassVar[str] = "operator-sum/1"
    noise: Event
    operators: int = 2
    shares: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.operators < 2:
            raise BadPrivacyParameter(
                "a sum in shares needs two operators.", found=str(self.operators), parameter="operators"
            )
        if type(self.noise) not in (DiscreteGaussianEvent, DiscreteLaplaceEvent):
            raise BadPrivacyParameter(
                "an operator adds one whole Gaussian or Laplace noise.", found=self.noise.kind, parameter="noise"
            )
        allowed = (DiscreteGaussianShareEvent, DiscreteLaplaceShareEvent)
        if len(self.shares) > 1 or any(type(one) not in allowed for one in self.shares):
            raise BadPrivacyParameter(
                "an entity adds one share of a noise, or none.", found=f"{len(self.shares)} parts", parameter="shares"
            )


@dataclass(frozen=True, kw_only=True)
class SelectionEvent(Event):
    """Exponential mechanism, `picks` times without replacement, weight exp(score/scale).

    One pick costs sensitivity/scale when scores are monotone (one more unit moves every score the same way),
    and twice that otherwise; the picks add up. This is the law of the one-shot Gumbel top-s.

    Parameters
    ----------
    sensitivity : Fraction
        How far one unit can move any one score, in grid units.
    scale : Fraction
        Scale of the selection in grid units.
    picks, candidates : int
        Number of picks, and of candidates.
    monotone : bool
        Whether one more unit moves all scores the same way.
    grid : Fraction
        Value of one grid unit of a score.
    """

    kind: ClassVar[str] = "selection/1"
    sensitivity: Fraction
    scale: Fraction
    picks: int
    candidates: int
    monotone: bool
    grid: Fraction = Fraction(1)


@dataclass(frozen=True, kw_only=True)
class ThresholdEvent(Event):
    """Every cell of a partition opens when its count plus discrete Laplace noise exceeds a public threshold.

    Empty cells are decided by the same law. One unit is in at most `cells_per_unit` cells, so the guarantee
    is ε = cells_per_unit/scale.

    Parameters
    ----------
    scale : Fraction
        Scale of the noise on a count.
    threshold : int
        Public threshold.
    cells_per_unit : int
        Number of cells in which one unit is counted.

    Privacy
    -------
    The number of cells is not stored: it is a function of earlier releases and priced at nothing.
    """

    kind: ClassVar[str] = "threshold/1"
    scale: Fraction
    threshold: int
    cells_per_unit: int = 1


@dataclass(frozen=True, kw_only=True)
class NonPrivateEvent(Event):
    """A step that was not private. It costs infinity, and it is recorded.

    Parameters
    ----------
    reason : str
        What was done, in words, with no private value in it.
    """

    kind: ClassVar[str] = "non-private/1"
    reason: str


@dataclass(frozen=True, kw_only=True)
class SequentialEvent(Event):
    """Several releases about the same people, one after another; each may depend on those before.

    Examples
    --------
    >>> part = ThresholdEvent(unit=Unit.person(), scale=10, threshold=50)
    >>> len(SequentialEvent.of(part, part).events)
    2
    """

    kind: ClassVar[str] = "sequential/1"
    events: tuple[Event, ...]

    @classmethod
    def of(cls, *events: Event) -> SequentialEvent:
        """Compose events with the same unit."""
        return cls(unit=_common_unit(events), seeded=any(map(is_seeded, events)), events=events)


@dataclass(frozen=True, kw_only=True)
class ParallelEvent(Event):
    """Releases about disjoint parts of the people, where a person's part depends on that person alone.

    Under add-or-remove-one a unit is in one part, so the most expensive part is the price of all.

    Examples
    --------
    >>> part = ThresholdEvent(unit=Unit.person(), scale=10, threshold=50)
    >>> ParallelEvent.of(part, part).kind
    'parallel/1'
    """

    kind: ClassVar[str] = "parallel/1"
    events: tuple[Event, ...]

    @classmethod
    def of(cls, *events: Event) -> ParallelEvent:
        """Put events with the same unit side by side."""
        return cls(unit=_common_unit(events), seeded=any(map(is_seeded, events)), events=events)


def event_from_dict(record: Mapping[str, Any]) -> Event:
    """Read an event; an unknown kind, a missing or an unknown field is refused.

    Examples
    --------
    >>> event_from_dict({"kind": "magic/1"})
    Traceback (most recent call last):
    twofold.errors.UnsupportedEvent: this kind of event is unknown...
    """
    cls = _KINDS.get(str(record.get("kind")))
    if cls is None:
        raise UnsupportedEvent(
            "this kind of event is unknown.",
            found=repr(record.get("kind")),
            expected=", ".join(sorted(_KINDS)),
            parameter="kind",
        )
    names = {field.name for field in fields(cls)}
    if set(record) != {"kind", *names}:
        raise UnsupportedEvent(
            f"the record of a {cls.kind} event has the wrong fields.",
            found=", ".join(sorted(record)),
            expected=", ".join(sorted({"kind", *names})),
        )
    values = {name: record[name] for name in names}
    values["unit"] = Unit.from_dict(values["unit"])
    for name in ("events", "shares"):
        if name in values:
            values[name] = tuple(event_from_dict(inner) for inner in values[name])
    if "noise" in values:
        if not isinstance(values["noise"], Mapping):
            raise UnsupportedEvent("the noise of an event has another form.", parameter="noise")
        values["noise"] = event_from_dict(values["noise"])
    return cls(**values)


def flatten(event: Event) -> Iterator[Event]:
    """Give the single events inside an event, in order; the mark of a composed event goes to all inside it.

    Examples
    --------
    >>> part = ThresholdEvent(unit=Unit.person(), scale=10, threshold=50)
    >>> [one.kind for one in flatten(SequentialEvent.of(part, ParallelEvent.of(part, part)))]
    ['threshold/1', 'threshold/1', 'threshold/1']
    """
    inner = getattr(event, "events", None)
    if inner is None:
        yield event
        return
    for one in inner:
        yield from flatten(replace(one, seeded=True) if event.seeded and not one.seeded else one)


def is_seeded(event: Event) -> bool:
    """Whether any noise in an event came from a seed, which makes it not private.

    Examples
    --------
    >>> is_seeded(ThresholdEvent(unit=Unit.person(), seeded=True, scale=10, threshold=50))
    True
    """
    return event.seeded or any(one.seeded for one in flatten(event))


def _common_unit(events: tuple[Event, ...]) -> Unit:
    units = {event.unit for event in events}
    if len(units) != 1:
        raise BadPrivacyParameter(
            "events are composed only when they protect the same unit.",
            found=f"{len(units)} units",
            expected="one",
            parameter="unit",
        )
    return units.pop()


def _check(event: Event, name: str, kind: str) -> None:
    """Check the declared type of a field: positive fractions, positive whole numbers, plain bools."""
    value = getattr(event, name)
    if kind == "Fraction":
        object.__setattr__(event, name, positive(cast(Number, value), name=name))
    elif kind == "int":
        checks.whole(name, value, least=None if name == "threshold" else 1, error=BadPrivacyParameter)
    elif kind in ("bool", "str", "Unit") and type(value).__name__ != kind:
        raise BadPrivacyParameter(f"{{parameter}} must be a {kind}.", found=type(value).__name__, parameter=name)
    elif kind == "Event" and not isinstance(value, Event):
        raise BadPrivacyParameter("{parameter} must be an event.", found=type(value).__name__, parameter=name)
    elif kind.startswith("tuple") and not (_are_events(value) or (name == "shares" and value == ())):
        raise BadPrivacyParameter(
            "a composed event needs a tuple of at least one event.", found=type(value).__name__, parameter=name
        )


def _check_inner(event: Event) -> None:
    """Check that a composed event has the unit and the mark of the events inside it."""
    inner: tuple[Event, ...] = getattr(event, "events", ())
    if isinstance(event, OperatorSumEvent):
        inner = (event.noise, *event.shares)
    _common_unit((event, *inner))
    if not event.seeded and any(map(is_seeded, inner)):
        raise BadPrivacyParameter(
            "a composed event hides the mark of seeded noise inside it.", fix=Set("seeded", True), parameter="seeded"
        )


def _are_events(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(one, Event) for one in value)


def _plain(value: object) -> object:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.as_dict() if isinstance(value, Event | Unit) else value


@dataclass(frozen=True, kw_only=True)
class Released(Generic[T]):
    """A released value with its event; neither comes without the other.

    Examples
    --------
    >>> event = NonPrivateEvent(unit=Unit.person(), reason="an exact count for a test")
    >>> Released(value=3, event=event).not_private
    True
    """

    value: T
    event: Event

    @property
    def not_private(self) -> bool:
        """True if the noise was seeded or missing."""
        return any(one.seeded or isinstance(one, NonPrivateEvent) for one in (self.event, *flatten(self.event)))
