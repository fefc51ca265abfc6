"""One table of all release mechanisms: loss, seconds and memory, next to their peers and to the recorded reference.

Run ``python -m studies.mechanisms --size quick`` (a minute) or ``--size full``.

Data: mixtures of 10 separated Gaussian clusters, centres of norm 10, noise of norm about 1; these numbers are public
and give the bounds. A figure is the k-means loss of the released centres over that of scikit-learn's `KMeans` (ours
where it is not installed), as mean and standard deviation over seeds. Publishing the exact mean of everybody gives
about 90.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.progress import Progress

from studies._mechanisms_data import Case, make_case
from studies._mechanisms_peers import diffprivlib_cells, recorded
from studies._mechanisms_run import Entrant, Measured, entrants, memory_of, run_once

__all__ = ["EPSILONS", "SIZES", "Row", "main", "markdown", "run"]

#: The last stands for infinity: noise is still drawn, and is nothing.
EPSILONS = ("0.1", "1", "3", "10", "1000000")
#: Shapes (users, items) and number of seeds.
SIZES: dict[str, tuple[tuple[tuple[int, int], ...], int]] = {
    "tiny": (((400, 12),), 2),
    "quick": (((2_000, 50),), 2),
    "full": (((2_000, 50), (2_000, 500), (20_000, 50), (20_000, 500)), 3),
}
_K = 10


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table: who, under which promise, a cell per ε, seconds and megabytes."""

    data: str
    who: str
    promise: str
    cells: tuple[str, ...]
    seconds: str
    megabytes: str


def run(size: str) -> list[Row]:
    """Measure everything; shows progress when standard error is a terminal.

    Parameters
    ----------
    size : {"tiny", "quick", "full"}
        What to run.
    """
    shapes, seeds = SIZES[size]
    rows: list[Row] = []
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("mechanisms", total=len(shapes) * len(entrants()))
        for shape in shapes:
            cases = [make_case(*shape, _K, seed) for seed in range(seeds)]
            for entrant in entrants():
                bar.update(task, description=f"{shape[0]:,} x {shape[1]} {entrant.who}", advance=1)
                rows.append(_row(entrant, cases))
            rows += _others(cases)
    return rows


def _row(entrant: Entrant, cases: Sequence[Case]) -> Row:
    memory = memory_of(entrant, cases[0], EPSILONS[1])
    measured = {epsilon: [run_once(entrant, case, epsilon) for case in cases] for epsilon in EPSILONS}
    if not entrant.private:  # ε means nothing to it
        cells = ("",) * (len(EPSILONS) - 1) + (_cell(measured[EPSILONS[-1]]),)
    else:
        cells = tuple(_cell(measured[epsilon]) for epsilon in EPSILONS)
    seconds = np.mean([one.seconds for some in measured.values() for one in some])
    return Row(
        data=cases[0].name,
        who=entrant.who,
        promise=entrant.promise,
        cells=cells,
        seconds=f"{seconds:.2f}",
        megabytes=f"{memory:.0f}",
    )


def _others(cases: Sequence[Case]) -> Iterator[Row]:
    case = cases[0]
    blank = ("",) * (len(EPSILONS) - 1)
    spread = f"{np.mean([one.one_mean for one in cases]):.1f}"
    yield Row(data=case.name, who="one exact mean", promise="none", cells=(*blank, spread), seconds="", megabytes="")
    yield Row(data=case.name, who=case.judge, promise="none", cells=(*blank, "1.00"), seconds="", megabytes="")
    cells, promise = diffprivlib_cells(case, EPSILONS)
    yield Row(data=case.name, who="diffprivlib KMeans", promise=promise, cells=cells, seconds="", megabytes="")
    figures, seconds = recorded(case)
    yield Row(
        data=case.name,
        who="reference program",
        promise="recorded; not ε-DP",
        cells=figures,
        seconds=seconds,
        megabytes="",
    )


def _cell(measured: Sequence[Measured]) -> str:
    ratios = [one.ratio for one in measured]
    fell = "*" if any(one.fell_back for one in measured) else ""
    return f"{np.mean(ratios):.2f} ± {np.std(ratios):.2f}{fell}"


def markdown(rows: Sequence[Row]) -> str:
    """Render the rows as one GitHub table.

    Examples
    --------
    >>> row = Row(data="d", who="w", promise="p", cells=("1",) * 5, seconds="0", megabytes="1")
    >>> markdown([row]).splitlines()[-1].count("|")
    11
    """
    heads = ("data", "mechanism", "promise", *(f"ε={epsilon}" for epsilon in EPSILONS[:-1]), "ε=∞", "CPU s", "MB")
    lines = [heads, *((row.data, row.who, row.promise, *row.cells, row.seconds, row.megabytes) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    text = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.mechanisms", description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="quick")
    size = parser.parse_args(arguments).size
    sys.stdout.write(markdown(run(size)) + "\n\n" + _NOTE + "\n")


_NOTE = """\
Figures: k-means loss over that of the judge, mean ± standard deviation over seeds. *: fell back by public numbers to
public buckets or to one prototype (the message says why). ε=∞ is ε = 10^6. CPU s: one release with its centres, mean
over ε and seeds. MB: largest traced memory of a release. Noise is seeded here, so that the table can be repeated."""


if __name__ == "__main__":
    main()
