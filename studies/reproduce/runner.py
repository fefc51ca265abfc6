"""Run figures: only the cells that are not there yet, one data set after the other, each kept as soon as it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.reproduce.cell import Cell
from studies.reproduce.figures import Figure
from studies.reproduce.judge import judge
from studies.reproduce.measuring import installed_system, run_cell
from studies.reproduce.results import Results, tidy
from studies.reproduce.store import Store
from studies.reproduce.verdicts import Verdict
from twofold.algorithms._jit import at_most_threads, one_blas_thread
from twofold.errors import BadParameter, MissingDataset

__all__ = ["Outcome", "run_figures"]

Progress = Callable[[str, int, int], object]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one figure.

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
    tell: Progress = lambda _phase, _done, _total: None,
) -> list[Outcome]:
    """Run some figures into a folder; what the folder has already is not run again.

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
    workers : int
        Cells at once. Several make each run on one thread; the numbers do not depend on it.
    tell : function
        Called with a figure's name, how many cells are done, of how many.

    Examples
    --------
    >>> import tempfile
    >>> from studies.reproduce.figures import figure
    >>> run_figures([figure("fig1a")], size="tiny", folder=Path(tempfile.gettempdir()))
    Traceback (most recent call last):
    twofold.errors.BadParameter: this size is not known...
    """
    if seeds is not None and seeds < 1:
        raise BadParameter("seeds is out of range.", found=f"{seeds}", expected="1 or more")
    wanted = {one.name: one.cells(size, seeds=seeds) for one in figures}  # refuses a wrong size before any folder
    store = Store.open(folder, size)
    outcomes: list[Outcome] = []
    for one in figures:
        try:
            found = _run_cells(one.name, wanted[one.name], store, workers, tell)
        except MissingDataset as error:
            if all(outcome.results is None for outcome in outcomes) and one is figures[-1]:
                raise
            outcomes.append(Outcome(figure=one, results=None, missing=str(error)))
            continue
        frame, notes = tidy(one, size, found, seeds=seeds)
        results = Results(figure=one, size=size, frame=frame, notes=notes)
        frame.write_parquet(folder / f"{one.name}.parquet")
        outcomes.append(Outcome(figure=one, results=results, verdicts=judge(results)))
    return outcomes


def _run_cells(
    name: str, cells: Sequence[Cell], store: Store, workers: int, tell: Progress
) -> dict[str, dict[str, Any]]:
    """What every cell gave, by key; cells of libraries that are not installed are left out."""
    found = {cell.key: one for cell in cells if (one := store.get(cell)) is not None}
    todo = [cell for cell in cells if cell.key not in found and installed_system(cell.system)]
    done, total = len(cells) - len(todo), len(cells)
    tell(name, done, total)
    for cell, one in _each(todo, workers):
        store.put(cell, one)
        found[cell.key] = one
        done += 1
        tell(name, done, total)
    return found


def _each(cells: Sequence[Cell], workers: int) -> Any:
    if workers <= 1:
        yield from ((cell, run_cell(cell)) for cell in cells)
        return
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        jobs = {pool.submit(_alone, cell): cell for cell in cells}
        try:
            yield from ((jobs[job], job.result()) for job in as_completed(jobs))
        finally:
            for job in jobs:
                job.cancel()


def _alone(cell: Cell) -> dict[str, Any]:
    with at_most_threads(1):
        return run_cell(cell)
