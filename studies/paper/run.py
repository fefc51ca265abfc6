"""Reproduce the paper: run its experiments again, with a verdict on every claim.

Writes a page and a Parquet per figure, and an index; one figure, or an experiment's figures (fig1, eicu, movielens,
supplement), also as Markdown with all tables. What the folder has already is not run again, so a run that was stopped
goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from studies.paper import controls, eicu, fig1, movielens, related, supplement
from studies.paper.claims import claims_of
from studies.paper.figures import SIZES, Figure, figures_of
from studies.paper.measuring import installed_system, run_cell
from studies.paper.results import Results, tidy
from studies.paper.verdicts import Judge, Judgement, Verdict
from studies.runner import Tell, progress, run_cells
from studies.store import Cell, Found, Store
from twofold.errors import BadParameter
from twofold.storage.files import write_whole

__all__ = ["JUDGES", "Outcome", "compare", "judge", "left_to_run", "main", "run_figures"]

#: Who answers each claim.
JUDGES: Final[Mapping[str, Judge]] = {
    **fig1.JUDGES,
    **eicu.JUDGES,
    **movielens.JUDGES,
    **supplement.JUDGES,
    **related.JUDGES,
    **controls.JUDGES,
}
_COMPARED: Final = ("systems", "comparison", "cost")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one figure.

    Attributes
    ----------
    figure : Figure
        What was asked for.
    results : Results, optional
        None when its data set is missing.
    verdicts : tuple of Verdict
        One for each claim of the paper that it answers.
    missing : str
        What is missing, and where to put it.
    """

    figure: Figure
    results: Results | None
    verdicts: tuple[Verdict, ...] = ()
    missing: str = ""


def run_figures(
    figures: Sequence[Figure],
    *,
    size: str,
    folder: Path,
    seeds: int | None = None,
    workers: int = 1,
    tell: Tell = lambda _phase, _done, _total: None,
) -> list[Outcome]:
    """Run some figures into a folder; existing results are not run again.

    Parameters
    ----------
    figures : sequence of Figure
        Which ones. A missing data set is an error if all of them need it, else it is noted and the others go on.
    size : {"quick", "paper"}
        How large.
    folder : Path
        Where results are kept: one file per finished cell, and a Parquet per figure.
    seeds : int, optional
        How many; by default what each experiment says for the size.
    workers, tell
        As for `run_cells`; progress is told under the figure's name.

    Examples
    --------
    >>> import tempfile
    >>> from studies.paper.figures import figure
    >>> run_figures([figure("fig1a")], size="tiny", folder=Path(tempfile.gettempdir()))
    Traceback (most recent call last):
    twofold.errors.BadParameter: this size is unknown...
    """
    if seeds is not None and seeds < 1:
        raise BadParameter("{parameter} is out of range.", parameter="seeds", found=f"{seeds}", expected="1 or more")
    wanted = {one.name: one.cells(size, seeds=seeds) for one in figures}  # refuses a wrong size before any folder
    store = Store.open(folder, "reproduce", size)
    outcomes: list[Outcome] = []
    for one in figures:
        there = [[cell] for cell in wanted[one.name] if installed_system(cell.system)]
        ran = run_cells(there, _measured, store=store, workers=workers, name=one.name, tell=tell)
        if ran.missing:
            if all(outcome.results is None for outcome in outcomes) and one is figures[-1]:
                raise ran.missing[0][1]
            outcomes.append(Outcome(figure=one, results=None, missing=str(ran.missing[0][1])))
            continue
        frame, notes = tidy(one, size, ran.found, seeds=seeds)
        results = Results(figure=one, size=size, frame=frame, notes=notes)
        frame.write_parquet(folder / f"{one.name}.parquet")
        outcomes.append(Outcome(figure=one, results=results, verdicts=judge(results)))
    return outcomes


def _measured(cells: Sequence[Cell]) -> Iterator[Found]:
    return (run_cell(cell) for cell in cells)


def judge(results: Results) -> tuple[Verdict, ...]:
    """A verdict on every claim that a figure answers; one without results cannot be told."""
    return tuple(
        Verdict(claim=claim, judgement=_asked(JUDGES[claim.key], results)) for claim in claims_of(results.figure.name)
    )


