"""One page that leads: every claim of the paper with its verdicts, one drawing per experiment, and what it took.

Written from folders that `python -m studies reproduce` filled, at any size; nothing is run here. Where a figure has no
stored results of the quick size, its verdicts are taken from the printed page of that size and marked so.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from studies.figures import tables
from studies.pages.experiment_markdown import table_lines
from studies.pages.experiment_report import figure_plot, number_table
from studies.paper.claims import CLAIMS, Claim
from studies.paper.figures import FIGURES, SIZES, Figure
from studies.paper.results import Results, tidy
from studies.paper.run import Outcome, judge
from studies.store import Found, Store
from twofold.report.page import span
from twofold.report.plot import Series

__all__ = ["EXPERIMENTS", "Took", "drawing", "main", "page", "printed_verdicts", "stored"]

_ROOT: Final = Path(__file__).parents[2]
#: Name of the drawing, title, and panels in the paper's order, two to a row.
EXPERIMENTS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("fig1", "Fig. 1: synthetic counts", ("fig1a", "fig1b", "fig1c", "fig1d")),
    ("eicu", "Fig. 2: eICU, simulated hospitals of its size", ("eicu-train", "eicu-rmse", "eicu-rank")),
    ("eicu-demo", "Fig. 2 on the open eICU demo", ("eicu-demo",)),
    ("exp1", "Supplement, Experiment 1: k-means objective", ("exp1",)),
    ("entities", "Supplement: number of entities", ("entities",)),
    ("exp2", "Supplement, Experiment 2: k and ℓ", ("supplement-k", "supplement-l")),
    ("movielens", "Supplement: MovieLens", ("movielens-train", "movielens-rmse", "movielens-rank")),
    ("cost", "Communication", ("cost",)),
    ("private-kmeans", "Related work: private k-means", ("private-kmeans",)),
    ("tensor", "Related work: federated tensor factorization", ("tensor-hospitals", "tensor-eicu")),
    ("synthesis", "Related work: synthetic rows", ("synthesis",)),
)
#: What a cell varies, in the words of the tables.
_SHORT: Final = {"rank": "ℓ", "n_prototypes": "k", "epsilon": "ε", "iterations": "iterations"}
_MOST: Final = 6
_WIDE: Final = 560


@dataclass(frozen=True, kw_only=True)
class Took:
    """What a figure took: its cells, their seconds (of the processor where they were recorded), the slowest of them.

    Attributes
    ----------
    each : mapping
        Key of a cell to its seconds on the clock and of the processor.
    slowest : str
        System, options and seconds of the cell that took longest.
    """

    each: Mapping[str, tuple[float, float]]
    slowest: str

    @classmethod
    def of(cls, cells: Mapping[str, Found]) -> Took:
        """Add up stored cells."""
        each = {key: (float(one.get("seconds", 0)), float(one.get("cpu_seconds", 0))) for key, one in cells.items()}
        last = max(cells, key=lambda key: each[key])
        cell = cells[last]["cell"]
        told = [f"{_SHORT[name]} = {cell['options'][name]:g}" for name in _SHORT if name in cell["options"]]
        return cls(each=each, slowest=f"{cell['system']}{', ' * bool(told)}{', '.join(told)}: {each[last][0]:.0f} s")

    @property
    def cells(self) -> int:
        """How many."""
        return len(self.each)

    @property
    def wall(self) -> float:
        """Seconds on the clock, one process."""
        return sum(wall for wall, _ in self.each.values())

    @property
    def cpu(self) -> float:
        """Seconds of the processor."""
        return sum(cpu for _, cpu in self.each.values())


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A figure as some folder has it."""

    outcome: Outcome
    took: Took


def stored(folders: Sequence[Path]) -> dict[tuple[str, str], Stored]:
    """Every figure that folders hold whole, by size and name; of two, the one with more seeds.

    Parameters
    ----------
    folders : sequence of Path
        As `reproduce` wrote them.
    """
    found: dict[tuple[str, str], Stored] = {}
    for folder in folders:
        size = str(json.loads((folder / "results.json").read_text(encoding="utf-8"))["size"])
        store = Store.open(folder, "reproduce", size)
        for figure in FIGURES.values():
            one = _whole(figure, size, store)
            if one is None or one.outcome.results is None:
                continue
            known = found.get((size, figure.name))
            if (
                known is None
                or known.outcome.results is None
                or known.outcome.results.seeds < one.outcome.results.seeds
            ):
                found[size, figure.name] = one
    return found


def _whole(figure: Figure, size: str, store: Store) -> Stored | None:
    """The figure with as many seeds as all its lines have; None if a line has none of its cells for the first seed."""
    for seeds in range(figure.seeds(size), 0, -1):
        wanted = figure.cells(size, seeds=seeds)
        cells: dict[str, Found] = {}
        for cell in wanted:
            if (one := store.get(cell)) is not None:
                cells[cell.key] = one
        absent = {cell.system for cell in wanted if cell.key not in cells}
        if not cells or absent - _OPTIONAL:
            continue
        frame, notes = tidy(figure, size, cells, seeds=seeds)
        results = Results(figure=figure, size=size, frame=frame, notes=notes)
        outcome = Outcome(figure=figure, results=results, verdicts=judge(results))
        return Stored(outcome=outcome, took=Took.of(cells))
    return None


