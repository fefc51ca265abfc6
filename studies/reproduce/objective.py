"""Experiment 1: how well a set of released prototypes clusters the rows they come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from studies.as_published import prototypes_as_recorded
from studies.reproduce.cell import Cell, Row
from studies.reproduce.datasets import Case
from twofold.release import PRIVATE, ReleaseParameters, mechanism
from twofold.release.cells import centres

__all__ = ["SYSTEMS", "objective_rows"]

Floats = NDArray[np.float64]
_CELLS: Final = 4_000_000
#: What can be judged: mechanisms of the registry, one exact mean, and the published variant.
SYSTEMS: Final = ("auto", *PRIVATE, "kmeans", "random", "one-mean", "as-published")
#: A Poisson count of mean 1 is above 5 once in 1,700 draws.
_BOUND: Final = 5


def objective_rows(cell: Cell, case: Case) -> Iterator[Row]:
    """Objective of released centres over the whole table, absolute and as a multiple of that of one exact mean.

    Paper
    -----
    Supplement, Experiment 1. All users are one entity there.

    Examples
    --------
    >>> from studies.reproduce.datasets import load_case
    >>> data = {"source": "synthetic", "n_users": 40, "n_items": 6, "rank": 2, "n_entities": 1}
    >>> cell = Cell(data=data, system="one-mean", options={}, seed=0, task="objective")
    >>> [row[:3] for row in objective_rows(cell, load_case(data, 0)) if row[0] == "objective_ratio"]
    [('objective_ratio', 'all', 1.0)]
    """
    rows = case.train.pooled().matrix
    found = _centres(cell, rows)
    best, used = _judged(rows, found)
    mean = _mean(rows)
    single, _ = _judged(rows, mean)
    yield "objective", "all", best, None, None
    yield "objective_ratio", "all", best / single, None, None
    yield "centres", "all", float(len(np.unique(found.round(9), axis=0))), None, None
    yield "centres_used", "all", float(used), None, None


def _centres(cell: Cell, rows: Any) -> Floats:
    count, options = int(cell.options.get("n_prototypes", 1)), dict(cell.options)
    if cell.system == "one-mean":
        return _mean(rows)
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
        delta=0,
        seed=cell.seed,
    )
    bounded = rows.copy()
    bounded.data = np.minimum(bounded.data, _BOUND)
    message = mechanism(cell.system).release(bounded, public, rng=cell.seed).value
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
