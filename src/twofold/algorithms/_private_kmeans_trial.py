"""One trial of the paper's chain, and the events that describe it before it is run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from twofold.algorithms._checks import is_sparse
from twofold.algorithms._private_kmeans_centers import centers_from
from twofold.algorithms._private_kmeans_config import Mode, PrivateKMeansConfig, choose_mode
from twofold.algorithms.localswap import localswap, localswap_event, nearest_centers, public_start
from twofold.algorithms.partition import candidate, candidate_event
from twofold.algorithms.projection import RowBounds, project, record_blocks
from twofold.algorithms.sparse_recovery import Recovery, counts_event, noisy_counts, sparse_recovery
from twofold.errors import BadShape
from twofold.privacy.events import Event
from twofold.privacy.grid import Integers
from twofold.privacy.rng import Source

__all__ = ["Parts", "PrivateKMeansResult", "n_items_of", "parts_of", "run_trial", "trial_events"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PrivateKMeansResult:
    """What may leave, all of it noisy.

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


def run_trial(X: Any, config: PrivateKMeansConfig, parts: Parts, number: int, noise: Source) -> PrivateKMeansResult:
    """Run the chain once: labels, noisy sums, noisy counts, centers."""
    bounds, unit = config.bounds, config.unit
    seed = int(np.random.SeedSequence([config.seed, number]).generate_state(1)[0])
    labels = _labels(X, config, parts, bounds, seed, noise)
    sums = sparse_recovery(_sums(X, labels, parts.clusters, bounds), parts.recovery, rng=noise).value
    counts = noisy_counts(labels, parts.clusters, epsilon=parts.counts, unit=unit, rng=noise).value
    scale = parts.recovery.deviation * float(config.grid.step) / math.sqrt(2)
    counts_scale = float(1 / parts.counts)
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
    total = np.zeros((n_clusters, n_items_of(X)), dtype=np.int64)
    for span, block in record_blocks(X, bounds):
        size = block.shape[0]
        member = sp.csr_array(
            (np.ones(size, dtype=np.int64), (labels[span], np.arange(size))), shape=(n_clusters, size)
        )
        total += (member @ block).toarray()
    return total


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
    """Count the columns, which are public; what is no matrix is refused."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    if len(shape) != 2 or shape[1] < 1:
        raise BadShape("the rows are not a matrix.", found=f"{len(shape)} dimensions", expected="users x items")
    return int(shape[1])
