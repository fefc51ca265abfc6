r"""The privacy card: one page about one release, for people who decide, rebuilt from the ledger alone.

Its order follows the pyramid of NIST SP 800-226: first the guarantee (ε, δ, whose presence is hidden), then what could
undermine it (mechanism, randomness, software, use), then what it rests on (trust, access, collection of the data).
Its sentences say what each figure means without mathematics.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, get_args

from twofold.errors import BadCard, BadPrivacyParameter, LedgerBroken, PrivacyError, TwofoldError
from twofold.privacy import trust
from twofold.privacy.accountant import price, spent
from twofold.privacy.budget import (
    ZCDP,
    ApproxDP,
    Guarantee,
    NotPrivate,
    PureDP,
    best_guess,
    guarantee_from_dict,
    weak_promise,
)
from twofold.privacy.coalitions import PUBLIC, coalitions_of
from twofold.privacy.event_words import describe, main_noise, operator_sum, own_shares, parties
from twofold.privacy.events import DiscreteGaussianShareEvent, Event, SequentialEvent, flatten
from twofold.privacy.ledger import (
    Cost,
    Entry,
    Ledger,
    LedgerState,
    Statement,
    cost_of,
    events_of,
    guarantee_of,
    readable,
)
from twofold.privacy.printed import brief, percent, raises_in_words, rounded_up
from twofold.privacy.site_words import AuditResult, SiteWords
from twofold.privacy.trust import not_promised, protects
from twofold.privacy.unit import Unit
from twofold.storage.container import canonical_json

__all__ = [
    "ALONE",
    "Card",
    "Figure",
    "alone_cost",
    "brief",
    "card_from_ledger",
    "card_of",
    "percent",
    "protects",
    "rounded_up",
]

Priced = PureDP | ApproxDP | NotPrivate
#: Beginning of the figure for a secure sum that was broken.
ALONE = "this message alone"
#: End of the figure for all that the ledger was charged for, and beginning of the same if every secure sum was broken.
TOGETHER = "all releases so far together"
ALL_ALONE = "all messages alone, together"
_READERS = "readers of the sum, if both operators add their noise and neither tells it"
#: Most characters of one text on a card that is read.
_LONGEST = 4_000


@dataclass(frozen=True, kw_only=True)
class Figure:
    """An ε and δ with what they mean: how often a best guess is right, from even odds, by the ε and δ as printed.

    `headline` is false if the figure answers another question than the card's first sentence: one person replaced by
    another, or a secure sum that was broken.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    meaning: str
    epsilon: float
    delta: float
    guess: float
    cost: str
    headline: bool = True

    @property
    def is_sane(self) -> bool:
        """Whether the printed cost is not below the exact one, and the guess follows from it."""
        epsilon, delta = _printed(self.cost)
        return self.guess == _guess(self.cost) and 0 <= self.epsilon <= epsilon and 0 <= self.delta <= delta


