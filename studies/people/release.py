"""The server's result if people, or their hospitals, send to two operators, to a sum among themselves, or plain.

The statistic is a sum over people: whether they send themselves or their hospital sends for them changes no digit of
it. Nor does it change the noise of a sum; only where every sender adds a whole noise does their number count. A test
compares the exact sums with those of a simulated federation of people.

All noise here is seeded, so nothing of it is private; it is measured, not sent.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from studies.frontier.release import NEXT_TO_NONE, Sums
from twofold.federation.factors import ItemFactors
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian
from twofold.release.bilinear.combine import combine_bilinear
from twofold.release.bilinear.mechanism import BilinearNoise
from twofold.release.content import BilinearSums, Integers
from twofold.server.factorize import factorize_moments, signed

__all__ = ["SENDERS", "WAYS", "shared_factors"]

#: Who adds noise: two operators a whole one each; senders their shares of one; every sender a whole one; nobody; and
#: two operators over sums of nothing.
WAYS: Final = ("operators", "peers", "own", "none", "noise only")
#: Who sends.
SENDERS: Final = ("hospitals", "people")


def shared_factors(sums: Sums, way: str, epsilon: float, *, seed: int, senders: int) -> ItemFactors:
    """Item factors under one noise.

    Parameters
    ----------
    sums : Sums
        Exact sums of every hospital.
    way : str
        As in `WAYS`.
    epsilon : float
        Of the release; without effect for "none".
    seed : int
        Of the noise.
    senders : int
        How many send; counts where every one of them adds a whole noise.
    """
    spent = NEXT_TO_NONE if way == "none" else epsilon
    plan = sums.plan.with_(epsilon=spent)
    public = sums.plan.parameters.with_(epsilon=spent)
    whole = BilinearNoise(public=public, layout=sums.layout).whole
    assert isinstance(whole, DiscreteGaussian)
    total: Integers = np.sum(sums.exact, axis=0)
    variance = round(whole.variance * _noises(way, senders, sums.honest_share))
    sampler = DiscreteGaussian(rho=0.5, sensitivity_squared=max(variance, 1), unit=public.unit)
    drawn = sampler.release(np.zeros_like(total) if way == "noise only" else total, rng=seed * 1_000_003 + senders)
    message = BilinearSums(
        mechanism=sums.release.mechanism,
        numbers=drawn.value,
        deviation=math.sqrt(variance),
        law="gaussian",
        seeded=True,
    )
    moments = combine_bilinear([message], public.with_(honest=1), layout=sums.layout)
    return signed(factorize_moments(moments, plan), plan, entities=senders, sound=False)


def _noises(way: str, senders: int, honest_share: float) -> float:
    """Variance of the noise in the sum, in whole noises.

    Examples
    --------
    >>> [_noises(way, 100, 0.9) for way in ("operators", "own", "none")]
    [2.0, 100.0, 1.0]
    """
    if way in ("operators", "noise only"):
        return 2.0
    if way == "peers":
        return senders / max(1, math.floor(honest_share * senders))
    return float(senders) if way == "own" else 1.0
