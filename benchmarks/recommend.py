"""Recommendations for everyone against implicit's recommend on the same factors, and one person's latency."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks._rows import blas_threads, interleaved
from benchmarks.table import Table, versions
from twofold.algorithms.masked_nmf import masked_nmf
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.data.sources.hospitals import simulate
from twofold.entity.model import Model
from twofold.entity.models.blend import Scorer
from twofold.entity.models.factors import FactorScorer
from twofold.entity.models.item_item import ItemItemScorer
from twofold.entity.models.ridge import weights_from_gram
from twofold.federation.plan import Plan

RANK, N = 20, 10
MISSING = "not installed"
WHAT = {
    "lists": "columns and scores",
    "frame": "with ids, a frame",
    "file": "with ids, Parquet",
    "fit": "fold-in of all, once",
}
NOTE = (
    "CPU seconds on one thread, seen items excluded, smallest of several interleaved rounds (one at the largest size). "
    "Both use the same float32 factors and the same seen items. Ratio: implicit's time over that of "
    "`columns and scores`, which is what it returns. Equal lists: share of places with the same item. MB: memory the "
    "first call adds at its peak to what the process held before."
)


class Run(NamedTuple):
    """CPU seconds, peak of added memory, and what came back."""

    cpu: float
    megabytes: object
    result: Any


def run(*, quick: bool) -> list[Table]:
    """All users by factors at three sizes, all users by item-item weights, and one person at a time."""
    rows = _hospital_rows(quick=quick)
    sizes = (0.1, 1, 10)
    factors = masked_nmf(rows[:5000], RANK, feedback="counts", max_iterations=10)[1]
    used = versions("numpy", "numba", "polars", "implicit")
    shape = f"hospitals simulator, {rows.shape[1]} items, {rows.nnz / rows.shape[0]:.0f} entries per user"
    lines = [_everyone(_grown(rows, size), factors, last=size == 10, quick=quick) for size in sizes]
    return [
        Table(
            title=f"Top {N} of everyone by factors of rank {RANK}, {shape}",
            columns=(
                "users",
                *WHAT.values(),
                "implicit",
                "ratio",
                "equal lists",
                "MB frame",
                "MB Parquet",
                "MB implicit",
            ),
            rows=lines,
            note=f"{NOTE} Ten times the users take {_growth(lines)} times as long. {used}",
        ),
        _items_table(rows, used, quick=quick),
        _latency_table(rows[: min(20_000, rows.shape[0])], factors, used, quick=quick),
    ]


def _hospital_rows(*, quick: bool) -> sp.csr_array:
    """Counts of all patients of the simulated hospitals, one below the other."""
    size = {"n_patients": 3_000, "n_hospitals": 6} if quick else {}
    federation = simulate(rng=0, **size).federation
    return sp.csr_array(sp.vstack([federation[name].matrix for name in federation], format="csr", dtype=np.float32))


def _grown(rows: sp.csr_array, size: float) -> sp.csr_array:
    """The first tenth of the users, all, or all ten times over."""
    if size <= 1:
        return rows[: int(rows.shape[0] * size)]
    times = int(size)
    ends = np.concatenate([rows.indptr[1:].astype(np.int64) + k * rows.nnz for k in range(times)])
    parts = (np.tile(rows.data, times), np.tile(rows.indices, times), np.concatenate([[0], ends]))
    return sp.csr_array(parts, shape=(rows.shape[0] * times, rows.shape[1]))


def _model(rows: sp.csr_array, scorer: Scorer) -> Model:
    catalog = Catalog([f"item-{column}" for column in range(rows.shape[1])])
    return Model(
        entity="benchmark",
        catalog=catalog,
        history=Ratings(rows, Identifiers(np.arange(rows.shape[0]).tolist()), catalog, "counts"),
        scorer=scorer,
        plan=Plan(catalog=catalog, feedback="counts", bound=float(rows.data.max()), max_items=60, rank=RANK),
        factors_hash="0" * 64,
        private=False,
        strength=0.0,
        note="",
    )


def _everyone(rows: sp.csr_array, factors: np.ndarray, *, last: bool, quick: bool) -> list[object]:
    model = _model(rows, FactorScorer(factors, feedback="counts", threads=1))
    model.recommend_all(users=range(10), n=N)  # compile, load
    fit = _cpu(lambda: model.user_factors)
    everyone, users = model._everyone(whole=True), np.arange(rows.shape[0])
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "lists.parquet"
        jobs: dict[str, Callable[[], Any]] = {
            "lists": lambda: everyone.top(N, users, exclude_seen=True, allowed=None, threads=1),
            "frame": lambda: model.recommend_all(n=N, threads=1),
            "file": lambda: model.recommend_all(target, N, threads=1),
            **_implicit(model, rows, factors),
        }
        runs = _runs(jobs, rounds=1 if last and not quick else 3)
    ours, theirs = runs["lists"], runs.get("implicit")
    peer: list[object] = [MISSING] * 3
    if theirs is not None:
        peer = [theirs.cpu, theirs.cpu / ours.cpu, float(np.mean(theirs.result[0] == ours.result.items))]
    times = [ours.cpu, runs["frame"].cpu, runs["file"].cpu, fit]
    memory = [runs[name].megabytes if name in runs else MISSING for name in ("frame", "file", "implicit")]
    return [f"{rows.shape[0]:,}", *times, *peer, *memory]


def _runs(jobs: dict[str, Callable[[], Any]], *, rounds: int) -> dict[str, Run]:
    """Let the jobs take turns; keep each one's smallest time, the memory of its first run and its last result."""
    runs = {name: _run(job) for name, job in jobs.items()}
    for _ in range(rounds - 1):
        for name, job in jobs.items():
            again = _run(job)
            runs[name] = Run(min(again.cpu, runs[name].cpu), runs[name].megabytes, again.result)
    return runs


