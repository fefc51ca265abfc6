"""The pages of reproduced experiments: one per figure, and an index with every claim of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from studies.pages.experiment_verdicts import how, tally, verdict_blocks, verdict_table
from studies.pages.experiment_words import AXES, METRICS, cell, metric_title, x_text
from studies.paper.figures import Figure
from studies.paper.results import Results
from studies.paper.run import Outcome
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
    span,
)
from twofold.report.plot import Plot, Series

__all__ = ["experiment_index", "experiment_page", "figure_plot", "made_with", "number_table"]


def experiment_page(outcome: Outcome) -> Page:
    """The page of one figure: verdicts first, then a plot and a table per metric, then data and versions.

    Parameters
    ----------
    outcome : Outcome
        What became of the figure.
    """
    figure, results = outcome.figure, outcome.results
    if results is None:
        return Page(
            title=figure.title,
            subtitle=f"python -m studies reproduce {figure.name}",
            notice=Notice(text="The data set is missing, so nothing was run.", more=(outcome.missing,), warning=True),
            sections=(Section("What it would show", (Paragraph(figure.about),)),),
        )
    sections = [Section("What it shows", (Paragraph(figure.about), *_notes(results)))]
    if outcome.verdicts:
        sections.insert(0, Section("Verdicts", verdict_blocks(outcome.verdicts, size=results.size)))
    sections += [
        Section(metric_title(name), _blocks(results, name))
        for name in figure.metrics
        if name in results.frame["metric"]
    ]
    sections.append(Section("Made with", (made_with(results),)))
    return Page(
        title=figure.title,
        subtitle=f"python -m studies reproduce {figure.name} --size {results.size}",
        notice=Notice(text=tally(outcome.verdicts)) if outcome.verdicts else None,
        sections=tuple(sections),
        footer=f"All numbers are in {figure.name}.parquet beside this page.",
    )


def experiment_index(outcomes: Sequence[Outcome], *, size: str) -> Page:
    """The index: how many claims hold, every verdict, and a link to every page.

    Parameters
    ----------
    outcomes : sequence of Outcome
        What became of the figures that were asked for.
    size : str
        Of the run.
    """
    verdicts = [verdict for outcome in outcomes for verdict in outcome.verdicts]
    paper = tuple(verdict for verdict in verdicts if verdict.claim.kind == "paper")
    control = tuple(verdict for verdict in verdicts if verdict.claim.kind == "control")
    sections = [Section("Figures", (Links(tuple(_link(outcome) for outcome in outcomes)),))]
    if paper:
        sections.append(Section("Claims of the paper", (Points(how(size)), verdict_table(paper))))
    if control:
        sections.append(Section("Controls", (verdict_table(control),)))
    missing = tuple(f"{outcome.figure.name}: {outcome.missing}" for outcome in outcomes if outcome.results is None)
    if missing:
        sections.append(Section("Data missing", (Points(missing),)))
    return Page(
        title="The paper's experiments, run again",
        subtitle=f"python -m studies reproduce all --size {size}",
        notice=Notice(text=f"Claims of the paper: {tally(paper)}" if paper else "No claim was asked about."),
        sections=tuple(sections),
        footer="Verdicts apply to this run: this size and these seeds.",
    )


def _blocks(results: Results, metric: str) -> tuple[Block, ...]:
    plots = () if metric == results.figure.x_metric else (figure_plot(results, metric),)
    return (*plots, number_table(results, metric))


def figure_plot(results: Results, metric: str) -> Plot:
    """Plot the drawn lines of a figure for one metric."""
    figure = results.figure
    label, log = (METRICS.get(figure.x_metric, figure.x_metric), True) if figure.x_metric else AXES[figure.across]
    series = [_series(results, name, metric, place) for place, name in enumerate(figure.drawn)]
    shown = tuple(one for one in series if len(one.x))
    ticks = None if figure.x_metric else tuple((float(x), x_text(x)) for x in results.x)
    if len(results.x) == 1 and not figure.x_metric:  # one point each: side by side, or they would hide one another
        shown = tuple(replace(one, x=(float(place),)) for place, one in enumerate(shown, 1))
        ticks = tuple((float(place), "") for place, _ in enumerate(shown, 1))
        label, log = f"systems, at {label} = {x_text(results.x[0])}", False
    return Plot(
        caption=f"{metric_title(metric)} against {label}",
        description="; ".join(f"{one.name}: {one.y[0]:.3g} to {one.y[-1]:.3g}" for one in shown) or "no line",
        x_label=label,
        y_label=METRICS.get(metric, metric),
        series=shown,
        log_x=log,
        ticks=ticks,
        level=0.5 if metric.startswith("mean_rank") else None,
    )


def _series(results: Results, name: str, metric: str, style: int) -> Series:
    points = [(x, results.at(name, x, metric)) for x in results.x]
    known = [(x, point) for x, point in points if point.seeds and point.mean == point.mean]
    if results.figure.x_metric:
        known = [(results.at(name, x, results.figure.x_metric).mean, point) for x, point in known]
        known = list({x: (x, point) for x, point in known if x > 0}.values())  # powers of ten have no zero
    spread = [point.spread for _, point in known]
    several = bool(spread) and all(value == value for value in spread)
    return Series(
        name=name,
        x=tuple(x for x, _ in known),
        y=tuple(point.mean for _, point in known),
        spread=tuple(spread) if several else None,
        style=style,
    )


def number_table(results: Results, metric: str) -> Table:
    """Every line of a figure at every x, and what was recorded.

    Parameters
    ----------
    results : Results
        Of a figure.
    metric : str
        Which number.
    """
    figure = results.figure
    across = AXES[figure.across][0]
    columns = (Column("system", numeric=False), *(Column(f"{across} = {x_text(x)}") for x in results.x))
    rows = [(line.name, *(cell(results.at(line.name, x, metric), metric) for x in results.x)) for line in figure.lines]
    rows += [row for row in _recorded_rows(figure, results, metric) if set(row[1:]) != {""}]
    known = results.frame.filter(metric=metric, group="all").select(
        "line", "x", "seed", "value", "low", "high", "options"
    )
    return Table(
        caption=metric_title(metric),
        columns=columns,
        rows=tuple(row for row in rows if set(row[1:]) != {"–"}),
        note=_reading(metric, results.seeds),
        exact=tuple(known.rows()),
        exact_columns=tuple(known.columns),
    )


def _recorded_rows(figure: Figure, results: Results, metric: str) -> list[tuple[str, ...]]:
    rows = []
    for one in figure.recorded:
        known = dict(zip(one.at, one.values, strict=True))
        if one.metric == metric and results.size in one.sizes:
            texts = [f"{known[x]:.3f}" if x in known else "" for x in results.x]
            rows.append((f"recorded by the authors: {one.name}", *texts))
    return rows


def _reading(metric: str, seeds: int) -> str:
    spread = f"Mean ± standard deviation over {seeds} seeds. " if seeds > 1 else "One seed. "
    return spread + {
        "rmse_per_entity_mean": "Average of the entities' own errors, weighted by entries, as the recorded runs did.",
        "mean_rank": "Over all items, as the paper does: 0 is best, 0.5 is chance.",
        "mean_rank_unseen": "Over items that the user had no entry for: 0 is best, 0.5 is chance.",
        "rmse_fresh": "Expected error on a fresh draw of the same rates; the rates themselves err by about 1.003.",
    }.get(metric, "")


def _notes(results: Results) -> tuple[Block, ...]:
    known = tuple(f"{name}: {note}" for name, note in results.notes.items())
    return (Folded("Notes from the systems", Points(known)),) if known else ()


def made_with(results: Results) -> Facts:
    """Data, seeds, time and versions behind a figure.

    Parameters
    ----------
    results : Results
        Of a figure.
    """
    frame = results.frame
    cells = frame.unique(["line", "system", "options", "data", "seed"])
    versions = "; ".join(sorted(frame["versions"].unique().to_list())).replace('"', "").strip("{}")
    return Facts(
        caption="Made with",
        rows=(
            ("data", results.data),
            ("seeds", str(results.seeds)),
            ("systems fitted", str(cells.height)),
            ("total wall-clock time", span(float(cells["seconds"].sum()))),
            ("versions", versions),
        ),
    )


def _link(outcome: Outcome) -> tuple[str, str, str]:
    figure = outcome.figure
    about = "data missing" if outcome.results is None else tally(outcome.verdicts) if outcome.verdicts else ""
    return figure.title, f"{figure.name}.html", about