@dataclass(frozen=True, kw_only=True)
class Card:
    """The content of the page. Only public facts: no data digest, no nonce, no count of people.

    All comes from the ledger but `statement`, which is the site's, and `audit`, the result of the attack tests.
    `entities`, `survivors` and `colluders` are None without a secure sum, and in ledgers that do not record them.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    dataset: str
    at: str
    private: bool
    seeded: bool
    what_left: str
    bytes: int
    digest: str
    protects: str
    against: str
    parties: int
    unit: dict[str, Any]
    adjacency: str
    figures: tuple[Figure, ...]
    mechanisms: tuple[str, ...]
    noise: float | None
    signal: dict[str, float] | None
    public_numbers: dict[str, Any] | None
    not_promised: tuple[str, ...]
    randomness: str
    software: str
    plan: str
    version: str
    record: int
    record_hash: str
    ceiling: str
    spent: str
    releases: int
    variant: str
    rho: float | None
    weak: tuple[str, ...]
    sharing: str
    model: str
    noise_by: str
    entities: int | None
    survivors: int | None
    colluders: int | None
    trust: str
    composition: str
    post_processing: str
    preprocessing: str
    timing: str
    unprotected: tuple[str, ...]
    release_type: str
    data_source: str
    renews: str
    ledger_head: str
    ledger_records: int
    statement: SiteWords
    audit: AuditResult | None

    @property
    def guess(self) -> float:
        """Best guess of an attacker who sees this release in its intended form, from every entity a person is in."""
        return max(one.guess for one in self.figures if one.headline and one is not self.together)

    @property
    def alone(self) -> Figure | None:
        """The figure for this message alone if all others in its secure sum collude; None without a secure sum."""
        return next((figure for figure in self.figures if figure.meaning.startswith(ALONE)), None)

    @property
    def readers(self) -> Figure | None:
        """The figure for those who see a sum of operators and know neither noise; None without operators' noise."""
        return next((figure for figure in self.figures if figure.meaning.endswith(_READERS)), None)

    @property
    def together(self) -> Figure | None:
        """The figure for all that was charged to the ledger."""
        return next((figure for figure in self.figures if figure.meaning.endswith(TOGETHER)), None)

    @property
    def all_alone(self) -> Figure | None:
        """The same if all others collude in every secure sum; None for a single release, or without a secure sum."""
        return next((figure for figure in self.figures if figure.meaning.startswith(ALL_ALONE)), None)

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON; an infinite ε is written as text, because JSON has no infinity."""
        plain = asdict(self)
        for figure in plain["figures"]:
            figure["epsilon"] = figure["epsilon"] if math.isfinite(figure["epsilon"]) else "infinite"
        return {"card": 3, **plain}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Card:
        """Read a record of `as_dict`; refuse anything that it would not have written."""
        from pydantic import TypeAdapter, ValidationError  # loaded by those who read a card, not by those who make one

        given = {name: value for name, value in record.items() if name != "card"}
        try:
            figures = [
                {**one, "epsilon": math.inf if one["epsilon"] == "infinite" else one["epsilon"]}
                for one in given["figures"]
            ]
            made = TypeAdapter(cls).validate_python({**given, "figures": figures})
            same = canonical_json(made.as_dict()) == canonical_json(dict(record)) and made.is_sane
        except (ValidationError, TwofoldError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            same = False
        if not same:
            raise BadCard(
                "the file does not hold a privacy card of this version.",
                expected="a card as twofold card show wrote it",
                parameter="card",
            )
        return made

    @property
    def is_sane(self) -> bool:
        """Whether the figures are possible and follow from each other, and every text can be shown safely."""
        return (
            any(one.headline and one is not self.together for one in self.figures)
            and all(one.is_sane for one in self.figures)
            and self.sharing in get_args(trust.Sharing)
            and Unit.from_dict(self.unit).as_dict() == self.unit
            and (self.signal is None or set(self.signal) == {"low", "high"})
            and (self.noise is None or self.noise > 0)
            and (self.rho is None or self.rho >= 0)
            and all(len(text) <= _LONGEST and text.isprintable() for text in _texts(asdict(self)))
        )

    def to_json(self) -> str:
        """Give indented JSON, keys in the order of the page."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _texts(value: object) -> Iterator[str]:
    """All texts in plain JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(one)


def card_from_ledger(
    ledger: Ledger | Statement,
    *,
    record: int | None = None,
    statement: SiteWords | None = None,
    audit: AuditResult | None = None,
) -> Card:
    """Make the card of a release from its ledger.

    Parameters
    ----------
    ledger : Ledger or Statement
        Read, never written.
    record : int, optional
        Number of the reserve record; the latest release by default.
    statement : SiteWords, optional
        The site's own words; what is missing is printed as "not stated".
    audit : AuditResult, optional
        Result of the attack tests; "not run here" without it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from twofold.privacy.events import DiscreteLaplaceEvent
    >>> from twofold.privacy.ledger import digest
    >>> folder = tempfile.TemporaryDirectory()
    >>> unit, budget = Unit.person(), PureDP(epsilon=1)
    >>> ledger = Ledger.create(pathlib.Path(folder.name, "x.ledger"), dataset="visits", ceiling=budget, unit=unit)
    >>> event = DiscreteLaplaceEvent(unit=unit, sensitivity=60, scale=60, coordinates=457)
    >>> _ = ledger.release(
    ...     plan=digest(b"p"), data=digest(b"d"), events=[event], unit=unit, cost=budget, draw=lambda: b"sums"
    ... )
    >>> card = card_from_ledger(ledger)
    >>> card.private, round(card.figures[0].guess, 3), card.spent
    (True, 0.731, 'ε = 1')
    >>> folder.cleanup()
    """
    state = ledger.state()
    entry = _chosen(state, record)
    with readable(entry):
        return card_of(state, entry, statement=statement or SiteWords(), audit=audit)


def _chosen(state: LedgerState, record: int | None) -> Entry:
    released = [entry for entry in state.entries if entry.status == "released" and record in (None, entry.number)]
    if not released:
        known = ", ".join(str(entry.number) for entry in state.entries if entry.status == "released")
        raise PrivacyError(
            "this ledger does not have that release.",
            found="none" if record is None else f"record {record}",
            expected=f"one of the records {known}" if known else "a ledger with a release",
        )
    return released[-1]


def card_of(state: LedgerState, entry: Entry, *, statement: SiteWords, audit: AuditResult | None) -> Card:
    """Make the card of an entry of an account.

    Raises
    ------
    LedgerBroken
        The record holds something that no card can say.
    """
    try:
        return _card(state, entry, statement, audit)
    except TwofoldError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise LedgerBroken(
            "the record of this release does not hold what a card says.",
            found=f"record {entry.number}",
            expected="public facts as twofold records them",
            parameter="about",
        ) from None


def _card(state: LedgerState, entry: Entry, statement: SiteWords, audit: AuditResult | None) -> Card:
    asked, unit = entry.request, Unit.from_dict(entry.request["unit"])
    about = dict(asked["about"])
    events = events_of(entry)
    numbers = about.get("public_numbers")
    seeded = bool(asked["seeded"])
    private = not seeded and entry.cost.epsilon != math.inf and not about.get("simulation", False)
    guarantee = guarantee_from_dict(asked["guarantee"])
    figures = tuple(_figures(unit, guarantee, state, events, operated=_sharing(about, events) == "operators"))
    alone = next((one for one in figures if one.meaning.startswith(ALONE)), None)
    priced = alone is not None and math.isfinite(alone.epsilon)
    releases = sum(one.status == "released" for one in state.entries)
    return Card(
        dataset=state.dataset,
        at=asked["at"],
        private=private,
        seeded=seeded,
        what_left=str(about.get("what", "one message")),
        bytes=entry.size,
        digest=entry.digest,
        protects=protects(unit) if private else "nobody",
        against=str(about.get("against", _against(events, about, alone))) if private else "nobody",
        parties=parties(events),
        unit=unit.as_dict(),
        adjacency=unit.adjacency,
        figures=figures,
        mechanisms=tuple(line for event in events for line in describe(event)),
        noise=main_noise(events),
        signal=_signal(numbers) if numbers else None,
        public_numbers=numbers,
        not_promised=tuple(
            not_promised(
                unit,
                seeded=seeded,
                parties=parties(events),
                alone=priced,
                about=about,
                operators=_sharing(about, events) == "operators",
            )
        ),
        randomness=trust.randomness(events, seeded=seeded),
        software=asked["software"],
        plan=asked["plan"],
        version=asked["version"],
        record=entry.number,
        record_hash=entry.hash,
        ceiling="no ceiling" if state.ceiling.epsilon == math.inf else brief(state.ceiling),
        spent=brief(state.spent),
        releases=releases,
        weak=_weak(figures, numbers or about) if private else (),
        renews=f"never; only a raise with a recorded reason adds room ({raises_in_words(state.raises)})",
        data_source=f"static: version {asked['version']} of the data, as it was when the noise was drawn",
        release_type=_release_type(releases),
        ledger_head=state.hash,
        ledger_records=state.length,
        statement=statement,
        audit=audit,
        **_accounting(guarantee if private else NotPrivate(reason=""), events, releases, numbers or about, unit),
        **_trust(about, events, figures, alone, private=private),
    )


def _accounting(
    guarantee: Guarantee, events: list[Event], releases: int, numbers: Mapping[str, Any], unit: Unit
) -> dict[str, Any]:
    rho = _rho(events)
    count = sum(1 for event in events for _ in flatten(event))
    limits = {"bound": numbers.get("bound"), "max_items": numbers.get("max_items")}
    return {
        "variant": _variant(guarantee),
        "rho": None if rho is None else float(rho),
        "composition": trust.composition(rho=rho is not None, events=count, releases=releases),
        "post_processing": trust.post_processing(),
        "preprocessing": trust.preprocessing(holder=unit.holder, **limits),
        "timing": trust.TIMING,
    }


def _variant(guarantee: Guarantee) -> str:
    if isinstance(guarantee, NotPrivate):
        return "none"
    pure = isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and not guarantee.delta)
    return "pure differential privacy (ε)" if pure else "approximate differential privacy (ε, δ)"


def _rho(events: list[Event]) -> Fraction | None:
    """The ρ of the noise, where all of it is Gaussian."""
    try:
        found = price(SequentialEvent.of(*events))
    except BadPrivacyParameter:  # Laplace and Gaussian parts: no single term
        return None
    return found.rho if isinstance(found, ZCDP) else None


def _shown(figure: Figure | None) -> str | None:
    """The ε of a figure as it is printed."""
    return None if figure is None else figure.cost.partition(",")[0].removeprefix("ε = ")


def _sharing(about: Mapping[str, Any], events: list[Event]) -> trust.Sharing:
    """How messages are protected beside their noise: the event decides, and the plan's word where it cannot."""
    if operator_sum(events) is not None:
        return "operators"
    return "plain" if parties(events) == 1 else "operators" if about.get("sharing") == "operators" else "peers"


