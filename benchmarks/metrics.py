"""Every metric of every user from factors, and list metrics against LensKit's on the same lists."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._peers import installed, quietly
from benchmarks._rows import blas_threads, extra_megabytes, movielens_rows
from benchmarks.table import Table, measure, versions
from twofold.evaluation import measure as ours
from twofold.evaluation.measure import LIST_METRICS, Measured
from twofold.evaluation.summary import summarize

RANK, N = 20, 10
NOTE = (
    "CPU seconds on one thread, smallest of three runs. Ratio: LensKit's over ours. Largest gap: between any user's "
    "value of any list metric."
)


def run(*, quick: bool) -> list[Table]:
    """A fifth of all entries held out, random factors."""
    title, rows = movielens_rows(quick=quick)
    train, test = _split(rows)
    rng = np.random.default_rng(0)
    U, V = (rng.gamma(1.0, 1.0, (size, RANK)) for size in rows.shape)
    whole = functools.partial(ours.measure, (U, V), train, test, feedback="ratings", n=N)
    with blas_threads(1):
        measured: Any = whole()  # compiled, and lists for the others
        jobs: dict[str, Callable[[], object]] = {
            "all metrics from factors": whole,
            "summary, 1,000 resamples": functools.partial(summarize, measured, rng=0),
            "list metrics of finished lists": functools.partial(
                ours.measure_lists, measured.lists, test, feedback="ratings", n=N, metrics=LIST_METRICS
            ),
        }
        lines = [[name, measure(job).cpu, extra_megabytes(job), "", "", ""] for name, job in jobs.items()]
        lines[-1][3:] = _lenskit(measured, test, float(lines[-1][1]))
    columns = ("job", "CPU s", "extra MB", "LensKit CPU s", "ratio", "largest gap")
    note = f"{rows.shape[0]:,} x {rows.shape[1]:,}, {test.nnz:,} entries held out, rank {RANK}, n = {N}. {NOTE} "
    return [Table(title=f"Metrics, {title}", columns=columns, rows=lines, note=note + versions("numpy", "lenskit"))]


def _split(rows: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    entries, held = rows.tocoo(), np.random.default_rng(0).random(rows.nnz) < 0.2
    columns = (entries.data.astype(np.float64), entries.row, entries.col)
    train, test = (
        sp.csr_array((columns[0][part], (columns[1][part], columns[2][part])), shape=rows.shape)
        for part in (~held, held)
    )
    return train, test


def _lenskit(measured: Measured, test: sp.csr_array, our_seconds: float) -> list[object]:
    if not installed("lenskit"):
        return ["not installed", "", ""]
    users = np.flatnonzero(np.diff(test.indptr))
    pairs = [_item_lists(measured.lists[user], test, user) for user in users]
    metrics = _lenskit_metrics()
    theirs = measure(lambda: [[metric.measure_list(*pair) for pair in pairs] for metric in metrics.values()])
    values = dict(zip(metrics, np.array(theirs.result, dtype=np.float64), strict=True))
    gap = max(float(np.abs(measured.per_user(name)[users] - values[name]).max()) for name in metrics)
    return [theirs.cpu, theirs.cpu / our_seconds, gap]


def _item_lists(line: np.ndarray, test: sp.csr_array, user: int) -> tuple[Any, Any]:
    from lenskit.data import ItemList

    span = slice(test.indptr[user], test.indptr[user + 1])
    truth = ItemList(item_ids=test.indices[span], rating=test.data[span])
    return ItemList(item_ids=line[line >= 0], ordered=True), truth


def _lenskit_metrics() -> dict[str, Any]:
    ranking = quietly(lambda: __import__("lenskit.metrics.ranking", fromlist=["NDCG"]))
    names = ("NDCG", "Recall", "Precision", "AveragePrecision", "RecipRank", "Hit")
    found = {name: getattr(ranking, name)(N) for name in names}
    graded = ranking.NDCG(N, gain="rating")
    ordered = [found["NDCG"], graded, *(found[name] for name in names[1:])]
    return dict(zip(LIST_METRICS, ordered, strict=True))
