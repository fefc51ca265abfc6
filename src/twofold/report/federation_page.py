"""The report of a federation run in one process: what was agreed, what left, and the results."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from twofold import __version__
from twofold.federation.plan import Plan
from twofold.privacy.budget import best_guess
from twofold.privacy.card import protects
from twofold.privacy.printed import percent, rounded_up
from twofold.report.federation import (
    BASE,
    PRIVATE,
    Difference,
    Example,
    FederationRun,
    Group,
    budget_words,
    capital,
    coalition_words,
    guesser,
    headline,
    kept_of_the_gain,
    mean_and_spread,
    size_groups,
)
from twofold.report.page import (
    Block,
    Column,
    Facts,
    Folded,
    Notice,
    Page,
    Paragraph,
    Points,
    Section,
    Table,
    number,
    size,
    span,
    whole,
    with_spread,
)
from twofold.report.plot import Plot, Series

__all__ = ["TwoRounds", "federation_page", "plan_words"]

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
    >>> from twofold.federation.plan import CatalogKey, Plan
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
        first = f"NOT PRIVATE: use it for tests only. {first}"
    sections = (
        _two_rounds(run),
        Section("What was agreed", (Facts(caption="The plan, public and the same for all", rows=plan_words(run)),)),
        _left(run),
        *_results(run),
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
        **_operators_drawn(run.plan),
    )
    if run.plan.operators is not None:
        facts = Facts(caption="Who sees what, and what holds if some work together", rows=coalition_words(run))
        return Section("Two rounds", (Paragraph(_through_operators(run)), picture, facts))
    words = (
        f"Each {nouns.entity} sends one message: sums over its {nouns.users}, with noise. The server turns all "
        f"messages into one set of item factors and sends it back to everyone, with the noisy sum itself where counts "
        f"were added up. Each {nouns.entity} then takes from it what tells its own people's hidden entries better. It "
        "can repeat this as often as it likes."
    )
    return Section("Two rounds", (Paragraph(words), picture))


_WHO_ADDS = {
    "operators": ("+ a whole noise", "with both noises"),
    "entities": ("adds up shares", "with all noise shares"),
    "both": ("+ a whole noise", "noises and shares"),
}


def _operators_drawn(plan: Plan) -> dict[str, Any]:
    """Give what the picture shows of two operators; nothing for a plan with a server."""
    if plan.operators is None:
        return {}
    adds, total = _WHO_ADDS[plan.operators.noise]
    names = ("operator 1", "operator 2") if plan.members is None else tuple(plan.members.operators)
    return {"operators": names, "adds": adds, "total": total}


def _through_operators(run: FederationRun) -> str:
    nouns = run.nouns
    assert run.plan.operators is not None
    noise = {
        "operators": "each adds up its shares, adds a whole noise of its own,",
        "entities": f"each adds up its shares, in which every {nouns.entity} put its part of the noise,",
        "both": f"each adds up its shares, in which every {nouns.entity} put its part of a noise, adds a whole noise,",
    }[run.plan.operators.noise]
    return (
        f"Each {nouns.entity} sends one message: sums over its {nouns.users}, split into two sealed shares, one for "
        f"each of two operators. The operators agree on one list of {nouns.entities}; {noise} and only then do they "
        "put their two results together. From the noisy sum they compute one set of item factors, which both sign, and "
        f"send it back to everyone, with the noisy sum itself where counts were added up. Each {nouns.entity} then "
        "takes from it what tells its own people's hidden entries better. It can repeat this as often as it likes."
    )


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
        note=f"The number of {nouns.users} is shown because they are simulated; in practice it stays inside.",
        exact=tuple((row[0], *(int(cell.replace(",", "")) for cell in row[1:4]), row[4]) for row in rows),
    )
    total = sum(one.bytes for one in run.entities)
    words = (
        f"{_alike(run)} In total, {size(total)} left {len(run.entities)} {nouns.entities}. No record, id or model left."
    )
    shown = table if len(rows) <= _FEW else Folded(f"All {len(rows)} {nouns.entities}", table)
    return Section(f"What left each {nouns.entity}", (Paragraph(words), shown))


def _alike(run: FederationRun) -> str:
    kinds = {(one.numbers, one.bytes, one.spent) for one in run.entities}
    if len(kinds) > 1:
        return f"The messages of the {run.nouns.entities} differ."
    numbers, length, spent = kinds.pop()
    return (
        f"Every {run.nouns.entity} sent one message of {whole(numbers)} numbers, {whole(length)} bytes"
        f"{'' if run.plan.peers is None else ' including the agreement and two messages of keys, without data'}. "
        f"Its ledger records {spent} spent per {run.plan.unit.holder}."
    )


_NOISE_NOTE = (
    "Noise: its standard deviation, which is public and the same for all. Signal: the root mean square of the sums "
    "beneath the noise, estimated from the messages alone, so a faint signal looks like none. Below 1, noise hides "
    "single numbers, and only sums over many messages are informative."
)
_SUM_NOTE = (
    "Noise: its standard deviation in one number of the sum, which is public. Signal: the root mean square over items "
    "of how often each item occurs, as estimated from the sum. Nobody sees a single message, so nobody can tell how "
    "much one contains."
)


def _price_of_privacy(run: FederationRun) -> Section:
    """Noise against signal, by size, and the part of the gain that remains."""
    groups = size_groups(run.sizes) if all(math.isfinite(one.signal) for one in run.entities) else []
    ratios = [one.signal / one.noise if one.noise else float("inf") for one in run.entities]
    rows = []
    for group in groups:  # none in a secure sum: nobody sees a single message
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
        note=f"Each {run.nouns.entity} chose on entries it held back for itself, never on those of the results above. "
        f"Pull: how many of its own {run.nouns.users} the shared factors count for. Gain: nDCG@10 above its best model "
        "alone, mean ± standard deviation; it is the best of several tries and therefore optimistic.",
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
            Column("held out, to be found", numeric=False),
        ),
        rows=rows,
    )
    why = Table(
        caption=f"Why {one.recommended[0][0]}" if one.recommended else "Why",
        columns=(Column("because of", numeric=False), Column("adds to the score")),
        rows=tuple((item, number(value)) for item, value in one.reasons),
        note="The parts add up to the score. This table names what one person had, so it is made and kept inside.",
    )
    words = f"The model knew this simulated {nouns.user} by: {had}."
    return Section("One recommendation, explained", (Paragraph(words), table, why))


def _rest(run: FederationRun) -> Section:
    rows = tuple((name, span(seconds)) for name, seconds in run.timings)
    total = span(sum(seconds for _, seconds in run.timings))
    table = Table(
        caption="Time taken", columns=(Column("step", numeric=False), Column("time")), rows=(*rows, ("total", total))
    )
    blocks: tuple[Block, ...] = (table,) if rows else ()
    return Section("Time, and what to keep in mind", (*blocks, Points(run.remarks)))


MEASURES = {
    "ndcg": "nDCG@10 (1 is best)",
    "mean_rank": "mean rank (0 is best, 0.5 is chance)",
}


def _results(run: FederationRun) -> tuple[Section, ...]:
    """Give the results: the systems in words, both measures, then what joining adds entity by entity."""
    groups = (Group(name="all", short="all", members=run.everyone), *size_groups(run.sizes))
    systems = Points(tuple(f"{one.name}: {one.about} Leaves: {one.leaves}." for one in run.systems))
    tables: list[Block] = [_measure(run, groups, name) for name in MEASURES]
    plots: list[Block] = [_by_size(run, groups[1:], name) for name in MEASURES]
    results = Section("Results", (Paragraph(run.held_out), systems, *tables, *plots))
    return results, Section("What joining adds", (_gains(run, groups), _gain_plot(run)))


def _measure(run: FederationRun, groups: tuple[Group, ...], name: str) -> Table:
    nouns, users = run.nouns, run.sizes
    rows: list[tuple[str, ...]] = [
        (nouns.entities, *(whole(len(group.members)) for group in groups)),
        (nouns.users, *(whole(sum(users[k] for k in group.members)) for group in groups)),
    ]
    exact = []
    for one in run.systems:
        found = [mean_and_spread(getattr(one, name), group.members) for group in groups]
        rows.append((one.name, *(with_spread(mean, spread) for mean, spread in found)))
        exact.append((one.name, *(value for pair in found for value in pair)))
    heads = [f"{group.name}: {part}" for group in groups for part in ("mean", "spread")]
    names = ", ".join(group.name for group in groups[1:])
    return Table(
        caption=f"{capital(MEASURES[name])}, mean ± standard deviation over {nouns.entities}",
        columns=(Column("", numeric=False), *(Column(group.short) for group in groups)),
        rows=tuple(rows),
        strong=tuple(k for k, one in enumerate(run.systems, start=2) if one.key == PRIVATE),
        note=f"Columns: all {nouns.entities}, then the {names} by number of {nouns.users}.",
        exact=tuple(exact),
        exact_columns=("system", *heads),
    )


def _by_size(run: FederationRun, groups: tuple[Group, ...], name: str) -> Plot:
    """Quarters across, systems side by side; bars are standard errors, because spreads would hide everything."""
    lines, seen = [], []
    for k, one in enumerate(run.systems):
        found = [mean_and_spread(getattr(one, name), group.members) for group in groups]
        shift = 0.07 * (k - (len(run.systems) - 1) / 2)
        errors = [spread / len(group.members) ** 0.5 for (_, spread), group in zip(found, groups, strict=True)]
        places = [place + shift for place in range(len(groups))]
        bars = [error if math.isfinite(error) else 0.0 for error in errors]
        lines.append(Series(name=one.name, x=places, y=[mean for mean, _ in found], spread=bars, style=k))
        seen.append(f"{one.name}: {', '.join(number(mean) for mean, _ in found)}")
    return Plot(
        caption=f"{capital(MEASURES[name])} by size of {run.nouns.entity}; bars are standard errors",
        description=f"{capital(MEASURES[name])} from the smallest to the largest group. {'; '.join(seen)}",
        x_label=f"{run.nouns.entities} by number of {run.nouns.users}",
        y_label=MEASURES[name].split(" (")[0],
        series=tuple(lines),
        ticks=tuple((float(k), group.name.replace(" ", "\n", 1)) for k, group in enumerate(groups)),
    )


def _gains(run: FederationRun, groups: tuple[Group, ...]) -> Table:
    rows, exact = [], []
    for one in run.systems:
        if one.key == BASE:
            continue
        found = [run.gain(group.members, key=one.key) for group in groups]
        rows.append((one.name, *(with_spread(100 * gap.mean, 100 * gap.error, 2) for gap in found), _count(found[0])))
        exact.append((one.name, *(value for gap in found for value in (gap.mean, gap.error)), _count(found[0])))
    heads = [f"{group.name}: {part}" for group in groups for part in ("mean", "error")]
    return Table(
        caption=f"Hundredths of nDCG@10 above staying alone, mean ± standard error over {run.nouns.entities}",
        columns=(Column("", numeric=False), *(Column(group.short) for group in groups), Column("better / worse")),
        rows=tuple(rows),
        strong=tuple(k for k, row in enumerate(rows) if row[0] == run.system(PRIVATE).name),
        note="Less than twice the standard error counts as no difference. Below zero, staying alone is better.",
        exact=tuple(exact),
        exact_columns=("system", *heads, "better / worse"),
    )


def _count(gap: Difference) -> str:
    return f"{gap.better} / {gap.worse}"


def _gain_plot(run: FederationRun) -> Plot:
    """Every entity as a point: what joining added there."""
    base = run.system(BASE).ndcg
    shown = [(k, one) for k, one in enumerate(run.systems) if one.key in (PRIVATE, "non_private")]
    lines = tuple(
        Series(
            name=one.name,
            x=[float(size) for size in run.sizes],
            y=[value - own for value, own in zip(one.ndcg, base, strict=True)],
            joined=False,
            style=k,
        )
        for k, one in shown
    )
    gap = run.gain()
    return Plot(
        caption=f"Each {run.nouns.entity}: nDCG@10 above that of staying alone",
        description=f"One point per {run.nouns.entity}, above zero where joining helped: {gap.better} above, "
        f"{gap.worse} below for the private federation.",
        x_label=f"{run.nouns.users} of the {run.nouns.entity}",
        y_label="nDCG@10 above alone",
        series=lines,
        log_x=True,
        level=0.0,
    )


def plan_words(run: FederationRun) -> tuple[tuple[str, str], ...]:
    """List what was agreed, a name and a sentence each."""
    plan, nouns = run.plan, run.nouns
    guess = best_guess(float(plan.epsilon), float(plan.delta))
    cut = (
        f"at most {plan.max_items} {nouns.items} of one {nouns.user}, each value from {plan.lower:g} to {plan.bound:g}"
    )
    return (
        ("Price", f"{budget_words(plan)} for the one release"),
        ("Protects", protects(plan.unit) if run.private else "nobody: this run is marked NOT PRIVATE"),
        *_secure_words(plan, nouns.entities),
        (
            "Meaning",
            f"{guesser(plan)} guesses right whether one {nouns.user} was in the data at most {percent(guess)} of the "
            "time; a coin 50%",
        ),
        ("Item list", f"{plan.n_items:,} {nouns.items}, public"),
        ("Cut before release", cut),
        _released(run),
        ("Shared factors", f"rank {plan.rank}"),
        (
            "Promised",
            f"about {plan.n_users:,} {nouns.users} each, {plan.n_entities} {nouns.entities}; agreed, not counted",
        ),
        ("Plan SHA-256", plan.hash),
        ("Item list SHA-256", plan.catalog.hash),
    )


def _secure_words(plan: Plan, entities: str) -> tuple[tuple[str, str], ...]:
    """Say what a secure sum adds to the guarantee, and what remains if all others collude."""
    if plan.secure is None:
        return ()
    stated = plan.spec.sum
    alone = "nothing"
    if stated is not None and math.isfinite(stated.alone_epsilon):
        alone = f"ε = {stated.alone_epsilon:.3g}"
    if plan.operators is not None:
        both = plan.coalitions[-1]
        lost = f"one message alone has ε = {rounded_up(both.epsilon)}" if both.kept else "exact sums are open to them"
        words = (
            f"each of two operators alone sees only the sum of at least {plan.operators.floor} messages, and one of "
            f"them must be honest. If both work together, {lost}"
        )
        return (("Secure sum", words),)
    assert plan.peers is not None
    words = (
        f"the server sees only the sum of at least {plan.peers.survivors} messages. It may work with "
        f"{plan.peers.colluders} of the {entities} (colluders); the noise of {plan.parameters.honest} "
        f"is enough. If all others collude with the server, one message alone has {alone}"
    )
    return (("Secure sum", words),)


def _released(run: FederationRun) -> tuple[str, str]:
    plan, numbers = run.plan, run.plan.spec.numbers
    if plan.spec.sum is not None:
        return ("Released", f"{numbers:,} numbers; {run.choice or plan.mechanism}")
    return ("Prototypes", f"{plan.n_prototypes} asked for, {_rows(plan)} leave; {run.choice or plan.mechanism}")


def _rows(plan: Plan) -> str:
    """Number of rows of sums that leave an entity: cells, or one profile if the mechanism does not cluster."""
    size = plan.spec.rows
    return "as many as it has users" if size is None else f"{size:,}"


@dataclass(frozen=True, kw_only=True)
class TwoRounds(Block):
    """Entities on the left, the server or two operators on the right, one message each way.

    Parameters
    ----------
    entities : str
        Who takes part, as "24 hospitals".
    there, back : str
        What goes to the server and what comes back, a few words each.
    cost : str
        What the way there costs one person.
    inside : str
        What never leaves, as "raw records".
    operators : tuple of str
        Names of two operators in place of the server, or nothing.
    adds, total : str
        What each operator adds, and which noise the sum has; only with operators.

    Examples
    --------
    >>> picture = TwoRounds(entities="3 banks", there="12 kB each", back="9 kB", cost="ε = 1", inside="raw records")
    >>> "round 1" in picture.html()
    True
    """

    entities: str
    there: str
    back: str
    cost: str
    inside: str = "raw records"
    operators: tuple[str, ...] = ()
    adds: str = "+ a whole noise"
    total: str = "with both noises"

    @property
    def label(self) -> str:
        """The picture in words, for screen readers."""
        if self.operators:
            first, second = self.operators
            return (
                f"{self.entities} each keep their {self.inside}. Round 1: each sends one message in two sealed shares, "
                f"{self.there}, {self.cost}. {first} and {second} each see random numbers ({self.adds}); together they "
                f"learn the sum of all, {self.total}. Round 2: both send the same item factors back to all, "
                f"{self.back}. Each then fits its own model, and nothing else leaves."
            )
        return (
            f"{self.entities} each keep their {self.inside}. Round 1: each sends one message to the server, "
            f"{self.there}, {self.cost}. Round 2: the server sends the same item factors back to all, {self.back}. "
            "Each then fits its own model, and nothing else leaves."
        )
