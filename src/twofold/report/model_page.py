"""The report of one entity: whether joining paid, what left and what came back, the model, and the privacy card."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from twofold import __version__
from twofold.entity.evaluate import MODEL, Evaluation, better_when_less
from twofold.entity.explain import drawn_to, kind_words, told_apart
from twofold.entity.model import Model
from twofold.errors import PlanMismatch
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan
from twofold.privacy.card import Card
from twofold.privacy.signed_card import SignedCard
from twofold.report.card import card_page
from twofold.report.federation import budget_words
from twofold.report.federation_page import TwoRounds
from twofold.report.page import (
    Block,
    Column,
    Facts,
    Folded,
    Heading,
    Notice,
    Page,
    Paragraph,
    Points,
    Section,
    Table,
    number,
    size,
    whole,
)
from twofold.report.plot import Plot, Series
from twofold.report.status import promise_facts

__all__ = ["model_page"]

#: Lines that a plot can tell apart, and how far to the side each is drawn.
_MOST_LINES: Final = 6
_OFFSET: Final = 0.09
_INSIDE: Final = "For this entity only: figures on this page come from private data without noise."
_OUTSIDE: Final = "Nothing on this page comes from private data, except through what was released."


def model_page(
    model: Model,
    *,
    evaluation: Evaluation | None = None,
    card: Card | SignedCard | None = None,
    factors: ItemFactors | None = None,
    received: int | None = None,
    public: bool = False,
) -> Page:
    """Make the page of an entity's model.

    Parameters
    ----------
    model : Model
        The model.
    evaluation : Evaluation, optional
        How good it is; without it the page has no quality.
    card : Card or SignedCard, optional
        The privacy card of the release behind it.
    factors : ItemFactors, optional
        What came back, and `received` its bytes.
    public : bool
        Leave out whatever was computed from private data, for readers outside.

    Raises
    ------
    PlanMismatch
        The card is of another plan than the model.

    Examples
    --------
    >>> from scipy import sparse
    >>> from twofold.data.catalog import Catalog, Identifiers
    >>> from twofold.data.ratings import Ratings
    >>> from twofold.entity.personalize import fit_alone
    >>> counts = sparse.csr_array(np.ones((3, 2)))
    >>> ratings = Ratings(counts, Identifiers("abc"), Catalog(["x", "y"]), "counts")
    >>> page = model_page(fit_alone(ratings, name="st-anna"))
    >>> page.title, [section.title for section in page.sections]
    ('Report of st-anna', ['Two messages', 'The data here', 'The model'])
    """
    plan = model.plan
    plain = card.card if isinstance(card, SignedCard) else card
    if plain is not None and (plan is None or plain.plan != plan.hash):
        raise PlanMismatch(
            "the card is not of this model's plan.",
            found=f"plan {plain.plan[:12]}",
            expected="a model made with a plan" if plan is None else f"plan {plan.hash[:12]}",
            parameter="card",
        )
    if public:
        evaluation = None
    sections: list[Section] = [
        *(() if evaluation is None else _quality(evaluation)),
        _messages(model, plain, factors, received),
    ]
    if not public:
        sections += [_data(model), _model(model)]
    if card is not None:
        sections.append(_card(card))
    named = "" if plan is None else f", plan {plan.name}"
    return Page(
        title=f"Report of {model.entity}",
        subtitle=f"{whole(len(model.catalog))} items, {model.history.feedback}{named}",
        notice=_notice(model, evaluation, public=public),
        sections=tuple(sections),
        footer=f"Made by twofold {__version__}. This page is one file: it needs no network and runs no script.",
    )


def _notice(model: Model, evaluation: Evaluation | None, *, public: bool) -> Notice:
    if evaluation is None:
        said = (
            "Nothing was shared with this model."
            if model.alone
            else "What left, what came back, and what was promised."
        )
        return Notice(text=said, more=(_OUTSIDE if public else _INSIDE,))
    return Notice(text=evaluation.verdict, more=(*evaluation.first[1:], _INSIDE))


def _quality(found: Evaluation) -> Iterator[Section]:
    metrics, systems = found.metrics, tuple(found.systems)
    words = Points(tuple(f"{name}: {about}." for name, about in found.systems.items()))
    level = f"{100 * found.level:g}%"
    rows = tuple((name, *(_cell(found.of(name, metric)) for metric in metrics)) for name in systems)
    everyone = Table(
        caption=f"Everyone: figures with {level} intervals",
        columns=(Column("", numeric=False), *(Column(found.name_of(metric)) for metric in metrics)),
        rows=rows,
        strong=(0,),
        note=_directions(found),
        exact=tuple(
            (name, *(_plain(found.of(name, metric)[end]) for metric in metrics for end in ("value", "low", "high")))
            for name in systems
        ),
        exact_columns=("system", *(f"{metric} {end}".rstrip() for metric in metrics for end in ("", "low", "high"))),
    )
    left = tuple(f"Left out: {count:,} {what}." for what, count in found.left_out.items())
    blocks: list[Block] = [words, everyone, Heading("What to keep in mind"), Points((*found.caveats, *left))]
    if found.histories:
        blocks[2:2] = [_by_history(found), _history_table(found)]
    yield Section("Quality", tuple(blocks))
    if found.differences.height:
        yield Section("The model against each baseline", (_gap_table(found), _gap_plot(found)))


def _directions(found: Evaluation) -> str:
    less = [found.name_of(metric) for metric in found.metrics if better_when_less(metric)]
    said = "More is better" + (f", except for {' and '.join(less)}" if less else "")
    return f"{said}. Intervals come from a bootstrap over people; two that overlap say little, see the differences."


def _cell(row: dict[str, Any]) -> str:
    if row["value"] is None:
        return "–"
    span = "" if row["low"] is None else f"\n{number(row['low'])}–{number(row['high'])}"
    return f"{number(row['value'])}{span}"


def _plain(value: float | None) -> float:
    return math.nan if value is None else value


def _by_history(found: Evaluation) -> Plot:
    """Lengths of histories across, systems side by side, each named where its line ends."""
    systems, metric = tuple(found.systems)[:_MOST_LINES], found.name_of(found.metric)
    lines, seen = [], []
    for at, name in enumerate(systems):
        rows = [found.of(name, found.metric, history) for history in found.histories]
        values = [_plain(row["value"]) for row in rows]
        ends = [
            (value, value) if row["low"] is None else (row["low"], row["high"])
            for row, value in zip(rows, values, strict=True)
        ]
        lines.append(
            Series(
                name=name,
                x=[float(place) for place in range(len(rows))],
                y=values,
                interval=ends,
                style=at,
                offset=_OFFSET * (at - (len(systems) - 1) / 2),
            )
        )
        seen.append(f"{name}: {', '.join(number(value) for value in values)}")
    return Plot(
        caption=f"{metric} by length of history; bars are intervals",
        description=f"{metric} from the shortest to the longest histories. {'; '.join(seen)}",
        x_label="people by number of entries in their history",
        y_label=metric,
        series=tuple(lines),
        ticks=tuple((float(at), name.rpartition(" ")[0]) for at, name in enumerate(found.histories)),
        direct=True,
    )


def _history_table(found: Evaluation) -> Table:
    rows = [("people", *(whole(found.of(MODEL, found.metric, one)["people"]) for one in found.histories))]
    rows += [(name, *(_cell(found.of(name, found.metric, one)) for one in found.histories)) for name in found.systems]
    return Table(
        caption=f"{found.name_of(found.metric)} by length of history",
        columns=(Column("", numeric=False), *(Column(history) for history in found.histories)),
        rows=tuple(rows),
        strong=(1,),
    )


def _gaps(found: Evaluation) -> list[dict[str, Any]]:
    rows = found.differences.to_dicts()
    return [row for row in rows if row["history"] == "all" and row["metric"] == found.metric]


def _gap_table(found: Evaluation) -> Table:
    rows = tuple(
        (
            row["against"],
            number(row["value"], 4),
            "–" if row["low"] is None else f"{number(row['low'], 4)} to {number(row['high'], 4)}",
            "–" if row["error"] is None else number(row["error"], 4),
            {None: "–", True: "yes", False: "no"}[row["clear"]],
        )
        for row in _gaps(found)
    )
    heads = ("difference", "interval", "standard error")
    return Table(
        caption=f"{found.name_of(found.metric)} of the model less that of a baseline, on the same people",
        columns=(Column("baseline", numeric=False), *map(Column, heads), Column("clear", numeric=False)),
        rows=rows,
        note="A difference is clear if its interval leaves out 0. What makes a person easy or hard cancels out.",
        compact=True,
    )


def _gap_plot(found: Evaluation) -> Plot:
    gaps, metric = _gaps(found), found.name_of(found.metric)
    values = [_plain(row["value"]) for row in gaps]
    line = Series(
        name="the model less the baseline",
        x=[float(at) for at in range(len(gaps))],
        y=values,
        interval=[
            (value, value) if row["low"] is None else (row["low"], row["high"])
            for row, value in zip(gaps, values, strict=True)
        ],
        joined=False,
        style=1,
    )
    good = "below" if better_when_less(found.metric) else "above"
    told = ", ".join(f"{row['against']} {number(value, 4)}" for row, value in zip(gaps, values, strict=True))
    return Plot(
        caption=f"{metric}: the model less each baseline; {good} the line, the model is better",
        description=f"Differences of {metric} to each baseline: {told}",
        x_label="baseline",
        y_label=f"difference of {metric}",
        series=(line,),
        ticks=tuple((float(at), row["against"].replace("-", "-\n")) for at, row in enumerate(gaps)),
        level=0.0,
    )


def _messages(model: Model, card: Card | None, factors: ItemFactors | None, received: int | None) -> Section:
    plan = model.plan
    if plan is None or model.alone:
        return Section(
            "Two messages", (Paragraph("Nothing was shared with this model: it is fitted to own data alone."),)
        )
    back = "item factors" if received is None else f"{size(received)} of factors"
    picture = TwoRounds(
        entities=f"{plan.expected_entities} entities",
        there="one message each" if card is None else size(card.bytes),
        back=back,
        cost=budget_words(plan) if model.private else "NOT PRIVATE",
        operators=() if plan.operators is None else _operators(plan),
    )
    left = [("What left, once", plan.spec.what if card is None else f"{card.what_left}, {whole(card.bytes)} bytes")]
    if plan.spec.numbers is not None:
        left.append(("Numbers in it", whole(plan.spec.numbers)))
    if card is not None:
        left += [("Sent", card.at.replace("T", " ").replace("Z", " UTC")), ("Message SHA-256", card.digest)]
    came = [("What came back, once", f"item factors of {whole(len(model.catalog))} items, the same for everyone")]
    if factors is not None:
        came.append(("Made from", f"the messages of {factors.entities:,} entities; rank {factors.rank}"))
    came += [("Factors SHA-256", model.factors_hash), ("Plan SHA-256", plan.hash)]
    return Section(
        "Two messages",
        (
            picture,
            Facts(caption="Message 1", rows=tuple(left)),
            Facts(caption="Message 2", rows=tuple(came)),
            replace(promise_facts(plan), caption="What was promised"),
        ),
    )


def _operators(plan: Plan) -> tuple[str, ...]:
    return ("operator 1", "operator 2") if plan.members is None else tuple(plan.members.operators)


def _data(model: Model) -> Section:
    history = model.history
    lengths = history.entries_per_user
    rows = [
        ("People", whole(history.n_users)),
        ("Entries", whole(history.n_entries)),
        ("Items in use", f"{whole(history.n_rated_items)} of {whole(history.n_items)}"),
    ]
    if lengths.size:
        low, middle, high = np.quantile(lengths, [0.25, 0.5, 0.75])
        rows.append(("Entries of a person", f"{middle:g} in the middle; half of the people have {low:g} to {high:g}"))
    rows.append(("Values", f"{model.lower:g} to {model.bound:g}; others were cut to this range"))
    return Section("The data here", (Facts(rows=tuple(rows)),))


def _model(model: Model) -> Section:
    blocks: list[Block] = [Paragraph(line) for line in model.summary().split("\n")[1:2]]
    if model.note:
        blocks.append(Paragraph(f"Chosen: {model.note}."))
    lines = told_apart(
        line for line in model.validation if isinstance(line.get("loss"), float) and math.isfinite(line["loss"])
    )
    if lines:
        nats = any("nats" in line for line in lines)
        heads = ("loss", "±", *(("nats",) if nats else ()))
        table = Table(
            caption="What was compared on held-out entries of the entity's own people",
            columns=(Column("kind", numeric=False), Column("uses", numeric=False), *map(Column, heads)),
            rows=tuple(
                (
                    kind_words(line),
                    drawn_to(str(line.get("kind", "")), float(line.get("strength", 0.0))),
                    number(line["loss"], 4),
                    number(float(line.get("error", math.nan)), 4),
                    *((number(float(line.get("nats", math.nan)), 0),) if nats else ()),
                )
                for line in lines
            ),
            strong=tuple(at for at, line in enumerate(lines) if line.get("taken")),
            note="In bold: the choice. It was made on these entries, so its own figure here is too good.",
        )
        blocks.append(Folded(f"All {len(lines)} candidates", table))
    return Section("The model", tuple(blocks))


def _card(card: Card | SignedCard) -> Section:
    signed = card if isinstance(card, SignedCard) else None
    page = card_page(card if isinstance(card, Card) else card.card, signed)
    assert page.notice is not None
    said = "A draft, made from the ledger and not signed."
    if signed is not None:
        said = "Copied from a signed card. To check it, ask for the card: twofold card verify CARD --key NAME.pub"
    blocks = [block for one in page.sections for block in (Heading(one.title), *map(_captioned, one.blocks))]
    return Section("The privacy card", (page.notice, Paragraph(said), *blocks))


def _captioned(block: Block) -> Block:
    """Name a table of the card, so that it scrolls by keyboard, too, where it is wider than the screen."""
    if isinstance(block, Table) and not block.caption:
        return replace(block, caption="What it costs, and how often an attacker can be right")
    return block
