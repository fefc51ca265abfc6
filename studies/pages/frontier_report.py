"""The page of the frontier: plain words first, then targets, a plot and tables for every data set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from studies.frontier.page import (
    FIGURE,
    HEADLINE,
    HOW,
    PROMISE,
    PROMISED,
    PROMISES,
    READING,
    advice,
    not_run,
    picture_name,
    verdict,
)
from studies.frontier.settings import Grid
from studies.frontier.summary import Results
from studies.frontier.tables import (
    NAMES,
    Promise,
    Sheet,
    all_sheets,
    overview_sheet,
    promise_sheet,
    promises,
    target_sheet,
)
from twofold.report.page import Block, Column, Folded, Page, Paragraph, Points, Section, Table
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
    words, plot = tuple(advice(results)), _headline(results)
    targets = target_sheet(grid.targets, {one.setting.name: one for one in results})
    first: list[Block] = [plot] if plot is not None else []
    first.append(Points(words) if words else Paragraph("Nothing was run."))
    sections = [Section("In short", tuple(first))]
    if targets.rows:
        sections.append(Section("Targets", (_table(targets),)))
    if results:
        sections.append(Section("Every data set in one row", (_table(overview_sheet(results)),)))
    promised = promises(results, grid.honest_share)
    if promised:
        drawn = _promises(promised)
        sections.append(Section("Predicted and measured", (Paragraph(PROMISE), drawn, _table(promise_sheet(promised)))))
    if results:
        sections.append(Section("Data set by data set", (Points(tuple(verdict(one) for one in results)),)))
    sections.append(
        Section("How it was measured", (Paragraph(HOW), Paragraph(READING), Paragraph(not_run(results, grid))))
    )
    sections += [Section(_title(one), _blocks(one)) for one in results]
    return Page(
        title="The frontier: when to federate, and when not",
        subtitle=f"python -m studies frontier --size {grid.size.name}",
        notice=None,
        sections=tuple(sections),
        footer="All numbers are in frontier.parquet beside this page.",
    )


def pictures(results: Sequence[Results], promised: Sequence[Promise] = ()) -> dict[str, str]:
    """Draw the first figure, predictions, and one picture for every data set with a gap, by file name.

    Examples
    --------
    >>> pictures([])
    {}
    """
    plots = {HEADLINE: _headline(results), PROMISES: _promises(promised) if promised else None}
    plots |= {picture_name(one): _plot(one, "smaller half") for one in results}
    return {name: plot.picture() for name, plot in plots.items() if plot is not None}


def _headline(results: Sequence[Results]) -> Plot | None:
    """One line per data set: its headline mechanism under a secure sum."""
    drawn = [
        replace(made, name=one.setting.short)
        for place, one in enumerate(results)
        if (made := _series(one, one.setting.headline, "secure", "smaller half", place)) is not None
    ][:MOST_LINES]
    if not drawn:
        return None
    series = tuple(replace(one, style=place) for place, one in enumerate(drawn))
    epsilons = sorted({epsilon for one in results for epsilon in one.epsilons})
    return Plot(
        caption=FIGURE,
        description="; ".join(f"{one.name}: {one.y[0]:.0f} to {one.y[-1]:.0f} percent" for one in series),
        x_label="ε",
        y_label="share of the gap closed, %",
        series=series,
        log_x=True,
        ticks=tuple((one, f"{one:g}") for one in epsilons),
        level=0.0,
    )


def _promises(promised: Sequence[Promise]) -> Plot:
    """One point per release, predicted across and measured up; the line is where both are equal."""
    titles = list(dict.fromkeys(one.title for one in promised))[: MOST_LINES - 1]
    series = [Series(name="as predicted", x=(0.0, 100.0), y=(0.0, 100.0), style=MOST_LINES - 1)]
    for place, title in enumerate(titles):
        here = [one for one in promised if one.title == title]
        series.append(
            Series(
                name=title,
                x=tuple(100 * one.share for one in here),
                y=tuple(100 * one.measured.mean for one in here),
                joined=False,
                style=place,
            )
        )
    return Plot(
        caption=PROMISED,
        description=f"{len(promised)} releases; the line is where predicted and measured are equal",
        x_label="predicted, %",
        y_label="measured, %",
        series=tuple(series),
    )


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
