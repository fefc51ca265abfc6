"""The pages of the console as data: what a model recommends and why, how good it is, what left, what ε would cost.

Privacy
-------
Pages about people name their items and are for those who may see the data. The page about ε is made from the plan
alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from twofold import __version__
from twofold.entity.explain import Explanation, Reason, drawn_to, kind_words, told_apart
from twofold.entity.model import Model
from twofold.errors import Surface, TwofoldError, UnknownUser
from twofold.federation.plan import Plan
from twofold.identity.log_entry import Entry as LogEntry
from twofold.privacy.budget import best_guess
from twofold.privacy.ledger import LedgerState, cost_of, cost_text
from twofold.privacy.printed import brief, percent
from twofold.report.page import (
    Block,
    Column,
    Facts,
    Folded,
    Links,
    Notice,
    Page,
    Paragraph,
    Points,
    Section,
    Table,
    number,
)
from twofold.serve.answers import Answers

__all__ = [
    "EPSILONS",
    "FOR_PROGRAMS",
    "Field",
    "Form",
    "Found",
    "Sheet",
    "catalog_table",
    "cost_table",
    "error_notice",
    "found_items",
    "ledger_section",
    "plan_facts",
    "quality_sections",
    "timeline_section",
]

#: Shown by default, beside the plan's own: those of docs/results/frontier.md.
EPSILONS: Final = (0.1, 0.3, 1.0, 3.0, 10.0)
_TABS: Final = (
    ("Recommend", "./"),
    ("Similar items", "similar"),
    ("Quality", "quality"),
    ("Privacy", "privacy"),
    ("What ε costs", "cost"),
)
#: Items that are listed on a page.
_MOST_ITEMS: Final = 1_000
_STATUS: Final = {"released": "released", "lost": "lost: spent, nothing left", "open": "open: counts as spent"}
_PLAIN: Final = Surface()


class Field(NamedTuple):
    """One field of a form; options are offered, not required."""

    name: str
    label: str
    kind: Literal["text", "area", "number", "decimal"] = "text"
    value: str = ""
    hint: str = ""
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Form(Block):
    """Fields and a button. What is private goes by POST, so that it is in no address and no history of a browser."""

    key: str
    fields: tuple[Field, ...]
    button: str
    action: str
    method: Literal["get", "post"] = "post"


class _Row(NamedTuple):
    name: str
    id: str
    score: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Found(Block):
    """Items, the best first: title, id, score, and what led to it."""

    rows: tuple[_Row, ...]


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """What all pages of a console share: the model that answers, and what is wrong with its file.

    Examples
    --------
    >>> from twofold.serve.pages import _TABS
    >>> [target for _, target in _TABS]
    ['./', 'similar', 'quality', 'privacy', 'cost']
    """

    answers: Answers
    loaded_at: str
    problem: TwofoldError | None = None
    tabs: tuple[tuple[str, str], ...] = field(default=_TABS)

    def page(self, at: str, sections: Iterable[Section], *, title: str = "", notice: Notice | None = None) -> Page:
        """Make the page of one tab."""
        model = self.answers.model
        name = next(words for words, target in self.tabs if target == at)
        if self.problem is not None and notice is None:
            stale = "The file of the model cannot be used; the model that was loaded before goes on answering."
            notice = Notice(text=stale, more=(self.problem.summary,), warning=True)
        return Page(
            title=title or name,
            subtitle=f"{model.entity}, {len(model.catalog):,} items",
            notice=notice,
            sections=tuple(sections),
            footer=f"twofold {__version__}, model {self.answers.generation}, loaded {self.loaded_at}. "
            "For those who may see the data.",
            tabs=tuple((words, target, target == at) for words, target in self.tabs),
        )


def error_notice(error: TwofoldError) -> Notice:
    """Tell an error on a page."""
    fix = "for a new person, fill in the basket" if isinstance(error, UnknownUser) else error.fix
    parts = (("Found", error.found), ("Expected", error.expected), ("Do", fix))
    more = tuple(f"{label}: {text}" for label, text in parts if text is not None)
    return Notice(text=_sentence(error.summary_for(_PLAIN)), more=more, warning=True)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


# Recommendations.


def found_items(
    answers: Answers, found: Sequence[tuple[Any, float]], told: Mapping[Any, Explanation] | None = None
) -> Block:
    """Show items with their scores and, where there are any, explanations."""
    if not found:
        return Paragraph("Nothing is left to recommend.")
    rows = []
    for item, score in found:
        name, key = _named(answers, item)
        why = "" if told is None or item not in told else _why(answers, told[item])
        rows.append(_Row(name, key, number(score), why))
    return Found(rows=tuple(rows))


def _named(answers: Answers, item: Any) -> tuple[str, str]:
    title = answers.title(item)
    return (str(item), "") if title is None else (title, str(item))


def _why(answers: Answers, told: Explanation) -> str:
    """Say in one sentence what led to an item."""
    if not told.reasons:
        return "Nothing is known about this person, so the list is the same for everyone."
    helped = [one for one in told.reasons if one.contribution >= 0]
    hurt = [one for one in told.reasons if one.contribution < 0]
    groups = (("Because of", helped), ("In spite of", hurt))
    parts = [f"{word} {', '.join(_reason(answers, one) for one in some)}." for word, some in groups if some]
    return " ".join([*parts, f"Everything else: {_signed(told.rest)}."])


def _reason(answers: Answers, one: Reason) -> str:
    times = "" if one.value == 1 else f" × {one.value:g}"
    return f"{_named(answers, one.item)[0]}{times} ({_signed(one.contribution)})"


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{number(value)}"


def catalog_table(answers: Answers) -> Block:
    """List the items of a short catalog, behind a line that opens it."""
    if len(answers.items) > _MOST_ITEMS:
        return Paragraph(f"The catalog has {len(answers.items):,} items: too many to list here.")
    titled = any(answers.title(item) is not None for item in answers.items)
    columns = (Column("item", numeric=False), *((Column("title", numeric=False),) if titled else ()))
    rows = tuple((str(item), *((answers.title(item) or "",) if titled else ())) for item in answers.items)
    return Folded(f"All {len(rows):,} items", Table(caption="Items of the catalog", columns=columns, rows=rows))


# Quality.


def quality_sections(model: Model) -> tuple[Section, ...]:
    """Show the figures that were saved in the model when it was made; nothing is computed here."""
    about = (
        "These figures were saved in the model when it was made. Entries of its own users were hidden, every candidate "
        "was fitted to the rest and asked for them. Then the chosen one was fitted to everything: that is the one "
        "served here. Smaller loss is better."
    )
    made = Section("How it was chosen", (Points(tuple(_summary_lines(model))),))
    rows = told_apart(row for row in model.validation if _figure(row, "loss"))
    if not rows:
        none = "No figures are saved in this model. To measure it: twofold evaluate."
        return (Section("On hidden entries", (Paragraph(none),)), made)
    chosen = next((row for row in rows if row.get("taken")), None)
    alone = _best([row for row in rows if row.get("strength") == 0 and not _popular(row)])
    use = _best([row for row in rows if _popular(row)])
    named = (("this model", chosen), ("alone: own data only", alone), ("popularity", use))
    compared = tuple((name, *_figures(row)) for name, row in named if row is not None)
    head = (Column("model", numeric=False), Column("loss"), Column("± standard error"))
    short = Table(caption="This model beside the other two", columns=head, rows=compared, strong=(0,), compact=True)
    nats = (Column("nats"),) if any("nats" in row for row in rows) else ()
    every = Table(
        caption="All candidates",
        columns=(Column("kind", numeric=False), Column("uses", numeric=False), *head[1:], *nats, Column("chosen")),
        rows=tuple(_candidate(row, nats=bool(nats)) for row in rows),
        note="The error is that of one loss. The choice uses the error of the difference on the same entries"
        + (", and nats, how well hidden entries are told; lists must not get worse by it." if nats else "."),
    )
    return (
        Section(
            "On hidden entries", (Paragraph(about), Paragraph(_verdict(chosen, alone, others=not model.alone)), short)
        ),
        made,
        Section(
            "Everything that was compared",
            (Folded("1 candidate" if len(rows) == 1 else f"{len(rows):,} candidates", every),),
        ),
    )


def _summary_lines(model: Model) -> list[str]:
    return [line for line in model.summary().split("\nCompared on")[0].splitlines() if line]


def _figure(row: Mapping[str, Any], name: str) -> bool:
    return isinstance(row.get(name), float | int) and math.isfinite(row[name])


def _popular(row: Mapping[str, Any]) -> bool:
    return row.get("kind") in ("use", "popularity")


def _best(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    if any(_figure(row, "nats") for row in rows):
        return max(rows, key=lambda row: row["nats"] if _figure(row, "nats") else -math.inf)
    return min(rows, key=lambda row: float(row["loss"]), default=None)


def _figures(row: Mapping[str, Any]) -> tuple[str, str]:
    return number(row["loss"], 4), number(row["error"], 4) if _figure(row, "error") else "–"


def _candidate(row: Mapping[str, Any], *, nats: bool) -> tuple[str, ...]:
    strength = float(row.get("strength") or 0)
    kind = str(row.get("kind", ""))
    told = ((number(row["nats"], 1) if _figure(row, "nats") else "–"),) if nats else ()
    return kind_words(row), drawn_to(kind, strength), *_figures(row), *told, "yes" if row.get("taken") else ""


def _verdict(chosen: Mapping[str, Any] | None, alone: Mapping[str, Any] | None, *, others: bool) -> str:
    """Say in one sentence what the figures say about sharing, and no more."""
    if not others:
        return "This is a model of the own data: nothing was shared, so there was nothing of others to compare."
    if chosen is None or alone is None:
        return "The figures do not tell this model from the one of its own data."
    if chosen.get("strength") == 0:
        return "This is the model of the own data: nothing of the others helped more than it hurt."
    lower, error = float(alone["loss"]) - float(chosen["loss"]), float(chosen.get("error") or 0)
    if abs(lower) <= error:
        return "This model uses the others; its loss differs from that of the own data by less than one standard error."
    word = "smaller" if lower > 0 else "larger"
    return f"This model uses the others; its loss is {number(abs(lower), 4)} {word} than that of the own data alone."


# Privacy.


def ledger_section(state: LedgerState) -> Section:
    """Show an account."""
    facts = (
        ("Data set", state.dataset),
        ("Ceiling", cost_text(state.ceiling)),
        ("Spent", cost_text(state.spent)),
        ("Remaining", cost_text(state.remaining)),
        ("Head", state.hash),
    )
    columns = (Column("when (UTC)", numeric=False), Column("cost", numeric=False), Column("bytes"))
    rows = tuple(
        (_when(entry.request["at"]), cost_text(entry.cost), f"{entry.size:,}", _state(entry)) for entry in state.entries
    )
    table = Table(caption="Releases", columns=(*columns, Column("status", numeric=False)), rows=rows)
    return Section("Ledger", (Facts(rows=facts), table if rows else Paragraph("Nothing was released.")))


def _state(entry: Any) -> str:
    seeded = "; seeded: NOT PRIVATE" if entry.request["seeded"] else ""
    return f"{_STATUS[entry.status]}, version {entry.request['version']} of the data{seeded}"


def _when(at: str) -> str:
    return at.replace("T", " ").removesuffix("Z")


def timeline_section(entries: Sequence[LogEntry], most: int = 200) -> Section:
    """Show what happened before and after a release, the latest last."""
    shown = entries[-most:]
    columns = (Column("when (UTC)", numeric=False), Column("what", numeric=False), Column("details", numeric=False))
    rows = tuple((_when(one.at), one.event.value, one.text.partition(one.event.value)[2].strip()) for one in shown)
    note = f"The last {most:,} of {len(entries):,} lines." if len(entries) > most else ""
    return Section("Approvals and releases", (Table(caption="Security log", columns=columns, rows=rows, note=note),))


# The price of ε.


def cost_table(plan: Plan, asked: Sequence[float] = ()) -> Table:
    """Show what other ε would promise and show, from the plan alone."""
    own = float(plan.epsilon)
    every = sorted({*EPSILONS, own, *asked})
    rows, strong = [], []
    for at, epsilon in enumerate(every):
        try:
            rows.append(_cost_row(plan if epsilon == own else plan.with_(epsilon=epsilon), own=own))
        except TwofoldError:
            rows.append((f"{epsilon:g}", *("–",) * 3, "not with this plan", "–", "–"))
        if epsilon == own:
            strong.append(at)
    numeric = (Column(name) for name in ("best guess", "noise on a count", "hidden below"))
    words = (Column(name, numeric=False) for name in ("useful?", "prediction", "mechanism"))
    return Table(
        caption="One release at other prices",
        columns=(Column("ε", numeric=False), *numeric, *words),
        rows=tuple(rows),
        strong=tuple(strong),
        compact=True,
        note="In bold: the plan's own ε. Best guess: how often an attacker is right about whether one person is in "
        "the data, from even odds (a coin is right 50%). Hidden below: patterns that explain less of all variation "
        "cannot be seen. Useful, and the prediction of how much of the gap to pooled data is closed: from public "
        "numbers, which do not know the data. Another ε needs another plan, agreed by all.",
    )


def _cost_row(plan: Plan, *, own: float) -> tuple[str, ...]:
    epsilon, delta = float(plan.epsilon), float(plan.delta)
    mark = f"{epsilon:g}" + (" (plan)" if epsilon == own else "")
    if not plan.spec.private:
        return (mark, "100%", "–", "–", "not private", "–", plan.spec.mechanism)
    judged = plan.release_mechanism.usefulness(plan.parameters)
    hidden = "all" if judged.share >= 1 else f"{100 * judged.share:.2g}%"
    guess, noise = percent(best_guess(epsilon, delta)), f"{plan.spec.noise.counts:,.3g}"
    return (mark, guess, noise, hidden, judged.verdict, plan.prediction.word or "–", plan.spec.mechanism)


def plan_facts(plan: Plan) -> Facts:
    """Name the public numbers that the prices follow from."""
    rows = (
        ("Plan", f"{plan.name}, {plan.hash[:12]}"),
        ("Price", brief(cost_of(plan.budget)) if plan.spec.private else "infinite: this mechanism has no proof"),
        ("Promised users", "not agreed" if plan.n_users is None else f"{plan.n_users:,} in each entity"),
        ("Entities", f"{plan.n_entities:,}"),
        ("Mechanism", plan.spec.mechanism),
    )
    return Facts(rows=rows)


#: Links of the console to what programs read.
FOR_PROGRAMS: Final = Links((("Description of all requests", "openapi.json", "OpenAPI"), ("Health", "health", "JSON")))
