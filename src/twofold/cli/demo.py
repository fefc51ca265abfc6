"""`twofold demo`: a simulated federation, from data to a table, with no data of your own."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from twofold.algorithms import fold_in, masked_nmf
from twofold.cli._columns import Json
from twofold.data.bounds import Bounds, BoundsReport
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.data.sources import hospitals
from twofold.data.split import Split, holdout
from twofold.evaluate.mean_rank import mean_rank

__all__ = ["demo"]

Floats = npt.NDArray[np.floating[Any]]

RANK = 12
GROUPS = ("smallest", "second", "third", "largest")
NOTE = (
    "The last four columns are the mean rank of held-out entries among the items a patient has not had: 0 is the top "
    "of the list, 0.5 is chance. Common: the same list for all, by what is common everywhere, or here. Alone: a model "
    "of the hospital's own patients. Pooled: one set of item factors from everybody's raw data, which is not allowed.\n"
    "These hospitals differ in patients, habits and formulary, as real ones do. So one model for all does not replace "
    "what each knows alone: sharing has to add to it. Nothing has left a hospital in this demo."
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One group of hospitals in the demo's table."""

    group: str
    hospitals: int
    patients: int
    entries_per_patient: float
    mass_kept: float
    common_everywhere: float
    common_here: float
    alone: float
    pooled: float


def demo(
    patients: Annotated[int, typer.Option(min=400, help="Simulated patients over all hospitals.")] = 9_000,
    n_hospitals: Annotated[int, typer.Option("--hospitals", min=4, help="Simulated hospitals.")] = 24,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation and the split.")] = 7,
    json: Json = False,
) -> None:
    """Simulate hospitals, bound, split, and compare what each has alone with what pooling would give."""
    with _progress(n_hospitals + 3) as steps:
        federation = hospitals.simulate(n_patients=patients, n_hospitals=n_hospitals, rng=seed).federation
        next(steps)
        bounded = {name: Bounds(bound=5, max_items=60).apply(ratings) for name, ratings in federation.items()}
        split = holdout(Federation({name: ratings for name, (ratings, _) in bounded.items()}), rng=seed)
        next(steps)
        lines = _compare(split, {name: report for name, (_, report) in bounded.items()}, seed, steps)
    if json:
        typer.echo(jsonlib.dumps([asdict(line) for line in lines], indent=2))
    else:
        _print(federation, lines)


def _compare(split: Split[Federation], cuts: dict[str, BoundsReport], seed: int, steps: Iterator[None]) -> list[Line]:
    train = split.train.pooled()
    popularity = _popularity(train)
    _, shared = masked_nmf(train.matrix, rank=RANK, feedback="counts", rng=seed)
    next(steps)
    scores = {}
    for name, ratings in split.train.items():
        scores[name] = _hospital(ratings, split.test[name], popularity, shared, seed)
        next(steps)
    order = sorted(split.train, key=lambda name: split.train[name].n_users)
    quarters = np.array_split(np.array(order, dtype=object), len(GROUPS))
    return [_line(group, list(names), split, cuts, scores) for group, names in zip(GROUPS, quarters, strict=True)]


def _hospital(train: Ratings, test: Ratings, popularity: Floats, shared: Floats, seed: int) -> tuple[float, ...]:
    """Mean rank of one hospital's held-out entries by each way to recommend, in the order of the table."""
    own_users, own_items = masked_nmf(train.matrix, rank=RANK, feedback="counts", rng=seed)
    users = fold_in(train.matrix, shared, feedback="counts")
    everyone = np.ones((train.n_users, 1), dtype=np.float32)
    pairs = ((everyone, popularity), (everyone, _popularity(train)), (own_users, own_items), (users, shared))
    return tuple(mean_rank(u, v, test.matrix, seen=train.matrix) for u, v in pairs)


def _popularity(ratings: Ratings) -> Floats:
    return np.asarray(ratings.matrix.sum(axis=0), dtype=np.float32)[:, None]


def _line(
    group: str,
    names: list[str],
    split: Split[Federation],
    cuts: dict[str, BoundsReport],
    scores: dict[str, tuple[float, ...]],
) -> Line:
    users = np.array([split.train[name].n_users for name in names])
    entries = sum(split.train[name].n_entries + split.test[name].n_entries for name in names)
    held = np.array([split.test[name].matrix.sum() for name in names])
    means = np.average([scores[name] for name in names], axis=0, weights=held)
    return Line(
        group=group,
        hospitals=len(names),
        patients=int(users.sum()),
        entries_per_patient=entries / int(users.sum()),
        mass_kept=float(np.average([cuts[name].mass_kept for name in names], weights=users)),
        common_everywhere=float(means[0]),
        common_here=float(means[1]),
        alone=float(means[2]),
        pooled=float(means[3]),
    )


def _print(federation: Federation, lines: Iterable[Line]) -> None:
    console = Console()
    console.print(f"{federation!r}", highlight=False)
    table = Table(title="Simulated hospitals by size", box=box.SIMPLE_HEAD, pad_edge=False)
    names = ("hospitals", "patients", "entries\neach", "mass\nkept", "common\neverywhere", "common\nhere")
    for name in (*names, "alone", "pooled"):
        table.add_column(name, justify="left" if name == "hospitals" else "right", no_wrap=True)
    for line in lines:
        means = (line.common_everywhere, line.common_here, line.alone, line.pooled)
        ranks = (f"{value:.4f}" for value in means)
        sizes = (f"{line.patients:,}", f"{line.entries_per_patient:.0f}", f"{line.mass_kept:.0%}")
        table.add_row(f"{line.hospitals} {line.group}", *sizes, *ranks)
    console.print(table)
    console.print(NOTE, highlight=False)


@contextmanager
def _progress(total: int) -> Iterator[Iterator[None]]:
    """A bar on a terminal, silence elsewhere; each `next` is one step."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("simulating hospitals", total=total)

        def steps() -> Iterator[None]:
            while True:
                progress.advance(task)
                yield

        yield steps()
