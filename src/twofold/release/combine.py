r"""The server's side: combine noisy messages into one table of weighted rows. All of it is post-processing.

Two ways. Where the cells mean the same at every entity (public buckets, popularity) the messages are *added up*: the
signal grows with the number of entities H, the noise with √H only. Where every entity has its own clusters the rows are
*stacked*. Both take messages in any order and give identical results. One message with seeded noise among them marks
the whole as seeded, which is not private.

Weights. The mean of a prototype of n users has variance v/n from its users, who differ, and σ²/n² from the noise of
its sum; v is taken as the largest a bounded row allows, (l2 cap)²/items. Its weight is the inverse, in units of users:
w = n/(1 + σ²/(n·v)). Without noise that is n. Where noise dominates it falls with n², so that an almost empty
cell has almost no weight.

Both ways trust a message only as far as public numbers allow (`plausible`): a sender can write any number, and a
dishonest sender must not outweigh the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from twofold.errors import BadParameter, BadShape
from twofold.release.content import Floats, Integers, Noise, Prototypes, WeightedRows
from twofold.release.contract import ReleaseParameters

__all__ = ["MOST_MESSAGES", "MOST_TIMES", "MOST_USERS", "added_up", "joined", "plausible", "stacked", "weighted_rows"]

#: So many messages of the largest numbers that decode add up in 64 bits (`twofold.release.clamp.LARGEST_NUMBER`).
MOST_MESSAGES: Final = 10_000


def added_up(messages: Iterable[Prototypes], public: ReleaseParameters) -> WeightedRows:
    """Combine messages whose cells mean the same at every entity: add whole numbers, one message at a time.

    Examples
    --------
    >>> from twofold.release.buckets import Popularity
    >>> public = ReleaseParameters(n_items=3, n_users=2, max_items=3, bound=1, epsilon=10**6)
    >>> message = Popularity().release(np.eye(3), public).value
    >>> added_up([message, message], public).sizes.round(3)
    array([6.])
    """
    total: Prototypes | None = None
    for number, message in enumerate(messages):
        _check_message(message, public)
        _check_number(number)
        counted = plausible(message, public)
        total = counted if total is None else _sum(total, counted)
    if total is None:
        raise BadParameter("no message arrived.", fix="wait for at least one entity", parameter="messages")
    return _rows([total], public)


def stacked(messages: Iterable[Prototypes], public: ReleaseParameters) -> WeightedRows:
    """Combine messages whose prototypes are each entity's own by stacking their rows.

    Examples
    --------
    >>> from twofold.release.buckets import Popularity
    >>> public = ReleaseParameters(n_items=3, n_users=3, max_items=3, bound=1, epsilon=10**6)
    >>> message = Popularity().release(np.eye(3), public, rng=0).value
    >>> stacked([message, message], public).n_rows
    2
    """
    kept = list(messages)
    for message in kept:
        _check_message(message, public)
    if not kept:
        raise BadParameter("no message arrived.", fix="wait for at least one entity", parameter="messages")
    return weighted_rows(sorted(kept, key=Prototypes.digest), public)


def weighted_rows(messages: Sequence[Prototypes], public: ReleaseParameters) -> WeightedRows:
    """Means, weights and noise of the rows of some messages, in their order.

    A server with more rows than memory takes a few messages at a time.

    Examples
    --------
    >>> from twofold.release.buckets import Popularity
    >>> public = ReleaseParameters(n_items=3, n_users=3, max_items=3, bound=1, epsilon=10**6)
    >>> message = Popularity().release(np.eye(3), public, rng=0).value
    >>> weighted_rows([message], public).row_weights.sum().round(3)
    np.float64(3.0)
    """
    return _rows([plausible(message, public) for message in messages], public)


def joined(parts: Sequence[WeightedRows]) -> WeightedRows:
    """Stack at least one table of rows, in their order.

    Examples
    --------
    >>> one = np.ones(1)
    >>> rows = WeightedRows(values=np.ones((1, 3)), row_weights=one, noise=one, sizes=one, seeded=False)
    >>> joined([rows, rows]).n_rows
    2
    """
    if len(parts) == 1:
        return parts[0]
    weights = [part.entry_weights for part in parts if part.entry_weights is not None]
    return WeightedRows(
        values=np.concatenate([part.values for part in parts]),
        row_weights=np.concatenate([part.row_weights for part in parts]),
        noise=np.concatenate([part.noise for part in parts]),
        sizes=np.concatenate([part.sizes for part in parts]),
        seeded=any(part.seeded for part in parts),
        entry_weights=np.concatenate(weights) if weights else None,
    )


def _rows(messages: Sequence[Prototypes], public: ReleaseParameters) -> WeightedRows:
    """Write the rows of all messages into one table; a table of each, joined later, would take twice the room."""
    lengths = [message.n_prototypes for message in messages]
    sizes = np.concatenate([np.maximum(message.user_counts(), 0.0) for message in messages])
    noise = np.repeat([message.noise.values for message in messages], lengths)
    divisors = np.maximum(sizes, np.repeat([max(1.0, message.noise.counts) for message in messages], lengths))
    values = np.empty((len(sizes), public.n_items))
    entries = None if public.feedback == "counts" else np.empty_like(values)
    for message, end in zip(messages, np.cumsum(lengths), strict=True):
        own = slice(end - message.n_prototypes, end)
        if entries is None:
            np.multiply(message.sums, message.units.values, out=values[own])
            values[own] /= divisors[own, None]
        else:
            values[own], entries[own] = _observed_means(message, public)
    return WeightedRows(
        values=values,
        row_weights=_weights(sizes, noise, public.row_l2**2 / public.n_items),
        noise=noise / divisors,
        sizes=sizes,
        seeded=any(message.seeded for message in messages),
        entry_weights=entries,
    )


def _observed_means(message: Prototypes, public: ReleaseParameters) -> tuple[Floats, Floats]:
    """Mean of the observed entries, and its weight in observations.

    S/O with O noisy explodes where few observed; S·O/(O² + σ²) is the same where many did and goes to the centre where
    hardly anyone did. The weight counts the noise of the sum and that of the count times the mean.
    """
    observed = np.maximum(message.observation_counts(), 0.0)
    spread = message.noise.observed**2
    ratio = message.value_sums() * observed / np.maximum(observed**2 + spread, 1e-300)
    centred = np.clip(ratio, public.lower - public.centre, public.bound - public.centre)
    noise = np.sqrt(message.noise.values**2 + spread * centred**2)
    return centred + public.centre, _weights(observed, noise, public.value_cap**2)


def _weights(sizes: Floats, noise: Floats | float, variance: float) -> Floats:
    return np.asarray(sizes**2 / np.maximum(sizes + np.square(noise) / variance, 1e-300))


def _sum(total: Prototypes, message: Prototypes) -> Prototypes:
    same = total.units == message.units and total.sums.shape == message.sums.shape
    if not same or (total.observed is None) != (message.observed is None):
        raise BadShape("two messages were made with different public numbers.", fix="use the same plan on both sides")
    one, two = total.noise, message.noise
    added = Noise(
        law=one.law,
        values=math.hypot(one.values, two.values),
        observed=math.hypot(one.observed, two.observed),
        counts=math.hypot(one.counts, two.counts),
    )
    observed = None
    if total.observed is not None and message.observed is not None:
        observed = total.observed + message.observed
    return replace(
        total,
        sums=total.sums + message.sums,
        counts=total.counts + message.counts,
        observed=observed,
        noise=added,
        seeded=total.seeded or message.seeded,
    )


def _check_number(before: int) -> None:
    if before >= MOST_MESSAGES:
        raise BadParameter(
            "more messages arrived than can be added up without overflow.",
            expected=f"at most {MOST_MESSAGES:,} messages",
            fix="split the entities into several federations",
            parameter="messages",
        )


def _check_message(message: Prototypes, public: ReleaseParameters) -> None:
    if message.sums.shape[1] != public.n_items:
        raise BadShape(
            "a message has another catalog.", found=f"{message.sums.shape[1]} items", expected=f"{public.n_items}"
        )
    if (message.observed is None) != (public.feedback == "counts"):
        raise BadParameter("a message holds another kind of feedback.", expected=public.feedback, parameter="feedback")


#: A message speaks for at most this many times the users that the plan promises of an entity.
MOST_TIMES: Final = 100
#: And for no more than this, whatever was promised: ten times as many people as there are.
MOST_USERS: Final = 1e11
# Standard deviations. Laplace noise goes further about once in 10^12 draws, Gaussian noise never.
_FAR: Final = 20.0
# Of a norm: what adding up in floating point may lose.
_ROUNDING: Final = 1e-9
_COLUMNS: Final = 8192


def plausible(message: Prototypes, public: ReleaseParameters) -> Prototypes:
    r"""Scale down what no honest entity could have sent; everything else stays unchanged, bit for bit.

    Parameters
    ----------
    message : Prototypes
        The message as it arrived.
    public : ReleaseParameters
        The plan's numbers.

    Notes
    -----
    Three public limits, each with room for noise of twenty standard deviations:

    1. A count is not below what noise makes of zero.
    2. The values of n users have a norm of at most n times that of one bounded row (`row_l1` under Laplace
       noise, `row_l2` under Gaussian noise: the records are capped at it), their observations a sum of at most
       n times `row_items`. A prototype beyond it is divided by the smallest whole number that brings it back.
    3. All counts together are at most 100 times the plan's ``n_users``. A message beyond it is divided as a whole, so
       its means stay and its weight falls.

    The noise is counted in full. Nothing is refused: an entity with far more users than promised loses weight, not
    budget. Messages without noise, which only simulations have, stay unchanged.

    Privacy
    -------
    Post-processing.

    Examples
    --------
    >>> from twofold.release.buckets import Popularity
    >>> public = ReleaseParameters(n_items=3, n_users=2, max_items=3, bound=1, epsilon=10**6)
    >>> sent = Popularity().release(np.eye(3), public).value
    >>> plausible(sent, public) is sent
    True
    >>> boasting = replace(sent, sums=sent.sums * 10**6, counts=sent.counts * 10**6)
    >>> plausible(boasting, public).user_counts().round()
    array([200.])
    """
    if message.noise.law == "none":
        return message
    return _light(_consistent(message, public), public)


def _consistent(message: Prototypes, public: ReleaseParameters) -> Prototypes:
    """Bring counts, sums and observations of every prototype into proportion."""
    far = _FAR * message.noise.counts
    least = -math.ceil(far / message.units.counts)
    counts = message.counts if message.counts.min(initial=0) >= least else np.maximum(message.counts, least)
    users = np.maximum(counts * message.units.counts, 0.0) + far
    return _changed(message, _sums(message, public, users), counts, _observed(message, public, users))


def _sums(message: Prototypes, public: ReleaseParameters, users: Floats) -> Integers:
    l2 = message.noise.law == "gaussian"
    norms = _norms(message.sums, l2=l2) * message.units.values
    of_noise = message.noise.values * _noise_norm(public.n_items, l2=l2)
    return _divided(message.sums, norms, users * (public.row_l2 if l2 else public.row_l1) + of_noise)


def _observed(message: Prototypes, public: ReleaseParameters, users: Floats) -> Integers | None:
    if message.observed is None:
        return None
    norms = _norms(message.observed, l2=False) * message.units.observed
    of_noise = message.noise.observed * _noise_norm(public.n_items, l2=False)
    return _divided(message.observed, norms, users * public.row_items + of_noise)


def _norms(table: Integers, *, l2: bool) -> Floats:
    """Norm of every row, some columns at a time: a copy of all in floating point would not stay in the cache."""
    total = np.zeros(len(table))
    for first in range(0, table.shape[1], _COLUMNS):
        part = table[:, first : first + _COLUMNS].astype(np.float64)
        total += np.einsum("ij,ij->i", part, part) if l2 else np.abs(part, out=part).sum(axis=1)
    return np.sqrt(total) if l2 else total


def _noise_norm(number: int, *, l2: bool) -> float:
    """Norm that this many numbers of standard deviation 1 do not reach."""
    root = math.sqrt(number)
    return root + _FAR if l2 else number + _FAR * root


def _light(message: Prototypes, public: ReleaseParameters) -> Prototypes:
    """Reduce the weight of a message that claims too many users."""
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