def _implicit(model: Model, rows: sp.csr_array, factors: np.ndarray) -> dict[str, Callable[[], Any]]:
    peer = _implicit_model(model, factors)
    if peer is None:
        return {}
    seen, users = sp.csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape), np.arange(rows.shape[0])

    def theirs() -> Any:
        with blas_threads(1):  # or idle BLAS threads, waiting, are counted as its CPU time
            return peer.recommend(users, seen, N=N, filter_already_liked_items=True)

    return {"implicit": theirs}


def _implicit_model(model: Model, factors: np.ndarray) -> Any:
    """A model of implicit with our factors in it; None where it is not installed."""
    try:
        from implicit.cpu.als import AlternatingLeastSquares
    except ImportError:
        return None
    with warnings.catch_warnings(), blas_threads(1):
        warnings.simplefilter("ignore")
        peer = AlternatingLeastSquares(factors=RANK, num_threads=1)
    peer.user_factors, peer.item_factors = np.array(model.user_factors), np.array(factors, dtype=np.float32)
    return peer


def _items_table(rows: sp.csr_array, used: str, *, quick: bool) -> Table:
    gram = (rows.T @ rows).toarray().astype(np.float64)
    weights = weights_from_gram(gram, np.full(rows.shape[1], 0.01 * np.diag(gram).mean()))
    model = _model(rows, ItemItemScorer(weights, means=np.asarray(rows.mean(axis=0)), feedback="counts"))
    lines = []
    for size in (0.1, 1):
        users = np.arange(int(rows.shape[0] * size))
        everyone = model._everyone(whole=True)
        jobs: dict[str, Callable[[], Any]] = {
            "ours": lambda e=everyone, u=users: e.top(N, u, exclude_seen=True, allowed=None, threads=1),
            "by hand": lambda u=users: _by_hand(model, rows[: u.size]),
        }
        best = interleaved({k: lambda j=j: _cpu(j) for k, j in jobs.items()}, rounds=1 if quick else 3)
        same = float(np.mean(jobs["ours"]().items == jobs["by hand"]()))
        lines.append([f"{users.size:,}", best["ours"], best["by hand"], best["by hand"] / best["ours"], same])
    return Table(
        title=f"Top {N} of everyone by item-item weights",
        columns=("users", "twofold", "NumPy by hand", "ratio", "equal lists"),
        rows=lines,
        note=f"CPU seconds on one thread. By hand: X @ B in blocks, seen ones hidden, argpartition. {used}",
    )


