"""The mechanisms of this layer as the audit sees them: a batch of runs, two neighbours and a claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.privacy.audit.lower_bound import Batch, Statistic, repeat
from twofold.privacy.budget import ApproxDP
from twofold.privacy.events import Released
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian, DiscreteGaussianShare
from twofold.privacy.mechanisms.laplace import DiscreteLaplace, DiscreteLaplaceShare
from twofold.privacy.mechanisms.selection import ExponentialMechanism, GumbelTop
from twofold.privacy.mechanisms.threshold import PrivateThreshold
from twofold.privacy.rng import Source
from twofold.privacy.unit import Unit

__all__ = ["Subject", "subjects"]

_PERSON = Unit.person()
_BUDGET = ApproxDP(epsilon=1, delta=1e-5)
_PARTIES = 5
_FINE = 1024


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A mechanism with its claim and neighbours that make its loss large; `runs` weighs cost against power.

    `released` gives one release with its event, where the parameters of the event are to be compared as well. `broken`
    marks a mechanism whose claim is false, which the audit must find out.
    """

    name: str
    claimed: ApproxDP
    batch: Batch
    data: Any
    neighbour: Any
    runs: int
    statistic: Statistic | None = None
    released: Callable[[Any, Source], Released[Any]] | None = None
    broken: bool = False


def subjects() -> list[Subject]:
    """Every mechanism, each claiming ε = 1.

    Examples
    --------
    >>> len(subjects())
    8
    """
    pure = ApproxDP(epsilon=1)
    many, few = 100_000, 6_000
    top, swap = np.array([3, 3, 3, 0, 0, 0]), np.array([0, -4, -40])
    return [
        Subject(name="discrete Laplace", claimed=pure, batch=_laplace(1), data=0, neighbour=1, runs=many),
        Subject(
            name="discrete Laplace, grid 1/1024",
            claimed=pure,
            batch=_laplace(_FINE),
            data=0,
            neighbour=_FINE,
            runs=many,
        ),
        Subject(name="discrete Laplace, 5 shares", claimed=pure, batch=_laplace_shares, data=0, neighbour=1, runs=many),
        Subject(name="discrete Gaussian", claimed=_BUDGET, batch=_gaussian, data=0, neighbour=16, runs=many),
        Subject(
            name="discrete Gaussian, 5 shares",
            claimed=_BUDGET,
            batch=_gaussian_shares,
            data=0,
            neighbour=16,
            runs=many,
        ),
        Subject(
            name="Gumbel top 3 of 6",
            claimed=pure,
            batch=repeat(_top),
            data=top,
            neighbour=top + np.array([1, 1, 1, 0, 0, 0]),
            runs=few,
            statistic=lambda outcomes: (outcomes < 3).sum(axis=1),
        ),
        Subject(
            name="exponential mechanism",
            claimed=pure,
            batch=repeat(_swap),
            data=swap,
            neighbour=swap - np.array([0, 4, 0]),
            runs=few,
            statistic=lambda outcomes: outcomes == 1,
        ),
        Subject(name="private threshold", claimed=pure, batch=repeat(_threshold), data=0, neighbour=1, runs=few),
    ]


def _laplace(sensitivity: int) -> Batch:
    def batch(value: int, runs: int, noise: Source) -> NDArray[Any]:
        mechanism = DiscreteLaplace(epsilon=1, sensitivity=sensitivity, unit=_PERSON)
        return mechanism.release(np.full(runs, value), rng=noise).value

    return batch


def _laplace_shares(value: int, runs: int, noise: Source) -> NDArray[Any]:
    share = DiscreteLaplaceShare(epsilon=1, parties=_PARTIES, sensitivity=1, unit=_PERSON)
    shares = [share.release(np.zeros(runs, dtype=np.int64), rng=noise).value for _ in range(_PARTIES)]
    return np.asarray(value + np.sum(shares, axis=0))


def _gaussian(value: int, runs: int, noise: Source) -> NDArray[Any]:
    mechanism = DiscreteGaussian.within(_BUDGET, sensitivity_squared=256, unit=_PERSON)
    return mechanism.release(np.full(runs, value), rng=noise).value


def _gaussian_shares(value: int, runs: int, noise: Source) -> NDArray[Any]:
    whole = DiscreteGaussian.within(_BUDGET, sensitivity_squared=256, unit=_PERSON)
    share = DiscreteGaussianShare(variance=whole.variance, parties=_PARTIES, sensitivity_squared=256, unit=_PERSON)
    shares = [share.release(np.zeros(runs, dtype=np.int64), rng=noise).value for _ in range(_PARTIES)]
    return np.asarray(value + np.sum(shares, axis=0))


def _top(scores: NDArray[Any], noise: Source) -> NDArray[Any]:
    mechanism = GumbelTop(epsilon=1, picks=3, sensitivity=1, monotone=True, unit=_PERSON)
    return mechanism.release(scores, rng=noise).value


def _swap(scores: NDArray[Any], noise: Source) -> int:
    mechanism = ExponentialMechanism(epsilon=1, sensitivity=4, monotone=True, unit=_PERSON)
    return mechanism.release(scores, rng=noise).value


def _threshold(count: int, noise: Source) -> bool:
    """Whether cell 5 of 16 opens; with nobody in it, it is one of the empty ones."""
    mechanism = PrivateThreshold(epsilon=1, threshold=1, unit=_PERSON)
    occupied = [5] if count else []
    opened = mechanism.release(
        codes=np.array(occupied, dtype=np.int64),
        counts=np.array([count] * len(occupied), dtype=np.int64),
        cells=16,
        rng=noise,
    )
    return bool((opened.value == 5).any())
