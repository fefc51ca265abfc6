r"""Private k-means: the paper's chain from bounded rows to noisy sums and counts, pure ε, add or remove one row.

One trial of the paper's chain, and the events that describe it before it is run.

After the noise: centers from noisy sums and counts, and the choice among trials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from twofold.algorithms._checks import is_sparse
from twofold.errors import BadShape
from twofold.privacy.budget import Number
from twofold.privacy.events import Event, SequentialEvent
from twofold.privacy.grid import LIMIT, Grid, Integers, cap_l2
from twofold.privacy.mechanisms import ExponentialMechanism, Released
from twofold.privacy.rng import Source, source
from twofold.privacy.unit import Unit
from twofold.release.balcan.config import Mode, PrivateKMeansConfig, Shares, choose_mode, noise_energy
from twofold.release.balcan.projection import RowBounds, project, record_blocks
from twofold.release.balcan.recovery import Recovery, counts_event, noisy_counts, sparse_recovery
from twofold.release.balcan.swaps import localswap, localswap_event, nearest_centers, public_start
from twofold.release.balcan.tree import candidate, candidate_event
from twofold.release.clamp import LARGEST_NUMBER, ExactSum

__all__ = [
    "Mode",
    "Parts",
    "PrivateKMeansConfig",
    "PrivateKMeansResult",
    "Shares",
    "centers_from",
    "choice_mechanism",
    "choose_mode",
    "n_items_of",
    "noise_energy",
    "parts_of",
    "planned_event",
    "private_kmeans",
    "run_trial",
    "trial_events",
    "trial_losses",
]


def planned_event(config: PrivateKMeansConfig, n_items: int, *, seeded: bool = False) -> Event:
    """Describe a release completely before anything is drawn; `private_kmeans` returns an equal event.

    Privacy
    -------
    Made of public numbers only. Selections state the public limit on candidates, of which there may be fewer.

    Examples
    --------
    >>> from twofold.privacy.accountant import price
    >>> config = PrivateKMeansConfig(n_clusters=3, epsilon=1, promised_users=9000, bound=1, max_items=8)
    >>> price(planned_event(config, 40))
    PureDP(epsilon=Fraction(1, 1))
    """
    parts = parts_of(config, n_items)
    events = [one for _ in range(parts.trials) for one in trial_events(config, parts, n_items, seeded)]
    if parts.trials > 1:
        events.append(choice_mechanism(parts.choice, config.bounds, config.unit).event(parts.trials, seeded=seeded))
    return SequentialEvent.of(*events)


def private_kmeans(
    X: Any, config: PrivateKMeansConfig, *, rng: int | Source | None = None
) -> Released[PrivateKMeansResult]:
    """Release k centers of rows, with the noisy sums and counts they are made of.

    Parameters
    ----------
    X : array or sparse matrix of shape (users, items)
        One row per user. Rows are held to the bounds of `config`; an absent entry is a zero.
    config : PrivateKMeansConfig
        Every parameter; public.
    rng : int or Source, optional
        Nothing for the operating system's randomness; a seed makes the release repeatable and not private.

    Returns
    -------
    Released
        A `PrivateKMeansResult` with its event, which equals `planned_event` of the same public numbers.

    Paper
    -----
    Algorithm 3, ``private_prototypes``: project, candidates, swaps, partition, recovery, and a choice among trials.

    Privacy
    -------
    Pure ε for one row added or removed (the audit's theorem, 3.4). With E the parts of `config.split()`:

    * candidates, E_candidate: L1, L2, every child cell decided, ε' = E_candidate/(trees·depth) per level;
    * swaps, E_swap: L3, exponent E_swap/((swaps + 1)·4R²), points and candidates clipped to the R ball;
    * labels: free, since with the centers released a row's label depends on that row alone (L4);
    * sums, E_values: L5 and L6, Laplace scale B1/E_values (or the selected entries); counts, E_counts: scale
      1/E_counts. Clusters are disjoint, so the dearest one is the price;
    * T trials share all this equally, and one is chosen at E_choice, exponent E_choice/(4·R2²), rows and centers
      clipped to the R2 ball.

    Sequential composition adds the parts up to exactly ε. With a δ above 0 the sums may get Gaussian noise, (E_values,
    δ) by zCDP, and the whole is (ε, δ). Centers are computed from what was released. No row, one row,
    all-zero rows or fewer rows than clusters take the same path: to refuse them would tell them apart. Replace-one
    costs 2ε.

    Deviations
    ----------
    The theorem in the paper does not hold as written (audit, section 2). Everything that it computes from n is public
    here. The budget is shared, not given in full to each trial. Swaps start from k-means of the released cells. When
    public numbers say that noise would hide the centers, users are put in public buckets or in one cluster, and the
    result says so (`choose_mode`).

    Examples
    --------
    >>> rows = np.repeat(np.eye(3), 3000, axis=0)
    >>> config = PrivateKMeansConfig(n_clusters=3, epsilon=20, promised_users=9000, bound=1, max_items=1)
    >>> found = private_kmeans(rows, config).value
    >>> found.mode, sorted(found.centers.round(1).argmax(axis=1).tolist())
    ('chain', [0, 1, 2])
    """
    n_items = n_items_of(X)
    parts, noise = parts_of(config, n_items), source(rng)
    event = planned_event(config, n_items, seeded=noise.seeded)
    results = [run_trial(X, config, parts, number, noise) for number in range(parts.trials)]
    best = 0
    if parts.trials > 1:
        losses = trial_losses(X, [one.centers for one in results], config.bounds)
        best = choice_mechanism(parts.choice, config.bounds, config.unit).release(-losses, rng=noise).value
    return Released(value=results[best], event=event)


Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PrivateKMeansResult:
    """The part that may leave; every number in it is noisy.

    Attributes
    ----------
    centers : array of shape (clusters, n_items)
        Noisy sums over noisy counts, shrunk as far as the noise says and clipped to the bounds.
    sums : array of shape (clusters, n_items)
        Noisy sums of the rows, in the units of the rows. Entries that were not kept are 0.
    counts : array of shape (clusters,)
        Noisy numbers of rows; may be negative.
    sums_scale, counts_scale : float
        Scale of the Laplace noise on an entry of `sums` and of `counts`; public. √2 times it is the standard
        deviation; for Gaussian noise (with a δ) the scale of that deviation is given.
    mode : {"chain", "buckets", "single"}
        How rows were put together: the paper's chain, public buckets, or all in one. From public numbers only.
    reason : str
        Why this mode.
    seeded : bool
        True when the noise came from a seed: the result is then *not private*.
    """

    centers: Floats
    sums: Floats
    counts: Floats
    sums_scale: float
    counts_scale: float
    mode: Mode
    reason: str
    seeded: bool


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Price of each step of one trial, and how its sums are released."""

    mode: Mode
    clusters: int
    trials: int
    candidate: Fraction
    swap: Fraction
    counts: Fraction
    choice: Fraction
    recovery: Recovery

    def sums_scale(self, config: PrivateKMeansConfig) -> float:
        """Scale of the noise on the sums, in the units of the values."""
        return self.recovery.deviation * float(config.grid.step) / math.sqrt(2)

    @property
    def counts_scale(self) -> float:
        """Scale of the noise on the counts."""
        return float(1 / self.counts)


def run_trial(X: Any, config: PrivateKMeansConfig, parts: Parts, number: int, noise: Source) -> PrivateKMeansResult:
    """Run the chain once: labels, noisy sums, noisy counts, centers."""
    bounds, unit = config.bounds, config.unit
    seed = int(np.random.SeedSequence([config.seed, number]).generate_state(1)[0])
    labels = _labels(X, config, parts, bounds, seed, noise)
    sums = sparse_recovery(_sums(X, labels, parts.clusters, bounds), parts.recovery, rng=noise).value
    counts = noisy_counts(labels, parts.clusters, epsilon=parts.counts, unit=unit, rng=noise).value
    scale, counts_scale = parts.sums_scale(config), parts.counts_scale
    real, sizes = config.grid.back(sums), counts.astype(np.float64)
    return PrivateKMeansResult(
        centers=centers_from(real, sizes, scale, counts_scale, config),
        sums=real,
        counts=sizes,
        sums_scale=scale,
        counts_scale=counts_scale,
        mode=parts.mode,
        reason=choose_mode(config, sums.shape[1])[1],
        seeded=noise.seeded,
    )


def _labels(X: Any, config: PrivateKMeansConfig, parts: Parts, bounds: RowBounds, seed: int, noise: Source) -> Integers:
    """Cluster of every row: never released, and a function of that row and of releases."""
    if parts.mode == "single":
        return np.zeros(X.shape[0] if is_sparse(X) else len(X), dtype=np.int64)
    radius = config.l2 * Fraction(config.radius)
    if parts.mode == "buckets":
        seen = project(X, bounds=bounds, dimension=parts.clusters, radius=radius, seed=seed)
        return seen.argmax(axis=1) if len(seen) else np.zeros(0, dtype=np.int64)
    points = project(X, bounds=bounds, dimension=config.dimension, radius=radius, seed=seed)
    found = candidate(
        points,
        epsilon=parts.candidate,
        depth=config.depth,
        threshold=config.threshold,
        unit=config.unit,
        least=config.n_clusters,
        trees=config.trees,
        most=config.most_candidates,
        seed=seed,
        rng=noise,
    ).value
    chosen = localswap(
        points,
        found.points,
        epsilon=parts.swap,
        n_clusters=config.n_clusters,
        swaps=config.swaps,
        unit=config.unit,
        start=public_start(found.points, found.weights, config.n_clusters, seed=seed),
        most_candidates=config.most_candidates,
        rng=noise,
    ).value
    return nearest_centers(points, found.points[chosen])


def _sums(X: Any, labels: Integers, n_clusters: int, bounds: RowBounds) -> Integers:
    """Exact sums of each cluster's records, in grid units."""
    total = ExactSum((n_clusters, n_items_of(X)))
    for span, block in record_blocks(X, bounds):
        size = block.shape[0]
        member = sp.csr_array(
            (np.ones(size, dtype=np.int64), (labels[span], np.arange(size))), shape=(n_clusters, size)
        )
        total.add((member @ block).toarray(), most=size * bounds.l1_steps)
    return total.held(LARGEST_NUMBER)


def parts_of(config: PrivateKMeansConfig, n_items: int) -> Parts:
    """Share the budget over the steps of each trial; public numbers only."""
    mode, _ = choose_mode(config, n_items)
    trials = config.trials if mode == "chain" else 1
    split = config.split(mode)
    names = dict(split.parts)
    shares = {name: names[name].epsilon / trials if name in names else Fraction(0) for name in ("candidate", "swap")}
    return Parts(
        mode=mode,
        clusters=1 if mode == "single" else config.n_clusters,
        trials=trials,
        counts=split["counts"].epsilon / trials,
        choice=split["choice"].epsilon if trials > 1 else Fraction(0),
        recovery=config.recovery(split["values"].epsilon / trials),
        **shares,
    )


def trial_events(config: PrivateKMeansConfig, parts: Parts, n_items: int, seeded: bool) -> list[Event]:
    """Describe one trial before it is run."""
    released = [
        parts.recovery.event(parts.clusters, n_items, seeded=seeded),
        counts_event(parts.clusters, epsilon=parts.counts, unit=config.unit, seeded=seeded),
    ]
    if parts.mode != "chain":
        return released
    tree = candidate_event(
        epsilon=parts.candidate,
        depth=config.depth,
        threshold=config.threshold,
        trees=config.trees,
        dimension=min(config.dimension, n_items),
        unit=config.unit,
        seeded=seeded,
    )
    swaps = localswap_event(
        epsilon=parts.swap,
        n_clusters=config.n_clusters,
        swaps=config.swaps,
        candidates=config.most_candidates,
        unit=config.unit,
        seeded=seeded,
    )
    return [tree, swaps, *released]


def n_items_of(X: Any) -> int:
    """Count the columns, which are public; refuse anything but a matrix."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    if len(shape) != 2 or shape[1] < 1:
        raise BadShape("the rows are not a matrix.", found=f"{len(shape)} dimensions", expected="users x items")
    return int(shape[1])


def centers_from(
    sums: Floats, counts: Floats, scale: float, counts_scale: float, config: PrivateKMeansConfig
) -> Floats:
    """Means from noisy sums and counts: divided, pulled towards the common mean, clipped. Released numbers only.

    A count below the scale of its noise says nothing and is raised to it. With `config.shrink`, a center at squared
    distance d from the common mean, whose noise has squared length e on average, keeps the part max(0, 1 - e/d) of its
    difference (positive-part James-Stein); a center that is all noise falls on the common mean.

    Examples
    --------
    >>> config = PrivateKMeansConfig(n_clusters=2, epsilon=1, promised_users=9, bound=1, max_items=2, shrink=False)
    >>> centers_from(np.array([[8.0, 0.0], [0.0, 3.0]]), np.array([10.0, 5.0]), 1.0, 1.0, config)
    array([[0.8, 0. ],
           [0. , 0.6]])
    """
    sizes = np.maximum(counts, max(1.0, counts_scale))
    centers = sums / sizes[:, None]
    if config.shrink:
        common = sums.sum(axis=0) / sizes.sum() if len(sums) > 1 else np.zeros(sums.shape[1])
        noisy = min(sums.shape[1], config.keep or sums.shape[1])
        energy = 2 * noisy * (scale / sizes) ** 2
        distance = ((centers - common) ** 2).sum(axis=1)
        part = np.maximum(0.0, 1 - energy / np.maximum(distance, np.finfo(np.float64).tiny))
        centers = common + part[:, None] * (centers - common)
    low = -float(config.bound) if config.signed else 0.0
    return np.clip(centers, low, float(config.bound))


def choice_mechanism(epsilon: Number, bounds: RowBounds, unit: Unit) -> ExponentialMechanism:
    """Pick among trials by their loss: one row adds a squared distance between two points of the R2 ball.

    Examples
    --------
    >>> bounds = RowBounds(bound=1, l1=1, l2=1, grid=Grid())
    >>> choice_mechanism(1, bounds, Unit.person()).scale
    Fraction(4, 1)
    """
    return ExponentialMechanism(
        epsilon=epsilon,
        sensitivity=4 * bounds.l2_steps_squared,
        monotone=True,
        unit=unit,
        grid=Grid(exponent=2 * bounds.grid.exponent),
    )


def trial_losses(X: Any, centers: list[Floats], bounds: RowBounds) -> Integers:
    """Loss of each trial's centers over the records, whole numbers; not private, for the mechanism only.

    Privacy
    -------
    Centers are put on the grid and clipped to the R2 ball, without which no bound holds on a row's share of the loss.
    A loss is cut at the largest number the mechanism takes: a refusal would depend on the rows, while cutting keeps
    both the sensitivity and the sign of every change.

    Examples
    --------
    >>> bounds = RowBounds(bound=4, l1=4, l2=4, grid=Grid())
    >>> trial_losses(np.array([[4.0], [0.0]]), [np.array([[1.0]]), np.array([[4.0], [0.0]])], bounds)
    array([10,  0])
    """
    losses = [0] * len(centers)
    whole = [_in_ball(bounds.grid.put(one), bounds) for one in centers]
    for _, block in record_blocks(X, bounds):
        norms = np.asarray((block**2).sum(axis=1)).ravel()
        for trial, one in enumerate(whole):
            distances = norms[:, None] + (one**2).sum(axis=1)[None, :] - 2 * np.asarray(block @ one.T)
            losses[trial] += int(distances.min(axis=1).sum())
    return np.array([min(loss, LIMIT - 1) for loss in losses], dtype=np.int64)


def _in_ball(centers: Integers, bounds: RowBounds) -> Integers:
    starts = np.arange(0, centers.size + 1, centers.shape[1])
    return cap_l2(centers.ravel(), starts, limit_squared=bounds.l2_steps_squared).reshape(centers.shape)
