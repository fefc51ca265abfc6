"""Algorithm 6: a private local search for k centers among candidates, by swaps drawn with the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.algorithms import _kmeans_kernels as _localswap_kernels
from twofold.algorithms import _reference as _localswap_reference
from twofold.algorithms._checks import whole_number
from twofold.algorithms._jit import Workers, numba_enabled
from twofold.algorithms.kmeans import kmeans
from twofold.errors import BadPrivacyParameter, BadShape
from twofold.privacy.budget import Number, positive
from twofold.privacy.events import SequentialEvent
from twofold.privacy.grid import Integers, whole
from twofold.privacy.mechanisms import ExponentialMechanism, Released
from twofold.privacy.rng import Source, source
from twofold.privacy.unit import Unit
from twofold.release.balcan.projection import RADIUS

__all__ = ["localswap", "localswap_event", "nearest_centers", "public_start", "swap_losses"]

Floats = NDArray[np.float64]
# Points and centers are in the ball, so no squared distance exceeds (2·RADIUS)²: the sensitivity of a loss.
LARGEST_LOSS = 4 * RADIUS**2
_BLOCK_USERS = 2**26  # so that the loss of a block stays below 2^53 and is exact in float64
_MOST_POINTS = 2**34  # so that the sum of the blocks stays below 2^61 and is exact in int64
_BLOCKS = 16
_STARTS = 8


@dataclass(frozen=True, kw_only=True)
class _Nearest:
    """Nearest center of every point, and squared distances to it and to the second nearest."""

    near: NDArray[np.int64]
    first: Floats
    second: Floats


def localswap(
    points: ArrayLike,
    candidates: ArrayLike,
    *,
    epsilon: Number,
    n_clusters: int,
    swaps: int,
    unit: Unit,
    start: ArrayLike | None = None,
    most_candidates: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    rng: int | Source | None = None,
) -> Released[Integers]:
    """Choose `n_clusters` of the candidates by private swaps.

    Parameters
    ----------
    points : int array of shape (users, dimension)
        In the ball of `RADIUS`.
    candidates : int array of shape (candidates, dimension)
        In the ball; a function of earlier releases or public.
    epsilon : number
        Price of all swaps and the last pick; each of the swaps + 1 picks costs epsilon/(swaps + 1).
    n_clusters, swaps : int
        Public.
    start : int array of shape (n_clusters,), optional
        Candidates to start from, a function of earlier releases or public; by default drawn with public coins.
    most_candidates : int, optional
        Public limit on the number of candidates, which the event states; by default their number.
    unit, rng, seed, threads
        Whose presence is hidden, the source of the noise, public coins, and threads for the losses.

    Returns
    -------
    Released
        Numbers of the chosen candidates; repeats are possible when candidates are few.

    Paper
    -----
    Algorithm 6. A swap (x out, y in) has weight exp(-ε L(Z')/((T+1)·4R²)).

    Privacy
    -------
    The loss L is a sum over users of a squared distance in [0, 4R²], a whole number of grid units here. One more user
    adds to every score at once (monotone), so a pick with exponent a multiplies every weight and their sum by factors
    in [exp(-4aR²), 1] and costs 4aR² (audit, L3). Swaps are drawn one after another and all of Z⁰, ..., Zᵀ may be
    seen; adaptive composition of T + 1 picks at epsilon/(T + 1). Replace-one costs twice.

    Losses are exact for up to 2^34 users, more than there are people. An array with more points, or with points outside
    the ball (`project` makes none), is refused before any noise is drawn here.

    Deviations
    ----------
    T is public, not n/δ. The last pick has the sign that prefers small losses; as typed it prefers large ones. The last
    pick may also fall on the start, and y may be a present center (then the swap changes nothing or makes a repeat):
    both cost nothing, and the set C without Z, which is empty when candidates are few, is never needed.

    Notes
    -----
    One step costs candidates x users x dimension, plus k x candidates: nearest and second-nearest distances are kept,
    and L(i out, j in) = Σ min(d_j, d₁) + Σ over users of i of (min(d_j, d₂) - min(d_j, d₁)).

    Examples
    --------
    >>> crowd = np.array([[0, 0], [2000, 0]] * 500)
    >>> spots = [[0, 0], [2000, 0], [0, 3000], [-3000, 0]]
    >>> chosen = localswap(crowd, spots, epsilon=100, n_clusters=2, swaps=4, unit=Unit.person())
    >>> sorted(chosen.value.tolist())
    [0, 1]
    """
    where, spots = _in_ball(points, "points"), _in_ball(candidates, "candidates")
    if where.shape[1] != spots.shape[1]:
        raise BadShape("points and candidates have different dimensions.", expected=f"{spots.shape[1]} coordinates")
    most = len(spots) if most_candidates is None else whole_number("most_candidates", most_candidates, least=len(spots))
    pick, noise = _mechanism(epsilon, swaps, unit), source(rng)
    event = localswap_event(
        epsilon=epsilon, n_clusters=n_clusters, swaps=swaps, candidates=most, unit=unit, seeded=noise.seeded
    )
    chosen = _start(start, len(spots), n_clusters, seed)
    visited, losses = [chosen], []
    with Workers(threads) as workers:
        for _ in range(swaps):
            table = _losses(where, spots, chosen, workers)
            losses.append(int(table[0, chosen[0]]))  # taking the first out and putting it back
            out, into = divmod(pick.release(-table.ravel(), rng=noise).value, len(spots))
            chosen = chosen.copy()
            chosen[out] = into
            visited.append(chosen)
            last = int(table[out, into])
    best = pick.release(-np.array([*losses, last]), rng=noise).value
    return Released(value=visited[best], event=event)


def localswap_event(
    *, epsilon: Number, n_clusters: int, swaps: int, candidates: int, unit: Unit, seeded: bool = False
) -> SequentialEvent:
    """Describe the swaps and the last pick before they are made; `candidates` is a public limit.

    Examples
    --------
    >>> event = localswap_event(epsilon=1, n_clusters=2, swaps=3, candidates=9, unit=Unit.person())
    >>> [one.candidates for one in event.events]
    [18, 18, 18, 4]
    """
    pick = _mechanism(epsilon, swaps, unit)
    whole_number("n_clusters", n_clusters)
    steps = [pick.event(n_clusters * candidates, seeded=seeded)] * swaps
    return SequentialEvent.of(*steps, pick.event(swaps + 1, seeded=seeded))


def swap_losses(points: ArrayLike, candidates: ArrayLike, chosen: ArrayLike, *, threads: int | None = None) -> Integers:
    """Loss after every swap: entry (i, j) is L when the i-th chosen center leaves and candidate j comes in.

    Privacy
    -------
    None: exact losses of private points. `localswap` shows them to the exponential mechanism only.

    Examples
    --------
    >>> swap_losses([[0], [10]], [[0], [10], [4]], [0, 1])
    array([[  0, 100,  16],
           [100,   0,  36]])
    """
    where, spots, picked = _in_ball(points, "points"), _in_ball(candidates, "candidates"), whole(chosen)
    with Workers(threads) as workers:
        return _losses(where, spots, picked, workers)


def nearest_centers(points: ArrayLike, centers: ArrayLike) -> Integers:
    """Nearest center of every point, ties to the lower number, by exact whole distances.

    Privacy
    -------
    A user's label depends on that user's point and the released centers alone, so clusters are disjoint parts of the
    users (audit, L4). Labels are never released.

    Examples
    --------
    >>> nearest_centers([[0], [9], [5]], [[0], [10]])
    array([0, 1, 0])
    """
    where, spots = _in_ball(points, "points"), _in_ball(centers, "centers")
    return _nearest(where.astype(np.float64), spots.astype(np.float64)).near


def public_start(candidates: ArrayLike, weights: ArrayLike, n_clusters: int, *, seed: int = 0) -> Integers:
    """Start from k-means of the candidates themselves, weighted by where the tree found people.

    Privacy
    -------
    Sees released candidates and weights only: post-processing, free.

    Deviations
    ----------
    The paper starts from k candidates drawn uniformly; a better start needs fewer swaps, and each swap costs.

    Examples
    --------
    >>> sorted(public_start([[0], [1], [50], [51]], [5, 0, 5, 0], 2).tolist())
    [0, 2]
    """
    spots, known = _in_ball(candidates, "candidates").astype(np.float64), whole(weights)
    if len(spots) < n_clusters or known.shape != (len(spots),):
        raise BadShape("candidates are fewer than clusters, or do not match their weights.")
    mass = known if known.any() else np.ones_like(known)
    found = kmeans(
        spots[mass > 0], n_clusters, weights=mass[mass > 0], n_init=_STARTS, rng=seed, dtype=np.float64, threads=1
    )
    distances = ((spots[None, :, :] - found.centers[:, None, :]) ** 2).sum(axis=2)
    chosen = np.empty(n_clusters, dtype=np.int64)
    for cluster, line in enumerate(distances):  # a candidate starts one cluster only
        chosen[cluster] = line.argmin()
        distances[:, chosen[cluster]] = np.inf
    return chosen


def _mechanism(epsilon: Number, swaps: int, unit: Unit) -> ExponentialMechanism:
    whole_number("swaps", swaps)
    share = positive(epsilon, name="epsilon") / (swaps + 1)
    return ExponentialMechanism(epsilon=share, sensitivity=LARGEST_LOSS, monotone=True, unit=unit)


def _start(start: ArrayLike | None, candidates: int, n_clusters: int, seed: int) -> Integers:
    if start is None:
        coins = np.random.Generator(np.random.PCG64([seed, 2]))
        return coins.choice(candidates, n_clusters, replace=candidates < n_clusters).astype(np.int64)
    chosen = whole(start)
    if chosen.shape != (n_clusters,) or ((chosen < 0) | (chosen >= candidates)).any():
        raise BadShape("the start must name one candidate per cluster.", expected=f"{n_clusters} numbers")
    return chosen


def _losses(points: Integers, spots: Integers, chosen: Integers, workers: Workers) -> Integers:
    where, table = points.astype(np.float64), np.ascontiguousarray(spots.T, dtype=np.float64)
    edges = _edges(len(where))
    found = _nearest(where, spots[chosen].astype(np.float64))
    base = np.zeros((len(edges) - 1, len(spots)))
    extra = np.zeros((len(edges) - 1, len(chosen), len(spots)))
    step = (_localswap_kernels if numba_enabled() else _localswap_reference).add_swap_losses

    def block(number: int) -> None:
        span = slice(edges[number], edges[number + 1])
        step(where[span], table, found.near[span], found.first[span], found.second[span], base[number], extra[number])

    workers.run(block, len(edges) - 1)
    total: Integers = base.astype(np.int64).sum(axis=0)[None, :] + extra.astype(np.int64).sum(axis=0)
    return total


def _edges(users: int) -> Integers:
    """Bounds of blocks of users: enough for the threads, and as many as exact sums need."""
    blocks = max(min(_BLOCKS, users // 1024), -(-users // _BLOCK_USERS), 1)
    return np.arange(blocks + 1, dtype=np.int64) * users // blocks


def _nearest(where: Floats, centers: Floats) -> _Nearest:
    size = len(where)
    found = _Nearest(near=np.zeros(size, dtype=np.int64), first=np.zeros(size), second=np.zeros(size))
    step = (_localswap_kernels if numba_enabled() else _localswap_reference).nearest_two
    if size:
        step(where, np.ascontiguousarray(centers), float(LARGEST_LOSS), found.near, found.first, found.second)
    return found


def _in_ball(values: ArrayLike, name: str) -> Integers:
    array = whole(values)
    if array.ndim != 2 or array.shape[1] < 1 or (name != "points" and len(array) < 1):
        raise BadShape(f"{name} need one row each.", found=f"{array.ndim} dimensions", expected="2 dimensions")
    if len(array) > _MOST_POINTS:
        raise BadShape("too many points for exact losses.", expected=f"at most {_MOST_POINTS}")
    # A coordinate is held to the radius first: the square of a larger one could wrap around 64 bits.
    if (np.abs(array) > RADIUS).any() or ((array**2).sum(axis=1) > RADIUS**2).any():
        raise BadPrivacyParameter(
            f"some of the {name} are outside the ball.", fix="clip_to_ball(points)", parameter=name
        )
    return array
