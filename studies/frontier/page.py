"""The frontier in words and as a page of Markdown. Every sentence is made from the numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import polars as pl

from studies.frontier.settings import Grid, Release
from studies.frontier.summary import Key, Results
from studies.frontier.tables import NAMES, all_sheets, overview_sheet, promise_sheet, promises, target_sheet

__all__ = [
    "FIGURE",
    "HEADLINE",
    "HOW",
    "PROMISE",
    "PROMISED",
    "PROMISES",
    "READING",
    "advice",
    "all_results",
    "markdown",
    "not_run",
    "picture_name",
    "verdict",
    "worth_from",
]

#: Group of entities that words speak of: they have the most to gain.
GROUP = "smaller half"


def worth_from(results: Results, mechanism: str, noise: str, *, group: str = GROUP) -> float | None:
    """The least ε from which a clear part of the gap is closed, at it and at every larger one; None if there is none.

    Clear means above the best control by more than two standard errors.
    """
    found = None
    for epsilon in reversed([one for one in results.epsilons if results.metric(mechanism, noise, one)]):
        share = results.share(mechanism, noise, epsilon, group=group)
        if not share.clear:
            break
        found = epsilon
    return found


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
    title = _title(results)
    if not gap.seeds:
        return f"{title}: not run."
    control, pooled = results.control(group=GROUP), results.pooled(GROUP)
    low, high = (results.figure(*cell, group=GROUP).mean for cell in (control, pooled))
    name = "nDCG@10" if setting.metric == "ndcg" else "RMSE"
    start = (
        f"{title}: in the smaller half of the entities {name} is {low:.4f} without others ({_way(control, results)}) "
        f"and {high:.4f} on pooled data ({_way(pooled, results)})."
    )
    if not gap.clear:
        return f"{start} There is no clear gap, so there is nothing to federate for, at any ε."
    return " ".join([start, *(_noise(results, noise) for noise in ("secure", "own"))])


def advice(all_results: Sequence[Results]) -> list[str]:
    """Five sentences: who should federate, from which ε, what it gains, with which noise, and when not to.

    Examples
    --------
    >>> advice([])
    []
    """
    run = [one for one in all_results if one.gap(GROUP).seeds]
    if not run:
        return []
    gaps = [one for one in run if one.gap(GROUP).clear]
    said = (_who(run, gaps), _from_where(gaps), _plain(gaps), _own_noise(gaps), _when_not(run, gaps))
    return [text for text in said if text]


def _who(run: Sequence[Results], gaps: Sequence[Results]) -> str:
    names = "; ".join(one.setting.short for one in gaps)
    start = f"Pooling beats everything an entity can do without others on {len(gaps)} of {len(run)} data sets"
    return f"{start}: {names}. Small entities like these have a reason to federate." if gaps else f"{start}."


def _from_where(gaps: Sequence[Results]) -> str:
    """The least ε of every data set under a secure sum, the smallest first."""
    least = {one.setting.short: worth_from(one, one.setting.headline, "secure") for one in gaps}
    known = sorted(((value, title) for title, value in least.items() if value is not None), key=lambda one: one[0])
    if not known:
        return "With a secure sum no data set gains clearly at any ε that was run." if gaps else ""
    by_value: dict[float, list[str]] = {}
    for value, title in known:
        by_value.setdefault(value, []).append(title)
    listed = "; ".join(f"ε = {value:g} for {', '.join(titles)}" for value, titles in by_value.items())
    return f"With a secure sum a gain over the best way without sharing taste is clear from {listed}."


def _plain(gaps: Sequence[Results]) -> str:
    """What the data set with the largest share at ε = 1 gains, in its own units."""
    at = {one.setting.short: one.share(one.setting.headline, "secure", 1.0, group=GROUP).mean for one in gaps}
    known = [one for one in gaps if not math.isnan(at[one.setting.short])]
    if not known:
        return ""
    best = max(known, key=lambda one: at[one.setting.short])
    name = "nDCG@10" if best.setting.metric == "ndcg" else "RMSE"
    low = best.figure(*best.control(1.0, group=GROUP), group=GROUP).mean
    made = best.figure(best.setting.headline, "secure", 1.0, group=GROUP).mean
    high = best.figure(*best.pooled(GROUP), group=GROUP).mean
    shares = ", ".join(f"{100 * at[one.setting.short]:.0f} % ({one.setting.short})" for one in known)
    return (
        f"At ε = 1 the share of the gap closed is {shares}; for {best.setting.short}, {name} goes from {low:.3f} to "
        f"{made:.3f}, where pooled data gives {high:.3f}."
    )


def _own_noise(gaps: Sequence[Results]) -> str:
    there = [one for one in gaps if one.metric(one.setting.headline, "own", 1.0)]
    if not there:
        return ""
    good = [one for one in there if one.share(one.setting.headline, "own", 1.0, group=GROUP).clear]
    names = f" ({'; '.join(one.setting.short for one in good)})" if good else ""
    return (
        f"Without a secure sum, where every entity adds its own noise, ε = 1 gains clearly on {len(good)} of "
        f"{len(there)} data sets{names}: set up a secure sum first."
    )


def _when_not(run: Sequence[Results], gaps: Sequence[Results]) -> str:
    """Data without a gap, and data whose gap no ε closes clearly."""
    flat = [one.setting.short for one in run if one not in gaps]
    none = [one.setting.short for one in gaps if worth_from(one, one.setting.headline, "secure") is None]
    parts = [f"pooling itself gains nothing clear ({'; '.join(flat)})"] if flat else []
    parts += [f"the noise hides what there is to gain ({'; '.join(none)})"] if none else []
    if not parts:
        return "On none of these data sets would federating at ε = 10 be wrong."
    return f"Do not federate where {', or where '.join(parts)}."


def _title(results: Results) -> str:
    return results.setting.title[0].upper() + results.setting.title[1:]


def _way(cell: Key, results: Results) -> str:
    named = {"alone": "our model alone", "pooled": "our model"}
    named |= {one.name: f"{one.name} without noise" for one in results.setting.releases}
    return "noise only" if cell[1] == "noise only" else named.get(cell[0], cell[0])


def _noise(results: Results, noise: str) -> str:
    headline = results.setting.headline
    known = [one for one in results.epsilons if results.metric(headline, noise, one)]
    if not known:
        return f"With {NAMES[noise]}: not run."
    start = f"With {'a ' if noise == 'secure' else ''}{NAMES[noise]}, {headline}"
    shares = {one: results.share(headline, noise, one, group=GROUP).mean for one in known}
    listed = ", ".join(
        f"no clear gap at {one:g}" if math.isnan(share) else f"{100 * share:.0f} % at {one:g}"
        for one, share in shares.items()
    )
    least = worth_from(results, headline, noise)
    if least is None:
        return f"{start} does not clearly gain at the largest ε that was run: do not federate for it ({listed})."
    where = "at every ε" if least == known[0] else f"from ε = {least:g} on"
    return f"{start} gains clearly {where} ({listed} of the gap)."


HOW = (
    "The released statistic contains every entity's users. A public sample of entities, evenly spaced by size within "
    "each quarter of the entities, is fitted and measured; each represents the others of its quarter. Of a large "
    "entity, only the first users are measured; frontier.toml has the numbers. Five entries of every user are held "
    "out (two for Complete Journey and ASSISTments; of ratings a tenth). Under a secure sum, one discrete Gaussian "
    "with the total variance is drawn instead of the entities' shares. Shares are for nine tenths of the entities, so "
    "that 18 of 205 or 3 of 50 may drop out. Of 10 or fewer entities, a plan counts all but two, which is less than "
    "nine tenths: its noise is 6 % larger than here with 10 entities and 15 % larger with 5. All noise is seeded, so "
    "that figures can be repeated: this is a measurement, not a release. No noise means noise of ε = 100,000. "
    "MovieLens watched or not is cut to the 800 films that most people rated, in place of a public list. Public "
    "features appear only where the items have any."
)
READING = (
    "In a group of entities, the best control is the best of: own popularity, popularity shared under the same ε, our "
    "model alone, a tuned EASE alone, public features only, and noise in place of what is shared (ratings: our model "
    "and offsets). Pooled is the best of: pooled popularity, a tuned EASE on pooled data, the same adapted to the "
    "entity, our model on pooled data, and the federation without noise. Both are the best on average over the "
    "reported seeds; baselines were tuned on a split of their own. Share = (private - best control) / (pooled - best "
    "control): the part of what sharing could give that is left with privacy. Figures are mean ± standard error over "
    "seeds, paired by seed. Every seed is another split, and for hospitals another simulated federation. A share can "
    "exceed 100 % or fall below 0. A dash means not run, or a gap that is not clearly above 0 (two standard errors)."
)


#: The first figure and its file; predicted against measured and its file.
FIGURE = "Share of the gap from the best control to pooled data, secure sum, smaller half of the entities"
HEADLINE = "frontier.svg"
PROMISED = "Share of the gap closed: predicted from public numbers, and measured"
PROMISES = "frontier-promises.svg"
PROMISE = (
    "What `plan explain` predicts from the numbers of a plan, beside what was measured on the data sets of this page. "
    "The prediction was set on other splits."
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
    promised = promises(results, grid.honest_share)
    parts = [
        "# The frontier: when to federate, and when not",
        f"![{FIGURE}]({HEADLINE})" if HEADLINE in pictures else "",
        _points(advice(results)),
        f"Printed by\n\n```\npython -m studies frontier --size {grid.size.name} -o DIR\n```\n",
        "as `frontier.md` in DIR, with a page of more plots and a table of every number (`frontier.html` and "
        "`frontier.parquet` there).",
        "## Targets",
        target_sheet(grid.targets, {one.setting.name: one for one in results}).markdown() if grid.targets else "None.",
        "## Every data set in one row",
        overview_sheet(results).caption + ".",
        overview_sheet(results).markdown(),
        *(("## Predicted and measured", PROMISE, promise_sheet(promised).markdown()) if promised else ()),
        f"![{PROMISED}]({PROMISES})" if PROMISES in pictures else "",
        "## Data set by data set",
        _points([verdict(one) for one in results]),
        "## How it was measured",
        HOW,
        READING,
        f"**{not_run(results, grid)}**",
        *(part for one in results for part in _data(one, pictures)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _data(results: Results, pictures: Collection[str]) -> list[str]:
    setting = results.setting
    delta = f"δ = {setting.delta:g}, {results.seeds} seed{'s' if results.seeds > 1 else ''}"
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
    number = results.setting.seeds
    found = {
        noise: [len(results.metric(release.name, noise, epsilon)) for epsilon in grid.epsilons(noise)]
        for noise in release.noises
    }
    if not any(sum(seeds) for seeds in found.values()):
        return release.name
    few = [f"{NAMES[noise]} {min(seeds)} of {number} seeds" for noise, seeds in found.items()
           if min(seeds) < number]  # fmt: skip
    return f"{release.name}: {' and '.join(few)}" if few else ""


def _points(lines: Sequence[str]) -> str:
    return "\n".join(f"* {line}" for line in lines) or "Nothing was run."
