"""The frontier: the gain of private federation by data, mechanism, noise and ε.

MovieLens, Jester and the eICU demo need TWOFOLD_DATA; a data set that is not there is left out and named. A run that
was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Final

import polars as pl

from studies.baselines.base import Tuned
from studies.case import load_case
from studies.frontier.fit import Bench, Row
from studies.frontier.page import all_results, markdown
from studies.frontier.release import Sums, prototype_factors, statistic_factors
from studies.frontier.settings import SIZES, DataSetting, Grid, Release, read_frontier
from studies.frontier.summary import BASELINES, SCHEMA
from studies.frontier.tables import promises
from studies.runner import Tell, add_options, progress, run_cells
from studies.store import Cell, Found, Store
from twofold.algorithms._jit import at_most_threads, one_blas_thread
from twofold.release.bilinear.layout import KINDS
from twofold.storage.files import write_whole

__all__ = ["EVERYTHING", "OURS", "Part", "cells", "main", "run", "table", "write"]

#: Our own models that need no mechanism: the entity alone, with public features, and all data in one place.
OURS: Final = ("alone", "public features", "pooled")
#: What figures do not depend on.
_WORDS: Final = ("title", "short", "headline", "releases", "seeds")


@dataclass(frozen=True, kw_only=True)
class Part:
    """The requested mechanisms and noises of a grid; None for all. Controls are always included."""

    mechanisms: tuple[str, ...] | None = None
    noises: tuple[str, ...] | None = None

    def has(self, mechanism: str, noise: str) -> bool:
        """Whether a private cell is requested.

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
    >>> [(one.system, one.options["noise"]) for one in cells(grid, grid.data[0], 5000)][-3:]
    [('gram', 'secure'), ('gram', 'own'), ('popularity', 'own')]
    """
    controls = [one for one in OURS if setting.features or one != "public features"]
    tuned = [one for scope in ("alone", "pooled") for one in BASELINES[setting.feedback][scope]]
    wanted = [_cell(grid, setting, seed, one, noise="none") for one in (*controls, *tuned)]
    wanted += [
        _cell(grid, setting, seed, one, noise="secure", epsilon=epsilon)
        for one in BASELINES[setting.feedback]["shared"]
        for epsilon in grid.size.epsilons
    ]
    for release in setting.releases:
        wanted += [
            _cell(grid, setting, seed, release.name, noise=noise, epsilon=epsilon, release=asdict(release))
            for noise, epsilon in _noises(grid, release)
            if part.has(release.name, noise)
        ]
    return wanted


def _cell(grid: Grid, setting: DataSetting, seed: int, system: str, **options: Any) -> Cell:
    """One mechanism under one noise with one ε on one split, or a control; without noise there is no ε."""
    return Cell(
        data=setting.case,
        system=system,
        options={"setting": _settings(grid, setting), **{key: value for key, value in options.items() if value}},
        seed=seed,
        feedback=setting.feedback,
        task="frontier",
    )


def _settings(grid: Grid, setting: DataSetting) -> dict[str, Any]:
    """The settings that figures depend on; other mechanisms do not matter."""
    record = {key: value for key, value in asdict(setting).items() if key not in _WORDS}
    plain: dict[str, Any] = json.loads(
        json.dumps({**record, "honest_share": grid.honest_share, "development": grid.development})
    )
    return plain


def _noises(grid: Grid, release: Release) -> Iterator[tuple[str, float | None]]:
    if release.mechanism in KINDS:
        yield "none", None
        yield "noise only", grid.noise_only
    for noise in release.noises:
        yield from ((noise, epsilon) for epsilon in grid.epsilons(noise))


def run(
    size: str,
    folder: Path,
    *,
    names: Sequence[str] | None = None,
    part: Part = EVERYTHING,
    seeds: int | None = None,
    workers: int = 1,
    tell: Tell = lambda _name, _done, _total: None,
) -> tuple[pl.DataFrame, list[str]]:
    """Run the missing cells of a size into a folder; return the tidy table of all cells, and the missing data.

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
    workers, tell
        As for `run_cells`; a split is one unit.
    """
    grid = read_frontier(size)
    wanted = list(grid.data) if names is None else [grid.of(name) for name in names]
    store = Store.open(folder, "frontier", size)
    units = [cells(grid, setting, seed, part) for setting in wanted for seed in grid.seeds(setting, seeds)]
    ran = run_cells(units, partial(_run_split, size), store=store, workers=workers, name="frontier", tell=tell)
    missing = {cell.options["setting"]["name"] for cell, _ in ran.missing}
    return table(store, grid), [one.name for one in wanted if one.name in missing]


def _run_split(size: str, cells: Sequence[Cell]) -> Iterator[Found]:
    """Run cells of one split on one thread."""
    grid = read_frontier(size)
    split = _Split(grid, grid.of(cells[0].options["setting"]["name"]), cells[0].seed)
    with one_blas_thread(), at_most_threads(1):
        for cell in cells:
            start = time.process_time()
            rows = split.rows(cell)
            yield {"rows": rows, "seconds": time.process_time() - start}


class _Split:
    """One split: loaded once, exact sums of one mechanism at a time."""

    def __init__(self, grid: Grid, setting: DataSetting, seed: int) -> None:
        self.grid, self.setting, self.seed = grid, setting, seed
        self._sums: Sums | None = None

    @cached_property
    def bench(self) -> Bench:
        return Bench(load_case(self.setting.case, self.seed), self.setting)

    def rows(self, cell: Cell) -> list[Row]:
        epsilon = cell.options.get("epsilon", math.inf)
        if cell.system in OURS:
            return self.bench.control(cell.system)
        if any(cell.system in names for names in BASELINES[self.setting.feedback].values()):
            return self.bench.scored(_tuned(self.grid.size.name, self.setting.name, cell.system, epsilon), epsilon)
        release = next(one for one in self.setting.releases if one.name == cell.system)
        if release.mechanism in KINDS:
            shared = statistic_factors(self._exact(release), cell.options["noise"], epsilon, seed=self.seed)
        else:
            shared = prototype_factors(self.bench.case, self.bench.plan, release, epsilon, seed=self.seed)
        return self.bench.federated(shared, features=release.features)

    def _exact(self, release: Release) -> Sums:
        if self._sums is None or self._sums.release != release:
            case, plan = self.bench.case, self.bench.plan
            self._sums = Sums(case=case, base=plan, release=release, honest_share=self.grid.honest_share)
        return self._sums


@cache
def _tuned(size: str, name: str, baseline: str, epsilon: float) -> Tuned:
    """Options of a baseline, tuned on the split of development; every seed of a process uses them."""
    grid = read_frontier(size)
    setting = grid.of(name)
    return Bench(load_case(setting.case, grid.development), setting).tune(baseline, epsilon)


def table(store: Store, grid: Grid) -> pl.DataFrame:
    """Every finished cell of these settings in one tidy table."""
    known = [_settings(grid, one) for one in grid.data]
    rows = [
        {**_columns(one["cell"]), "seconds": one["seconds"], **row}
        for one in store.all()
        if one["cell"]["task"] == "frontier" and one["cell"]["options"]["setting"] in known
        for row in one["rows"]
    ]
    return pl.DataFrame(rows, schema=SCHEMA).sort("data", "seed", "mechanism", "noise", "epsilon", maintain_order=True)


def _columns(cell: Found) -> Row:
    options = cell["options"]
    return {
        "data": options["setting"]["name"],
        "seed": cell["seed"],
        "mechanism": cell["system"],
        "noise": options["noise"],
        "epsilon": options.get("epsilon", math.inf),
    }


def write(frame: pl.DataFrame, grid: Grid, folder: Path) -> str:
    """Write the one Parquet, the Markdown with its plots and the HTML page; give the Markdown."""
    from studies.pages.frontier_report import frontier_page, pictures

    folder.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(folder / "frontier.parquet")
    results = all_results(frame, grid)
    drawn = pictures(results, promises(results, grid.honest_share))
    for name, picture in drawn.items():
        write_whole(folder / name, picture.encode())
    text = markdown(frame, grid, drawn)
    write_whole(folder / "frontier.md", text.encode())
    frontier_page(results, grid).write(folder / "frontier.html")
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print the page."""
    parser = argparse.ArgumentParser(prog="python -m studies frontier", description=__doc__)
    add_options(parser, sizes=SIZES, at_once="splits", folder="frontier")
    parser.add_argument("--mechanism", help="mechanisms, separated by commas")
    parser.add_argument("--noise", help="own or secure, or both separated by a comma (default)")
    asked = parser.parse_args(arguments)
    grid = read_frontier(asked.size)
    missing: list[str] = []
    if asked.only_write:
        frame = table(Store.open(asked.output, "frontier", asked.size), grid)
    else:
        with progress() as tell:
            frame, missing = run(
                asked.size,
                asked.output,
                names=_listed(asked.data),
                part=Part(mechanisms=_listed(asked.mechanism), noises=_listed(asked.noise)),
                seeds=asked.seeds,
                workers=asked.workers,
                tell=tell,
            )
    for name in missing:
        sys.stderr.write(f"{name} was left out: its data is not here\n")
    sys.stdout.write(write(frame, grid, asked.output))


def _listed(text: str | None) -> tuple[str, ...] | None:
    return tuple(text.split(",")) if text else None
