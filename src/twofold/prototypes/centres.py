"""Centres from noisy sums and counts, knowing the noise. Post-processing: it may look at anything already released.

Three steps, each of which a noisy k-means needs and none of which costs anything:

1. *mean*: S/n where the noisy count stands out from its noise; cells that do not are left out;
2. *shrink*: towards the mean of all, by the positive-part rule of James and Stein: of a distance d² of which the noise
   alone explains v, the part 1 - v/d² is kept. Where noise explains everything, one common mean is left;
3. *merge*: more cells than centres are put together by a weighted k-means with a public seed.
"""

from __future__ import annotations

import numpy as np

from twofold.algorithms.kmeans import kmeans
from twofold.prototypes.base import Public
from twofold.prototypes.draws import public_points
from twofold.prototypes.message import Floats, Prototypes

__all__ = ["centres", "padded", "shrunk_means"]

# A cell counts as occupied when its noisy count exceeds this many standard deviations of the count's noise.
_STANDS_OUT = 3.0
_STARTS = 10


def shrunk_means(message: Prototypes, public: Public) -> tuple[Floats, Floats]:
    """Shrunk mean and size of every cell that stands out; at least one, the mean of all.

    Returns
    -------
    means : array of shape (cells kept, items)
        Within the l2 ball of the bounded rows.
    sizes : array of shape (cells kept,)
        Noisy numbers of users.

    Examples
    --------
    >>> from twofold.prototypes.popularity import Popularity
    >>> public = Public(n_items=2, n_users=2, max_items=2, bound=1, epsilon=10**6)
    >>> shrunk_means(Popularity().release(np.array([[1, 0], [1, 1]]), public).value, public)[0].round(2)
    array([[1. , 0.5]])
    """
    sums, sizes, noise = message.value_sums(), message.user_counts(), message.noise
    kept = sizes > max(0.5, _STANDS_OUT * noise.counts)
    total = max(float(sizes[kept].sum() if kept.any() else sizes.sum()), 1.0, noise.counts)
    common = (sums[kept] if kept.any() else sums).sum(axis=0) / total
    if not kept.any():
        return _in_ball(common[None], public), np.array([total])
    away = sums[kept] / sizes[kept][:, None] - common
    explained = public.n_items * noise.values**2 / sizes[kept] ** 2
    distances = np.maximum((away**2).sum(axis=1), 1e-300)
    keep = np.maximum(0.0, 1.0 - explained / distances)
    return _in_ball(common + keep[:, None] * away, public), sizes[kept]


def centres(message: Prototypes, public: Public, *, count: int | None = None) -> Floats:
    """At most `count` centres (by default the plan's number of prototypes) for the users of one message.

    Examples
    --------
    >>> from twofold.prototypes.kmeans import KMeans
    >>> public = Public(n_items=2, n_users=4, max_items=2, bound=9, n_prototypes=2)
    >>> message = KMeans().release(np.array([[1, 0], [1, 2], [9, 0], [9, 2]]), public).value
    >>> centres(message, public, count=1)
    array([[5., 1.]])
    """
    most = public.n_prototypes if count is None else count
    means, sizes = shrunk_means(message, public)
    if len(means) <= most:
        return means
    merged = kmeans(means, most, weights=sizes, n_init=_STARTS, dtype=np.float64, threads=1, rng=public.seed)
    return np.asarray(merged.centers, dtype=np.float64)


def padded(points: Floats, public: Public, *, count: int) -> Floats:
    """Fill up to `count` centres with public points around the mean of those there are.

    Examples
    --------
    >>> padded(np.zeros((1, 3)), Public(n_items=3, n_users=9, max_items=3, bound=1), count=4).shape
    (4, 3)
    """
    missing = count - len(points)
    if missing <= 0:
        return points
    extra = public_points(count=missing, n_items=public.n_items, seed=public.seed, radius=public.row_l2 / 2)
    return np.concatenate([points, points.mean(axis=0) + extra])


def _in_ball(points: Floats, public: Public) -> Floats:
    norms = np.sqrt((points**2).sum(axis=1, keepdims=True))
    return np.asarray(points * np.minimum(1.0, public.row_l2 / np.maximum(norms, 1e-300)))
