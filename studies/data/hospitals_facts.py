"""Facts about a table of counts: measured in the same way on simulated hospitals and on the eICU demo.

All functions take a sparse matrix of patients by items and, where hospitals matter, a hospital number per patient.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from twofold.csr import with_data
from twofold.errors import MissingExtra

__all__ = [
    "Factorize",
    "Gap",
    "Recorded",
    "average_gap",
    "between_hospitals",
    "curve",
    "gap",
    "nmf_factors",
    "recorded_errors",
    "svd_factors",
    "tails",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Factorize = Callable[[sparse.csr_array, int], tuple[Floats, Floats]]

CUTOFF: Final = 10


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The three errors the paper's authors recorded, for one rank."""

    train: float
    test: float
    mean_rank: float


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Held-out entries: mean rank (0 best, 0.5 random) and nDCG@10, by popularity and by a factorization."""

    popularity_rank: float
    model_rank: float
    popularity_ndcg: float
    model_ndcg: float


def tails(values: npt.ArrayLike) -> dict[str, float]:
    """Mean, root mean square and upper quantiles.

    >>> tails([1, 1, 2, 4])["mean"]
    2.0
    """
    numbers = np.asarray(values, dtype=np.float64)
    named = {f"p{level:g}": float(np.percentile(numbers, level)) for level in (50, 90, 99, 99.9)}
    return {"mean": float(numbers.mean()), "rms": float(np.sqrt((numbers**2).mean())), **named, "max": numbers.max()}


def curve(counts: sparse.csr_array) -> Floats:
    """Share of patients with an entry, by item, most common item first.

    >>> curve(sparse.csr_array(np.array([[1, 0], [2, 3]]))).tolist()
    [1.0, 0.5]
    """
    shares = np.bincount(counts.indices, minlength=counts.shape[1]) / counts.shape[0]
    return np.asarray(np.sort(shares)[::-1])


def between_hospitals(counts: sparse.csr_array, hospital: Ints, *, least: int = 8) -> float:
    """Share of the variance of "has an entry" that lies between hospitals (one-way intraclass correlation).

    Averaged over items between 5% and 95% of patients, weighted by their variance. Unbiased for small hospitals, so
    it can be compared between the demo (12 stays per hospital) and a full-size federation.

    >>> counts = sparse.csr_array(np.repeat([[1, 0], [0, 1]], 10, axis=0))
    >>> round(between_hospitals(counts, np.repeat([0, 1], 10)), 3)
    1.0
    """
    sizes = np.bincount(hospital)
    member = sparse.csr_array((np.ones(hospital.size), (hospital, np.arange(hospital.size))))
    seen = np.asarray((member @ _presence(counts)).todense())
    seen, sizes = seen[sizes >= least], sizes[sizes >= least][:, None]
    total, groups = sizes.sum(), len(sizes)
    if groups < 2:
        return math.nan
    overall = seen.sum(axis=0) / total
    usual = (total - (sizes**2).sum() / total) / (groups - 1)
    between = (sizes * (seen / sizes - overall) ** 2).sum(axis=0) / (groups - 1)
    within = (seen * (1 - seen / sizes)).sum(axis=0) / (total - groups)
    use = (overall > 0.05) & (overall < 0.95)
    share = (between - within)[use] / (between + (usual - 1) * within)[use]
    return float(np.average(share, weights=(overall * (1 - overall))[use]))


def svd_factors(train: sparse.csr_array, rank: int) -> tuple[Floats, Floats]:
    """Truncated SVD: the smallest squared error over all cells when signs are free."""
    basis = _basis(train, rank)
    return np.asarray(train @ basis), basis


def nmf_factors(train: sparse.csr_array, rank: int) -> tuple[Floats, Floats]:
    """scikit-learn's NMF, as in the recorded experiments but without their penalty, which is small."""
    try:
        decomposition: Any = importlib.import_module("sklearn.decomposition")
    except ImportError:
        raise MissingExtra("this needs scikit-learn.", fix='pip install "twofold[bench]"') from None
    model = decomposition.NMF(rank, init="nndsvd", max_iter=200, tol=1e-3)
    return model.fit_transform(train), model.components_.T


def recorded_errors(counts: sparse.csr_array, *, rank: int, factorize: Factorize = svd_factors) -> Recorded:
    """The recorded protocol: zeros count as observed, five entries of a fifth of the patients are held out.

    Train and test error are taken over entries, the mean rank over all items, weighted by the count.

    >>> counts = sparse.csr_array(np.random.default_rng(0).poisson(2.0, (50, 20)))
    >>> recorded_errors(counts, rank=20).train < 1e-9
    True
    """
    train, users, items, values = _hold_out(counts, np.random.default_rng(0))
    weights, basis = factorize(train, rank)
    owner = np.repeat(np.arange(train.shape[0]), np.diff(train.indptr))
    cells = weights @ basis.T
    fitted, scores = cells[owner, train.indices], cells[users]
    predicted = np.take_along_axis(scores, items, axis=1)
    places = (scores[:, None, :] > predicted[:, :, None]).mean(axis=2)
    return Recorded(
        train=float(np.sqrt(np.mean((fitted - train.data) ** 2))),
        test=float(np.sqrt(np.mean((predicted - values) ** 2))),
        mean_rank=float(np.average(places, weights=values)),
    )