def _asked(one: Judge, results: Results) -> Judgement:
    measured = results.frame.filter(metric=results.figure.metrics[0])["value"]
    if not len(measured) or not all(math.isfinite(value) for value in measured):
        return Judgement(holds="cannot be told", ours="–", rule="not asked", why="Nothing was measured.")
    return one(results)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one experiment of the paper, or all, and print a verdict on each claim."""
    parser = _parser("reproduce", __doc__)
    parser.add_argument(
        "figure",
        nargs="?",
        default="all",
        metavar="FIGURE",
        help="a figure such as fig1a, an experiment such as movielens, or 'all' (default)",
    )
    asked = parser.parse_args(arguments)
    _reproduce(asked.figure, figures_of(asked.figure), asked)


def compare(arguments: Sequence[str] | None = None) -> None:
    """Compare all systems: the gain of a private release, other libraries, bytes and rounds.

    The figures systems, comparison and cost of `reproduce`. Libraries that are not installed are left out and named.
    """
    asked = _parser("compare", compare.__doc__).parse_args(arguments)
    for name in _COMPARED:
        _reproduce(name, figures_of(name), asked)


def _parser(name: str, about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m studies {name}", description=about)
    parser.add_argument("--size", choices=SIZES, default="quick", help="quick (minutes, default) or the paper's sizes")
    parser.add_argument("-o", "--output", type=Path, default=Path("results"), help="folder (default %(default)s)")
    parser.add_argument("--seeds", type=int, help="number of seeds (default: that of the size)")
    parser.add_argument("--workers", type=int, default=1, help="fits at once, each on one thread (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    parser.add_argument(
        "--dry",
        action="store_true",
        help="run nothing; print what is stored, the time it took, and an estimate of what is left",
    )
    return parser


def _reproduce(name: str, figures: Sequence[Figure], asked: argparse.Namespace) -> None:
    from studies.pages.experiment_markdown import figures_markdown, index_markdown
    from studies.pages.experiment_report import experiment_index, experiment_page

    size, output = asked.size, asked.output
    if asked.dry:
        print(left_to_run(figures, size=size, folder=output, seeds=asked.seeds))
        return
    with progress() as tell:
        outcomes = run_figures(figures, size=size, folder=output, seeds=asked.seeds, workers=asked.workers, tell=tell)
    for one in outcomes:
        experiment_page(one).write(output / f"{one.figure.name}.html")
    if name == "all":
        experiment_index(outcomes, size=size).write(output / "index.html")
        write_whole(output / "index.md", index_markdown(outcomes, size=size).encode())
    else:
        write_whole(output / f"{name}.md", figures_markdown(outcomes, name=name, size=size).encode())
    if asked.json:
        print(json.dumps(_record(outcomes, size), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print(outcomes, output / ("index.html" if name == "all" else f"{outcomes[0].figure.name}.html"))


def left_to_run(figures: Sequence[Figure], *, size: str, folder: Path, seeds: int | None = None) -> str:
    """Say how many cells of each figure are stored and what they took, and how long the rest may take.

    A missing cell is taken to last as long, on the clock, as the stored ones of its system on average: those on its
    own data, or else on any. A cell that figures share is counted for the first of them. The page of
    `python -m studies paper` has the same times with shared cells counted for each.
    """
    store = Store.open(folder, "reproduce", size)
    lasted: dict[tuple[str, ...], list[float]] = {}
    for one in store.all():
        for kind in _kinds(one["cell"]["system"], one["cell"]["data"]):
            lasted.setdefault(kind, []).append(float(one.get("seconds", 0.0)))
    lines = ["figure             cells  stored  wall, min  CPU, min  left, at least  systems without a stored cell"]
    seen: set[str] = set()
    totals = [0.0, 0.0, 0.0]
    for figure in figures:
        cells = [cell for cell in figure.cells(size, seeds=seeds) if cell.key not in seen]
        seen |= {cell.key for cell in cells}
        results = [store.get(cell) for cell in cells]
        missing = [cell for cell, one in zip(cells, results, strict=True) if one is None]
        guessed = [_guess(cell, lasted) for cell in missing]
        unknown = sorted({cell.system for cell, guess in zip(missing, guessed, strict=True) if guess is None})
        took = [
            sum(float(one.get(name, 0.0)) for one in results if one is not None) for name in ("seconds", "cpu_seconds")
        ]
        took.append(sum(guess for guess in guessed if guess is not None))
        totals = [whole + part for whole, part in zip(totals, took, strict=True)]
        wall, cpu, left = (part / 60 for part in took)
        stored = len(cells) - len(missing)
        lines.append(
            f"{figure.name:18} {len(cells):5} {stored:7}  {wall:9.1f}  {cpu:8.1f}  {left:10.1f} min  "
            + ", ".join(unknown)
        )
    wall, cpu, left = (part / 3600 for part in totals)
    return "\n".join(
        [
            *lines,
            f"stored, one process: {wall:.1f} hours, {cpu:.1f} of the processor",
            f"in all, one process: at least {left:.1f} hours",
        ]
    )


def _kinds(system: str, data: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """What a cell is like, the closest first."""
    return (system, str(data.get("source", ""))), (system,)


def _guess(cell: Cell, lasted: Mapping[tuple[str, ...], Sequence[float]]) -> float | None:
    for kind in _kinds(cell.system, cell.data):
        if kind in lasted:
            return sum(lasted[kind]) / len(lasted[kind])
    return None


def _record(outcomes: list[Outcome], size: str) -> dict[str, Any]:
    return {
        "size": size,
        "figures": [
            {
                "figure": one.figure.name,
                "title": one.figure.title,
                "missing": one.missing or None,
                "verdicts": [verdict.record() for verdict in one.verdicts],
            }
            for one in outcomes
        ],
    }


def _print(outcomes: list[Outcome], page: Path) -> None:
    console = Console()
    table = Table(title="Claims and what we find", title_justify="left", pad_edge=False)
    several = len(outcomes) > 1  # numbers of all figures would fill many screens; they are in the pages
    for column in ("figure", "claim", "verdict", *(() if several else ("ours",))):
        table.add_column(column, overflow="fold")
    for one in outcomes:
        if one.results is None:
            table.add_row(one.figure.name, "", "data missing")
        for verdict in one.verdicts:
            numbers = () if several else (verdict.judgement.ours,)
            table.add_row(one.figure.name, verdict.claim.words, verdict.holds, *numbers)
    console.print(table)
    for missing in dict.fromkeys(one.missing for one in outcomes if one.missing):
        console.print(missing, highlight=False, soft_wrap=True)
    console.print(f"Page: {page}", highlight=False, soft_wrap=True)
