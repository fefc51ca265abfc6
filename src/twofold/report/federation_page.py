r"""The report of a federation run in one process: what was agreed, what left, what came of it.

The results of a federation's report: systems by size of entity, with spread, as tables and plots.

The sentences of a federation's report: what was gained, said plainly, also when it is nothing.

The picture of two rounds: who holds what, what leaves, what comes back, in the colours of the page.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from twofold import __version__
from twofold.federation.plan import Plan
from twofold.privacy.budget import best_guess
from twofold.privacy.card import brief, percent, protects
from twofold.privacy.ledger import cost_of
from twofold.report.federation import (
    BASE,
    PRIVATE,
    Difference,
    Example,
    FederationRun,
    Group,
    System,
    difference,
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

__all__ = [
    "TwoRounds",
    "budget_words",
    "federation_page",
    "headline",
    "kept_of_the_gain",
    "plan_words",
    "results_sections",
    "verdict",
]

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


MEASURES = {
    "ndcg": "nDCG@10 (1 is best)",
    "mean_rank": "mean rank (0 is best, 0.5 is chance)",
}


def results_sections(run: FederationRun) -> tuple[Section, ...]:
    """Give the results: the systems in words, both measures, then what joining adds entity by entity."""
    groups = (Group(name="all", short="all", members=run.everyone), *size_groups(run.sizes))
    systems = Points(tuple(f"{one.name}: {one.about} Leaves: {one.leaves}." for one in run.systems))
    tables: list[Block] = [_measure(run, groups, name) for name in MEASURES]
    plots: list[Block] = [_by_size(run, groups[1:], name) for name in MEASURES]
    results = Section("Results", (Paragraph(run.held_out), systems, *tables, *plots))
    return results, Section("What joining adds", (_gains(run, groups), _gain_plot(run)))


def _measure(run: FederationRun, groups: tuple[Group, ...], name: str) -> Table:
    found = [[mean_and_spread(getattr(one, name), group.members) for group in groups] for one in run.systems]
    rows = [
        (one.name, *(with_spread(mean, spread) for mean, spread in line))
        for one, line in zip(run.systems, found, strict=True)
    ]
    exact = [
        (one.name, *(value for pair in line for value in pair)) for one, line in zip(run.systems, found, strict=True)
    ]
    heads = [f"{group.name}: {part}" for group in groups for part in ("mean", "spread")]
    return Table(
        caption=f"{_capital(MEASURES[name])}, mean ± standard deviation over {run.nouns.entities}",
        columns=(Column("", numeric=False), *(Column(group.short) for group in groups)),
        rows=(*_sizes(run, groups), *rows),
        strong=tuple(k for k, one in enumerate(run.systems, start=2) if one.key == PRIVATE),
        note=_cut(run, groups),
        exact=tuple(exact),
        exact_columns=("system", *heads),
    )


def _sizes(run: FederationRun, groups: tuple[Group, ...]) -> tuple[tuple[str, ...], ...]:
    users = run.sizes
    return (
        (run.nouns.entities, *(whole(len(group.members)) for group in groups)),
        (run.nouns.users, *(whole(sum(users[k] for k in group.members)) for group in groups)),
    )


def _cut(run: FederationRun, groups: tuple[Group, ...]) -> str:
    """How the columns were cut."""
    names = ", ".join(group.name for group in groups[1:])
    return f"Columns: all {run.nouns.entities}, then the {names} by number of {run.nouns.users}."


def _by_size(run: FederationRun, groups: tuple[Group, ...], name: str) -> Plot:
    """Quarters across, systems side by side; bars are standard errors, for spreads would hide everything."""
    lines = []
    for k, one in enumerate(run.systems):
        found = [mean_and_spread(getattr(one, name), group.members) for group in groups]
        shift = 0.07 * (k - (len(run.systems) - 1) / 2)
        errors = [spread / len(group.members) ** 0.5 for (_, spread), group in zip(found, groups, strict=True)]
        places = [place + shift for place in range(len(groups))]
        lines.append(Series(name=one.name, x=places, y=[mean for mean, _ in found], spread=_drawable(errors), style=k))
    return Plot(
        caption=f"{_capital(MEASURES[name])} by size of {run.nouns.entity}; bars are standard errors",
        description=_what_is_seen(run, groups, name),
        x_label=f"{run.nouns.entities} by number of {run.nouns.users}",
        y_label=MEASURES[name].split(" (")[0],
        series=tuple(lines),
        ticks=tuple((float(k), _broken(group.name)) for k, group in enumerate(groups)),
    )


def _what_is_seen(run: FederationRun, groups: tuple[Group, ...], name: str) -> str:
    def line(one: System) -> str:
        means = (number(mean_and_spread(getattr(one, name), group.members)[0]) for group in groups)
        return f"{one.name}: {', '.join(means)}"

    return f"{_capital(MEASURES[name])} from the smallest to the largest group. " + "; ".join(map(line, run.systems))


def _gains(run: FederationRun, groups: tuple[Group, ...]) -> Table:
    base = run.system(BASE)
    rows, exact = [], []
    for one in run.systems:
        if one.key == BASE:
            continue
        found = [difference(one.ndcg, base.ndcg, group.members) for group in groups]
        rows.append((one.name, *(with_spread(100 * gap.mean, 100 * gap.error, 2) for gap in found), _count(found[0])))
        exact.append((one.name, *(value for gap in found for value in (gap.mean, gap.error)), _count(found[0])))
    heads = [f"{group.name}: {part}" for group in groups for part in ("mean", "error")]
    return Table(
        caption=f"Hundredths of nDCG@10 above staying alone, mean ± standard error over {run.nouns.entities}",
        columns=(Column("", numeric=False), *(Column(group.short) for group in groups), Column("better / worse")),
        rows=tuple(rows),
        strong=tuple(k for k, row in enumerate(rows) if row[0] == run.system(PRIVATE).name),
        note="Less than twice the standard error is not a difference. Below zero, staying alone is better.",
        exact=tuple(exact),
        exact_columns=("system", *heads, "better / worse"),
    )


def _count(gap: object) -> str:
    return f"{getattr(gap, 'better', 0)} / {getattr(gap, 'worse', 0)}"


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
    gap = difference(run.system(PRIVATE).ndcg, base, run.everyone)
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


def _drawable(errors: list[float]) -> list[float]:
    return [0.0 if error != error else error for error in errors]


def _broken(name: str) -> str:
    return name.replace(" ", "\n", 1)


def _capital(text: str) -> str:
    return text if text.startswith("nDCG") else text[:1].upper() + text[1:]


def verdict(run: FederationRun, members: Sequence[int] | None = None, *, key: str = PRIVATE, base: str = BASE) -> str:
    """Say how one system does against another at some entities, in one sentence with its uncertainty.

    A difference of less than two standard errors over entities is called no difference.
    """
    chosen = run.everyone if members is None else members
    one, other = run.system(key), run.system(base)
    gap = difference(one.ndcg, other.ndcg, chosen)
    numbers = (
        f"nDCG@10 {number(mean_and_spread(one.ndcg, chosen)[0])} against "
        f"{number(mean_and_spread(other.ndcg, chosen)[0])}, a difference of {number(gap.mean, 4)} with a standard "
        f"error of {number(gap.error, 4)}; better at {gap.better} of {gap.entities} {run.nouns.entities}, worse at "
        f"{gap.worse}."
    )
    return f"{_claim(gap, one.name, other.name)}: {numbers}"


def _claim(gap: Difference, one: str, other: str) -> str:
    claims = {
        "better": f"{one} is better than {other.lower()}",
        "worse": f"{one} is WORSE than {other.lower()}",
        "no different": f"{one} is not measurably different from {other.lower()}",
        "unknown": f"{one} cannot be compared with {other.lower()} here, too little was held out",
    }
    return claims[gap.verdict]


def headline(run: FederationRun) -> tuple[str, tuple[str, ...]]:
    """Give the sentence in the box and those that explain it: all entities, the smallest, and by mean rank."""
    first = _plainly(run)
    groups = size_groups(run.sizes)
    more = [f"All {run.nouns.entities}. {verdict(run)}"]
    if len(groups) > 1:
        more.append(f"{_capital(groups[0].name)}. {verdict(run, groups[0].members)}")
    by_rank = difference(
        run.system(PRIVATE).mean_rank, run.system(BASE).mean_rank, run.everyone, higher_is_better=False
    )
    more.append(f"By mean rank, {_claim(by_rank, 'joining', 'staying alone')}: {_rank_words(by_rank)}")
    return first, tuple(more)


def _plainly(run: FederationRun) -> str:
    gap = difference(run.system(PRIVATE).ndcg, run.system(BASE).ndcg, run.everyone)
    smallest = size_groups(run.sizes)[0]
    price = budget_words(run.plan)
    claims = {
        "better": f"Joining helped: at {price}, the private federation recommends better than staying alone.",
        "worse": f"Joining HURT here: at {price}, the private federation recommends worse than staying alone.",
        "no different": f"Joining did not measurably help: at {price}, the private federation does not beat "
        "staying alone.",
        "unknown": "Too little was held out to say whether joining helped.",
    }
    return claims[gap.verdict] + _but(run, gap, smallest)


def _but(run: FederationRun, gap: Difference, smallest: Group) -> str:
    """Add what the smallest entities see when it is another story."""
    there = difference(run.system(PRIVATE).ndcg, run.system(BASE).ndcg, smallest.members)
    if there.verdict == gap.verdict or there.verdict == "unknown":
        return ""
    whom = f" For the {smallest.name} of the {run.nouns.entities} it "
    return (
        whom
        + {
            "better": "did help.",
            "worse": "made things worse.",
            "no different": "made no measurable difference.",
        }[there.verdict]
    )


def kept_of_the_gain(run: FederationRun, key: str) -> str:
    """Say which share of the gain of a federation without privacy the private one keeps; empty when there was none."""
    everyone, alone = run.everyone, run.system(BASE)
    without = difference(run.system(key).ndcg, alone.ndcg, everyone)
    private = difference(run.system(PRIVATE).ndcg, alone.ndcg, everyone)
    if without.verdict != "better":
        return (
            f"Over all {run.nouns.entities}, sharing without privacy does not measurably beat staying alone either, so "
            "there is nothing that privacy could cost."
        )
    if private.verdict != "better":
        return (
            f"Without privacy, sharing would add {number(without.mean, 4)} to the nDCG@10 of staying alone. Of that "
            "the private federation keeps nothing that can be measured."
        )
    return (
        f"Without privacy, sharing would add {number(without.mean, 4)} to the nDCG@10 of staying alone; the private "
        f"federation adds {number(private.mean, 4)}, {private.mean / without.mean:.0%} of it."
    )


def budget_words(plan: Plan) -> str:
    """Write ε and δ of a plan.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> key = CatalogKey(hash="0" * 64, n_items=457)
    >>> budget_words(Plan(catalog=key, feedback="counts", bound=5, max_items=60))
    'ε = 1, δ = 1e-6'
    """
    return brief(cost_of(plan.budget))


def plan_words(run: FederationRun) -> tuple[tuple[str, str], ...]:
    """Say what was agreed, a name and a sentence each."""
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
            f"whoever sees {'a message' if plan.secure is None else 'the sum'} and must say whether one {nouns.user} "
            "was in the data is right at most "
            f"{percent(guess)} of the time; a coin is right 50%",
        ),
        ("Item list", f"{plan.n_items:,} {nouns.items}, public"),
        ("Cut before release", cut),
        _released(run),
        ("Shared factors", f"rank {plan.rank}"),
        ("Promised", f"about {plan.n_users:,} {nouns.users} each, {plan.n_entities} {nouns.entities}; never counted"),
        ("Plan SHA-256", plan.hash),
        ("Item list SHA-256", plan.catalog.hash),
    )


def _secure_words(plan: Plan, entities: str) -> tuple[tuple[str, str], ...]:
    """Say what a secure sum adds to the promise, and what is left of it when all others collude."""
    if plan.secure is None:
        return ()
    stated = plan.spec.sum
    alone = "nothing"
    if stated is not None and math.isfinite(stated.alone_epsilon):
        alone = f"ε = {stated.alone_epsilon:.3g}"
    words = (
        f"the server sees only the sum of at least {plan.secure.survivors} messages; the noise is shared among "
        f"{plan.parameters.honest} honest {entities}. Should all others collude with the server, one "
        f"message alone has {alone}"
    )
    return (("Secure sum", words),)


def _released(run: FederationRun) -> tuple[str, str]:
    plan, numbers = run.plan, run.plan.spec.numbers
    if plan.spec.sum is not None:
        return ("Released", f"{numbers:,} numbers; {run.choice or plan.mechanism}")
    return ("Prototypes", f"{plan.n_prototypes} asked for, {_rows(plan)} leave; {run.choice or plan.mechanism}")


def _rows(plan: Plan) -> str:
    """How many rows of sums leave an entity: cells, or one profile, where the mechanism does not cluster."""
    size = plan.spec.rows
    return "as many as it has users" if size is None else f"{size:,}"


def _rank_words(gap: Difference) -> str:
    """A positive difference means higher in the list."""
    if not math.isfinite(gap.mean):
        return "–"
    where = "higher" if gap.mean >= 0 else "lower"
    return (
        f"held-out entries stand {abs(gap.mean):.2%} of the list {where} on average, with a standard error of "
        f"{gap.error:.2%}."
    )


def _capital_federation_words(text: str) -> str:
    return text[:1].upper() + text[1:]


_WIDTH: Final = 420
_HEIGHT: Final = 286


@dataclass(frozen=True, kw_only=True)
class TwoRounds:
    """Entities on the left, the server on the right, one arrow each way.

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

    def html(self) -> str:
        """Give the markup."""
        label = (
            f"{self.entities} each keep their {self.inside}. Round 1: each sends one message to the server, "
            f"{self.there}, {self.cost}. Round 2: the server sends the same item factors back to all, {self.back}. "
            "Each then fits its own model, and nothing leaves any more."
        )
        boxes = "\n".join(self._entity(y) for y in (34, 114, 194))
        return (
            f"<figure><figcaption>Two rounds, one message each way</figcaption>\n"
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}" font-size="12.5" '
            f'fill="var(--ink)">\n{_HEADS}\n{_text(66, 20, self.entities, weight=700)}\n{boxes}\n'
            f"{self._server()}\n{self._arrows()}\n</svg></figure>"
        )

    def _entity(self, y: int) -> str:
        lines = (_text(66, y + 19, self.inside), _text(66, y + 35, "own model"), _text(66, y + 51, "ledger"))
        return _box(8, y, 116, 60) + "".join(lines)

    def _server(self) -> str:
        words = (("server", 700), ("sees only", 400), ("noisy sums", 400))
        lines = "".join(_text(366, 120 + 17 * k, word, weight=weight) for k, (word, weight) in enumerate(words))
        return _box(320, 84, 92, 94) + lines

    def _arrows(self) -> str:
        there = "".join(_arrow(126, y, 317, end, "url(#there)") for y, end in ((52, 106), (132, 124), (212, 142)))
        back = "".join(
            _arrow(319, start, 128, y, "url(#back)", dashed=True) for y, start in ((76, 120), (156, 138), (236, 158))
        )
        over = _text(222, 20, f"round 1: {self.there}", weight=700) + _text(222, 36, self.cost)
        under = _text(222, 266, f"round 2: {self.back}", weight=700) + _text(222, 281, "costs nothing more")
        return there + back + over + under


def _head(name: str, fill: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M 0 0 L 10 5 L 0 10 z" fill="{fill}" stroke="var(--ink)"/></marker>'
    )


_HEADS: Final = f"<defs>{_head('there', 'var(--ink)')}{_head('back', 'var(--ground)')}</defs>"


def _text(x: float, y: float, words: str, *, weight: int = 400) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle" font-weight="{weight}">{escape(words)}</text>'


def _box(x: float, y: float, width: float, height: float) -> str:
    size = f'width="{width}" height="{height}"'
    return f'<rect x="{x}" y="{y}" {size} fill="var(--ground)" stroke="var(--ink)" stroke-width="1.5"/>'


def _arrow(x1: float, y1: float, x2: float, y2: float, head: str, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="5 3"' if dashed else ""
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="var(--ink)" stroke-width="1.3"{dash} '
        f'marker-end="{head}"/>'
    )
