"""The floating-point attack of Mironov 2012: it reads the data off the last bits of a naive Laplace noise.

``value + scale * log(u)`` with u on a grid of 2^-53 does not reach every floating-point number: many numbers
that the sampler can produce around 1 it can never produce around 0. Seeing one proves the value was not 0,
so ε is infinite whatever the scale. `reachable` decides it by inverting the sampler.

Our noise is added to integers and has every integer as its support, whatever the value; the same attack on it
finds nothing. `naive_laplace` exists for this demonstration only and is not private.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twofold.privacy.audit.lower_bound import Batch, LowerBound, lower_bound
from twofold.privacy.rng import Source

__all__ = ["naive_laplace", "precision_attack", "reachable"]

Floats = NDArray[np.float64]
_STEP = 2.0**-53


def naive_laplace(value: float, runs: int, noise: Source, *, scale: float = 1.0) -> Floats:
    """Textbook Laplace noise in floating point. NOT PRIVATE: a subject for `precision_attack`.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> naive_laplace(0.0, 3, source(0)).shape
    (3,)
    """
    words = noise.words(runs)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 1.0) * _STEP
    sign = np.where((words & np.uint64(1)).astype(bool), -1.0, 1.0)
    return np.asarray(value + sign * (-scale * np.log(uniform)), dtype=np.float64)


def reachable(outcomes: Floats, *, value: float, scale: float = 1.0) -> NDArray[np.bool_]:
    """Whether the naive sampler could have produced each outcome from this value.

    Examples
    --------
    >>> from twofold.privacy.rng import source
    >>> bool(reachable(naive_laplace(0.0, 1000, source(0)), value=0.0).all())
    True
    """
    guess = np.rint(np.exp(-np.abs(outcomes - value) / scale) / _STEP)
    found = np.zeros(outcomes.shape, dtype=bool)
    for offset in range(-4, 5):  # exp and log may each be off by a few steps
        uniform = np.clip(guess + offset, 1.0, 1 / _STEP) * _STEP
        noise = -scale * np.log(uniform)
        found |= (value + noise == outcomes) | (value - noise == outcomes)
    return found


def precision_attack(
    mechanism: Batch,
    value: float,
    neighbour: float,
    *,
    scale: float = 1.0,
    runs: int = 20_000,
    confidence: float = 0.95,
    rng: int | Source | None = None,
) -> LowerBound:
    """Lower bound on ε from the event "the naive sampler could not have produced this from `value`".

    Examples
    --------
    >>> precision_attack(naive_laplace, 0.0, 1.0, runs=2000, rng=0).epsilon > 4  # claimed: 1
    True
    """
    return lower_bound(
        mechanism,
        value,
        neighbour,
        runs=runs,
        confidence=confidence,
        statistic=lambda outcomes: ~reachable(outcomes.astype(np.float64), value=value, scale=scale),
        rng=rng,
    )
