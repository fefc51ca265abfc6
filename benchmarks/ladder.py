"""Rungs of the ladder of local models: a path of ridges, an epoch of implicit ALS, a long catalog.

implicit is optional; its rows say so where it is not installed. Its settings for the long catalog are the best of a
few by the test itself, which favours it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._peers import extra_megabytes, installed, quietly
from benchmarks._rows import blas_threads, interleaved, movielens_rows
from benchmarks.table import Table, versions
from twofold.algorithms._jit import one_blas_thread
from twofold.algorithms.implicit_als import implicit_als
from twofold.algorithms.top_items import top_scores
from twofold.entity.models.ials import IalsFit
from twofold.entity.models.ridge import weights_from_gram
from twofold.entity.models.sparse_items import SparseItemFit

RIDGES = np.geomspace(10.0, 5_000.0, 10)
EPOCHS = 16
# Of 17 pairs the best on this very split, and the library's defaults.
PEER_ALS = ({"alpha": 3.0, "regularization": 40.0}, {"alpha": 1.0, "regularization": 0.01})
PEER_LONG = ((128, 20.0, 1.0), (128, 40.0, 1.0), (128, 80.0, 1.0), (128, 40.0, 10.0))
MISSING = "implicit not installed"

Score = Callable[[sp.csr_array, np.ndarray], np.ndarray]


def run(*, quick: bool = False) -> Iterator[Table]:
    yield _ridges(quick=quick)
    yield _epochs(quick=quick)
    yield _long(quick=quick)


def _ridges(*, quick: bool) -> Table:
    _, rows = movielens_rows(quick=quick)
    rows.data[:] = 1.0
    gram = (rows.T @ rows).toarray().astype(np.float64)
    plain = gram + 100.0 * np.eye(len(gram))

    def path(*, rough: bool) -> list[object]:
        return [weights_from_gram(gram, np.full(len(gram), one), rough=rough) for one in RIDGES]

    def ladder() -> None:  # compares in single precision, then fits the best to everybody in double
        path(rough=True)
        weights_from_gram(gram, np.full(len(gram), RIDGES[0]))

    with one_blas_thread():
        found = interleaved(
            {
                "NumPy: one inversion": lambda: _seconds(lambda: np.linalg.inv(plain)),
                "ten ridges compared, the best fitted": lambda: _seconds(ladder),
                "ten ridges, all in double precision": lambda: _seconds(lambda: path(rough=False)),
            },
            rounds=1 if quick else 2,
        )
    one = found["NumPy: one inversion"]
    return Table(
        title=f"Item-item weights over ten ridges, {len(gram):,} items",
        columns=("job", "seconds", "of one inversion"),
        rows=[(name, seconds, seconds / one) for name, seconds in found.items()],
        note="One thread each. The second line is what the ladder does: ten in single precision, then one in double.",
    )


def _epochs(*, quick: bool) -> Table:
    name, rows = movielens_rows(quick=quick)
    rows.data[:] = 1.0
    train, test = held_out(rows)
    rank, epochs = (8, 2) if quick else (64, EPOCHS)
    fit = IalsFit(train, threads=1)
    penalty = 0.5 * fit.chance(0.5)

    def ours(n: int) -> tuple[np.ndarray, np.ndarray]:
        return implicit_als(train, rank, unobserved=0.5, regularization=penalty, epochs=n, threads=1)

    ours(1)  # compiles
    peers: list[tuple[str, Callable[[int], Any]]] = []
    if installed("implicit.als"):
        peers = [(f"implicit, {_named(one)}", _peer(train, rank, one)) for one in PEER_ALS]
    jobs = {"twofold": lambda: _per_epoch(ours, epochs)}
    jobs |= {label: (lambda fit=fit: _per_epoch(fit, epochs)) for label, fit in peers}
    with blas_threads(1):
        seconds = interleaved(jobs, rounds=1 if quick else 2)
        quality = {"twofold": _factor_quality(ours(epochs), train, test)}
        quality |= {label: _factor_quality(fit(epochs), train, test) for label, fit in peers}
    rows_ = [(label, 1e3 * one, one / seconds["twofold"], quality[label]) for label, one in seconds.items()]
    rows_ += [] if peers else [(MISSING, "-", "-", "-")]
    return Table(
        title=f"Implicit ALS, {name} as 0/1, rank {rank}, {epochs} epochs, one thread",
        columns=("library", "ms an epoch", "of ours", "nDCG@10"),
        rows=rows_,
        note=f"A fifth of each user's entries held out. {versions('numba', 'implicit')}.",
    )


def _long(*, quick: bool) -> Table:
    rows = (
        long_catalog(users=1_500, items=6_000, entries=18_000, clusters=40)
        if quick
        else long_catalog(users=60_000, items=340_000, entries=700_000, clusters=600)
    )
    train, test = held_out(rows)
    users = np.random.default_rng(0).choice(len(np.diff(train.indptr)), 200 if quick else 2_000, replace=False)
    popularity = np.asarray(train.sum(axis=0), dtype=np.float32).ravel()
    lines: list[tuple[Any, ...]] = []

    def judge(name: str, make: Callable[[], Score]) -> None:
        kept: dict[str, Any] = {}

        def job() -> None:
            fitting = time.perf_counter()
            score = make()
            kept["fit"] = time.perf_counter() - fitting
            kept["top"] = _top(score, train, users, 20)
            kept["all"] = time.perf_counter() - fitting

        more = extra_megabytes(job)
        _, recall = _measures(kept["top"], test[users])
        lines.append((name, kept["fit"], kept["all"] - kept["fit"], more, recall, np.unique(kept["top"]).size))

    SparseItemFit(train[:50]).scorer()  # compiles
    judge("popularity", lambda: lambda block, _: np.tile(popularity, (block.shape[0], 1)))
    judge("sparse item-item", lambda: _scored(SparseItemFit(train).scorer()))
    judge("implicit ALS, twofold", lambda: _scored(IalsFit(train).scorer(rank=16 if quick else 64)))
    if installed("implicit.als"):
        for factors, alpha, regularization in PEER_LONG[:1] if quick else PEER_LONG:
            name = f"implicit, rank {factors}, alpha {alpha:g}, regularization {regularization:g}"
            judge(name, _peer_score(train, factors, alpha, regularization))
    else:
        lines.append((MISSING, *"-----"))
    return Table(
        title=f"A long catalog: {rows.shape[1]:,} items, {rows.shape[0]:,} users, {rows.nnz:,} entries",
        columns=("model", "fit, s", f"lists of {len(users):,} users, s", "more memory, MB", "recall@20", "items shown"),
        rows=lines,
        note="Generated: popularity by a power law, three tastes a user. A fifth of each user's entries held out.",
    )


def long_catalog(*, users: int, items: int, entries: int, clusters: int, seed: int = 0) -> sp.csr_array:
    """Users of three tastes each over a catalog of power-law popularity; a quarter of the entries is popularity alone.

    Examples
    --------
    >>> long_catalog(users=50, items=1_000, entries=400, clusters=5).shape
    (50, 1000)
    """
    rng = np.random.default_rng(seed)
    weight = (1.0 + rng.permutation(items)) ** -0.8
    taste = rng.integers(clusters, size=items)
    order = np.argsort(taste, kind="stable")
    starts = np.searchsorted(taste[order], np.arange(clusters + 1))
    mass = np.concatenate([[0.0], np.cumsum(weight[order])])
    length = rng.lognormal(0.0, 1.0, users)
    length = np.maximum(2, length / length.mean() * entries / users * 1.1).astype(np.int64)  # repeats fall away
    who = np.repeat(np.arange(users), length)
    own = rng.integers(clusters, size=(users, 3))[who, rng.integers(3, size=who.size)]
    place, loyal = rng.random(who.size), rng.random(who.size) < 0.75
    low, high = mass[starts[own]], mass[starts[own + 1]]
    at = np.where(loyal, low + place * (high - low), place * mass[-1])
    chosen = order[np.minimum(np.searchsorted(mass, at, side="right") - 1, items - 1)]
    rows = sp.csr_array((np.ones(who.size, np.float32), (who, chosen)), shape=(users, items))
    rows.sum_duplicates()
    rows.data[:] = 1.0
    return rows


def held_out(rows: sp.csr_array, *, share: float = 0.2, seed: int = 0) -> tuple[sp.csr_array, sp.csr_array]:
    """Hide a share of each user's entries, at least one of two or more."""
    rng = np.random.default_rng(seed)
    lengths = np.diff(rows.indptr)
    who = np.repeat(np.arange(rows.shape[0]), lengths)
    order = np.lexsort((rng.random(rows.nnz), who))
    place = np.empty(rows.nnz, np.int64)
    place[order] = np.arange(rows.nnz) - rows.indptr[who]
    hidden = place < np.where(lengths > 1, np.maximum(1, np.floor(share * lengths)), 0)[who]
    parts = (
        sp.csr_array((rows.data[kept], (who[kept], rows.indices[kept])), shape=rows.shape) for kept in (~hidden, hidden)
    )
    train, test = parts
    return train, test


