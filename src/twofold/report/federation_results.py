"""The results of a federation's report: systems by size of entity, with spread, as tables and plots."""

from __future__ import annotations

from twofold.report.comparison import Group, difference, mean_and_spread, size_groups
from twofold.report.federation import BASE, PRIVATE, FederationRun, System
from twofold.report.page import Block, Section
from twofold.report.plot import Plot, Series
from twofold.report.table import Column, Table
from twofold.report.words import Paragraph, Points, number, whole, with_spread

__all__ = ["results_sections"]

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
