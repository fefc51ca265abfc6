"""k-means against scikit-learn's two algorithms, from the same starts, on one thread and on two."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._rows import blas_threads, dense_counts, extra_megabytes, interleaved, movielens_rows
from benchmarks.table import Table, versions
from twofold.algorithms.kmeans import kmeans, lloyd_step

LLOYD, ELKAN = "scikit-learn lloyd", "scikit-learn elkan"
WHO = ("twofold", LLOYD, ELKAN)
COLUMNS = ("clusters", "moves", "our lloyd_step", *WHO, "lloyd / ours", "elkan / ours")
MORE = ("2 threads: twofold", *WHO[1:], "inertia, best peer = 1", "extra MB", *WHO[1:])
NOTE = (
    "CPU ms of one call of lloyd_step, and CPU ms per move of the centers in a whole run of that many moves (fewer "
    "if it converges), checks and set-up included; float32, same starts, no tolerance, one thread, smallest of "
    "interleaved rounds. Then wall ms per move on two threads, one round. Extra MB: memory a run adds. Elkan's "
    "algorithm pays at the start and saves once centers hardly move; a private mechanism makes few moves, with noise."
)


def run(*, quick: bool) -> list[Table]:
    """Sparse rows, in short and long runs, and dense counts."""
    title, sparse = movielens_rows(quick=quick)
    cases = [(5, 3)] if quick else [(10, 5), (50, 5), (200, 5), (10, 40), (50, 40)]
    dense_cases = [(5, 3)] if quick else [(10, 5), (50, 5), (200, 5)]
    return [
        _table(f"k-means, {title}, sparse", sparse, cases, quick),
        _table("k-means, dense counts", dense_counts(quick=quick), dense_cases, quick),
    ]


def _table(title: str, X: Any, cases: list[tuple[int, int]], quick: bool) -> Table:
    rows = [_row(X, n_clusters, moves, quick) for n_clusters, moves in cases]
    note = f"{X.shape[0]:,} x {X.shape[1]:,}. {NOTE} {versions('numpy', 'scipy', 'numba', 'scikit-learn')}"
    return Table(title=title, columns=(*COLUMNS, *MORE), rows=rows, note=note)


def _row(X: Any, n_clusters: int, moves: int, quick: bool) -> list[object]:
    chosen = np.random.default_rng(1).choice(X.shape[0], n_clusters, replace=False)
    start = np.asarray(X[chosen].toarray() if sp.issparse(X) else X[chosen])
    fits: dict[str, Any] = {"twofold": functools.partial(_ours, X, start)}
    if _installed():
        fits |= {peer: functools.partial(_theirs, X, start, peer.split()[1]) for peer in (LLOYD, ELKAN)}
    inertia = {name: fit(2, threads=2)[1] for name, fit in fits.items()}  # compiles and starts threads, too
    rounds = 1 if quick else 3 if sp.issparse(X) else 2
    one_step = functools.partial(lloyd_step, X, start, threads=1)
    step = interleaved({"step": functools.partial(_milliseconds, one_step, time.process_time)}, rounds=rounds)
    single = _per_move(fits, moves, 1, time.process_time, rounds)
    double = _per_move(fits, moves, 2, time.perf_counter, 1)
    memory = {name: extra_megabytes(functools.partial(fit, 2, threads=1)) for name, fit in fits.items()}
    ratios = [single[peer] / single["twofold"] if peer in single else "not installed" for peer in (LLOYD, ELKAN)]
    quality = inertia["twofold"] / min(inertia.get(peer, float("inf")) for peer in (LLOYD, ELKAN))
    figures = [n_clusters, moves, step["step"], *_cells(single), *ratios, *_cells(double)]
    return [*figures, quality if _installed() else "not installed", *_cells(memory)]


def _per_move(
    fits: dict[str, Any], moves: int, threads: int, clock: Callable[[], float], rounds: int
) -> dict[str, float]:
    def measure(fit: Any) -> float:
        made: list[int] = []
        spent = _milliseconds(lambda: made.append(fit(moves, threads=threads)[0]), clock)
        return spent / max(1, made[0])

    return interleaved({name: functools.partial(measure, fit) for name, fit in fits.items()}, rounds=rounds)


def _milliseconds(job: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    job()
    return 1000 * (clock() - start)


def _ours(X: Any, start: np.ndarray, max_iter: int, *, threads: int) -> tuple[int, float]:
    result = kmeans(X, len(start), init=start, max_iter=max_iter, tol=0, threads=threads)
    return result.n_iter, result.inertia


def _theirs(X: Any, start: np.ndarray, algorithm: str, max_iter: int, *, threads: int) -> tuple[int, float]:
    from sklearn.cluster import KMeans

    peer = KMeans(len(start), init=start, n_init=1, max_iter=max_iter, tol=0, algorithm=algorithm)
    with warnings.catch_warnings(), blas_threads(threads):
        warnings.simplefilter("ignore")  # stopping before convergence is what we ask for
        peer.fit(X)
    return peer.n_iter_, peer.inertia_


@functools.cache
def _installed() -> bool:
    try:
        import sklearn.cluster  # noqa: F401
    except ImportError:
        return False
    return True


def _cells(measured: dict[str, float]) -> list[object]:
    return [measured.get(name, "not installed") for name in WHO]
