"""One page that leads: every claim of the paper with its verdicts, one drawing per experiment, and what it took.

Written from folders that `python -m studies reproduce` filled, at any size; nothing is run here. Where a figure has no
stored results of the quick size, its verdicts are taken from the printed page of that size and marked so. What no
folder holds stays as an earlier page had it, so experiments can be run one after another, on several machines. An
experiment stays or is replaced as a whole: by no fewer panels, no fewer seeds and no smaller size.
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

__all__ = ["EXPERIMENTS", "Kept", "Took", "chosen", "drawing", "main", "page", "printed_verdicts", "stored"]

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
_TIMES: Final = ("figure", "size", "seeds", "cells", "wall, one process", "CPU", "slowest cell")


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


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A figure as some folder has it."""

    outcome: Outcome
    took: Took


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What an earlier page says, for figures that no folder holds.

    Attributes
    ----------
    verdicts : mapping
        Size and words of a claim to its verdict.
    sections : mapping
        Title of an experiment to the lines below it.
    times : mapping
        Size and name of a figure to its row of the table of times.
    """

    verdicts: Mapping[tuple[str, str], str]
    sections: Mapping[str, list[str]]
    times: Mapping[tuple[str, str], list[str]]

    @classmethod
    def of(cls, text: str) -> Kept:
        r"""Read a page.

        Examples
        --------
        >>> head = "| claim | where | quick size | the paper's size |\n|---|---|---|---|\n"
        >>> Kept.of(head + "| It falls. | 5 | (holds) | holds |\n").verdicts
        {('paper', 'It falls.'): 'holds'}
        """
        found = tables(text)
        claims = [row for table in found if table[0][:2] == ["claim", "where"] for row in table[1:]]
        told = [(size, row[0], row[2 + place]) for row in claims for place, size in enumerate(SIZES)]
        sections = re.findall(r"^### (.*)\n\n((?:(?!##).*\n?)*)", text, re.MULTILINE)
        return cls(
            verdicts={(size, words): said for size, words, said in told if said != "–" and not said.startswith("(")},
            sections={title: body.splitlines() for title, body in sections if body.startswith("![")},
            times={
                (row[1], row[0].strip("`")): [*row, *["–"] * (len(_TIMES) - len(row))]
                for table in found
                if table[0][:2] == [*_TIMES[:2]]
                for row in table[1:]
            },
        )

    def section(self, title: str) -> tuple[int, int, set[str]]:
        """Size (its place among sizes), seeds and panels of an experiment; nothing is below everything."""
        text = "\n".join(self.sections.get(title, []))
        said = re.search(r"^Size: (\w+); (\d+) seed", text, re.MULTILINE)
        panels = set(re.findall(r"^`([\w-]+)`:", text, re.MULTILINE))
        return (SIZES.index(said[1]), int(said[2]), panels) if said else (-1, 0, set())


def chosen(found: dict[tuple[str, str], Stored], kept: Kept) -> dict[str, str]:
    """Say which size of every experiment is drawn from folders; of those that stay, forget what the folders hold.

    Parameters
    ----------
    found : dict
        As `stored` gives it. Figures of the kept size of an experiment that stays are taken out, so that its verdicts,
        numbers, drawing and times are of one run.
    kept : Kept
        What the page has.
    """
    drawn = {}
    for name, title, panels in EXPERIMENTS:
        size = next((size for size in reversed(SIZES) if any((size, one) in found for one in panels)), None)
        if size is None:
            continue
        there = {one: found[size, one].outcome.results for one in panels if (size, one) in found}
        seeds = min(results.seeds for results in there.values() if results is not None)
        place, least, before = kept.section(title)
        if SIZES.index(size) >= place and before <= set(there) and (SIZES.index(size) > place or seeds >= least):
            drawn[name] = size
            continue
        for one in panels:
            found.pop((SIZES[place], one), None)
    return drawn


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
    found: Mapping[tuple[str, str], Stored],
    printed: Mapping[str, str],
    drawn: Mapping[str, tuple[str, str]],
    kept: Kept,
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
    kept : Kept
        What an earlier page says of figures that are not stored.
    """
    rows = [
        (claim, _verdict(claim, "quick", found, printed, kept), _verdict(claim, "paper", found, {}, kept))
        for claim in CLAIMS
    ]
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
    lines += [*_changed(rows), *_drawings(found, drawn, kept), *_times(found, kept)]
    return "\n".join(lines).rstrip() + "\n"


