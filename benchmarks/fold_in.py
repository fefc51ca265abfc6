"""Fold-in against SciPy, cmfrec and scikit-learn: users per CPU second, gap to the optimum, one user's latency."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from benchmarks import _peers
from benchmarks._rows import dense_counts, movielens_rows
from benchmarks.table import Table, versions
from twofold.algorithms import FoldIn, fold_in, masked_nmf

PENALTY = 0.1
COLUMNS = ("rank", "program", "users per CPU s", "ratio", "users per s, 2 threads", "relative gap", "extra MB")
CMFREC = "cmfrec leaves the last factor's λ unscaled here, which is its gap."


def run(*, quick: bool) -> list[Table]:
    """Masked rows, dense counts, and one user at a time; ranks 20 and 50."""
    ranks = (5,) if quick else (20, 50)
    title, rows = movielens_rows(quick=quick)
    counts = dense_counts(quick=quick)
    used = versions("numpy", "scipy", "numba", "cmfrec", "scikit-learn")
    gap = "Gap: summed objective over that of the best answer (float64, KKT checked), less 1."
    return [
        Table(
            title=f"Fold-in, masked, {title}",
            columns=COLUMNS,
            rows=[row for rank in ranks for row in _masked(rows, rank)],
            note=f"{rows.shape[0]:,} users, {rows.nnz / rows.shape[0]:.0f} entries each on average, λ = 0.1 n_u, "
            f"float32. Ratio: ours over theirs, CPU time of one thread. {gap} {CMFREC} {used}",
        ),
        Table(
            title="Fold-in, dense counts",
            columns=COLUMNS,
            rows=[row for rank in ranks for row in _dense(counts, rank)],
            note=f"{counts.shape[0]:,} x {counts.shape[1]}, Poisson, every cell counts, λ = 0.1 n, float32. "
            f"{gap} {used}",
        ),
        Table(
            title="Fold-in, one user",
            columns=("rank", "entries", "microseconds"),
            rows=[_latency(rows, rank) for rank in ranks],
            note="`FoldIn.one`, checks included, CPU time, best of many.",
        ),
    ]


def _masked(X: sp.csr_array, rank: int) -> list[list[object]]:
    V = masked_nmf(X, rank, regularization=PENALTY, max_iterations=10)[1]
    exact = fold_in(X, V, regularization=PENALTY, dtype=np.float64)
    loss = functools.partial(_masked_loss, X, V.astype(np.float64))
    ours = lambda threads: fold_in(X, V, regularization=PENALTY, threads=threads)  # noqa: E731
    some = X[:400]
    peers: dict[str, tuple[Callable[[int], Any], int] | None] = {
        "SciPy nnls": (lambda _: _scipy_masked(some, V), some.shape[0]),
        "cmfrec": _cmfrec_masked(X, V) if _peers.installed("cmfrec") else None,
    }
    return _rows(rank, X.shape[0], ours, peers, lambda U: loss(U) / loss(exact[: len(U)]) - 1)


def _dense(X: np.ndarray, rank: int) -> list[list[object]]:
    V = masked_nmf(X[:5000], rank, regularization=PENALTY, max_iterations=10)[1]
    exact = fold_in(X, V, regularization=PENALTY, dtype=np.float64)
    ours = lambda threads: fold_in(X, V, regularization=PENALTY, threads=threads)  # noqa: E731
    peers: dict[str, tuple[Callable[[int], Any], int] | None] = {
        "scikit-learn": (lambda _: _sklearn_dense(X, V), len(X)) if _peers.installed("sklearn") else None,
        "SciPy nnls": (lambda _: _scipy_dense(X[:400], V), 400),
    }
    best = functools.partial(_dense_loss, X, V.astype(np.float64))
    return _rows(rank, len(X), ours, peers, lambda U: best(U) / best(exact[: len(U)]) - 1)


def _rows(
    rank: int,
    n_users: int,
    ours: Callable[[int], Any],
    peers: dict[str, tuple[Callable[[int], Any], int] | None],
    gap: Callable[[np.ndarray], float],
) -> list[list[object]]:
    """Our row, then one per peer; each peer says how many users its job folds in."""
    ours(2)
    rows: list[list[object]] = [_measured(rank, "twofold", ours, n_users, gap, 7)]
    for name, entry in peers.items():
        if entry is None:
            rows.append([rank, name, "not installed", *[""] * 4])
            continue
        row = _measured(rank, name, *entry, gap, 3)
        row[3] = float(rows[0][2]) / float(row[2])  # type: ignore[arg-type]
        rows.append(row)
    return rows


def _measured(
    rank: int, name: str, job: Callable[[int], Any], n_users: int, gap: Callable[[np.ndarray], float], repeat: int
) -> list[object]:
    runs = [_peers.clocked(lambda: job(1)) for _ in range(repeat)]
    wall = min(_peers.clocked(lambda: job(2))[1] for _ in range(3))
    memory = _peers.extra_megabytes(lambda: job(1))
    speed = n_users / min(run[0] for run in runs)
    return [rank, name, round(speed), 1.0, round(n_users / wall), f"{gap(runs[0][2]):.1e}", memory]


def _masked_loss(X: sp.csr_array, V: np.ndarray, U: np.ndarray) -> float:
    own = X[: len(U)]
    users = np.repeat(np.arange(len(U)), np.diff(own.indptr))
    errors = own.data - np.einsum("ij,ij->i", U.astype(np.float64)[users], V[own.indices])
    return float(errors @ errors + PENALTY * np.diff(own.indptr) @ np.sum(U.astype(np.float64) ** 2, axis=1))


def _dense_loss(X: np.ndarray, V: np.ndarray, U: np.ndarray) -> float:
    total = PENALTY * X.shape[1] * float(np.sum(U.astype(np.float64) ** 2))
    for first in range(0, len(U), 4096):
        own = U[first : first + 4096].astype(np.float64)
        total += float(np.sum((X[first : first + len(own)] - own @ V.T) ** 2))
    return total


def _scipy_masked(X: sp.csr_array, V: np.ndarray) -> np.ndarray:
    U = np.empty((X.shape[0], V.shape[1]))
    for user in range(X.shape[0]):
        own = slice(X.indptr[user], X.indptr[user + 1])
        v = V[X.indices[own]]
        U[user] = _nnls_of_gram(v.T @ v, v.T @ X.data[own], PENALTY * len(v))
    return U


def _scipy_dense(X: np.ndarray, V: np.ndarray) -> np.ndarray:
    gram, rhs = V.T @ V, X @ V
    return np.stack([_nnls_of_gram(gram, b, PENALTY * X.shape[1]) for b in rhs])


def _nnls_of_gram(gram: np.ndarray, rhs: np.ndarray, ridge: float) -> np.ndarray:
    upper = cholesky(gram + ridge * np.eye(len(gram), dtype=gram.dtype))
    return nnls(upper, solve_triangular(upper, rhs, trans="T"))[0]


def _cmfrec_masked(X: sp.csr_array, V: np.ndarray) -> tuple[Callable[[int], Any], int]:
    rows = X.tocoo()

    @functools.cache
    def model(threads: int) -> Any:
        fitted = _peers.cmfrec_model(V.shape[1], PENALTY, 1, threads)
        fitted.fit(rows)
        fitted.B_[:] = fitted._B_pred[:] = V  # its solver reads the second
        return fitted

    for threads in (1, 2):
        model(threads)
    return lambda threads: model(threads).factors_multiple(X=rows), X.shape[0]


def _sklearn_dense(X: np.ndarray, V: np.ndarray) -> np.ndarray:
    from sklearn.decomposition import non_negative_factorization

    H = np.ascontiguousarray(V.T)
    fit = functools.partial(non_negative_factorization, X, H=H, n_components=len(H), update_H=False)
    return _peers.quietly(lambda: fit(alpha_W=PENALTY, l1_ratio=0.0, solver="cd"))[0]


def _latency(X: sp.csr_array, rank: int) -> list[object]:
    ready = FoldIn(np.random.default_rng(0).random((X.shape[1], rank)).astype(np.float32))
    middle = int(np.argsort(np.diff(X.indptr))[X.shape[0] // 2])
    own = slice(X.indptr[middle], X.indptr[middle + 1])
    best = np.inf
    for _ in range(50):
        before = time.process_time()
        for _ in range(50):
            ready.one(X.indices[own], X.data[own])
        best = min(best, time.process_time() - before)
    return [rank, own.stop - own.start, best / 50 * 1e6]