def _by_hand(model: Model, rows: sp.csr_array) -> np.ndarray:
    """What one writes without us: a block of scores, seen ones set to minus infinity, the n largest, sorted."""
    items = np.empty((rows.shape[0], N), np.intp)
    with blas_threads(1):
        for start in range(0, rows.shape[0], 1_000):
            block = rows[start : start + 1_000]
            scores = model.scorer.scores(block)
            scores[np.repeat(np.arange(block.shape[0]), np.diff(block.indptr)), block.indices] = -np.inf
            largest = np.argpartition(scores, -N, axis=1)[:, -N:]
            order = np.argsort(-np.take_along_axis(scores, largest, axis=1), axis=1)
            items[start : start + 1_000] = np.take_along_axis(largest, order, axis=1)
    return items


def _latency_table(rows: sp.csr_array, factors: np.ndarray, used: str, *, quick: bool) -> Table:
    model = _model(rows, FactorScorer(factors, feedback="counts", threads=1))
    history = {item: float(value) for item, value in model.history.of(5).items()}
    pushed = model.recommend(5, n=1)[0].item
    jobs: dict[str, Callable[[int], Any]] = {
        "twofold, a user by id (folded in)": lambda user: model.recommend(user, N),
        "twofold, a dict of a new person": lambda _: model.recommend(history, N),
        "twofold, why an item": lambda user: model.explain(user, pushed),
    }
    peer = _implicit_model(model, factors)
    if peer is not None:
        seen = sp.csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape)
        jobs["implicit, a known user's factors"] = lambda user: peer.recommend(user, seen[user], N=N)
        jobs["implicit, recalculate_user=True"] = lambda user: peer.recommend(
            user, seen[user], N=N, recalculate_user=True
        )
    calls = 50 if quick else 1_000
    with blas_threads(1):
        clocks = {k: lambda j=j: _cpu(lambda: [j(user) for user in range(calls)]) for k, j in jobs.items()}
        best = interleaved(clocks, rounds=2 if quick else 4)
    lines = [[name, seconds / calls * 1e6] for name, seconds in best.items()]
    note = f"CPU microseconds per call, mean of {calls:,} calls in a row, smallest of several rounds. {used}"
    return Table(title="One person at a time", columns=("call", "µs"), rows=lines, note=note)


def _growth(lines: list[list[Any]]) -> str:
    ours = f"{lines[-1][1] / lines[-2][1]:.1f}"
    return ours if lines[-1][5] == MISSING else f"{ours} (implicit {lines[-1][5] / lines[-2][5]:.1f})"


def _cpu(job: Callable[[], Any]) -> float:
    start = time.process_time()
    job()
    return time.process_time() - start


def _run(job: Callable[[], Any]) -> Run:
    """Time a job; its memory is the largest resident size during it less that before it."""
    book = Path("/proc/self/status")
    try:
        Path("/proc/self/clear_refs").write_text("5")  # Linux lets a process reset its own peak
        before = _resident(book, "VmRSS")
    except OSError:
        before = float("nan")
    start = time.process_time()
    result = job()
    seconds = time.process_time() - start
    grown = "not measured" if np.isnan(before) else max(0.0, _resident(book, "VmHWM") - before)
    return Run(seconds, grown, result)


def _resident(book: Path, name: str) -> float:
    line = next(line for line in book.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024