def _top(score: Score, train: sp.csr_array, users: np.ndarray, n: int) -> np.ndarray:
    """Best unseen items, block by block: never all users times all items at once."""
    block = max(16, (1 << 24) // (4 * train.shape[1]))
    found = []
    for start in range(0, len(users), block):
        some = users[start : start + block]
        rows = train[some]
        found.append(top_scores(score(rows, some), n, exclude=rows)[0])
    return np.concatenate(found)


def _measures(top: np.ndarray, test: sp.csr_array) -> tuple[float, float]:
    """Give nDCG and recall of lists, over users with something hidden."""
    who = np.repeat(np.arange(test.shape[0]), np.diff(test.indptr))
    hits = np.isin(top + np.arange(len(top))[:, None] * test.shape[1], who * test.shape[1] + test.indices)
    lengths = np.diff(test.indptr)
    some, n = lengths > 0, top.shape[1]
    gains = 1.0 / np.log2(np.arange(2, n + 2))
    best = np.cumsum(gains)[np.minimum(lengths[some], n) - 1]
    found = hits[some].sum(axis=1) / np.minimum(lengths[some], n)
    return float(((hits * gains).sum(axis=1)[some] / best).mean()), float(found.mean())


def _factor_quality(factors: tuple[np.ndarray, np.ndarray], train: sp.csr_array, test: sp.csr_array) -> float:
    U, V = factors
    return _measures(_top(lambda _, some: U[some] @ V.T, train, np.arange(len(U)), 10), test)[0]


def _scored(scorer: Any) -> Score:
    return lambda block, _: scorer.scores(block)


def _named(settings: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in settings.items())


def _model(rank: int, epochs: int, threads: int, **settings: float) -> Any:
    from implicit.als import AlternatingLeastSquares

    return AlternatingLeastSquares(
        factors=rank, iterations=epochs, num_threads=threads, random_state=0, use_gpu=False, **settings
    )


def _peer(train: sp.csr_array, rank: int, settings: dict[str, float]) -> Callable[[int], Any]:
    rows = sp.csr_matrix(train)

    def fit(epochs: int) -> tuple[np.ndarray, np.ndarray]:
        model = quietly(lambda: _model(rank, epochs, 1, **settings))
        quietly(lambda: model.fit(rows, show_progress=False))
        return model.user_factors, model.item_factors

    return fit


def _peer_score(train: sp.csr_array, rank: int, alpha: float, regularization: float) -> Callable[[], Score]:
    def make() -> Score:
        model = quietly(lambda: _model(rank, 15, 0, alpha=alpha, regularization=regularization))
        with blas_threads(1):  # it asks for this itself
            quietly(lambda: model.fit(sp.csr_matrix(train), show_progress=False))
        return lambda _, some: model.user_factors[some] @ model.item_factors.T

    return make


def _per_epoch(fit: Callable[[int], object], epochs: int) -> float:
    """Seconds of one epoch: reading the data is in neither of two fits' difference."""
    short = _seconds(lambda: fit(1))
    return (_seconds(lambda: fit(1 + epochs)) - short) / epochs


def _seconds(job: Callable[[], object]) -> float:
    before = time.perf_counter()
    job()
    return time.perf_counter() - before