#: Systems that need a library of their own, without which a figure counts as whole.
_OPTIONAL: Final = {"implicit", "cmfrec", "lenskit", "synthetic-rows"}


def printed_verdicts(page_text: str) -> dict[str, str]:
    r"""Verdict of every claim that a printed page has in a table of claims.

    Examples
    --------
    >>> printed_verdicts("| claim | where | verdict |\n|---|---|---|\n| It falls. | section 1 | holds |\n")
    {'It falls.': 'holds'}
    """
    return {
        row[0]: row[-1]
        for table in tables(page_text)
        if table[0][0] == "claim" and table[0][-1] == "verdict"
        for row in table[1:]
    }


def page(
    found: Mapping[tuple[str, str], Stored], printed: Mapping[str, str], drawn: Mapping[str, tuple[str, str]]
) -> str:
    """Write the page.

    Parameters
    ----------
    found : mapping
        As `stored` gives it.
    printed : mapping
        Verdicts of the quick size for claims without stored results.
    drawn : mapping
        Name of an experiment to the size of its results and the file of its drawing.
    """
    rows = [(claim, _verdict(claim, "quick", found, printed), _verdict(claim, "paper", found, {})) for claim in CLAIMS]
    paper = [(quick, large) for claim, quick, large in rows if claim.kind == "paper"]
    lines = [
        "# The paper, claim by claim",
        "",
        "Printed by `python -m studies paper DIR ... -o docs/results/paper.md` from stored results of `python -m "
        "studies reproduce`; nothing is run by it.",
        "",
        f"- At the quick size: {_tally([quick for quick, _ in paper])}.",
        f"- At the paper's size: {_tally([large for _, large in paper])}.",
        "- A verdict in brackets is from [the printed page](index.md) of the quick size, which has the question, the "
        "numbers and the reason for each claim.",
        "- [Theorem 1](../explanation/theorem.md) has a page of its own; so have the [error bounds]"
        "(../explanation/error_bounds.md) that the paper leaves to future work.",
        "",
    ]
    for kind, title in (("paper", "Claims of the paper"), ("control", "Controls of ours")):
        lines += [f"## {title}", "", "| claim | where | quick size | the paper's size |", "|---|---|---|---|"]
        lines += [
            f"| {_safe(claim.words)} | {_safe(claim.place)} | {quick or '–'} | {large or '–'} |"
            for claim, quick, large in rows
            if claim.kind == kind
        ]
        lines.append("")
    lines += [*_changed(rows), *_drawings(found, drawn), *_times(found)]
    return "\n".join(lines).rstrip() + "\n"


def _verdict(claim: Claim, size: str, found: Mapping[tuple[str, str], Stored], printed: Mapping[str, str]) -> str:
    one = found.get((size, claim.figure))
    if one is not None:
        return next(verdict.holds for verdict in one.outcome.verdicts if verdict.claim.key == claim.key)
    return f"({printed[claim.words]})" if claim.words in printed else ""


def _tally(verdicts: Sequence[str]) -> str:
    plain = [one.strip("()") for one in verdicts]
    known = {word: plain.count(word) for word in ("holds", "does not hold", "cannot be told")}
    words = f"{known['holds']} hold, {known['does not hold']} do not hold, {known['cannot be told']} cannot be told"
    return words + (f", {plain.count('')} not run" if "" in plain else "")


def _changed(rows: Sequence[tuple[Claim, str, str]]) -> list[str]:
    changed = [(claim, quick.strip("()"), large) for claim, quick, large in rows if quick and large]
    changed = [one for one in changed if one[1] != one[2]]
    lines = ["## Verdicts that change with the size", ""]
    if not any(large for _, _, large in rows):
        return [*lines, "Nothing was run at the paper's size yet.", ""]
    if not changed:
        return [*lines, "None of those that were run at both.", ""]
    return [
        *lines,
        *(f"- {claim.words} Quick: {quick}; the paper's size: {large}." for claim, quick, large in changed),
        "",
    ]


def _drawings(found: Mapping[tuple[str, str], Stored], drawn: Mapping[str, tuple[str, str]]) -> list[str]:
    lines = ["## The paper's figures, ours beside what was recorded", ""]
    for name, title, panels in EXPERIMENTS:
        lines += [f"### {title}", ""]
        if name not in drawn:
            lines += [f"Not stored. `python -m studies reproduce {panels[0]} -o DIR` runs the first panel.", ""]
            continue
        size, file = drawn[name]
        kept = [found[size, panel].outcome.results for panel in panels if (size, panel) in found]
        shown = [results for results in kept if results is not None]
        seeds = min(results.seeds for results in shown)
        lines += [f"![{title}]({file})", "", f"Size: {size}; {seeds} seed{'s' * (seeds > 1)}.", ""]
        for results in shown:
            lines += [f"`{results.figure.name}`:", "", *table_lines(number_table(results, results.figure.metrics[0]))]
    return lines


