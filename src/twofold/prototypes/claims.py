"""What one message may weigh: a sender can write any number, and a liar must not drown everybody else."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from twofold.prototypes.base import Public
from twofold.prototypes.message import Floats, Integers, Prototypes

__all__ = ["MOST_TIMES", "MOST_USERS", "believed"]

#: A message speaks for at most this many times the users that the plan promises of an entity.
MOST_TIMES: Final = 100
#: And for no more than this, whatever was promised: ten times as many people as there are.
MOST_USERS: Final = 1e11
# Standard deviations. Laplace noise goes further about once in 10^12 draws, Gaussian noise never.
_FAR: Final = 20.0
# Of a norm: what adding up in floating point may lose.
_ROUNDING: Final = 1e-9


def believed(message: Prototypes, public: Public) -> Prototypes:
    r"""Scale down what no honest entity could have sent; everything else stays as it is, bit for bit.

    Parameters
    ----------
    message : Prototypes
        As it arrived.
    public : Public
        The plan's numbers.

    Notes
    -----
    Three public limits, each with room for noise of twenty standard deviations:

    1. A count is not below what noise makes of zero.
    2. The values of n users have a norm of at most n times that of one bounded row (`Public.row_l1` under Laplace
       noise, `Public.row_l2` under Gaussian noise: the records are capped at it), their observations a sum of at most
       n times `Public.row_items`. A prototype beyond it is divided by the smallest whole number that brings it back.
    3. All counts together are at most 100 times the plan's ``n_users``. A message beyond it is divided as a whole, so
       its means stay and its weight falls.

    The noise is counted in full. Nothing is refused: an entity with far more users than promised loses weight, not
    budget. Messages without noise, which only simulations have, are left as they are.

    Privacy
    -------
    Post-processing.

    Examples
    --------
    >>> from twofold.prototypes.popularity import Popularity
    >>> public = Public(n_items=3, n_users=2, max_items=3, bound=1, epsilon=10**6)
    >>> sent = Popularity().release(np.eye(3), public).value
    >>> believed(sent, public) is sent
    True
    >>> boasting = replace(sent, sums=sent.sums * 10**6, counts=sent.counts * 10**6)
    >>> believed(boasting, public).user_counts().round()
    array([200.])
    """
    if message.noise.law == "none":
        return message
    return _light(_consistent(message, public), public)


def _consistent(message: Prototypes, public: Public) -> Prototypes:
    """Bring counts, sums and observations of every prototype into proportion."""
    far = _FAR * message.noise.counts
    least = -math.ceil(far / message.units.counts)
    counts = message.counts if message.counts.min(initial=0) >= least else np.maximum(message.counts, least)
    users = np.maximum(counts * message.units.counts, 0.0) + far
    return _changed(message, _sums(message, public, users), counts, _observed(message, public, users))


def _sums(message: Prototypes, public: Public, users: Floats) -> Integers:
    l2 = message.noise.law == "gaussian"
    norms = np.linalg.norm(message.sums.astype(np.float64), ord=2 if l2 else 1, axis=1) * message.units.values
    of_noise = message.noise.values * _noise_norm(public.n_items, l2=l2)
    return _divided(message.sums, norms, users * (public.row_l2 if l2 else public.row_l1) + of_noise)


def _observed(message: Prototypes, public: Public, users: Floats) -> Integers | None:
    if message.observed is None:
        return None
    norms = np.abs(message.observed.astype(np.float64)).sum(axis=1) * message.units.observed
    of_noise = message.noise.observed * _noise_norm(public.n_items, l2=False)
    return _divided(message.observed, norms, users * public.row_items + of_noise)


def _noise_norm(number: int, *, l2: bool) -> float:
    """Norm that this many numbers of standard deviation 1 do not reach."""
    root = math.sqrt(number)
    return root + _FAR if l2 else number + _FAR * root


def _light(message: Prototypes, public: Public) -> Prototypes:
    """Take weight off a message that speaks for too many."""
    most = min(MOST_TIMES * public.n_users, MOST_USERS) + message.noise.counts * _noise_norm(
        len(message.counts), l2=False
    )
    by = math.ceil(float(np.maximum(message.user_counts(), 0.0).sum()) / most * (1 - _ROUNDING))
    if by <= 1:
        return message
    observed = None if message.observed is None else message.observed // by
    return _changed(message, message.sums // by, message.counts // by, observed)


def _divided(table: Integers, norms: Floats, most: Floats) -> Integers:
    by = np.maximum(np.ceil(norms / np.maximum(most, 1e-300) * (1 - _ROUNDING)), 1.0)
    # 64-bit numbers that would have to be divided by more than they hold become 0 or -1 either way.
    return table if (by == 1).all() else table // np.minimum(by, 2.0**62).astype(np.int64)[:, None]


def _changed(message: Prototypes, sums: Integers, counts: Integers, observed: Integers | None) -> Prototypes:
    if sums is message.sums and counts is message.counts and observed is message.observed:
        return message
    return replace(message, sums=sums, counts=counts, observed=observed)
