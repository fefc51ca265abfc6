"""After the noise: centers from noisy sums and counts, and the choice among trials."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms._private_kmeans_config import PrivateKMeansConfig
from twofold.algorithms.projection import RowBounds, record_blocks
from twofold.privacy.budget import Number
from twofold.privacy.caps import cap_l2
from twofold.privacy.grid import LIMIT, Grid, Integers
from twofold.privacy.mechanisms import ExponentialMechanism
from twofold.privacy.unit import Unit

__all__ = ["centers_from", "choice_mechanism", "trial_losses"]

Floats = NDArray[np.float64]


def centers_from(
    sums: Floats, counts: Floats, scale: float, counts_scale: float, config: PrivateKMeansConfig
) -> Floats:
    """Means from noisy sums and counts: divided, drawn to the common mean, clipped. Sees released numbers only.

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
