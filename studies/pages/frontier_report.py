"""The page of the frontier: plain words first, then targets, a plot and tables for every data set."""

from __future__ import annotations

import math
from collections.abc import Sequence

from studies.frontier.page import HOW, READING, advice, not_run, picture_name, verdict
from studies.frontier.settings import Grid
from studies.frontier.summary import Results
from studies.frontier.tables import NAMES, Sheet, all_sheets, target_sheet
from twofold.report.page import Block, Column, Folded, Notice, Page, Paragraph, Points, Section, Table
from twofold.report.plot import Plot, Series

__all__ = ["frontier_page", "pictures"]

#: Lines that can be told apart.
MOST_LINES = 6


def frontier_page(results: Sequence[Results], grid: Grid) -> Page:
    """Make the page.

    Parameters
    ----------
    results : sequence of Results
        Data sets that were run.
    grid : Grid
        What was asked for.

    Examples
    --------
    >>> from studies.frontier.settings import read_frontier
    >>> frontier_page([], read_frontier("tiny")).title
    'The frontier: when to federate, and when not'
    """
    words = (*advice(results), *map(verdict, results))
    targets = target_sheet(grid.targets, {one.setting.name: one for one in results})
    sections = [Section("Summary", (Points(words),) if words else (Paragraph("Nothing was run."),))]
    if targets.rows:
        sections.append(Section("Targets", (_table(targets),)))
    sections.append(
        Section("How it was measured", (Paragraph(HOW), Paragraph(READING), Paragraph(not_run(results, grid))))
    )
    sections += [Section(_title(one), _blocks(one)) for one in results]
    return Page(
        title="The frontier: when to federate, and when not",
        subtitle=f"python -m studies frontier --size {grid.size.name}",
        notice=Notice(text=words[0]) if words else None,
        sections=tuple(sections),
        footer="All numbers are in frontier.parquet beside this page.",
    )


def pictures(results: Sequence[Results]) -> dict[str, str]:
    """Draw one picture for every data set with a gap, by file name: the smaller half of its entities.

    Examples
    --------
    >>> pictures([])
    {}
    """
    plots = {picture_name(one): _plot(one, "smaller half") for one in results}
    return {name: plot.picture() for name, plot in plots.items() if plot is not None}


def _title(results: Results) -> str:
    title = results.setting.title
    return title[0].upper() + title[1:]


def _blocks(results: Results) -> tuple[Block, ...]:
    plots = tuple(plot for group in ("all", "smaller half") if (plot := _plot(results, group)) is not None)
    controls, *rest = all_sheets(results)
    folded = tuple(Folded(sheet.caption, _table(sheet)) for sheet in rest)
    return (
        Paragraph(f"δ = {results.setting.delta:g}, {results.seeds} seeds."),
        _table(controls),
        *plots,
        *folded,
    )


def _plot(results: Results, group: str) -> Plot | None:
    series = [one for place, cell in enumerate(_shown(results)) if (one := _series(results, *cell, group, place))]
    if not series:
        return None
    series += _public(results, group)
    who = "all entities" if group == "all" else f"{group} of the entities"
    return Plot(
        caption=f"Share of the gap closed, {who}",
        description="; ".join(f"{one.name}: {one.y[0]:.0f} to {one.y[-1]:.0f} percent" for one in series),
        x_label="ε",
        y_label="share of the gap closed, %",
        series=tuple(series),
        log_x=True,
        ticks=tuple((one, f"{one:g}") for one in results.epsilons),
        level=0.0,
    )


def _shown(results: Results) -> list[tuple[str, str]]:
    """Mechanisms and noises that are drawn: the headline one with each noise, of the others the first noise."""
    headline = results.setting.headline
    first = dict(reversed(results.privates))
    chosen = [one for one in results.privates if one[0] == headline or first[one[0]] == one[1]]
    return sorted(chosen, key=lambda one: one[0] != headline)[: MOST_LINES - 1]


def _public(results: Results, group: str) -> list[Series]:
    """The share that public features reach without another entity, as a level line."""
    share = results.share("public features", "none", math.inf, group=group).mean
    if math.isnan(share):
        return []
    ends = (min(results.epsilons), max(results.epsilons))
    return [Series(name="public features only", x=ends, y=(100 * share, 100 * share), style=MOST_LINES - 1)]


def _series(results: Results, mechanism: str, noise: str, group: str, place: int) -> Series | None:
    """One line; lines of one data set stand a little beside each other, so that error bars do not cover one another."""
    shares = [(one, results.share(mechanism, noise, one, group=group)) for one in results.epsilons]
    known = [(one, share) for one, share in shares if not math.isnan(share.mean)]
    if not known:
        return None
    errors = [100 * share.error for _, share in known]
    return Series(
        name=f"{mechanism}, {NAMES[noise]}",
        x=tuple(one * 1.02 ** (place - 2.5) for one, _ in known),
        y=tuple(100 * share.mean for _, share in known),
        spread=None if any(map(math.isnan, errors)) else tuple(errors),
        style=place,
    )


def _table(sheet: Sheet) -> Table:
    columns = (Column(sheet.heads[0], numeric=False), *(Column(head) for head in sheet.heads[1:]))
    return Table(caption=sheet.caption, columns=columns, rows=sheet.rows)
