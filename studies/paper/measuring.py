"""Run one cell: fit a system and measure it, or judge released prototypes by their k-means objective."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from studies.as_published import prototypes_as_recorded
from studies.case import Case, load_case
from studies.related.registry import RELATED
from studies.store import Cell
from studies.systems import Fitted, system
from studies.systems.peers import PEERS, installed
from studies.systems.synthetic_rows import synthesizer_installed
from twofold import __version__
from twofold.errors import BadParameter
from twofold.evaluation.measure import measure
from twofold.evaluation.rmse import rmse_per_entity_mean, rmse_pooled
from twofold.evaluation.summary import summarize
from twofold.release import PRIVATE, ReleaseParameters
from twofold.release.cells import centres
from twofold.release.choose import resolve

__all__ = ["SYSTEMS", "installed_system", "objective_rows", "run_cell", "versions"]

#: Metric, group of entities ("all", "quarter 1", "entity 5"), value, and an interval over users where there is one.
Row = tuple[str, str, float, float | None, float | None]
Floats = NDArray[np.float64]
_CELLS: Final = 4_000_000  # scores at once: 16 MB
_RESAMPLES: Final = 200
_RANKING: Final = ("ladder-secure", "synthetic-rows")
_RANKS: Final = ("mean_rank", "mean_rank_unseen", "ndcg")
_PER_ENTITY: Final = ("mean_rank", "rmse_pooled")


def run_cell(cell: Cell) -> dict[str, Any]:
    """The result of a cell as plain JSON: rows of measures, seconds, versions and a note.

    Seconds are on the clock and of the processor, all threads together. The first cell of a data set in a process also
    loads or draws the data.

    Examples
    --------
    >>> data = {"source": "hospitals", "scale": 0.001}
    >>> found = run_cell(Cell(data=data, system="popularity-own", options={}, seed=0))
    >>> [row[0] for row in found["rows"] if row[1] == "all"][:2]
    ['ndcg', 'rmse_pooled']
    """
    start, worked = time.perf_counter(), _worked()
    case = load_case(cell.data, cell.seed)
    loaded = time.perf_counter()
    if cell.task == "objective":
        rows, note = list(objective_rows(cell, case)), ""
        fitted_after = time.perf_counter() - loaded
    else:
        fitted = system(cell.system, **cell.options).fit(case.train, feedback=cell.feedback, seed=cell.seed)
        fitted_after = time.perf_counter() - loaded
        rows, note = list(_rows(cell, case, fitted)), fitted.note
    return {
        "rows": [row for row in rows if math.isfinite(row[2])],
        "note": note,
        "seconds": round(time.perf_counter() - start, 3),
        "seconds_to_fit": round(fitted_after, 3),
        "cpu_seconds": round(_worked() - worked, 3),
        "versions": versions(),
    }


def _worked() -> float:
    """Seconds of the processor, of this process and of programs it ran: the synthesizer is one."""
    return sum(os.times()[:4])


def installed_system(name: str) -> bool:
    """Whether a system can run here: false for a library that is not installed.

    Examples
    --------
    >>> installed_system("pooled")
    True
    """
    if name == "synthetic-rows":
        return synthesizer_installed()
    return name not in PEERS or installed(name)


@cache
def versions() -> dict[str, str]:
    """Versions behind the results.

    Examples
    --------
    >>> {"python", "twofold", "numpy"} <= set(versions())
    True
    """
    found = {"python": platform.python_version(), "twofold": __version__}
    for name in ("numpy", "scipy", "numba", "polars", *PEERS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _rows(cell: Cell, case: Case, fitted: Fitted) -> Iterator[Row]:
    if case.test is not None:
        yield from _held_out(cell, case, fitted)
        if _predicts(cell):
            yield from _fitted_to(case, fitted)
    else:
        yield from _whole(case, fitted)
    yield from _cost(fitted)


def _predicts(cell: Cell) -> bool:
    """Exclude the RMSE of models that only rank: preferences near 0 and 1 of other libraries, and logarithms."""
    if cell.system in _RANKING:
        return False
    return cell.system not in PEERS or (cell.feedback == "ratings" and cell.system != "implicit")


def _held_out(cell: Cell, case: Case, fitted: Fitted) -> Iterator[Row]:
    if case.test is None:
        raise BadParameter("this data set holds nothing out.")
    metrics = ("rmse", "mean_rank", "mean_rank_unseen", "ndcg") if _predicts(cell) else _RANKS
    measured = {
        label: measure(
            lambda rows, label=label: fitted.scores(label, rows),  # type: ignore[misc]
            train.matrix,
            case.test[label].matrix,
            feedback=cell.feedback,
            metrics=metrics,
            lower=case.lower,
            bound=case.bound,
        )
        for label, train in case.train.items()
    }
    for row in summarize(measured, resamples=_RESAMPLES, rng=cell.seed).iter_rows(named=True):
        if row["value"] is not None and (row["scope"] != "entity" or row["metric"] in _PER_ENTITY):
            group = "all" if row["scope"] == "all" else f"{row['scope']} {row['name']}"
            yield row["metric"], group, row["value"], row["low"], row["high"]


def _fitted_to(case: Case, fitted: Fitted) -> Iterator[Row]:
    """Error over the entries that were fitted; entries only, as recorded."""
    squares, entries = [], []
    for label, ratings in case.train.items():
        total = 0.0
        for rows in _blocks(ratings.matrix):
            owners = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
            found = np.clip(fitted.scores(label, rows)[owners, rows.indices], case.lower, case.bound)
            total += float(((found.astype(np.float64) - rows.data) ** 2).sum())
        squares.append(total)
        entries.append(ratings.n_entries)
    yield "rmse_train_pooled", "all", float(rmse_pooled(squares, entries)), None, None
    yield "rmse_train_per_entity_mean", "all", float(rmse_per_entity_mean(squares, entries)), None, None


def _whole(case: Case, fitted: Fitted) -> Iterator[Row]:
    """Error over the whole table, zeros included, and the expected error on a fresh draw of the same rates."""
    table, fresh, place = 0.0, 0.0, 0
    for label, ratings in case.train.items():
        for rows in _blocks(ratings.matrix):
            found = fitted.scores(label, rows).astype(np.float64)
            table += float(((found - rows.toarray()) ** 2).sum())
            if case.rates is not None:
                rates = case.rates(slice(place, place + rows.shape[0]))
                fresh += float(((found - rates) ** 2 + rates).sum())  # a Poisson count varies by its rate
            place += rows.shape[0]
    cells = case.train.n_users * len(case.train.catalog)
    yield "rmse_table", "all", math.sqrt(table / cells), None, None
    if case.rates is not None:
        yield "rmse_fresh", "all", math.sqrt(fresh / cells), None, None


def _cost(fitted: Fitted) -> Iterator[Row]:
    yield "rounds", "all", float(fitted.rounds), None, None
    yield "bytes_up", "all", float(fitted.bytes_up), None, None
    yield "bytes_down", "all", float(fitted.bytes_down), None, None
    yield "megabytes", "all", (fitted.bytes_up + fitted.bytes_down) / 1e6, None, None
    yield "epsilon_paid", "all", math.nan if fitted.epsilon is None else fitted.epsilon, None, None


def _blocks(matrix: Any) -> Iterator[Any]:
    step = max(1, _CELLS // matrix.shape[1])
    for start in range(0, matrix.shape[0], step):
        yield matrix[start : start + step]


#: What can be judged: mechanisms of the registry, one exact mean, and the published variant.
SYSTEMS: Final = ("auto", *PRIVATE, *RELATED, "kmeans", "random", "one-mean", "as-published")
#: A Poisson count of mean 1 is above 5 once in 1,700 draws.
_BOUND: Final = 5


def objective_rows(cell: Cell, case: Case) -> Iterator[Row]:
    """Objective of released centres over the whole table, absolute and as a multiple of that of one exact mean.

    Paper
    -----
    Supplement, Experiment 1. All users are one entity there.

    Examples
    --------
    >>> from studies.case import load_case
    >>> data = {"source": "synthetic", "n_users": 40, "n_items": 6, "rank": 2, "n_entities": 1}
    >>> cell = Cell(data=data, system="one-mean", options={}, seed=0, task="objective")
    >>> [row[:3] for row in objective_rows(cell, load_case(data, 0)) if row[0] == "objective_ratio"]
    [('objective_ratio', 'all', 1.0)]
    """
    everybody = _everybody(case)
    found = _centres(cell, everybody)
    best, used = _judged(everybody.rows, found)
    single = everybody.single
    yield "objective", "all", best, None, None
    yield "objective_ratio", "all", best / single, None, None
    yield "centres", "all", float(len(np.unique(found.round(9), axis=0))), None, None
    yield "centres_used", "all", float(used), None, None


@dataclass(frozen=True, kw_only=True)
class _Everybody:
    """What all cells of one data set share: its rows, the bounded ones, one exact mean and its objective."""

    rows: Any
    bounded: Any
    mean: Floats
    single: float


@lru_cache(maxsize=1)
def _everybody(case: Case) -> _Everybody:
    rows = case.train.pooled().matrix
    bounded = rows.copy()
    bounded.data = np.minimum(bounded.data, _BOUND)
    mean = _mean(rows)
    return _Everybody(rows=rows, bounded=bounded, mean=mean, single=_judged(rows, mean)[0])


def _centres(cell: Cell, everybody: _Everybody) -> Floats:
    rows, count, options = everybody.rows, int(cell.options.get("n_prototypes", 1)), dict(cell.options)
    if cell.system == "one-mean":
        return everybody.mean
    if cell.system == "as-published":
        made = prototypes_as_recorded(rows, count, float(options["epsilon"]), rng=cell.seed)
        return made.value.centers
    public = ReleaseParameters(
        n_items=rows.shape[1],
        n_users=rows.shape[0],
        max_items=rows.shape[1],
        bound=_BOUND,
        n_prototypes=count,
        epsilon=options.get("epsilon", 1),
        delta=options.get("delta", 0),
        seed=cell.seed,
    )
    chosen = RELATED[cell.system] if cell.system in RELATED else resolve(cell.system, public).mechanism
    message = chosen.release(everybody.bounded, public, rng=cell.seed).value
    return np.asarray(centres(message, public), dtype=np.float64)


def _mean(rows: Any) -> Floats:
    """The exact mean of everybody, summed in double precision."""
    sums = np.bincount(rows.indices, weights=rows.data.astype(np.float64), minlength=rows.shape[1])
    return np.asarray(sums / rows.shape[0]).reshape(1, -1)


def _judged(rows: Any, found: Floats) -> tuple[float, int]:
    """Sum of squared distances to the nearest centre, and how many centres are nearest to anybody."""
    total, used = 0.0, np.zeros(len(found), np.bool_)
    step = max(1, _CELLS // max(rows.shape[1], len(found)))
    for start in range(0, rows.shape[0], step):
        block = rows[start : start + step].toarray().astype(np.float64)
        squares = (block**2).sum(axis=1)[:, None] - 2 * block @ found.T + (found**2).sum(axis=1)
        used[np.unique(squares.argmin(axis=1))] = True
        total += float(np.maximum(squares.min(axis=1), 0.0).sum())
    return total, int(used.sum())
