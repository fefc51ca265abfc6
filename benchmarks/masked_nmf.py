"""Masked NMF against cmfrec, LIBMF and LensKit: time to a given objective, time per iteration, memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import _peers
from benchmarks._rows import movielens_rows
from benchmarks.table import Table, versions
from twofold.algorithms import masked_nmf

PENALTY, CLOSE = 0.1, 1.005
Fit = Callable[[int, int], _peers.Factors]  # iterations, threads
NOTE = (
    "Same entries, same objective (squared errors + 0.1 n_u |u|² + 0.1 n_i |v|²), float32. Goal: within 0.5% of the "
    "lowest objective found (100 iterations of ours from two starts). A peer's row is one run of "
    "just enough iterations to get there, to about 10%; ours ends itself by a callback. Times include "
    "reading the sparse matrix and making its transpose."
)


def run(*, quick: bool) -> list[Table]:
    """Ranks 20 and 50 on MovieLens 1M with the paper's split."""
    title, rows = movielens_rows(quick=quick)
    train, test = _peers.held_out(rows)
    ranks = (5,) if quick else (20, 50)
    goals = [_to_goal(train, test, rank) for rank in ranks]
    used = versions("numpy", "numba", "cmfrec", "libmf", "lenskit")
    columns = (
        "rank",
        "program",
        "iterations",
        "CPU s, 1 thread",
        "ratio",
        "wall s, 2 threads",
        "test RMSE",
        "extra MB",
    )
    return [
        Table(
            title=f"Masked NMF to within 0.5% of the best objective, {title}",
            columns=columns,
            rows=[row for rows in goals for row in rows],
            note=f"{train.nnz:,} entries. {NOTE} Ratio: its CPU seconds over ours. {used}",
        ),
        _per_iteration(train, ranks, title),
    ]


def _to_goal(X: sp.csr_array, test: Any, rank: int) -> list[list[object]]:
    ours = functools.partial(masked_nmf, X, rank, regularization=PENALTY)
    ours(max_iterations=1)  # compile
    goal = CLOSE * min(
        _peers.objective(X, ours(rng=seed, max_iterations=100, tolerance=1e-7), PENALTY) for seed in range(2)
    )
    own = _ours_row(X, test, rank, ours, goal)
    peers = {"cmfrec": (_peers.cmfrec_fit, 8), "libmf.mf": (_peers.libmf_fit, 32)}
    rows = [own]
    for module, (fit, first) in peers.items():
        name = module.split(".")[0]
        if not _peers.installed(module):
            rows.append([rank, name, "not installed", *[""] * 5])
            continue
        job = functools.partial(fit, X, rank, PENALTY)
        rows.append(_peer_row(X, test, rank, name, job, goal, first, float(own[3])))
    return rows


def _ours_row(X: sp.csr_array, test: Any, rank: int, ours: Any, goal: float) -> list[object]:
    def once(threads: int) -> Any:
        return ours(threads=threads, callback=lambda _, now: now <= goal, return_info=True)

    runs = [_peers.clocked(lambda: once(1)) for _ in range(5)]
    wall = min(_peers.clocked(lambda: once(2))[1] for _ in range(3))
    fit = runs[0][2]
    factors = (fit.user_factors, fit.item_factors)
    assert _peers.objective(X, factors, PENALTY) <= goal * (1 + 1e-6), "the stated objective is the true one"
    memory = _peers.extra_megabytes(lambda: once(1))
    cpu = min(run[0] for run in runs)
    return [rank, "twofold", fit.iterations, cpu, 1.0, wall, f"{_peers.rmse(test, factors):.4f}", memory]


def _peer_row(
    X: sp.csr_array, test: Any, rank: int, name: str, fit: Fit, goal: float, first: int, ours: float
) -> list[object]:
    found = _first_to_reach(lambda n: _peers.clocked(lambda: fit(n, 1)), X, goal, first)
    if found is None:
        return [rank, name, f"not in {8 * first}", *[""] * 5]
    needed, cpu, factors = found
    wall = _peers.clocked(lambda: fit(needed, 2))[1]
    memory = _peers.extra_megabytes(lambda: fit(max(needed // 8, 1), 1))
    return [rank, name, needed, cpu, cpu / ours, wall, f"{_peers.rmse(test, factors):.4f}", memory]


def _first_to_reach(
    timed: Callable[[int], tuple[float, float, _peers.Factors]], X: sp.csr_array, goal: float, first: int
) -> tuple[int, float, _peers.Factors] | None:
    """Iterations, CPU seconds and factors of a run that just reaches the goal.

    The distance to the best objective falls about geometrically, so two runs tell where to look; from there on
    in steps of a tenth.
    """
    best = goal / CLOSE
    gaps = []
    for n in (first, 2 * first):
        cpu, _, factors = timed(n)
        gaps.append(_peers.objective(X, factors, PENALTY) / best - 1)
        if gaps[-1] <= CLOSE - 1:
            return n, cpu, factors
    rate = np.log(gaps[1] / gaps[0]) / first
    n = int(2 * first + np.log((CLOSE - 1) / gaps[1]) / rate) if rate < 0 else 3 * first
    while n <= 8 * first:
        cpu, _, factors = timed(n)
        if _peers.objective(X, factors, PENALTY) <= goal:
            return n, cpu, factors
        n += max(1, n // 10)
    return None


def _per_iteration(X: sp.csr_array, ranks: tuple[int, ...], title: str) -> Table:
    rows = []
    for rank in ranks:
        jobs: dict[str, Callable[[int], object] | None] = {
            "twofold, exact": functools.partial(_ours, X, rank),
            "cmfrec": _if("cmfrec", lambda n, k=rank: _peers.cmfrec_fit(X, k, PENALTY, n, 1)),
            "libmf, one epoch": _if("libmf.mf", lambda n, k=rank: _peers.libmf_fit(X, k, PENALTY, n, 1)),
            "LensKit, signed": _if("lenskit", lambda n, k=rank: _peers.lenskit_fit(X, k, PENALTY, n)),
        }
        ours = 0.0
        for name, job in jobs.items():
            if job is None:
                rows.append([rank, name, "not installed", ""])
                continue
            milliseconds = _slope(job)
            ours = ours or milliseconds
            rows.append([rank, name, milliseconds, milliseconds / ours])
    note = "CPU time of six iterations less that of two, over four: reading the data cancels out. Smallest of three."
    return Table(
        title=f"One iteration, both sides, {title}",
        columns=("rank", "program", "CPU ms", "ratio"),
        rows=rows,
        note=note,
    )


def _ours(X: sp.csr_array, rank: int, iterations: int) -> object:
    return masked_nmf(X, rank, regularization=PENALTY, max_iterations=iterations, tolerance=0.0, threads=1)


def _if(module: str, job: Callable[[int], object]) -> Callable[[int], object] | None:
    return job if _peers.installed(module) else None


def _slope(job: Callable[[int], object]) -> float:
    short, long = (min(_peers.clocked(lambda n=n: job(n))[0] for _ in range(3)) for n in (2, 6))
    return float(np.maximum(long - short, 0.0) * 1000 / 4)
