"""Rows the kernel benchmarks share, and the memory a job adds."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import polars as pl
import scipy.sparse as sp


def movielens_rows(*, quick: bool) -> tuple[str, sp.csr_array]:
    """MovieLens 1M as users x films, float32; random rows of the same size where TWOFOLD_DATA names no folder."""
    named = os.environ.get("TWOFOLD_DATA")
    if named and not quick:
        ratings = pl.read_csv(Path(named) / "movielens-1m" / "ratings.csv.gz")
        columns = (np.unique(ratings[name].to_numpy(), return_inverse=True)[1] for name in ("user", "item"))
        users, items = (column.astype(np.int32) for column in columns)  # scikit-learn takes no other
        values = ratings["rating"].cast(pl.Float32).to_numpy()
        return "MovieLens 1M", sp.csr_array((values, (users, items)))
    n_users, n_items = (600, 500) if quick else (6040, 3706)
    rng = np.random.default_rng(0)
    rows = sp.random_array((n_users, n_items), density=0.045, rng=rng, dtype=np.float32, format="csr")
    rows.data = np.ceil(5 * rows.data).astype(np.float32)
    return "random sparse rows", rows


def dense_counts(*, quick: bool) -> np.ndarray:
    """Counts like lab results and drugs of many visits: 100,000 x 500, Poisson, float32."""
    rng = np.random.default_rng(0)
    groups = rng.gamma(0.5, 2.0, (30, 500))
    n_rows = 2_000 if quick else 100_000
    return rng.poisson(groups[rng.integers(30, size=n_rows)]).astype(np.float32)


def extra_megabytes(job: Callable[[], object]) -> float:
    """Most memory `job` adds to what is there already, seen from a forked copy of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        job()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        os.write(writer, str((after - before) / 1024).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as answer:
        text = answer.read()
    return float(text) if text else float("nan")


def interleaved(jobs: dict[str, Callable[[], float]], *, rounds: int) -> dict[str, float]:
    """Let the jobs take turns and keep each one's smallest figure, so that a noisy minute hurts all alike."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            best[name] = min(best[name], job())
    return best


def blas_threads(threads: int) -> AbstractContextManager[object]:
    """Hold a peer's BLAS and OpenMP at this many threads, where threadpoolctl is there to do it."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    return threadpool_limits(threads)
