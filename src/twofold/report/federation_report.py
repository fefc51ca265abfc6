"""The report of a federation run in one process: what was agreed, what left, what came of it."""

from __future__ import annotations

import math
from collections import Counter

from twofold import __version__
from twofold.report.comparison import mean_and_spread, size_groups
from twofold.report.drawing import TwoRounds
from twofold.report.federation import Example, FederationRun
from twofold.report.federation_results import results_sections
from twofold.report.federation_words import budget_words, headline, kept_of_the_gain, plan_words
from twofold.report.page import Block, Page, Section
from twofold.report.table import Column, Facts, Table
from twofold.report.words import Folded, Notice, Paragraph, Points, number, size, span, whole, with_spread

__all__ = ["federation_page"]

_FEW = 12  # longer tables are folded


def federation_page(run: FederationRun, *, title: str = "A federation in two rounds", subtitle: str = "") -> Page:
    """Make the page of a federation.

    Parameters
    ----------
    run : FederationRun
        What happened, in numbers and words.
    title, subtitle : str
        The heading and a line below it.

    Privacy
    -------
    The page tells how many users each entity has and how well it is served. That is private: such a page can be made
    only where everybody's data is in one process, which is a simulation.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from twofold.protocol.plan import CatalogKey, Plan
    >>> from twofold.report.federation import EntityLine, System
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=3)
    >>> told = {"numbers": 4, "bytes": 99, "spent": "ε = 1", "noise": 2.0, "signal": 1.0, "gain": 0.0}
    >>> entities = tuple(
    ...     EntityLine(name=name, users=9, model="factors", strength="own only", **told) for name in ("a", "b")
    ... )
    >>> alone = System(
    ...     key="alone", name="Alone", about="x", leaves="nothing", ndcg=(0.3, 0.4), mean_rank=(0.1, 0.1)
    ... )
    >>> joined = replace(alone, key="private", name="Together", ndcg=(0.4, 0.51))
    >>> run = FederationRun(plan=plan, private=True, entities=entities, systems=(alone, joined), received=9)
    >>> print(federation_page(run).notice.text)
    Joining helped: at ε = 1, δ = 1e-6, the private federation recommends better than staying alone.
    """
    first, more = headline(run)
    if not run.private:
        first = f"NOT PRIVATE: nothing here may leave a test. {first}"
    sections = (
        _two_rounds(run),
        Section("What was agreed", (Facts(caption="The plan, public and the same for all", rows=plan_words(run)),)),
        _left(run),
        *results_sections(run),
        _price_of_privacy(run),
        _local_models(run),
        *(() if run.example is None else (_example(run, run.example),)),
        _rest(run),
    )
    return Page(
        title=title,
        subtitle=subtitle,
        notice=Notice(text=first, more=more, warning=not run.private),
        sections=sections,
        footer=f"Made by twofold {__version__}. This page is one file: it needs no network and runs no script.",
    )


def _two_rounds(run: FederationRun) -> Section:
    nouns = run.nouns
    sent = sorted(entity.bytes for entity in run.entities)
    picture = TwoRounds(
        entities=f"{len(run.entities)} {nouns.entities}",
        there=f"{size(sent[-1])} each",
        back=f"{size(run.received)} of factors",
        cost=budget_words(run.plan) if run.private else "NOT PRIVATE",
    )
    words = (
        f"Each {nouns.entity} sends one message, made of sums over its {nouns.users} with noise. The server turns all "
        f"messages into item factors, the same for everyone, and sends them back. Each {nouns.entity} then draws its "
        "own model towards them as far as its own validation says it should. It can do that as often as it likes."
    )
    return Section("Two rounds", (Paragraph(words), picture))


def _left(run: FederationRun) -> Section:
    nouns = run.nouns
    rows = tuple(
        (one.name, whole(one.users), whole(one.numbers), whole(one.bytes), one.spent)
        for one in sorted(run.entities, key=lambda one: one.users)
    )
    columns = (
        Column(nouns.entity, numeric=False),
        Column(nouns.users),
        Column("numbers"),
        Column("bytes"),
        Column(f"spent per {run.plan.unit.holder}", numeric=False),
    )
    table = Table(
        caption=f"What left each {nouns.entity}, once",
        columns=columns,
        rows=rows,
        note=f"The number of {nouns.users} is shown because they are simulated; in real life it stays inside.",
        exact=tuple((row[0], *(int(cell.replace(",", "")) for cell in row[1:4]), row[4]) for row in rows),
    )
    total = sum(one.bytes for one in run.entities)
    words = (
        f"{_alike(run)} Altogether {size(total)} left {len(run.entities)} {nouns.entities}. No record, no id and no "
        "model left."
    )
    shown = table if len(rows) <= _FEW else Folded(f"All {len(rows)} {nouns.entities}", table)
    return Section(f"What left each {nouns.entity}", (Paragraph(words), shown))


def _alike(run: FederationRun) -> str:
    kinds = {(one.numbers, one.bytes, one.spent) for one in run.entities}
    if len(kinds) > 1:
        return f"The messages of the {run.nouns.entities} differ:"
    numbers, length, spent = kinds.pop()
    return (
        f"Every {run.nouns.entity} sent one message of {whole(numbers)} numbers, {whole(length)} bytes"
        f"{'' if run.plan.secure is None else ' with two messages of keys that carry no data'}, and its ledger "
        f"says that it spent {spent} per {run.plan.unit.holder}."
    )


