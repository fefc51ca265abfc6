"""The comparison in words, tables and a plot. Every sentence is made from the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from studies.baselines.base import TRIALS
from studies.baselines.registry import OURS
from twofold.report.page import Column, Page, Paragraph, Points, Section, Table
from twofold.report.plot import Plot, Series

__all__ = ["SCHEMA", "Compared", "Figure", "compare_markdown", "compare_page", "picture"]

SCHEMA: Final = {
    "data": pl.String,
    "seed": pl.Int64,
    "baseline": pl.String,
    "scope": pl.String,
    "seconds": pl.Float64,
    "entity": pl.String,
    "weight": pl.Float64,
    "users": pl.Int64,
    "measured": pl.Int64,
    "ndcg": pl.Float64,
    "squares": pl.Float64,
    "entries": pl.Float64,
    "taken": pl.String,
}
TITLE: Final = "Alone and pooled: tuned baselines on every data set"
#: What is shared with a guarantee; the rest of the scope "shared" has none, or nothing to share.
PRIVATE: Final = ("shared popularity, private", "FedCIA, private")
#: Shown, but not part of the target.
_BESIDE: Final = ("GF-CF alone",)
_SCOPES: Final = ("alone", "pooled", "shared")
_DRAWN: Final = "Difference in nDCG@10 between twofold alone and the best tuned baseline alone"


@dataclass(frozen=True)
class Figure:
    """Mean over seeds, and its standard error, NaN of one seed."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        """The figure of one value per seed.

        Examples
        --------
        >>> Figure.of([1.0, 3.0])
        Figure(mean=2.0, error=1.0)
        """
        error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
        return cls(float(np.mean(values)), error)

    def words(self, *, signed: bool = False) -> str:
        """The figure as a table shows it.

        Examples
        --------
        >>> Figure(0.25, 0.001).words(), Figure(0.25, math.nan).words(signed=True)
        ('0.2500 ± 0.0010', '+0.2500')
        """
        mean = f"{self.mean:+.4f}" if signed else f"{self.mean:.4f}"
        return mean if math.isnan(self.error) else f"{mean} ± {self.error:.4f}"


class Compared:
    """Results of one data set.

    Parameters
    ----------
    frame : polars.DataFrame
        Its rows of the tidy table, with the columns of `SCHEMA`.
    title : str
        As the page calls it.
    feedback : {"counts", "ratings"}
        Whether nDCG@10 or the RMSE is compared.
    """

    def __init__(self, frame: pl.DataFrame, *, title: str, feedback: str) -> None:
        self.frame, self.title, self.ranked = frame, title, feedback == "counts"

    @property
    def metric(self) -> str:
        """What is compared, and which way."""
        return "nDCG@10, more is better" if self.ranked else "RMSE, less is better"

    @cached_property
    def seeds(self) -> dict[str, dict[int, float]]:
        """Baseline to seed to figure: a mean over entities, each standing for those like it."""
        weight = pl.col("weight")
        ndcg = (weight * pl.col("ndcg")).sum() / weight.sum()
        rmse = ((weight * pl.col("squares")).sum() / (weight * pl.col("entries")).sum()).sqrt()
        judged = self.frame.filter(pl.col("measured") > 0)
        means = judged.group_by("baseline", "seed").agg(figure=ndcg if self.ranked else rmse).sort("seed")
        found: dict[str, dict[int, float]] = {}
        for name, seed, figure in means.iter_rows():
            found.setdefault(name, {})[seed] = figure
        return found

    @cached_property
    def scopes(self) -> dict[str, str]:
        """Baseline to its scope, in the order of scopes and then of figures, the best first."""
        pairs = dict(self.frame.select("baseline", "scope").unique().iter_rows())
        return {
            name: pairs[name]
            for name in sorted(self.seeds, key=lambda one: (_SCOPES.index(pairs[one]), -self._worth(one), one))
        }

    def figure(self, name: str) -> Figure:
        """Mean and error of one baseline."""
        return Figure.of(list(self.seeds[name].values()))

    def over(self, name: str, other: str) -> Figure:
        """By how much one is better than another on the same seeds; above zero is better for either metric."""
        both = [seed for seed in self.seeds[name] if seed in self.seeds[other]]
        sign = 1 if self.ranked else -1
        return Figure.of([sign * (self.seeds[name][seed] - self.seeds[other][seed]) for seed in both])

    def taken(self, name: str) -> str:
        """What tuning took."""
        return str(self.frame.filter(pl.col("baseline") == name)["taken"][0])

    def best(self, names: Sequence[str]) -> str | None:
        """The best of some baselines by mean."""
        return max(names, key=self._worth, default=None)

    def of_scope(self, scope: str) -> list[str]:
        """Baselines of one scope, without our model alone and those that use public features."""
        return [one for one, own in self.scopes.items() if own == scope and one != OURS and "public" not in one]

    @property
    def verdict(self) -> tuple[bool | None, str]:
        """Whether our model alone is at least every tuned baseline alone within one standard error, and in words."""
        rivals = [one for one in self.of_scope("alone") if one not in _BESIDE]
        if OURS not in self.seeds or not rivals:
            return None, f"{self.title}: not run."
        gaps = {one: self.over(OURS, one) for one in rivals}
        below = [one for one, gap in gaps.items() if gap.mean < -gap.error]
        best = self.best(rivals)
        assert best is not None
        said = f"{self.title}: {OURS} {self.figure(OURS).words()}, the best tuned baseline alone is {best} with "
        said += f"{self.figure(best).words()} (difference {gaps[best].words(signed=True)})"
        for other in _BESIDE:
            if other in self.seeds and self._worth(other) > self._worth(best):
                said += f"; {other}, beside the target, has {self.figure(other).words()}"
        if any(math.isnan(gap.error) for gap in gaps.values()):
            return None, f"{said}. One seed has no error: no verdict."
        if not below:
            return True, f"{said}. No tuned baseline alone beats it by more than one standard error."
        return False, f"{said}. It is below {', '.join(below)} by more than one standard error."

    def _worth(self, name: str) -> float:
        mean = self.figure(name).mean
        return mean if self.ranked else -mean


def _how(epsilon: float) -> str:
    return (
        "Only the smaller half of the entities by number of users is measured: a public sample of each quarter, each "
        "entity standing for those like it; of a large entity the first users. Figures are means ± standard errors "
        "over seeds; every seed is another split, and for hospitals another simulated federation. Every baseline with "
        f"anything to tune has up to {TRIALS} trials on a split that no figure is reported of: one choice for all "
        "entities of a data set, judged by all of them. This favours it over our model, whose every entity chooses by "
        "its own validation. The target for our model alone is to be at least tuned EASE, iALS, RP3beta and popularity "
        "(offsets for ratings) within one standard error; GF-CF is shown beside them. "
        f"Private baselines have ε = {epsilon:g} and one noise over the federation, as "
        "after a secure sum; it is seeded, so this is a measurement and not a release."
    )


def _lines(one: Compared) -> list[tuple[str, ...]]:
    return [
        (
            name,
            scope,
            one.figure(name).words(),
            "" if name == OURS or OURS not in one.seeds else one.over(name, OURS).words(signed=True),
            one.taken(name) or "nothing to tune",
        )
        for name, scope in one.scopes.items()
    ]


_HEADS: Final = ("baseline", "sees", "figure", "better than twofold alone by", "taken by tuning")
_SUMMARY: Final = (
    "data set",
    "twofold alone",
    "best tuned alone",
    "at least that",
    "best pooled",
    "best private, shared",
)


def _summary(found: Sequence[Compared]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    for place, one in enumerate(found, start=1):
        reached = {True: "yes", False: "no", None: "no verdict"}[one.verdict[0]]
        private = one.best([name for name in PRIVATE if name in one.seeds])
        cells = [_named(one, one.best(one.of_scope(scope))) for scope in ("alone", "pooled")]
        ours = one.figure(OURS).words() if OURS in one.seeds else "-"
        lines.append((f"{place}. {one.title}", ours, cells[0], reached, cells[1], _named(one, private)))
    return lines


def _named(one: Compared, name: str | None) -> str:
    return "-" if name is None else f"{one.figure(name).words()} ({name})"


def picture(found: Sequence[Compared]) -> Plot | None:
    """Draw by how much our model alone is better than the best tuned baseline alone, of every ranked data set.

    Examples
    --------
    >>> picture([]) is None
    True
    """
    ranked = [(float(at), one) for at, one in enumerate(found, start=1) if one.ranked and OURS in one.seeds]
    rivals = [
        (at, one, one.best([name for name in one.of_scope("alone") if name not in _BESIDE])) for at, one in ranked
    ]
    gaps = [(at, one.over(OURS, best)) for at, one, best in rivals if best is not None]
    if not gaps:
        return None
    lowest, highest = (pick(gap.mean for _, gap in gaps) for pick in (min, max))
    line = Series(
        name="twofold alone, less the best tuned baseline alone",
        x=[at for at, _ in gaps],
        y=[gap.mean for _, gap in gaps],
        spread=[0.0 if math.isnan(gap.error) else gap.error for _, gap in gaps],
        joined=False,
    )
    return Plot(
        caption=f"{_DRAWN}, smaller half of the entities",
        description=f"differences from {lowest:+.4f} to {highest:+.4f}",
        x_label="data set, as numbered in the table",
        y_label="nDCG@10, ours less the best",
        series=(line,),
        ticks=tuple((at, f"{at:.0f}") for at, _ in gaps),
        level=0.0,
    )


def _markdown_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    marks = ["---", *["---"] * (len(heads) - 1)]
    return [f"| {' | '.join(line)} |" for line in (heads, marks, *lines)]


def compare_markdown(found: Sequence[Compared], *, size: str, epsilon: float, drawn: bool) -> str:
    """Write the page as Markdown.

    Examples
    --------
    >>> print(compare_markdown([], size="tiny", epsilon=1, drawn=False).splitlines()[0])
    # Alone and pooled: tuned baselines on every data set
    """
    text = [f"# {TITLE}", "", "Printed by", "", "```", f"python -m studies compare --size {size} -o DIR", "```", ""]
    text += ["as `compare.md` in DIR. `compare.html` is the same page, `compare.parquet` has every number.", ""]
    text += ["## Summary", "", *(f"* {one.verdict[1]}" for one in found), ""]
    text += _markdown_table(_SUMMARY, _summary(found))
    if drawn:
        text += [
            "",
            f"![{_DRAWN}, by data set](compare.svg)",
        ]
    text += ["", "## How it was measured", "", _how(epsilon)]
    for one in found:
        text += ["", f"## {one.title[0].upper()}{one.title[1:]}", "", f"**{one.metric}**", ""]
        text += _markdown_table(_HEADS, _lines(one))
    return "\n".join(text) + "\n"


def compare_page(found: Sequence[Compared], *, size: str, epsilon: float) -> Page:
    """Make the page.

    Examples
    --------
    >>> compare_page([], size="tiny", epsilon=1).subtitle
    'python -m studies compare --size tiny'
    """
    words = tuple(one.verdict[1] for one in found)
    plot = picture(found)
    summary = _table("Every data set", _SUMMARY, _summary(found))
    first = (Points(words), summary) if words else (Paragraph("Nothing was run."),)
    sections = [
        Section("Summary", (*first, *((plot,) if plot is not None else ()))),
        Section("How it was measured", (Paragraph(_how(epsilon)),)),
    ]
    sections += [
        Section(f"{one.title[0].upper()}{one.title[1:]}", (_table(one.metric, _HEADS, _lines(one)),)) for one in found
    ]
    return Page(
        title=TITLE,
        subtitle=f"python -m studies compare --size {size}",
        sections=tuple(sections),
        footer="All numbers are in compare.parquet beside this page.",
    )


def _table(caption: str, heads: Sequence[str], lines: Sequence[tuple[str, ...]]) -> Table:
    columns = tuple(Column(head, numeric=False) for head in heads)
    return Table(caption=caption, columns=columns, rows=tuple(lines))