def _against(events: list[Event], about: Mapping[str, Any], alone: Figure | None) -> str:
    if _sharing(about, events) == "operators":
        return trust.against_operators(parties(events), _whole(about.get("colluders")), _shown(alone))
    return trust.against(parties(events), _whole(about.get("colluders")), _shown(alone))


def _trust(
    about: Mapping[str, Any], events: list[Event], figures: Sequence[Figure], alone: Figure | None, *, private: bool
) -> dict[str, Any]:
    epsilon = _shown(figures[0])
    honest, sharing = parties(events), _sharing(about, events)
    least = "floor" if sharing == "operators" else "survivors"
    names = {"entities": "entities", "survivors": least, "colluders": "colluders"}
    sums = {name: None if sharing == "plain" else _whole(about.get(kept)) for name, kept in names.items()}
    named = {"entities": sums["entities"], "honest": honest, "colluders": sums["colluders"]}
    if sharing == "operators":
        who = trust.Operated.of(about, events)
        model, noise_by = who.deployment
        said = who.paragraph(**named, epsilon=epsilon, alone=_shown(alone))
    else:
        model, noise_by = trust.deployment(sharing)
        said = trust.trust_paragraph(sharing=sharing, **named, epsilon=epsilon, alone=_shown(alone))
    return {
        "sharing": sharing,
        "model": model,
        "noise_by": noise_by,
        "trust": said if private else "Nothing is promised, so there is nothing to rest on.",
        "unprotected": trust.unprotected(sharing, people=bool(about.get("people"))),
        **sums,
    }


