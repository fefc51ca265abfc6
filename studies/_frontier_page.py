"""The page of results in Markdown."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from studies._frontier_settings import Grid, Release
from studies._frontier_summary import Results
from studies._frontier_tables import NAMES, all_sheets, target_sheet
from studies._frontier_words import advice, verdict

__all__ = ["HOW", "READING", "all_results", "markdown", "not_run", "picture_name"]

HOW = (
    "Every entity's users are in the released statistic. A public sample of entities, evenly spaced by size within "
    "each quarter of the entities, is fitted and measured, each standing for the others of its quarter, and of a large "
    "entity the first users only; frontier.toml has the numbers. Five entries of every user are held out (ratings: a "
    "tenth of them). Under a secure sum one discrete Gaussian with the total variance is drawn in place of the "
    "entities' shares; shares are for nine tenths of the entities, so that some may drop out (19 of 205, 4 of 50, none "
    "of 10 or fewer: a participant knows its own share, and a lying server can leave some out). All noise is "
    "seeded here, so that figures can be repeated: a measurement, not a release. No noise means noise of ε = 100,000. "
    "An entity that took public features only counts among those that took anything shared. Public features only stand "
    "where the items have any."
)
READING = (
    "The gap is what the mechanism that is best without noise in a group of entities gains over them alone; a share is "
    "what is left of it with noise. Mean ± standard error over seeds, paired with alone by seed; every seed is another "
    "split, and for hospitals another simulated federation. A share can exceed 100 % or fall below 0. A dash: not run, "
    "or no gap clear of its own error. Errors of the gain of one entity are over its users: where it has a handful, as "
    "by three ZIP digits, they are rough themselves."
)


def all_results(frame: pl.DataFrame, grid: Grid) -> list[Results]:
    """One `Results` for every data set that has any cell, in the order of the settings."""
    there = set(frame["data"].unique().to_list())
    return [Results(frame, one) for one in grid.data if one.name in there]


def picture_name(results: Results) -> str:
    """File name of a data set's plot, beside the page."""
    return f"frontier-{results.setting.name}.svg"


def markdown(frame: pl.DataFrame, grid: Grid, pictures: Collection[str] = ()) -> str:
    """Write the page.

    Parameters
    ----------
    frame : DataFrame
        All cells.
    grid : Grid
        What was asked for.
    pictures : collection of str
        Names of the plots that lie beside the page.

    Examples
    --------
    >>> from studies._frontier_settings import read_frontier
    >>> from studies._frontier_store import SCHEMA
    >>> print(markdown(pl.DataFrame(schema=SCHEMA), read_frontier("tiny")).splitlines()[0])
    # The frontier: when to federate, and when not
    """
    results = all_results(frame, grid)
    parts = [
        "# The frontier: when to federate, and when not",
        f"Printed by\n\n```\npython -m studies.frontier --size {grid.size.name} -o DIR\n```\n",
        "as `frontier.md` in DIR; `frontier.html` beside it has more plots, `frontier.parquet` every number.",
        "## In plain words",
        _points([*advice(results), *map(verdict, results)]),
        "## Targets",
        target_sheet(grid.targets, {one.setting.name: one for one in results}).markdown() if grid.targets else "None.",
        "## How it was measured",
        HOW,
        READING,
        f"**{not_run(results, grid)}**",
        *(part for one in results for part in _data(one, pictures)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _data(results: Results, pictures: Collection[str]) -> list[str]:
    setting = results.setting
    delta = f"δ = {setting.delta:g}, {results.seeds} seeds"
    parts = [f"## {setting.title[0].upper()}{setting.title[1:]}", f"{delta}."]
    if picture_name(results) in pictures:
        parts.append(f"![Share of the gap closed, smaller half of the entities]({picture_name(results)})")
    for sheet in all_sheets(results):
        parts += [f"**{sheet.caption}**", sheet.markdown()]
    return parts


def not_run(results: Sequence[Results], grid: Grid) -> str:
    """Say what is missing of a size: data sets, mechanisms, seeds.

    Examples
    --------
    >>> from studies._frontier_settings import read_frontier
    >>> not_run([], read_frontier("tiny"))
    'Not run here: hospitals, middle structure.'
    """
    there = {one.setting.name: one for one in results}
    missing = []
    for setting in grid.data:
        if setting.name not in there:
            missing.append(setting.title)
            continue
        lacking = [text for release in setting.releases if (text := _lacking(there[setting.name], release, grid))]
        if lacking:
            missing.append(f"{setting.title} ({', '.join(lacking)})")
    return f"Not run here: {'; '.join(missing)}." if missing else "Everything of this size was run."


def _lacking(results: Results, release: Release, grid: Grid) -> str:
    """Name a mechanism that was not run, or with fewer seeds somewhere; nothing where all is there."""
    found = {
        noise: [len(results.metric(release.name, noise, epsilon)) for epsilon in grid.size.epsilons]
        for noise in release.noises
    }
    if not any(sum(seeds) for seeds in found.values()):
        return release.name
    few = [f"{NAMES[noise]} {min(seeds)} of {grid.size.seeds} seeds" for noise, seeds in found.items()
           if min(seeds) < grid.size.seeds]  # fmt: skip
    return f"{release.name}: {' and '.join(few)}" if few else ""


def _points(lines: Sequence[str]) -> str:
    return "\n".join(f"* {line}" for line in lines) or "Nothing was run."
