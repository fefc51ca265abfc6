"""The status page of a service: who has agreed and sent, what is waited for and until when, and the noise level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from twofold import __version__
from twofold.errors import TooFewMessages, TwofoldError
from twofold.federation.agreement import must_agree
from twofold.federation.mailbox import BETWEEN, StepId
from twofold.federation.messages import roster_of
from twofold.federation.plan import Plan
from twofold.privacy.budget import best_guess
from twofold.privacy.printed import percent
from twofold.privacy.trust import protects
from twofold.report.federation import budget_words, guesser
from twofold.report.page import Block, Column, Facts, Folded, Links, Notice, Page, Paragraph, Section, Table
from twofold.server.coordinate import CoordinationStatus

if TYPE_CHECKING:
    from twofold.server.service.hosted import Federation

__all__ = [
    "FederationView",
    "Federations",
    "Refresh",
    "State",
    "StepView",
    "Steps",
    "door_page",
    "overview_page",
    "promise_facts",
    "state_of",
    "status_page",
    "view_of",
]

#: What arrives in each step, and one of it.
_STEPS: Final = {
    StepId.AGREE: ("Agreements", "agreement"),
    StepId.ROUNDS: ("Messages", "message"),
    StepId.KEYS: ("Key shares", "key share"),
    StepId.MASKED: ("Masked messages", "masked message"),
    StepId.ANSWERS: ("Answers", "answer"),
    StepId.REPORTS: ("Reports", "report"),
    StepId.LISTS: ("Lists of reports", "list"),
    StepId.FREEZES: ("Final lists", "final list"),
    StepId.REVEALS: ("Sums of shares", "sum"),
    StepId.DRAFTS: ("Item factors", "signature"),
}
#: How a plan protects messages beside their noise.
_SHARING: Final = {
    "plain": "each message has noise of its own, enough by itself",
    "peers": "masks among the entities: the server sees only the sum",
    "operators": "two sealed shares: each operator alone sees only the sum",
}
_CAPTION: Final = "In bold: those waited for. Times in UTC"
#: Where readers can go from here.
_LINKS: Final = (
    ("All federations", "status", "those that your password opens"),
    ("OpenAPI", "v1/openapi.json", "every request that the service takes"),
    ("Health", "v1/health", "for a monitor"),
    ("Metrics", "v1/metrics", "for Prometheus, with a password of its own"),
)
#: Names in one sentence, and rows of a table that is not folded.
_NAMED, _FEW = 4, 40
#: Seconds between two loads of a page that keeps itself up to date.
_REFRESH: Final = 15


class State(StrEnum):
    """How a federation stands."""

    OPEN = "open"
    WAITING = "waiting"
    LATE = "late"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True)
class StepView:
    """One step of the entities: whose message is here and since when, how many there are, and whether it is done."""

    id: StepId
    came: Mapping[str, str]
    here: int
    published: bool


@dataclass(frozen=True, kw_only=True)
class FederationView:
    """What a page shows of one federation.

    Parameters
    ----------
    plan : Plan
        All its numbers are public.
    operator : str
        Who runs this service.
    agreed : tuple of str
        Whose agreements came with the plan.
    steps : tuple of StepView
        In order.
    status : CoordinationStatus, optional
        As of the last look.
    problem : TwofoldError, optional
        Why the last look did not succeed, in public words.

    Privacy
    -------
    Names of the roster, times of arrival, and the plan. What an entity sent is private already and not read here.
    """

    plan: Plan
    operator: str
    agreed: tuple[str, ...] = ()
    steps: tuple[StepView, ...] = ()
    status: CoordinationStatus | None = None
    problem: TwofoldError | None = None

    @property
    def present(self) -> StepId:
        """The step that is open, or the last one."""
        if self.status is not None:
            return self.status.step
        return next((one.id for one in self.steps if not one.published), self.steps[-1].id)

    @property
    def arrived(self) -> int:
        """Messages in the present step: those that the coordinator took, or, before its first look, that are here."""
        return self._step.here if self.status is None else self.status.arrived

    @property
    def expected(self) -> int:
        """Messages expected in the present step."""
        return self.plan.expected_entities if self.status is None else self.status.expected

    @property
    def missing(self) -> tuple[str, ...]:
        """Who is waited for, as far as the plan names anybody."""
        if self.status is not None:
            return self.status.missing or ()
        return () if self.plan.people else tuple(name for name in self.plan.entities if name not in self._step.came)

    @property
    def deadline(self) -> datetime | None:
        """Until when the server waits."""
        text = (None if self.status is None else self.status.deadline) or self.plan.deadline
        return None if text is None else datetime.fromisoformat(text)

    @property
    def published(self) -> bool:
        """Whether the item factors are out."""
        return self.steps[-1].published

    @property
    def _step(self) -> StepView:
        return next((one for one in self.steps if one.id is self.present), self.steps[-1])


def view_of(one: Federation) -> FederationView:
    """Read what a page shows of a federation that a service runs."""
    steps = []
    for step in one.steps.values():
        came = one.store.arrivals(step)
        names = {} if one.plan.people else dict(came)
        steps.append(StepView(id=step.id, came=names, here=len(came), published=one.is_published(step)))
    given = one.hosted.agreements
    return FederationView(
        plan=one.plan,
        operator=one.operator,
        agreed=() if given is None else tuple(given),
        steps=tuple(steps),
        status=one.status,
        problem=one.problem,
    )


def state_of(view: FederationView, now: datetime) -> State:
    """Say how a federation stands: late if the deadline passed and too few came, so that a person must decide."""
    if view.published:
        return State.CLOSED
    due = view.deadline
    if view.present not in BETWEEN and (isinstance(view.problem, TooFewMessages) or (due is not None and now >= due)):
        return State.LATE
    return State.WAITING if any(one.here for one in view.steps) or view.present in BETWEEN else State.OPEN


@dataclass(frozen=True, kw_only=True)
class Steps(Block):
    """The steps in order, each with a mark, a bar and a few words."""

    steps: tuple[tuple[str, str, str, float], ...]


@dataclass(frozen=True, kw_only=True)
class Federations(Block):
    """Federations with a link to the page of each: address, name, state, a sentence."""

    rows: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Refresh(Block):
    """A link that turns reloading on or off; a page that reloads unasked would interrupt a screen reader."""

    live: bool
    every: int = _REFRESH


def status_page(view: FederationView, *, now: datetime, started: float | None = None, live: bool = False) -> Page:
    """Make the page of one federation.

    Parameters
    ----------
    view : FederationView
        What to show.
    now : datetime
        The time that the page tells.
    started : float, optional
        Since when the service runs, in seconds since 1970.
    live : bool
        Load the page again every few seconds.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> from twofold.identity.roster import Roster
    >>> roster, _ = Roster.new(["st-anna", "st-bern"])
    >>> key = CatalogKey(hash="0" * 64, n_items=3)
    >>> plan = Plan(catalog=key, feedback="counts", bound=5, max_items=2, roster=roster)
    >>> sent = StepView(id=StepId.ROUNDS, came={"st-anna": "2027-01-31T09:30:00Z"}, here=1, published=False)
    >>> view = FederationView(plan=plan, operator="coordinator", steps=(sent,))
    >>> status_page(view, now=datetime(2027, 1, 31, tzinfo=UTC)).notice.text
    'Waiting for st-bern. 1 of 2 messages is here.'
    """
    plan = view.plan
    return Page(
        title=plan.name,
        subtitle=f"Status at {_moment(now)}. Run by {view.operator}.",
        notice=_notice(view, now),
        sections=(
            Section("Progress", (_progress(view), *_refused(view), Refresh(live=live))),
            Section("Who", _who(view, now)),
            Section("Noise", (promise_facts(plan),)),
            Section("Service", (_service(view, now, started), Links(_LINKS))),
        ),
        footer="Members may know all of this: names, times and the plan. No number here comes from anybody's data.",
        refresh=_REFRESH if live else 0,
    )


def _notice(view: FederationView, now: datetime) -> Notice:
    state = state_of(view, now)
    more = [text for text in (_until(view, now, state), _trouble(view, state)) if text]
    if view.plan.simulation:
        more.append("This is a simulation. It protects nobody and must not hold data of real people.")
    return Notice(text=_headline(view, state), more=tuple(more), warning=state is State.LATE)


def _headline(view: FederationView, state: State) -> str:
    title, one = _STEPS[view.present]
    counted = f"{view.arrived:,} of {view.expected:,} {title.lower()} {'is' if view.arrived == 1 else 'are'} here."
    if state is State.CLOSED:
        return "Closed. The item factors are published; every member can fetch them."
    if view.present in BETWEEN:
        return f"Waiting for operator {_listed(view.missing)}: its {one} is not here yet."
    if state is State.LATE:
        return f"Late. The deadline has passed, and only {counted}"
    if state is State.OPEN:
        return f"Open. Nobody has sent anything yet; {_counted(view.expected, one)} expected."
    who = f"Waiting for {_listed(view.missing)}. " if view.missing else "Waiting. "
    return who + counted


def _counted(count: int, noun: str) -> str:
    return f"1 {noun} is" if count == 1 else f"{count:,} {noun}s are"


def _until(view: FederationView, now: datetime, state: State) -> str:
    if state is State.CLOSED or view.present in BETWEEN:
        return ""
    due, quorum = view.deadline, view.plan.quorum if view.status is None else view.status.quorum
    if state is State.LATE and due is not None:
        return (
            f"It was {_moment(due)}, {_span(now - due)} ago; the plan needs {quorum:,} of {view.expected:,}. "
            "Nothing is published and nothing is lost: late messages still count until the step closes."
        )
    if view.present is StepId.AGREE:
        until = "" if due is None else f" The plan's deadline is {_moment(due)}, in {_span(due - now)}."
        return f"A plan starts when everybody has agreed to it.{until}"
    if due is None:
        return "There is no deadline: it goes on when all have answered, or when the operator closes the step."
    return (
        f"Until {_moment(due)}, in {_span(due - now)}. Then it goes on without the others if {quorum:,} of "
        f"{view.expected:,} are here."
    )


def _trouble(view: FederationView, state: State) -> str:
    """Say what the last look met; a round below its quorum is told already."""
    if view.problem is None or (state is State.LATE and isinstance(view.problem, TooFewMessages)):
        return ""
    return f"The last look met a problem: {view.problem.summary}"


def _progress(view: FederationView) -> Steps:
    """Every step: done, open or to come."""
    rows = [_row(view, one) for one in view.steps]
    if view.plan.operators is not None:
        done = view.published
        at = BETWEEN.index(view.present) if view.present in BETWEEN else -1
        for number, name in enumerate(BETWEEN):
            over, due = done or number < at, number == at and not done
            words = "exchanged" if over else f"waiting for {_listed(view.missing)}" if due else "to come"
            rows.append((_STEPS[name][0], "done" if over else "now" if due else "later", words, float(over)))
    out = view.published
    rows.append(("Published", "done" if out else "later", "the item factors" if out else "not yet", float(out)))
    return Steps(steps=tuple(rows))


def _row(view: FederationView, one: StepView) -> tuple[str, str, str, float]:
    title, present = _STEPS[one.id][0], view.present
    reports_closed = view.plan.operators is not None and present in BETWEEN
    if one.published or reports_closed:
        if one.id is StepId.AGREE and view.agreed:
            return title, "done", "came with the plan", 1.0
        return title, "done", f"{one.here:,}, complete", 1.0
    if one.id is not present:
        return title, "later", "to come", 0.0
    share = view.arrived / view.expected if view.expected else 0.0
    return title, "now", f"{view.arrived:,} of {view.expected:,}", min(1.0, share)


def _refused(view: FederationView) -> tuple[Block, ...]:
    refused = () if view.status is None else view.status.refused[:100]
    if not refused:
        return ()
    columns = (Column("From", numeric=False), Column("Why", numeric=False))
    table = Table(caption="Not taken", columns=columns, rows=tuple((one.name, one.reason) for one in refused))
    return (Folded(f"Not taken: {len(refused)}", table),)


def _who(view: FederationView, now: datetime) -> tuple[Block, ...]:
    if view.plan.people:
        people = f"Every entity of this plan is one person. The service knows {view.arrived:,} reports and no names."
        return (Paragraph(people), _operators(view))
    steps = [one for one in view.steps if one.id is not StepId.AGREE]
    asked = must_agree(view.plan)
    agreeing = next((one for one in view.steps if one.id is StepId.AGREE), None)
    columns = [Column("Entity", numeric=False)]
    shows_agreement = agreeing is not None or any(name in asked for name in view.plan.entities)
    columns += [Column("Agreed", numeric=False)] * shows_agreement
    columns += [Column(_STEPS[one.id][1].capitalize(), numeric=False) for one in steps]
    waited = set() if view.published else set(view.missing)
    names = sorted(view.plan.entities, key=lambda name: (name not in waited, name))
    rows = []
    for name in names:
        row = [name]
        if shows_agreement:
            row.append("yes" if name in view.agreed else _when(agreeing, name, now))
        elsewhere = _elsewhere(view, name)
        row += ["here" if one is elsewhere else _when(one, name, now) for one in steps]
        rows.append(tuple(row))
    strong = tuple(number for number, name in enumerate(names) if name in waited)
    table = _folded(tuple(columns), tuple(rows), strong)
    return (*table, _operators(view))


def _elsewhere(view: FederationView, name: str) -> StepView | None:
    """The open step, if an entity's message for it is counted though it did not come to this service itself."""
    if view.status is None or view.status.missing is None or view.present in BETWEEN:
        return None
    return None if name in view.status.missing or name in view._step.came else view._step