def _times(found: Mapping[tuple[str, str], Stored]) -> list[str]:
    lines = [
        "## What it took",
        "",
        "| figure | size | seeds | cells | wall, one process | CPU | slowest cell |",
        "|---|---|---|---|---|---|---|",
    ]
    for (size, name), one in sorted(found.items(), key=lambda item: (SIZES.index(item[0][0]), item[0][1])):
        seeds = one.outcome.results.seeds if one.outcome.results else 0
        cpu = span(one.took.cpu) if one.took.cpu else "–"
        lines.append(
            f"| `{name}` | {size} | {seeds} | {one.took.cells} | {span(one.took.wall)} | {cpu} | {one.took.slowest} |"
        )
    lines += ["", "Cells that figures share are counted for each. Each cell once:", ""]
    for size in SIZES:
        each = {key: took for (of, _), one in found.items() if of == size for key, took in one.took.each.items()}
        if each:
            wall, cpu = (sum(times) for times in zip(*each.values(), strict=True))
            lines.append(f"- {size}: {len(each):,} cells, {span(wall)} in one process, {span(cpu)} of the processor.")
    return [*lines, ""]


def _safe(text: str) -> str:
    return text.replace("|", "/")


def drawing(outcomes: Sequence[Outcome], about: str) -> str:
    """Panels two to a row in one picture, each with what the authors recorded where it means the same."""
    parts, rows = [], (len(outcomes) + 1) // 2
    columns = 1 if len(outcomes) == 1 else 2
    height = 0.0
    for place, one in enumerate(outcomes):
        assert one.results is not None
        picture = _panel(one.results)
        box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture)
        assert box is not None
        height = _WIDE * float(box[2]) / float(box[1])
        at = f'x="{_WIDE * (place % columns)}" y="{(height + 24) * (place // columns) + 24:.0f}"'
        parts.append(
            f'<text x="{_WIDE * (place % columns) + 12}" y="{(height + 24) * (place // columns) + 18:.0f}" '
            f'fill="var(--ink)" font-size="14">{one.figure.title}</text>'
            + re.sub(
                r'<svg xmlns="[^"]*" width="560"', f'<svg {at} width="{_WIDE}" height="{height:.0f}"', picture, count=1
            )
        )
    whole = f"0 0 {_WIDE * columns} {(height + 24) * rows:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{_WIDE * columns}" '
        f'viewBox="{whole}" role="img" aria-label="{about}"><style>{_look(parts)}</style>'
        f'<rect width="100%" height="100%" fill="var(--ground)"/>{"".join(parts)}</svg>\n'
    )


def _look(parts: Sequence[str]) -> str:
    """The colours that the panels use, for the titles outside of them."""
    found = re.search(r"<style>(.*?)</style>", parts[0], re.DOTALL)
    return found[1] if found else ""


def _panel(results: Results) -> str:
    metric = results.figure.metrics[0]
    plot = figure_plot(results, metric)
    said = list(_recorded(results, metric))
    kept = plot.series[: _MOST - len(said)]
    styled = [replace(one, style=len(kept) + place) for place, one in enumerate(said)]
    return replace(plot, series=(*kept, *styled)).picture()


def _recorded(results: Results, metric: str) -> Iterator[Series]:
    for one in results.figure.recorded:
        known: list[Any] = [(x, y) for x, y in zip(one.at, one.values, strict=True) if x in results.x]
        if one.metric == metric and results.size in one.sizes and known:
            yield Series(name=f"recorded: {one.name}"[:30], x=[x for x, _ in known], y=[y for _, y in known])


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page and its drawings."""
    parser = argparse.ArgumentParser(prog="python -m studies paper", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR", help="folders of python -m studies reproduce")
    parser.add_argument("-o", "--output", type=Path, default=Path("paper.md"), help="page (default %(default)s)")
    parser.add_argument(
        "--printed", type=Path, default=_ROOT / "docs/results/index.md", help="printed page of the quick size"
    )
    asked = parser.parse_args(arguments)
    found = stored(asked.folders)
    printed = printed_verdicts(asked.printed.read_text(encoding="utf-8")) if asked.printed.exists() else {}
    drawn = {}
    for name, title, panels in EXPERIMENTS:
        size = next((size for size in reversed(SIZES) if any((size, one) in found for one in panels)), None)
        if size is None:
            continue
        shown = [found[size, one].outcome for one in panels if (size, one) in found]
        file = f"paper-{name}.svg"
        (asked.output.parent / file).write_text(drawing(shown, title), encoding="utf-8")
        drawn[name] = size, file
    asked.output.write_text(page(found, printed, drawn), encoding="utf-8")
    print(f"Page: {asked.output}")