def _whole(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _weak(figures: Sequence[Figure], numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Marks of the weakest headline figure."""
    shown = [one for one in figures if one.headline]
    epsilon, delta = max(one.epsilon for one in shown), max(one.delta for one in shown)
    # Where every entity is one person, δ is to be rare among all of them.
    return weak_promise(epsilon, delta, _whole(numbers.get("people", numbers.get("n_users"))))


def _release_type(releases: int) -> str:
    if releases == 1:
        return "one release so far; another needs a new plan or a new version of the data, and adds to the total"
    return f"many releases: {releases:,} so far, each recorded and added to the total"


def _shared(events: list[Event]) -> bool:
    """Whether the guarantee is about a sum and not about this message."""
    return parties(events) > 1 or operator_sum(events) is not None


def _figures(
    unit: Unit, guarantee: Guarantee, state: LedgerState, events: list[Event], *, operated: bool
) -> list[Figure]:
    if not isinstance(guarantee, Priced):
        raise PrivacyError("the ledger holds a guarantee that it cannot charge.", found=guarantee.kind)
    holder, shared = unit.holder, _shared(events) and not isinstance(guarantee, NotPrivate)
    whom = ", against one operator and any number of entities" if operator_sum(events) and shared else ""
    figures = [
        _figure(f"one {holder} added or removed, this release{whom}", cost_of(guarantee)),
        _figure(
            f"one {holder} replaced by another, this release",
            cost_of(_priced(guarantee.replace_one())),
            headline=False,
        ),
    ]
    if shared and not isinstance(guarantee, NotPrivate):
        if operator_sum(events) is not None:
            meaning = f"one {holder} added or removed, against {_READERS}"
            figures.append(_figure(meaning, _readers_cost(events, guarantee), headline=False))
        lost = "both operators work together" if operated else "all others collude with the server"
        meaning = f"{ALONE}: one {holder} added or removed, if {lost}"
        figures.append(_figure(meaning, alone_cost(events, guarantee), headline=False))
    if unit.entities > 1 and shared and not isinstance(guarantee, NotPrivate):
        meaning = f"one {holder} in {unit.entities} entities of this one sum"
        figures.append(_figure(meaning, _across_sum(unit, events, guarantee)))
    elif unit.entities > 1:
        across = cost_of(_priced(unit.across(guarantee)))
        figures.append(_figure(f"one {holder} in {unit.entities} entities, each with a release like this", across))
    figures.append(_figure(f"one {holder} added or removed, {TOGETHER}", state.spent))
    if len(state.entries) > 1 and any(_shared(events_of(one)) for one in state.entries):
        meaning = f"{ALL_ALONE}: one {holder} added or removed, if all others collude each time"
        costs = (_alone_of(one) for one in state.entries)
        figures.append(_figure(meaning, sum(costs, Cost()), headline=False))
    return figures


def _alone_of(entry: Entry) -> Cost:
    """Price of one entry if all others collude; its own without a secure sum."""
    events, guarantee = events_of(entry), guarantee_of(entry)
    if not _shared(events) or isinstance(guarantee, NotPrivate):
        return entry.cost
    return alone_cost(events, guarantee)


def _priced(guarantee: Guarantee) -> Priced:
    assert isinstance(guarantee, Priced)
    return guarantee


def alone_cost(events: list[Event], guarantee: PureDP | ApproxDP) -> Cost:
    """Price of what left if the noise of all others is known: only this entity's own share is left, if it added one.

    Privacy
    -------
    A share of a Gaussian seen alone is a discrete Gaussian release of its own variance. A share of a Laplace seen alone
    has no useful bound, and costs infinity.
    """
    shares, every = own_shares(events), [one for event in events for one in flatten(event)]
    if len(every) != 1 or len(shares) != 1:
        return Cost(epsilon=math.inf, delta=Fraction(1))
    if not isinstance(shares[0], DiscreteGaussianShareEvent) or not isinstance(guarantee, ApproxDP):
        return Cost(epsilon=math.inf, delta=Fraction(1))
    return cost_of(spent(replace(shares[0], parties=1), delta=guarantee.delta))


def _readers_cost(events: list[Event], guarantee: PureDP | ApproxDP) -> Cost:
    """Price of a sum with the noises of both operators, for those who know neither; never above the charged one."""
    delta = guarantee.delta if isinstance(guarantee, ApproxDP) else Fraction(0)
    rows = coalitions_of(SequentialEvent.of(*events), sharing="operators", delta=delta)
    least = next(one.epsilon for one in rows if one.kind == PUBLIC)
    return Cost(epsilon=min(least, guarantee.epsilon), delta=delta)


def _across_sum(unit: Unit, events: list[Event], guarantee: PureDP | ApproxDP) -> Cost:
    """Price for a holder in several entities of one secure sum, which share the same noise."""
    if isinstance(guarantee, PureDP):
        return cost_of(_priced(unit.across_one_noise(guarantee)))
    if len(events) != 1 or _rho(events) is None:
        return Cost(epsilon=math.inf, delta=Fraction(1))
    return cost_of(spent(events[0], delta=guarantee.delta, units=unit.entities))


def _figure(meaning: str, cost: Cost, *, headline: bool = True) -> Figure:
    delta = float(min(cost.delta, Fraction(1)))
    epsilon, shown = float(cost.epsilon), brief(cost)
    return Figure(meaning=meaning, epsilon=epsilon, delta=delta, guess=_guess(shown), cost=shown, headline=headline)


def _printed(cost: str) -> tuple[float, float]:
    """Read the ε and δ of a printed cost."""
    epsilon, _, delta = cost.removeprefix("ε = ").partition(", δ = ")
    return math.inf if epsilon == "infinite" else float(epsilon), min(float(delta or 0), 1.0)


def _guess(cost: str) -> float:
    """Best guess by the printed numbers, which are rounded up: a reader who computes it finds the same."""
    return best_guess(*_printed(cost))


def _signal(numbers: Mapping[str, Any]) -> dict[str, float]:
    """Root mean square of one true sum: users spread evenly over the items (low), and exactly alike (high)."""
    users, share = numbers["n_users"] / numbers["n_prototypes"], numbers["max_items"] / numbers["n_items"]
    most = users * numbers["bound"]
    return {"low": most * min(share, 1.0), "high": most * math.sqrt(min(share, 1.0))}