def _verdict(
    claim: Claim, size: str, found: Mapping[tuple[str, str], Stored], printed: Mapping[str, str], kept: Kept
) -> str:
    one = found.get((size, claim.figure))
    if one is not None:
        return next(verdict.holds for verdict in one.outcome.verdicts if verdict.claim.key == claim.key)
    if claim.words in printed:
        return f"({printed[claim.words]})"
    return kept.verdicts.get((size, _safe(claim.words)), "")


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


def _drawings(found: Mapping[tuple[str, str], Stored], drawn: Mapping[str, tuple[str, str]], kept: Kept) -> list[str]:
    lines = ["## The paper's figures, ours beside what was recorded", ""]
    for name, title, panels in EXPERIMENTS:
        lines += [f"### {title}", ""]
        if name not in drawn and title in kept.sections:
            lines += kept.sections[title]
            continue
        if name not in drawn:
            lines += [f"Not stored. `python -m studies reproduce {panels[0]} -o DIR` runs the first panel.", ""]
            continue
        size, file = drawn[name]
        there = [found[size, panel].outcome.results for panel in panels if (size, panel) in found]
        shown = [results for results in there if results is not None]
        seeds = min(results.seeds for results in shown)
        lines += [f"![{title}]({file})", "", f"Size: {size}; {seeds} seed{'s' * (seeds > 1)}.", ""]
        for results in shown:
            lines += [f"`{results.figure.name}`:", "", *table_lines(number_table(results, results.figure.metrics[0]))]
    return lines


def _times(found: Mapping[tuple[str, str], Stored], kept: Kept) -> list[str]:
    lines = ["## What it took", "", f"| {' | '.join(_TIMES)} |", "|" + "---|" * len(_TIMES)]
    sums = []
    for size in SIZES:
        seen: set[str] = set()
        rows = []
        for name in FIGURES:
            if (one := found.get((size, name))) is not None:
                rows.append(_time_row(name, size, one, seen))
                seen.update(one.took.each)
            elif (size, name) in kept.times:
                rows.append(row := kept.times[size, name])
                seen.update(cell.key for cell in FIGURES[name].cells(size, seeds=int(row[2])))
        lines += [f"| {' | '.join(row)} |" for row in rows]
        if rows:
            cells = sum(int(row[3].replace(",", "")) for row in rows)
            wall, cpu = (sum(_seconds(row[place]) for row in rows) for place in (4, 5))
            sums.append(f"- {size}: {cells:,} cells, {span(wall)} in one process, {span(cpu)} of the processor.")
    return [*lines, "", "A cell that figures share is counted for the first of them. In all:", "", *sums, ""]


def _time_row(name: str, size: str, one: Stored, seen: set[str]) -> list[str]:
    own = [times for key, times in one.took.each.items() if key not in seen]
    wall, cpu = sum(clock for clock, _ in own), sum(processor for _, processor in own)
    seeds = one.outcome.results.seeds if one.outcome.results else 0
    spans = [span(wall) if own else "–", span(cpu) if cpu else "–"]
    return [f"`{name}`", size, str(seeds), f"{len(own):,}", *spans, one.took.slowest]


def _seconds(text: str) -> float:
    """Read what `span` wrote.

    Examples
    --------
    >>> [_seconds(text) for text in ("2 h 30 min", "1 min 15 s", "0.5 s", "–")]
    [9000.0, 75.0, 0.5, 0.0]
    """
    units = {"h": 3600.0, "min": 60.0, "s": 1.0}
    return sum((float(number) * units[unit] for number, unit in re.findall(r"([\d.]+) (h|min|s)", text)), 0.0)


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
    parser.add_argument("--anew", action="store_true", help="keep nothing of the page that is there")
    asked = parser.parse_args(arguments)
    found = stored(asked.folders)
    printed = printed_verdicts(asked.printed.read_text(encoding="utf-8")) if asked.printed.exists() else {}
    before = asked.output.read_text(encoding="utf-8") if asked.output.exists() and not asked.anew else ""
    kept, drawn = Kept.of(before), {}
    for name, size in chosen(found, kept).items():
        title, panels = next((title, panels) for one, title, panels in EXPERIMENTS if one == name)
        shown = [found[size, one].outcome for one in panels if (size, one) in found]
        file = f"paper-{name}.svg"
        (asked.output.parent / file).write_text(drawing(shown, title), encoding="utf-8")
        drawn[name] = size, file
    asked.output.write_text(page(found, printed, drawn, kept), encoding="utf-8")
    print(f"Page: {asked.output}")
