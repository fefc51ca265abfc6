"""Run cells of the frontier: one split after another, what does not depend on ε only once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from studies._frontier_data import load_case
from studies._frontier_fit import Bench, Row
from studies._frontier_release import Sums, prototype_factors, statistic_factors
from studies._frontier_settings import DataSetting, Grid, Release, read_frontier
from studies._frontier_store import Cell, Store
from twofold.algorithms._jit import at_most_threads, one_blas_thread
from twofold.errors import MissingDataset
from twofold.release.bilinear.layout import KINDS

__all__ = ["CONTROLS", "EVERYTHING", "Part", "cells", "run_all", "run_unit"]

#: Ways to do without anything shared, and all data in one place; not cells of a mechanism.
CONTROLS = ("alone", "own popularity", "public features", "pooled")

Tell = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Part:
    """Which mechanisms and noises of a grid are asked for; None: all. Controls are always part of it."""

    mechanisms: tuple[str, ...] | None = None
    noises: tuple[str, ...] | None = None

    def has(self, mechanism: str, noise: str) -> bool:
        """Whether a private cell is asked for.

        Examples
        --------
        >>> Part(noises=("own",)).has("gram", "secure"), Part().has("gram", "own")
        (False, True)
        """
        named = self.mechanisms is None or mechanism in self.mechanisms
        return named and (self.noises is None or noise not in ("own", "secure") or noise in self.noises)


EVERYTHING: Final = Part()


def cells(grid: Grid, setting: DataSetting, seed: int, part: Part = EVERYTHING) -> list[Cell]:
    """Every cell of one split: controls, then each mechanism without noise, with noise only, and private.

    Examples
    --------
    >>> grid = read_frontier("tiny")
    >>> [one.key.split(".", 2)[2] for one in cells(grid, grid.data[0], 5000)][-3:]
    ['gram.secure.1', 'gram.own.1', 'popularity.own.1']
    """
    controls = [one for one in CONTROLS if setting.features or one != "public features"]
    wanted = [Cell(data=setting.name, seed=seed, mechanism=one) for one in controls]
    for release in setting.releases:
        wanted += [
            Cell(data=setting.name, seed=seed, mechanism=release.name, noise=noise, epsilon=epsilon)
            for noise, epsilon in _noises(grid, release)
            if part.has(release.name, noise)
        ]
    return wanted


def run_unit(size: str, name: str, seed: int, folder: Path, part: Part, tell: Tell) -> int:
    """Run what is missing of one split, on one thread; give the number of cells run.

    Parameters
    ----------
    size, name : str
        Of the grid and of the data.
    seed : int
        Of the split.
    folder : Path
        Where cells are kept.
    part : Part
        Only these mechanisms and noises.
    tell : function
        Called with a line of text after each cell.
    """
    grid = read_frontier(size)
    setting, store = grid.of(name), Store(folder, grid)
    todo = [one for one in cells(grid, setting, seed, part) if store.get(one) is None]
    if not todo:
        return 0
    with one_blas_thread(), at_most_threads(1):
        unit = _Unit(grid, setting, seed)
        for cell in todo:
            start = time.process_time()
            rows = unit.rows(cell)
            seconds = time.process_time() - start
            store.put(cell, [{**row, "seconds": seconds} for row in rows])
            tell(f"{cell.key}: {seconds:.1f} s of processor time")
    return len(todo)


def run_all(
    size: str,
    folder: Path,
    *,
    names: Sequence[str],
    seeds: Sequence[int],
    part: Part = EVERYTHING,
    workers: int = 1,
    tell: Tell = lambda _line: None,
) -> list[str]:
    """Run several data sets and seeds, splits in parallel processes; give the data sets that are not there.

    Figures do not depend on the number of workers.
    """
    units = [(name, seed) for name in names for seed in seeds]
    missing: set[str] = set()
    for name, found in _each(size, units, folder, part, workers, tell):
        if isinstance(found, str):
            missing.add(name)
            tell(f"{name}: {found.splitlines()[0]}")
    return [name for name in names if name in missing]


def _each(
    size: str,
    units: Sequence[tuple[str, int]],
    folder: Path,
    part: Part,
    workers: int,
    tell: Tell,
) -> Iterator[tuple[str, int | str]]:
    if workers <= 1:
        yield from ((name, _guarded(size, name, seed, folder, part, tell)) for name, seed in units)
        return
    # A fork would copy the threads' locks of numba and BLAS in whatever state they are.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(_guarded, size, name, seed, folder, part, _say): (name, seed) for name, seed in units}
        try:
            for job in as_completed(jobs):
                tell(f"{jobs[job][0]}, seed {jobs[job][1]}: done")
                yield jobs[job][0], job.result()
        finally:
            for job in jobs:
                job.cancel()


def _guarded(size: str, name: str, seed: int, folder: Path, part: Part, tell: Tell) -> int | str:
    try:
        return run_unit(size, name, seed, folder, part, tell)
    except MissingDataset as error:
        return str(error)


def _say(_line: str) -> None:
    """Say nothing from inside a worker; the parent tells when a split is done."""


class _Unit:
    """One split: loaded once, exact sums of one mechanism at a time."""

    def __init__(self, grid: Grid, setting: DataSetting, seed: int) -> None:
        self.grid, self.setting, self.seed = grid, setting, seed
        self._sums: Sums | None = None

    @cached_property
    def bench(self) -> Bench:
        return Bench(load_case(self.setting, self.seed))

    def rows(self, cell: Cell) -> list[Row]:
        if cell.mechanism in CONTROLS:
            return self.bench.control(cell.mechanism)
        release = next(one for one in self.setting.releases if one.name == cell.mechanism)
        if release.mechanism in KINDS:
            shared = statistic_factors(self._exact(release), cell.noise, cell.epsilon, seed=self.seed)
        else:
            shared = prototype_factors(self.bench.case, release, cell.epsilon, seed=self.seed)
        return self.bench.federated(shared, features=release.features)

    def _exact(self, release: Release) -> Sums:
        if self._sums is None or self._sums.release != release:
            self._sums = Sums(case=self.bench.case, release=release, honest_share=self.grid.honest_share)
        return self._sums


def _noises(grid: Grid, release: Release) -> Iterator[tuple[str, float]]:
    if release.mechanism in KINDS:
        yield "none", math.inf
        yield "noise only", grid.noise_only
    for noise in release.noises:
        yield from ((noise, epsilon) for epsilon in grid.size.epsilons)
