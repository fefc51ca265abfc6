"""Ten best unseen items of every user against implicit's topk and a NumPy argpartition in blocks."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._rows import blas_threads, extra_megabytes, interleaved, movielens_rows
from benchmarks.table import Table, versions
from twofold.algorithms.top_items import top_items

OURS, IMPLICIT, NUMPY = "twofold", "implicit topk", "NumPy argpartition"
WHO = (OURS, IMPLICIT, NUMPY)
NOTE = (
    "Users per CPU second on one thread, seen items excluded, float32 factors, smallest time of several interleaved "
    "rounds. Ratio: twofold over implicit. Wall: users per second of the clock on two threads. "
    "Largest gap: between our scores and the peers' on the same lists. Extra MB: memory one call adds."
)


def run(*, quick: bool) -> list[Table]:
    """Several ranks at N = 10, and longer lists at rank 20."""
    title, seen = movielens_rows(quick=quick)
    cases = [(20, 10)] if quick else [(20, 10), (50, 10), (100, 10), (20, 100)]
    rows = [_row(seen, rank, n, quick) for rank, n in cases]
    columns = ("rank", "N", *WHO, "ratio", "wall, 2 threads", IMPLICIT, "largest gap", "extra MB", *WHO[1:])
    note = f"{seen.shape[0]:,} x {seen.shape[1]:,}. {NOTE} {versions('numpy', 'numba', 'implicit')}"
    return [Table(title=f"Top items, {title}", columns=columns, rows=rows, note=note)]


def _row(seen: Any, rank: int, n: int, quick: bool) -> list[object]:
    rng = np.random.default_rng(rank)
    U, V = (rng.gamma(1.0, 1.0, (size, rank)).astype(np.float32) for size in seen.shape)
    jobs = _jobs(U, V, n, seen)
    for job in jobs.values():
        job(2)  # compile, load, start threads
    single = _users_per_second(jobs, 1, time.process_time, len(U), quick)
    double = _users_per_second({k: v for k, v in jobs.items() if k != NUMPY}, 2, time.perf_counter, len(U), quick)
    ours = jobs[OURS](1)[1]
    gap = max(float(np.abs(job(1)[1] - ours).max()) for name, job in jobs.items() if name != OURS)
    memory = {name: extra_megabytes(functools.partial(job, 1)) for name, job in jobs.items()}
    ratio: object = single[OURS] / single[IMPLICIT] if IMPLICIT in single else "not installed"
    return [
        rank,
        n,
        *_cells(single, WHO),
        ratio,
        *_cells(double, (OURS, IMPLICIT)),
        gap,
        *_cells(memory, WHO),
    ]


def _jobs(U: np.ndarray, V: np.ndarray, n: int, seen: Any) -> dict[str, Callable[[int], Any]]:
    jobs: dict[str, Callable[[int], Any]] = {
        OURS: lambda threads: top_items(U, V, n, exclude=seen, threads=threads),
        NUMPY: lambda _: _by_argpartition(U, V, n, seen),
    }
    try:
        from implicit.cpu.topk import topk
    except ImportError:
        return jobs
    import scipy.sparse as sp

    matrix = sp.csr_matrix(seen)

    def theirs(threads: int) -> Any:
        with blas_threads(threads):  # or idle BLAS threads, waiting, are counted as its CPU time
            return topk(V, U, n, filter_query_items=matrix, num_threads=threads)

    jobs[IMPLICIT] = theirs
    return jobs


def _by_argpartition(U: np.ndarray, V: np.ndarray, n: int, seen: Any, block: int = 128) -> tuple[Any, Any]:
    """What one writes by hand: a block of scores, seen ones set to minus infinity, the n largest, sorted."""
    from twofold.algorithms._jit import one_blas_thread

    items, scores = np.empty((len(U), n), np.intp), np.empty((len(U), n), U.dtype)
    with one_blas_thread():
        for start in range(0, len(U), block):
            stop = min(len(U), start + block)
            values = U[start:stop] @ V.T
            first, last = seen.indptr[start], seen.indptr[stop]
            who = np.repeat(np.arange(stop - start), np.diff(seen.indptr[start : stop + 1]))
            values[who, seen.indices[first:last]] = -np.inf
            largest = np.argpartition(values, -n, axis=1)[:, -n:]
            order = np.argsort(-np.take_along_axis(values, largest, axis=1), axis=1)
            items[start:stop] = np.take_along_axis(largest, order, axis=1)
            scores[start:stop] = np.take_along_axis(values, items[start:stop], axis=1)
    return items, scores


def _users_per_second(
    jobs: dict[str, Callable[[int], Any]], threads: int, clock: Callable[[], float], n_users: int, quick: bool
) -> dict[str, float]:
    measures = {name: functools.partial(_seconds, job, threads, clock) for name, job in jobs.items()}
    best = interleaved(measures, rounds=2 if quick or threads > 1 else 4)
    return {name: n_users / seconds for name, seconds in best.items()}


def _seconds(job: Callable[[int], Any], threads: int, clock: Callable[[], float]) -> float:
    start = clock()
    job(threads)
    return clock() - start


def _cells(measured: dict[str, float], names: tuple[str, ...]) -> list[object]:
    return [f"{measured[name]:,.0f}" if name in measured else "not installed" for name in names]