def _folded(
    columns: tuple[Column, ...], rows: tuple[tuple[str, ...], ...], strong: tuple[int, ...]
) -> tuple[Block, ...]:
    """One table; of many rows, those after the first behind a line that opens them."""
    first = Table(caption=_CAPTION, columns=columns, rows=rows[:_FEW], strong=strong, compact=True)
    if len(rows) <= _FEW:
        return (first,)
    rest = Table(
        caption="The other entities, times in UTC",
        columns=columns,
        rows=rows[_FEW:],
        strong=tuple(one - _FEW for one in strong if one >= _FEW),
        compact=True,
    )
    return (first, Folded(f"{len(rows) - _FEW:,} more", rest))


def _operators(view: FederationView) -> Facts:
    names = list(roster_of(view.plan).operators)
    here = [f"{name} (this service)" if name == view.operator else name for name in names]
    return Facts(rows=(("Operator" if len(names) == 1 else "Operators", " and ".join(here)),))


def _when(step: StepView | None, name: str, now: datetime) -> str:
    """Say when a message came, short enough for a column on a phone; the caption has the time zone."""
    if step is None or name not in step.came:
        return "not yet"
    at = datetime.fromisoformat(step.came[name]).astimezone(UTC)
    return f"{at.day} {at:%b}{'' if at.year == now.year else f' {at.year}'}, {at:%H:%M}"


