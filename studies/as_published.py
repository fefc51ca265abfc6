"""NOT PRIVATE: what the paper prints and what its recorded runs did, to show how the figures came about.

Experiments only. Nothing here keeps the promise it states, and every event says so. Written from the audit's account
of the paper's text and of the recorded runs, as a model of their behaviour, not as a copy of any program. The sound
counterpart is `twofold.release.balcan.chain`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.algorithms._checks import choice, finite, is_sparse, whole_number
from twofold.algorithms._jit import kernel
from twofold.errors import BadShape
from twofold.privacy.events import NonPrivateEvent
from twofold.privacy.mechanisms import Released
from twofold.privacy.unit import Unit

__all__ = [
    "AsRecorded",
    "PrintedConstants",
    "printed_constants",
    "prototypes_as_recorded",
    "sparse_recovery_as_printed",
]

Floats = NDArray[np.float64]
Recovery = Literal["dense", "sparse"]
_SHIFTED_TREES = 2
_SWAPS = 100
_LLOYD_STEPS = 3
_TOGETHER = 1024  # candidates whose distances stay in the processor's nearest memory


@dataclass(frozen=True, kw_only=True)
class PrintedConstants:
    """Constants of the supplement as typed, all of them functions of the private number of users.

    Attributes
    ----------
    dimension, trials, trees : float
        8 log n, 2 log(1/β) and 25 k log(n/β).
    level_epsilon, threshold : float
        ε' = ε/(2 log n) of one tree at (ε/6T)/T_c, and γ = (20/ε') log(n/β).
    swaps : float
        n/β, which the audit holds to be a slip.
    really_spent : float
        Pure ε of the whole under add-or-remove-one on the most charitable reading: (T + 1/3)·ε.
    """

    dimension: float
    trials: float
    trees: float
    level_epsilon: float
    threshold: float
    swaps: float
    really_spent: float


@dataclass(frozen=True, kw_only=True)
class AsRecorded:
    """The result of a recorded run.

    Attributes
    ----------
    centers : array of shape (clusters, items)
        The published prototypes.
    n_candidates, n_empty : int
        How many candidates there were and how many clusters were empty in the end: exact, private numbers.
    """

    centers: Floats
    n_candidates: int
    n_empty: int


def printed_constants(
    n_users: int, n_clusters: int, epsilon: float, *, failure_probability: float = 0.1
) -> PrintedConstants:
    """Work out the supplement's constants; the paper's δ is a failure probability and is called that here.

    Paper
    -----
    ``private_prototypes`` line 1, ``private_partition`` line 12, ``candidate`` line 2, ``localswap`` line 2.

    Examples
    --------
    >>> found = printed_constants(900, 10, 0.1)
    >>> round(found.dimension), round(found.trees), f"{found.threshold:.1e}"
    (54, 2276, '2.9e+09')
    """
    size, ratio = math.log(n_users), math.log(n_users / failure_probability)
    trials, trees = 2 * math.log(1 / failure_probability), 25 * n_clusters * ratio
    level = epsilon / (6 * trials * trees) / (2 * size)
    return PrintedConstants(
        dimension=8 * size,
        trials=trials,
        trees=trees,
        level_epsilon=level,
        # each tree is called with failure probability β/T_c
        threshold=20 / level * math.log(n_users * trees / failure_probability),
        swaps=n_users / failure_probability,
        really_spent=(trials + 1 / 3) * epsilon,
    )


def sparse_recovery_as_printed(
    rows: ArrayLike,
    *,
    epsilon: float,
    sparsity: int,
    bound: float = 1.0,
    unit: Unit | None = None,
    rng: np.random.Generator | int | None = None,
) -> Released[Floats]:
    """NOT PRIVATE: Algorithm 1 with its scales as printed.

    Paper
    -----
    Algorithm 1: Gumbel noise of scale ε|μ|/(2sΛ) on the mean, the s largest, Laplace noise of scale 2Λs/(εn) on those.

    Privacy
    -------
    None for any ε: the Gumbel scale is zero where the mean is zero, grows with ε, and both scales hold private numbers.

    Examples
    --------
    >>> found = sparse_recovery_as_printed(np.eye(3), epsilon=1, sparsity=1, rng=0)
    >>> int((found.value != 0).sum()), found.not_private
    (1, True)
    """
    table, noise = _rows(rows), np.random.default_rng(rng)
    if len(table) == 0:
        raise BadShape("the printed algorithm divides by the number of rows, which is zero.")
    mean = table.mean(axis=0)
    scores = mean + noise.gumbel(size=mean.size) * epsilon * np.abs(mean) / (2 * sparsity * bound)
    kept = np.argsort(-scores, kind="stable")[: whole_number("sparsity", sparsity)]
    center = np.zeros_like(mean)
    center[kept] = mean[kept] + noise.laplace(scale=2 * bound * sparsity / (epsilon * len(table)), size=kept.size)
    return Released(value=center, event=_event("Algorithm 1 with the scales as printed", unit))


def prototypes_as_recorded(
    X: Any,
    n_clusters: int,
    epsilon: float,
    *,
    recovery: Recovery = "dense",
    unit: Unit | None = None,
    rng: np.random.Generator | int | None = None,
) -> Released[AsRecorded]:
    """NOT PRIVATE: a model of what the recorded runs did.

    Parameters
    ----------
    X : array or sparse matrix of shape (users, items)
        The rows.
    n_clusters, epsilon
        As the runs were told.
    recovery : {"dense", "sparse"}
        Laplace noise on every entry of a mean, as in most logs, or on s entries drawn with replacement.
    rng : numpy.random.Generator or int, optional
        Floating-point noise from an ordinary generator.

    Notes
    -----
    One trial; p = ⌊0.5 log n⌋; the exact mean is taken off; range and side are exact maxima of the projected data; one
    unshifted tree and two shifted ones, each at (ε/6)/2 with γ = 2 log n/ε', that look at occupied cells only; 100
    swaps; an empty cluster gives uniform noise in ±range; three Lloyd steps, each at the full ε, that pass the *global*
    mean on for every cluster, so that all prototypes that are not pure noise are copies of one vector. The wrong people
    that the recorded trees count from their third level on are not modelled.

    Privacy
    -------
    None: exact range, mean, sizes and sparsity, empty cells skipped, and each of four recoveries spends all of ε.

    Examples
    --------
    >>> rows = np.random.default_rng(0).poisson(1.0, (400, 12))
    >>> found = prototypes_as_recorded(rows, 5, 0.1, rng=0)
    >>> found.value.n_candidates, found.not_private
    (3, True)
    """
    choice("recovery", recovery, ("dense", "sparse"))
    table, noise = _rows(X), np.random.default_rng(rng)
    if len(table) < 2:
        raise BadShape("the recorded runs need at least two rows.")
    whole_number("n_clusters", n_clusters)
    mean = table.mean(axis=0)
    rows = table - mean
    points = _project(rows, noise)
    reach, side = float(np.linalg.norm(points, axis=1).max()), 2 * float(np.abs(points).max())
    spots = _candidates(points, side, epsilon / 6, noise)
    labels = _nearest(points, _swapped(points, spots, n_clusters, epsilon / 6, max(reach, 1e-12), noise))
    recover = _Recover(epsilon, reach, _most_items(table), recovery, noise)
    centers = np.array([recover(rows[labels == j]) for j in range(n_clusters)])
    middle = rows.mean(axis=0)
    for _ in range(_LLOYD_STEPS):
        labels = _nearest(rows, centers)
        # the slip: every cluster is handed the mean of all rows, not its own
        centers = np.array([recover(rows[labels == j], middle) for j in range(n_clusters)])
    empty = n_clusters - np.unique(labels).size
    found = AsRecorded(centers=centers + mean, n_candidates=len(spots), n_empty=empty)
    return Released(value=found, event=_event("the recorded behaviour of the published runs", unit))


@dataclass(frozen=True)
class _Recover:
    """The center of a cluster as in the recorded runs."""

    epsilon: float
    reach: float
    sparsity: int
    recovery: Recovery
    noise: np.random.Generator

    def __call__(self, rows: Floats, mean: Floats | None = None) -> Floats:
        size, items = len(rows), int(rows.shape[1])
        if size == 0:
            return self.noise.uniform(-self.reach, self.reach, items)
        center = rows.mean(axis=0) if mean is None else mean
        if self.recovery == "dense":
            return np.asarray(center + self.noise.laplace(scale=self.reach / (self.epsilon * size), size=items))
        scale = 4 * self.reach * self.sparsity / (self.epsilon * size)
        weights = np.exp((np.abs(center) - np.abs(center).max()) / scale)
        drawn = self.noise.choice(items, size=self.sparsity, p=weights / weights.sum())  # with replacement, as they did
        kept = np.zeros(items)
        kept[drawn] = center[drawn] + self.noise.laplace(scale=scale, size=drawn.size)
        return kept


def _project(rows: Floats, noise: np.random.Generator) -> Floats:
    dimension = max(1, math.floor(0.5 * math.log(len(rows))))
    points: Floats = rows @ noise.standard_normal((rows.shape[1], dimension)) / math.sqrt(dimension)
    return points


def _candidates(points: Floats, side: float, epsilon: float, noise: np.random.Generator) -> Floats:
    """One unshifted tree and two shifted ones; mostly three roots."""
    shifts = [np.zeros(points.shape[1])]
    shifts += [noise.uniform(-side / 2, side / 2, int(points.shape[1])) for _ in range(_SHIFTED_TREES)]
    return np.concatenate([_tree(points, shift, side, epsilon / _SHIFTED_TREES, noise) for shift in shifts])


def _tree(points: Floats, root: Floats, side: float, epsilon: float, noise: np.random.Generator) -> Floats:
    size = math.log(len(points))
    level = epsilon / (2 * size)
    threshold = 2 * size / level
    centers, active = [root], [(root, np.arange(len(points)))]
    for depth in range(1, math.floor(size) + 1):
        quarter, grown = side / 2 ** (depth + 1), []
        for center, held in active:
            upper = points[held] > center
            for signs in np.unique(upper, axis=0):  # occupied cells only: an empty one can never open
                inside = (upper == signs).all(axis=1)
                if inside.sum() + noise.laplace(scale=1 / level) > threshold:
                    grown.append((center + np.where(signs, quarter, -quarter), held[inside]))
        active = grown
        centers += [center for center, _ in active]
    return np.array(centers)


def _swapped(
    points: Floats, spots: Floats, n_clusters: int, epsilon: float, reach: float, noise: np.random.Generator
) -> Floats:
    """A hundred swaps at exponent ε/(4 range² (T + 1)), and a last pick of the right sign."""
    chosen = noise.integers(len(spots), size=n_clusters)
    rate = epsilon / (4 * reach**2 * (_SWAPS + 1))
    seen, losses = [], []
    for _ in range(_SWAPS):
        after = _losses(points, spots, chosen).ravel()
        taken = _pick(-rate * after, noise)
        chosen = chosen.copy()
        chosen[taken // len(spots)] = taken % len(spots)
        seen.append(chosen)
        losses.append(after[taken])
    return spots[seen[_pick(-rate * np.array(losses), noise)]]


def _losses(points: Floats, spots: Floats, chosen: NDArray[np.int64]) -> Floats:
    """Loss after every swap, by nearest and second-nearest distances."""
    # Most of the chosen are copies of few candidates, so nearest and second nearest are looked for among those; in the
    # order of their first places, so that ties fall as they would over all of the chosen.
    taken, first, copies = np.unique(chosen, return_index=True, return_counts=True)
    order = np.argsort(first)
    here = spots[taken[order]]
    held = np.maximum((points**2).sum(axis=1)[:, None] + (here**2).sum(axis=1) - 2 * points @ here.T, 0.0)
    best = held.argmin(axis=1)
    near = first[order][best]
    ranked = np.partition(np.column_stack([held, np.full(len(held), np.inf)]), (0, 1), axis=1)[:, :2]
    ranked[:, 1] = np.where(copies[order][best] > 1, ranked[:, 0], ranked[:, 1])
    together = np.argsort(near, kind="stable")  # rows of the table are added to one after another
    kept, more = np.zeros(len(spots)), np.zeros((len(chosen), len(spots)))
    _add_losses(points[together], np.ascontiguousarray(spots.T), ranked[together], near[together], kept, more)
    total: Floats = kept[None, :] + more
    return total


@kernel(fastmath={"contract", "nnan", "nsz"})
def _add_losses(points: Any, turned: Any, ranked: Any, near: Any, kept: Any, more: Any) -> None:
    """Add every point's distance to each candidate, at most to its nearest center, and what more it is to its second.

    No table of points by candidates is made: at ε = 1,000 there are 15,525 candidates for 100,000 people, 12 GB.
    """
    away = np.empty(_TOGETHER)
    for start in range(0, turned.shape[1], _TOGETHER):
        stop = min(start + _TOGETHER, turned.shape[1])
        sums, width = kept[start:stop], stop - start
        for i in range(points.shape[0]):
            for j in range(width):
                away[j] = 0.0
            for q in range(points.shape[1]):
                here, there = points[i, q], turned[q, start:stop]
                for j in range(width):
                    away[j] += (here - there[j]) ** 2
            nearest, second, row = ranked[i, 0], ranked[i, 1], more[near[i], start:stop]
            for j in range(width):
                low = min(away[j], nearest)
                sums[j] += low
                row[j] += min(away[j], second) - low


def _pick(logs: Floats, noise: np.random.Generator) -> int:
    return int(np.argmax(logs + noise.gumbel(size=logs.size)))


def _nearest(points: Floats, centers: Floats) -> NDArray[np.int64]:
    scores = (centers**2).sum(axis=1)[None, :] - 2 * points @ centers.T
    return np.asarray(scores.argmin(axis=1))


def _most_items(table: Floats) -> int:
    return max(1, int((table != 0).sum(axis=1).max()))


def _rows(X: Any) -> Floats:
    table = np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 1:
        raise BadShape("the rows are not a matrix.", found=f"{table.ndim} dimensions", expected="users x items")
    finite("X", table)
    return table


def _event(what: str, unit: Unit | None) -> NonPrivateEvent:
    return NonPrivateEvent(unit=unit or Unit.person(), reason=f"{what}: an experiment, not private")