def gap(counts: sparse.csr_array, *, rank: int, rng: np.random.Generator) -> Gap:
    """How much better a factorization finds held-out entries than popularity does; a patient's own items are left out.

    The factorization is a truncated SVD of the rows of "has an entry", scaled to length one, around their mean: an
    item it knows nothing about is ranked by popularity.

    >>> rng = np.random.default_rng(0)
    >>> kinds = np.kron(np.eye(2), np.ones((30, 12)))
    >>> found = gap(sparse.csr_array(kinds), rank=2, rng=rng)
    >>> found.model_ndcg > 0.99 > 0.7 > found.popularity_ndcg
    True
    """
    train, users, items, _ = _hold_out(sparse.csr_array(counts[np.diff(counts.indptr) > 6]), rng)
    seen = _presence(train)
    lengths = np.sqrt(np.maximum(np.diff(seen.indptr), 1))
    rows = sparse.csr_array(sparse.diags_array(1 / lengths) @ seen)
    usual = np.asarray(rows.mean(axis=0))
    basis = _basis(rows, rank, around=usual)
    known = seen[users].toarray() > 0
    popular = np.broadcast_to(np.asarray(seen.sum(axis=0), dtype=np.float64), known.shape)
    by_popularity, by_model = (
        _places(popular, known, items),
        _places(usual + (rows[users].toarray() - usual) @ basis @ basis.T, known, items),
    )
    last = (~known).sum(axis=1, keepdims=True) - 1
    return Gap(
        popularity_rank=float(np.mean(by_popularity / last)),
        model_rank=float(np.mean(by_model / last)),
        popularity_ndcg=_ndcg(by_popularity),
        model_ndcg=_ndcg(by_model),
    )


def average_gap(counts: sparse.csr_array, *, rank: int, repeats: int = 5) -> Gap:
    """The gap averaged over several hold-outs, for small tables; NaN if nobody has more than six entries."""
    if not (np.diff(counts.indptr) > 6).any():
        return Gap(popularity_rank=math.nan, model_rank=math.nan, popularity_ndcg=math.nan, model_ndcg=math.nan)
    found = [astuple(gap(counts, rank=rank, rng=np.random.default_rng(seed))) for seed in range(repeats)]
    names = [field.name for field in fields(Gap)]
    return Gap(**dict(zip(names, np.mean(found, axis=0).tolist(), strict=True)))


def _hold_out(counts: sparse.csr_array, rng: np.random.Generator) -> tuple[sparse.csr_array, Ints, Ints, Floats]:
    """Five entries of a fifth of the patients who have more than five: train table, patients, items, values."""
    counts = sparse.csr_array(counts.astype(np.float64))
    counts.sort_indices()
    lengths = np.diff(counts.indptr)
    users = np.sort(rng.permutation(np.flatnonzero(lengths > 5))[: max(1, counts.shape[0] // 5)])
    taken = np.stack([counts.indptr[user] + rng.permutation(lengths[user])[:5] for user in users])
    train = counts.copy()
    train.data[taken.ravel()] = 0
    train.eliminate_zeros()
    return train, users, counts.indices[taken].astype(np.int64), counts.data[taken]


def _presence(counts: sparse.csr_array) -> sparse.csr_array:
    """One where there is an entry."""
    return with_data(counts, np.ones(counts.nnz))


def _basis(rows: sparse.csr_array, rank: int, *, around: Floats | None = None) -> Floats:
    """Leading right singular vectors, from the small Gram matrix; of the rows less `around`, their mean, if given."""
    gram = np.asarray((rows.T @ rows).todense())
    if around is not None:
        gram -= rows.shape[0] * np.outer(around, around)
    last = gram.shape[0] - 1
    return np.asarray(linalg.eigh(gram, subset_by_index=[max(0, last + 1 - rank), last])[1])


def _places(scores: Floats, known: npt.NDArray[np.bool_], items: Ints) -> Ints:
    """Place of each held-out item among the items the patient did not have, best first, ties by column."""
    hidden = np.where(known, -np.inf, scores)
    order = np.argsort(-hidden, axis=1, kind="stable")
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.arange(order.shape[1])[None, :], axis=1)
    return np.asarray(np.take_along_axis(places, items, axis=1))


def _ndcg(places: Ints) -> float:
    """As `twofold.evaluate.ranking.ndcg` defines it, which lies above this layer: the first two places weigh alike."""
    gains = np.where(places < CUTOFF, _discount(places), 0.0)
    return float(gains.sum(axis=1).mean() / _discount(np.arange(places.shape[1])).sum())


def _discount(places: Ints) -> Floats:
    """Weight of a place, the first one 0."""
    return np.asarray(1 / np.log2(np.maximum(places + 1.0, 2.0)))