def promise_facts(plan: Plan) -> Facts:
    """Say what a plan promises each person, at what price, and by what means."""
    rows = [("Price for each person", budget_words(plan))]
    if plan.simulation or not plan.spec.private:
        rows.append(("Protects", "nobody: NOT PRIVATE"))
    else:
        guess = percent(best_guess(float(plan.epsilon), float(plan.delta)))
        rows += [
            ("Protects", protects(plan.unit)),
            (
                "Meaning",
                f"{guesser(plan)} guesses right whether one {plan.unit.holder} was in the data at most {guess} of the "
                "time; a coin 50%",
            ),
        ]
    rows += [("Mechanism", plan.spec.mechanism), ("Beside the noise", _SHARING[plan.sharing])]
    return Facts(rows=tuple(rows))


def _service(view: FederationView, now: datetime, started: float | None) -> Facts:
    rows = [("Plan SHA-256", view.plan.hash), ("Version", f"twofold {__version__}")]
    if started is not None:
        since = datetime.fromtimestamp(started, UTC)
        rows.append(("Running since", f"{_moment(since)}, for {_span(now - since)}"))
    return Facts(rows=tuple(rows))


def overview_page(views: Sequence[FederationView], *, now: datetime, live: bool = False) -> Page:
    """Make the page of several federations."""
    rows = []
    for view in sorted(views, key=lambda one: (state_of(one, now) is not State.LATE, one.plan.name)):
        state = state_of(view, now)
        said = _headline(view, state)
        words = said if state is State.WAITING else said.partition(". ")[2]
        rows.append((view.plan.hash, view.plan.name, state.value, words))
    late = sum(row[2] == State.LATE for row in rows)
    text = f"{len(rows):,} federations; {late:,} late." if late else f"{len(rows):,} federations; none is late."
    version = Facts(rows=(("Version", f"twofold {__version__}"),))
    return Page(
        title="Federations",
        subtitle=f"Status at {_moment(now)}",
        notice=Notice(text=text, warning=late > 0),
        sections=(
            Section("Federations", (Federations(rows=tuple(rows)), Refresh(live=live))),
            Section("Service", (version, Links(_LINKS[1:]))),
        ),
        footer="No number on these pages comes from anybody's data.",
        refresh=_REFRESH if live else 0,
    )


