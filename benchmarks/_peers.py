"""Other libraries behind one signature each, and the measures the factorization benchmarks share."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import io
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

Factors = tuple[np.ndarray, np.ndarray]


def installed(module: str) -> bool:
    """Whether a peer can be imported; some of them print or warn on the way, which is swallowed."""
    try:
        quietly(lambda: importlib.import_module(module))
    except Exception:  # a peer that fails to import for any reason is as good as missing
        return False
    return True


def quietly(job: Callable[[], Any]) -> Any:
    """Run a job without its prints and warnings."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return job()


def held_out(X: sp.csr_array, seed: int = 0) -> tuple[sp.csr_array, tuple[np.ndarray, ...]]:
    """The paper's split: five entries of each of 20% of users go to the test set, never a user's last."""
    rng = np.random.default_rng(seed)
    test = np.zeros(X.nnz, dtype=bool)
    for user in rng.choice(X.shape[0], X.shape[0] // 5, replace=False):
        own = np.arange(X.indptr[user], X.indptr[user + 1])
        test[rng.choice(own, min(5, max(own.size - 1, 0)), replace=False)] = True
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    keep = ~test
    train = sp.csr_array((X.data[keep], (users[keep], X.indices[keep])), shape=X.shape)
    return train, (users[test], X.indices[test], X.data[test])


def objective(X: sp.csr_array, factors: Factors, penalty: float) -> float:
    """Squared errors over entries plus `penalty` times each factor's entries, in float64, in blocks."""
    U, V = (F.astype(np.float64) for F in factors)
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    loss = 0.0
    for first in range(0, X.nnz, 1 << 18):
        own = slice(first, first + (1 << 18))
        loss += float(np.sum((X.data[own] - np.einsum("ij,ij->i", U[users[own]], V[X.indices[own]])) ** 2))
    sizes = np.diff(X.indptr), np.bincount(X.indices, minlength=X.shape[1])
    return loss + penalty * sum(float(n @ np.sum(F**2, axis=1)) for n, F in zip(sizes, (U, V), strict=True))


def rmse(test: tuple[np.ndarray, ...], factors: Factors) -> float:
    """Root mean square error on held-out entries."""
    users, items, values = test
    return float(np.sqrt(np.mean((np.einsum("ij,ij->i", factors[0][users], factors[1][items]) - values) ** 2)))


def clocked(job: Callable[[], Any]) -> tuple[float, float, Any]:
    """CPU seconds, wall seconds and result of one run."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = job()
    return time.process_time() - cpu, time.perf_counter() - wall, result


def extra_megabytes(job: Callable[[], object]) -> float:
    """Most memory a job adds, by resetting Linux's high-water mark of this process; NaN elsewhere.

    Not by a forked copy: a peer's OpenMP threads do not survive a fork. Memory that earlier jobs have freed goes
    back to the system first, or it would hide what this one takes.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return float("nan")
    before = _status("VmRSS")
    job()
    return (_status("VmHWM") - before) / 1024


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[1])


def cmfrec_fit(X: sp.csr_array, rank: int, penalty: float, iterations: int, threads: int) -> Factors:
    """Fit with cmfrec: coordinate descent inside ALS, same objective, signs exact."""
    model = cmfrec_model(rank, penalty, iterations, threads)
    model.fit(X.tocoo())
    return model.A_, model.B_


def cmfrec_model(rank: int, penalty: float, iterations: int, threads: int) -> Any:
    from cmfrec import CMF

    return CMF(
        k=rank,
        lambda_=penalty,
        niter=iterations,
        nthreads=threads,
        scale_lam=True,
        nonneg=True,
        method="als",
        use_float=True,
        center=False,
        user_bias=False,
        item_bias=False,
        finalize_chol=False,
        precompute_for_predictions=False,
        verbose=False,
        handle_interrupt=False,
    )


def libmf_fit(X: sp.csr_array, rank: int, penalty: float, iterations: int, threads: int) -> Factors:
    """LIBMF's stochastic gradient descent; its penalty is per entry, which is the count-scaled one."""
    mf = quietly(lambda: importlib.import_module("libmf.mf"))
    model = mf.MF(
        k=rank,
        nr_iters=iterations,
        nr_threads=threads,
        lambda_p1=0.0,
        lambda_q1=0.0,
        lambda_p2=penalty,
        lambda_q2=penalty,
        eta=0.2,  # of 0.02, 0.05, 0.1, 0.2 and 0.4 the quickest on MovieLens 1M
        do_nmf=True,
        quiet=True,
    )
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    model.fit(np.column_stack([users, X.indices, X.data]).astype(np.float32))
    U, V = model.p_factors(), model.q_factors()
    full = [np.zeros((size, rank), np.float32) for size in X.shape]
    for target, part in zip(full, (U, V), strict=True):  # rows after the last one seen are not stored
        target[: len(part)] = np.nan_to_num(part)
    return full[0], full[1]


def lenskit_fit(X: sp.csr_array, rank: int, penalty: float, iterations: int) -> object:
    """LensKit's alternating least squares, biased and without signs; the data set is made once per matrix."""
    from lenskit.als import BiasedMFScorer

    model = BiasedMFScorer(embedding_size=rank, epochs=iterations, regularization=penalty)
    quietly(lambda: model.train(_lenskit_data(X)))
    return model


_lenskit_sets: dict[int, Any] = {}


def _lenskit_data(X: sp.csr_array) -> Any:
    import pandas as pd
    from lenskit.data import from_interactions_df

    if id(X) not in _lenskit_sets:
        users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        table = pd.DataFrame({"user_id": users, "item_id": X.indices, "rating": X.data})
        _lenskit_sets[id(X)] = from_interactions_df(table)
    return _lenskit_sets[id(X)]
