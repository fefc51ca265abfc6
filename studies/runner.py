"""Run the missing cells, keep each as soon as it is done, and run several at once if requested."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from studies.store import Cell, Found, Store
from twofold.algorithms._jit import at_most_threads, one_blas_thread
from twofold.errors import MissingDataset

__all__ = ["Ran", "Tell", "Work", "add_options", "progress", "run_cells"]

#: Runs some cells that share what is costly, such as a split, and gives what each found as soon as it is done.
Work = Callable[[Sequence[Cell]], Iterator[Found]]
#: Told a name, how many cells are done, of how many.
Tell = Callable[[str, int, int], object]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """Results of cells by key, and the first cell of every unit with a missing data set, with its name."""

    found: dict[str, Found] = field(default_factory=dict)
    missing: list[tuple[Cell, MissingDataset]] = field(default_factory=list)


def run_cells(
    units: Sequence[Sequence[Cell]],
    work: Work,
    *,
    store: Store | None = None,
    workers: int = 1,
    name: str = "",
    tell: Tell = lambda _name, _done, _total: None,
) -> Ran:
    """Run the cells that the store does not have.

    Parameters
    ----------
    units : sequence of sequences of Cell
        Cells of one unit run one after the other in one process.
    work : function
        Runs the missing cells of one unit, in their order; for several workers one that can be pickled.
    store : Store, optional
        Where results are kept and found again.
    workers : int
        Units at once, each in a separate process on one thread; the numbers do not depend on it.
    name : str
        What progress is told under.
    tell : function
        Called with the name, how many cells are done, of how many.

    Examples
    --------
    >>> cell = Cell(data={}, system="pooled", options={}, seed=3)
    >>> run_cells([[cell]], lambda cells: ({"seed": one.seed} for one in cells)).found[cell.key]
    {'seed': 3}
    """
    ran, wanted = Ran(), [cell for unit in units for cell in unit]
    for cell in wanted:
        if store is not None and (known := store.get(cell)) is not None:
            ran.found[cell.key] = known
    todo = [[cell for cell in unit if cell.key not in ran.found] for unit in units]
    tell(name, len(ran.found), len(wanted))
    for cell, one in _each([unit for unit in todo if unit], work, store, workers):
        if isinstance(one, MissingDataset):
            ran.missing.append((cell, one))
        else:
            ran.found[cell.key] = one
            tell(name, len(ran.found), len(wanted))
    return ran


def _each(
    units: Sequence[Sequence[Cell]], work: Work, store: Store | None, workers: int
) -> Iterator[tuple[Cell, Found | MissingDataset]]:
    if workers <= 1:
        for unit in units:
            yield from _unit(unit, work, store)
        return
    # A fork would copy the threads' locks of numba and BLAS in whatever state they are.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_alone, unit, work, store) for unit in units]
        try:
            for job in as_completed(jobs):
                yield from job.result()
        finally:
            for job in jobs:
                job.cancel()


def _unit(cells: Sequence[Cell], work: Work, store: Store | None) -> Iterator[tuple[Cell, Found | MissingDataset]]:
    try:
        for cell, found in zip(cells, work(cells), strict=True):
            if store is not None:
                store.put(cell, found)
            yield cell, found
    except MissingDataset as error:
        yield cells[0], error


def _alone(cells: Sequence[Cell], work: Work, store: Store | None) -> list[tuple[Cell, Found | MissingDataset]]:
    with one_blas_thread(), at_most_threads(1):
        return list(_unit(cells, work, store))


@contextmanager
def progress() -> Iterator[Tell]:
    """Show a bar per name, on a terminal only, removed when done; call the result with name, done and total."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks = {}

        def tell(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done, total=total)

        yield tell


def add_options(parser: argparse.ArgumentParser, *, sizes: Iterable[str], at_once: str, folder: str) -> None:
    """Add the options of a study whose cells are kept in a folder: how much to run, and where it goes.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_options(parser, sizes=["quick"], at_once="splits", folder="frontier")
    >>> parser.parse_args(["--seeds", "3"]).seeds
    3
    """
    parser.add_argument("--size", choices=sizes, default="quick")
    parser.add_argument("--data", help="data sets, separated by commas")
    parser.add_argument("--seeds", type=_positive, help="number of seeds (default: that of the size)")
    parser.add_argument("--workers", type=int, default=1, help=f"{at_once} at once (default %(default)s)")
    parser.add_argument("-o", "--output", type=Path, default=Path(folder), help="folder (default %(default)s)")
    parser.add_argument("--only-write", action="store_true", help="run nothing; write the pages from existing results")


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("1 or more")
    return number