def door_page() -> Page:
    """Make the page that strangers see: that a service is here, and nothing about it."""
    words = (
        "Members send and fetch with the command twofold join, which signs every request. The status of a federation "
        "is for people with its password."
    )
    return Page(
        title="A twofold service",
        notice=Notice(text="This machine coordinates recommendations that keep data where it is."),
        sections=(Section("For members", (Paragraph(words), Links((("Status, with a password", "status", ""),)))),),
    )


def _listed(names: Iterable[str]) -> str:
    """Name a few, and say how many more."""
    every = list(names)
    if len(every) <= 1:
        return "".join(every)
    if len(every) <= _NAMED:
        return f"{', '.join(every[:-1])} and {every[-1]}"
    return f"{', '.join(every[: _NAMED - 1])} and {len(every) - _NAMED + 1:,} more"


def _moment(at: datetime) -> str:
    """Write a time as people read it."""
    utc = at.astimezone(UTC)
    return f"{utc.day} {utc:%b %Y, %H:%M} UTC"


def _span(length: timedelta) -> str:
    """Write how long, in at most two units.

    Examples
    --------
    >>> _span(timedelta(days=2, hours=3)), _span(timedelta(minutes=75)), _span(timedelta(seconds=20))
    ('2 days 3 h', '1 h 15 min', 'less than a minute')
    """
    minutes = max(0, int(length.total_seconds() // 60))
    days, hours = divmod(minutes // 60, 24)
    if days:
        return f"{days} {'day' if days == 1 else 'days'}" + (f" {hours} h" if hours and days < 10 else "")
    if hours:
        return f"{hours} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    return f"{minutes} min" if minutes else "less than a minute"
