"""The frontier: what private federation is worth, by data, mechanism, noise and ε.

Run ``python -m studies.frontier --size quick`` or ``--size full``. MovieLens, Jester and the eICU demo need
TWOFOLD_DATA; a data set that is not there is left out and named. A run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from studies._frontier_page import all_results, markdown
from studies._frontier_run import EVERYTHING, Part, run_all
from studies._frontier_settings import SIZES, Grid, read_frontier
from studies._frontier_store import Store
from twofold.errors import TwofoldError
from twofold.storage.files import write_whole

__all__ = ["main", "run", "write"]


def run(
    size: str,
    folder: Path,
    *,
    names: Sequence[str] | None = None,
    part: Part = EVERYTHING,
    seeds: int | None = None,
    workers: int = 1,
    tell: Any = lambda _line: None,
) -> tuple[pl.DataFrame, list[str]]:
    """Run what is missing of a size into a folder; give the tidy table of all that is there, and the data not found.

    Parameters
    ----------
    size : {"tiny", "quick", "full"}
        How much of the grid.
    folder : Path
        Where cells are kept.
    names : sequence of str, optional
        Only these data sets.
    part : Part
        Only these mechanisms and noises.
    seeds : int, optional
        How many; by default what the size says.
    workers : int
        Splits at once.
    tell : function
        Called with lines of progress.
    """
    grid = read_frontier(size)
    wanted = [one.name for one in grid.data] if names is None else [grid.of(name).name for name in names]
    numbers = range(grid.first_seed, grid.first_seed + (seeds or grid.size.seeds))
    missing = run_all(size, folder, names=wanted, seeds=numbers, part=part, workers=workers, tell=tell)
    return Store(folder, grid).all(), missing


def write(frame: pl.DataFrame, grid: Grid, folder: Path) -> str:
    """Write the one Parquet, the Markdown with its plots and the HTML page; give the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(folder / "frontier.parquet")
    # Pages stand above experiments; this command puts both together, the one exception that import-linter lists.
    from studies.pages.frontier_report import frontier_page, pictures

    results = all_results(frame, grid)
    drawn = pictures(results)
    for name, picture in drawn.items():
        write_whole(folder / name, picture.encode())
    text = markdown(frame, grid, drawn)
    write_whole(folder / "frontier.md", text.encode())
    frontier_page(results, grid).write(folder / "frontier.html")
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print the page."""
    parser = argparse.ArgumentParser(prog="python -m studies.frontier", description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="quick")
    parser.add_argument("--data", help="data sets, separated by commas")
    parser.add_argument("--mechanism", help="mechanisms, separated by commas")
    parser.add_argument("--noise", help="own or secure, or both separated by a comma (default)")
    parser.add_argument("--seeds", type=int, help="how many seeds (by default what the size says)")
    parser.add_argument("--workers", type=int, default=1, help="splits at once (default %(default)s)")
    parser.add_argument("-o", "--output", type=Path, default=Path("frontier"), help="folder (default %(default)s)")
    parser.add_argument("--only-write", action="store_true", help="run nothing, write the pages of what is there")
    asked = parser.parse_args(arguments)
    if asked.seeds is not None and asked.seeds < 1:
        parser.error("--seeds: 1 or more")
    grid = read_frontier(asked.size)
    missing: list[str] = []
    if asked.only_write:
        frame = Store(asked.output, grid).all()
    else:
        frame, missing = run(
            asked.size,
            asked.output,
            names=_listed(asked.data),
            part=Part(mechanisms=_listed(asked.mechanism), noises=_listed(asked.noise)),
            seeds=asked.seeds,
            workers=asked.workers,
            tell=lambda line: sys.stderr.write(line + "\n"),
        )
    for name in missing:
        sys.stderr.write(f"{name} was left out: its data is not here\n")
    sys.stdout.write(write(frame, grid, asked.output))


def _listed(text: str | None) -> tuple[str, ...] | None:
    return tuple(text.split(",")) if text else None


if __name__ == "__main__":
    try:
        main()
    except TwofoldError as error:
        sys.exit(f"{type(error).__name__}: {error}")
