"""The frontier in words and as a page of Markdown. Every sentence is made from the numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import polars as pl

from studies.frontier.settings import Grid, Release
from studies.frontier.summary import CLEAR_GAP, Harm, Results
from studies.frontier.tables import NAMES, all_sheets, target_sheet

__all__ = [
    "HALF",
    "HOW",
    "READING",
    "advice",
    "all_results",
    "markdown",
    "not_run",
    "picture_name",
    "verdict",
    "worth_from",
]

#: Federation is called worth it from this share of the gap on.
HALF = 0.5
#: Group of entities that words speak of: they have the most to gain.
GROUP = "smaller half"


def worth_from(results: Results, mechanism: str, noise: str, *, group: str = GROUP) -> float | None:
    """The least ε from which at least half of the gap is closed, at it and at every larger one; None if there is none.

    A share counts only when it is more than two standard errors above what the entity reaches without anybody: alone,
    with public features, and with noise in place of the statistic.
    """
    found = None
    for epsilon in reversed([one for one in results.epsilons if results.metric(mechanism, noise, one)]):
        share = results.share(mechanism, noise, epsilon, group=group)
        error = 0.0 if math.isnan(share.error) else share.error
        if not (share.mean >= HALF and share.mean - _for_nothing(results, mechanism, group) > 2 * error):
            break
        found = epsilon
    return found


def _for_nothing(results: Results, mechanism: str, group: str) -> float:
    """Share of the gap that needs no other entity."""
    cells = [("public features", "none", math.inf), *(one for one in results.noise_only if one[0] == mechanism)]
    shares = [results.share(*cell, group=group).mean for cell in cells]
    return max((share for share in shares if not math.isnan(share)), default=0.0)


def verdict(results: Results) -> str:
    """One paragraph on one data set.

    Examples
    --------
    >>> import polars as pl
    >>> from studies.frontier.settings import read_frontier
    >>> from studies.frontier.summary import SCHEMA
    >>> verdict(Results(pl.DataFrame(schema=SCHEMA), read_frontier("full").of("jester")))
    'Jester in 50 entities, ratings: not run.'
    """
    setting, gap = results.setting, results.gap(GROUP)
    title = setting.title[0].upper() + setting.title[1:]
    if not gap.seeds:
        return f"{title}: not run."
    alone, best = results.figure("alone", group=GROUP), results.figure(results.reference(GROUP), group=GROUP)
    name = "nDCG@10" if setting.metric == "ndcg" else "RMSE"
    start = f"{title}: in the smaller half of the entities {name} is {alone.mean:.4f} alone and {best.mean:.4f}"
    start += " federated without noise."
    if gap.mean <= 0 or gap.mean < CLEAR_GAP * gap.error:
        return f"{start} There is no clear gap, so there is nothing to federate for, at any ε."
    return " ".join([start, *(_noise(results, noise) for noise in ("secure", "own")), _public(results)]).strip()


def advice(all_results: Sequence[Results]) -> list[str]:
    """General statements, each counted over the data sets that were run.

    Examples
    --------
    >>> advice([])
    []
    """
    run = [one for one in all_results if one.gap(GROUP).seeds]
    if not run:
        return []
    gaps = [one for one in run if not math.isnan(one.share(one.reference(GROUP), "none", math.inf, group=GROUP).mean)]
    said = [
        f"There is something to gain on {len(gaps)} of {len(run)} data sets: "
        "they have a clear gap between alone and federated."
    ]
    said += [
        text
        for noise, limit in (("secure", 0.1), ("secure", 1.0), ("own", 1.0), ("own", 10.0))
        if (text := _counted(gaps, noise, limit))
    ]
    said += [text for text in (_prototypes(gaps), _noise_only(gaps), _harmed(run)) if text]
    return said


def _noise(results: Results, noise: str) -> str:
    headline = results.setting.headline
    known = [one for one in results.epsilons if results.metric(headline, noise, one)]
    if not known:
        return f"With {NAMES[noise]}: not run."
    start = f"With {'a ' if noise == 'secure' else ''}{NAMES[noise]}, {headline}"
    least = worth_from(results, headline, noise)
    at = {one: results.share(headline, noise, one, group=GROUP).mean for one in known}
    listed = ", ".join(f"{100 * share:.0f} % at {one:g}" for one, share in at.items())
    if least is None and at[known[-1]] >= HALF:
        free = 100 * _for_nothing(results, headline, GROUP)
        reached = f"the {free:.0f} % reached without any other entity"
        return f"{start} does not clearly close more of the gap than {reached} ({listed})."
    if least is None:
        return f"{start} does not close half of the gap at any ε that was run: do not federate for it ({listed})."
    if least == known[0]:
        return f"{start} closes at least half of the gap at every ε: federate ({listed})."
    return f"{start} closes at least half of the gap from ε = {least:g}: federate from there, not below ({listed})."


def _public(results: Results) -> str:
    share = results.share("public features", "none", math.inf, group=GROUP)
    if math.isnan(share.mean):
        return ""
    return (
        f"Public features alone, without any other entity, close {100 * share.mean:.0f} %; "
        "anything above that comes from federation."
    )


def _counted(gaps: Sequence[Results], noise: str, limit: float) -> str:
    there = [one for one in gaps if one.metric(one.setting.headline, noise, limit)]
    good = [one for one in there if (least := worth_from(one, one.setting.headline, noise)) and least <= limit]
    if not there:
        return ""
    names = f": {'; '.join(one.setting.title for one in good)}" if good else ""
    start = f"{NAMES[noise].capitalize()}, ε = {limit:g}"
    return f"{start}: at least half of the gap is closed on {len(good)} of {len(there)} data sets{names}."


def _prototypes(gaps: Sequence[Results]) -> str:
    shares = [
        (
            one.share("buckets", "own", epsilon, group=GROUP).mean,
            one.share(one.setting.headline, "own", epsilon, group=GROUP).mean,
        )
        for one in gaps
        for epsilon in one.epsilons
    ]
    known = [(low, high) for low, high in shares if not math.isnan(low) and not math.isnan(high)]
    if not known:
        return ""
    behind = sum(low < high for low, high in known)
    return f"Prototypes (buckets) close less of the gap than the bilinear statistic in {behind} of {len(known)} cells."


def _noise_only(gaps: Sequence[Results]) -> str:
    found = [one.share(*cell, group=GROUP).mean for one in gaps for cell in one.noise_only]
    known = [share for share in found if not math.isnan(share)]
    if not known:
        return ""
    return (
        f"Noise alone closes {100 * min(known):.0f} % to {100 * max(known):.0f} % of the gap; "
        "read every share against that baseline."
    )


def _harmed(run: Sequence[Results]) -> str:
    """Over all private cells, those that help apart from those that do not."""
    cells: dict[bool, list[Harm]] = {True: [], False: []}
    for one in run:
        for mechanism, noise in one.privates:
            for epsilon in one.epsilons:
                if one.metric(mechanism, noise, epsilon):
                    share = one.share(mechanism, noise, epsilon)
                    cells[share.mean > 2 * share.error].append(one.harm(mechanism, noise, epsilon))
    if not any(cells.values()):
        return ""
    return (
        "Harm: entities that took anything shared and did worse than alone by more than one standard error (two). "
        f"These are {_told(cells[True])} where federation clearly helps overall and {_told(cells[False])} "
        "where it does not. If the shared part were worth exactly nothing, chance alone would give 16 % (2 %)."
    )


def _told(cells: Sequence[Harm]) -> str:
    moved, worse, far = (sum(getattr(cell, name) for cell in cells) for name in ("moved", "worse", "far_worse"))
    return f"{worse:,} ({far:,}) of {moved:,}"


HOW = (
    "The released statistic contains every entity's users. A public sample of entities, evenly spaced by size within "
    "each quarter of the entities, is fitted and measured; each represents the others of its quarter. Of a large "
    "entity, only the first users are measured; frontier.toml has the numbers. Five entries of every user are held "
    "out (ratings: a tenth of them). Under a secure sum, one discrete Gaussian with the total variance is drawn "
    "instead of the entities' shares. Shares are for nine tenths of the entities, so that some may drop out (18 of "
    "205, 3 of 50: the shares of two participants do not count, and a lying server can leave some out). Of 10 or fewer "
    "entities, a plan counts all but two, which is less than nine tenths: its noise is 6 % larger than here with 10 "
    "entities and 15 % larger with 5. All noise is seeded, so that figures can be repeated: this is a measurement, "
    "not a release. No noise means noise of ε = 100,000. An entity that took only public features counts as one that "
    "took anything shared. Public features appear only where the items have any."
)
READING = (
    "In a group of entities, the gap is the gain over alone of the mechanism that is best without noise. A share is "
    "the part of the gap that remains with noise. Figures are mean ± standard error over seeds, paired with alone by "
    "seed. Every seed is another split, and for hospitals another simulated federation. A share can exceed 100 % or "
    "fall below 0. A dash means not run, or a gap within its own error. The error of one entity's gain is taken over "
    "its users; with only a handful of users, as for three ZIP digits, the error itself is rough."
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
        Names of the plots beside the page.

    Examples
    --------
    >>> from studies.frontier.settings import read_frontier
    >>> from studies.frontier.summary import SCHEMA
    >>> print(markdown(pl.DataFrame(schema=SCHEMA), read_frontier("tiny")).splitlines()[0])
    # The frontier: when to federate, and when not
    """
    results = all_results(frame, grid)
    parts = [
        "# The frontier: when to federate, and when not",
        f"Printed by\n\n```\npython -m studies frontier --size {grid.size.name} -o DIR\n```\n",
        "as `frontier.md` in DIR. `frontier.html` beside it has more plots, `frontier.parquet` has every number.",
        "## Summary",
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
    """List what a size still lacks: data sets, mechanisms, seeds.

    Examples
    --------
    >>> from studies.frontier.settings import read_frontier
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
    """Name a mechanism that was not run, or had fewer seeds somewhere; nothing if all is complete."""
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