_NOISE_NOTE = (
    "Noise: standard deviation, public, the same for all. Signal: root mean square of the sums beneath the noise, "
    "estimated from the messages alone, so that a faint one cannot be told from none. Below 1, single numbers drown, "
    "and only sums over many messages speak."
)
_SUM_NOTE = (
    "Noise: standard deviation in one number of the sum, public. Signal: root mean square over the items of how often "
    "each was had, as the sum tells it. Single messages are under masks, and nobody can say how much is in one."
)


def _price_of_privacy(run: FederationRun) -> Section:
    """Noise against signal, by size, and what of the gain is left."""
    groups = size_groups(run.sizes) if all(math.isfinite(one.signal) for one in run.entities) else []
    ratios = [one.signal / one.noise if one.noise else float("inf") for one in run.entities]
    rows = []
    for group in groups:  # none where messages are masked: nobody sees a single one
        members = [run.entities[k] for k in group.members]
        ratio = mean_and_spread(ratios, group.members)
        signal = mean_and_spread([one.signal for one in run.entities], group.members)[0]
        rows.append((group.name, f"{members[0].noise:.3g}", f"{signal:.3g}", with_spread(*ratio, 2)))
    if run.together is not None:
        noise, signal = run.together
        rows.append(("all messages added up", f"{noise:.3g}", f"{signal:.3g}", _ratio(signal, noise)))
    table = Table(
        caption="Noise against signal in one released sum",
        columns=(
            Column(run.nouns.entities, numeric=False),
            Column("noise"),
            Column("signal"),
            Column("signal / noise"),
        ),
        rows=tuple(rows),
        note=_NOISE_NOTE if groups else _SUM_NOTE,
    )
    blocks: list[Block] = [table]
    if any(one.key == "non_private" for one in run.systems):
        blocks.insert(0, Paragraph(kept_of_the_gain(run, "non_private")))
    return Section("The price of privacy", tuple(blocks))


def _ratio(signal: float, noise: float) -> str:
    return number(signal / noise, 2) if noise else "no noise"


def _local_models(run: FederationRun) -> Section:
    rows = []
    for group in size_groups(run.sizes):
        members = [run.entities[k] for k in group.members]
        gain = mean_and_spread([one.gain for one in run.entities], group.members)
        rows.append(
            (
                group.name,
                _tally([one.model for one in members]),
                _tally([one.strength for one in members]),
                with_spread(*gain, 4),
            )
        )
    table = Table(
        caption=f"What each {run.nouns.entity} chose by its own validation",
        columns=(
            Column(run.nouns.entities, numeric=False),
            Column("local model", numeric=False),
            Column("pull of the shared factors", numeric=False),
            Column("gain it saw"),
        ),
        rows=tuple(rows),
        note="Chosen on entries each held back for itself, never on those of the results above. Pull: as how many of "
        f"its own {run.nouns.users} the shared factors count. Gain: nDCG@10 above its best model alone, mean ± "
        "standard deviation; it is the best of several tries, so it flatters.",
    )
    return Section("Local models", (table,))


def _tally(words: list[str]) -> str:
    """How often each word occurs, the most frequent first."""
    counted = sorted(Counter(words).items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{word} ({count})" for word, count in counted)


def _example(run: FederationRun, one: Example) -> Section:
    nouns = run.nouns
    had = ", ".join(f"{item} ({value:g})" for item, value in one.history[:_FEW])
    if len(one.history) > _FEW:
        had += f" and {len(one.history) - _FEW} more"
    held = set(one.held_out)
    rows = tuple(
        (item, str(place), f"{score:.3f}", "yes" if item in held else "")
        for place, (item, score) in enumerate(one.recommended, start=1)
    )
    table = Table(
        caption=f"Recommended to {nouns.user} {one.user} of {one.entity}",
        columns=(
            Column("item", numeric=False),
            Column("place"),
            Column("score"),
            Column("held out, so to be found", numeric=False),
        ),
        rows=rows,
    )
    why = Table(
        caption=f"Why {one.recommended[0][0]}" if one.recommended else "Why",
        columns=(Column("because of", numeric=False), Column("adds to the score")),
        rows=tuple((item, number(value)) for item, value in one.reasons),
        note="The parts add up to the score. Computed inside; it names what one person had, so it stays inside.",
    )
    words = f"A simulated {nouns.user} who had, as far as the model was told: {had}."
    return Section("One recommendation, explained", (Paragraph(words), table, why))


def _rest(run: FederationRun) -> Section:
    rows = tuple((name, span(seconds)) for name, seconds in run.timings)
    total = span(sum(seconds for _, seconds in run.timings))
    table = Table(
        caption="Time taken", columns=(Column("step", numeric=False), Column("time")), rows=(*rows, ("together", total))
    )
    blocks: tuple[Block, ...] = (table,) if rows else ()
    return Section("Time, and what to keep in mind", (*blocks, Points(run.remarks)))
