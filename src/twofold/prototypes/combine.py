"""The server's side: many noisy messages to one table of weighted rows. All of it is post-processing.

Two ways. Where the cells mean the same at every entity (public buckets, popularity) the messages are *added up*: the
signal grows with the number of entities H, the noise with √H only. Where every entity has its own clusters the rows are
*stacked*. Both take messages in any order and give identical results. One message with seeded noise among them marks
the whole as seeded, which is not private.

Weights. The mean of a prototype of n users has variance v/n from its users, who differ, and σ²/n² from the noise of
its sum; v is taken as the largest a bounded row allows, (l2 cap)²/items. Its weight is the inverse, in units of users:
w = n/(1 + σ²/(n·v)). Without noise that is n. Where noise rules it falls with n², so that a cell with hardly
anyone in it says hardly anything.

Both ways believe a message only as far as public numbers allow (`claims`): one sender cannot speak for any number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from twofold.errors import BadParameter, BadShape
from twofold.prototypes.base import Public
from twofold.prototypes.claims import believed
from twofold.prototypes.message import Floats, Noise, Prototypes, WeightedRows

__all__ = ["MOST_MESSAGES", "added_up", "joined", "stacked", "weighted_rows"]

#: So many messages of the largest numbers that decode add up in 64 bits (`twofold.protocol.expected.LARGEST_NUMBER`).
MOST_MESSAGES: Final = 10_000


def added_up(messages: Iterable[Prototypes], public: Public) -> WeightedRows:
    """Combine messages whose cells mean the same at every entity: add whole numbers, one message at a time.

    Examples
    --------
    >>> from twofold.prototypes.popularity import Popularity
    >>> public = Public(n_items=3, n_users=2, max_items=3, bound=1, epsilon=10**6)
    >>> message = Popularity().release(np.eye(3), public).value
    >>> added_up([message, message], public).sizes.round(3)
    array([6.])
    """
    total: Prototypes | None = None
    for number, message in enumerate(messages):
        _check_message(message, public)
        _check_number(number)
        counted = believed(message, public)
        total = counted if total is None else _sum(total, counted)
    if total is None:
        raise BadParameter("no message came in.", fix="wait for at least one entity")
    return _rows(total, public)


def stacked(messages: Iterable[Prototypes], public: Public) -> WeightedRows:
    """Combine messages whose prototypes are each entity's own: put the rows under one another.

    Examples
    --------
    >>> from twofold.prototypes.kmeans import KMeans
    >>> public = Public(n_items=3, n_users=3, max_items=3, bound=1, n_prototypes=2)
    >>> message = KMeans().release(np.eye(3), public).value
    >>> stacked([message, message], public).n_rows
    4
    """
    kept = list(messages)
    for message in kept:
        _check_message(message, public)
    if not kept:
        raise BadParameter("no message came in.", fix="wait for at least one entity")
    return weighted_rows(sorted(kept, key=Prototypes.digest), public)


def weighted_rows(messages: Sequence[Prototypes], public: Public) -> WeightedRows:
    """Means, weights and noise of the rows of some messages, in their order.

    One message at a time is how a server goes through more rows than its memory holds.

    Examples
    --------
    >>> from twofold.prototypes.kmeans import KMeans
    >>> public = Public(n_items=3, n_users=3, max_items=3, bound=1, n_prototypes=2)
    >>> message = KMeans().release(np.eye(3), public).value
    >>> weighted_rows([message], public).row_weights.sum()
    np.float64(3.0)
    """
    return joined([_rows(believed(message, public), public) for message in messages])


def joined(parts: Sequence[WeightedRows]) -> WeightedRows:
    """Put tables of rows under one another, in their order; at least one.

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


def _rows(message: Prototypes, public: Public) -> WeightedRows:
    sizes = np.maximum(message.user_counts(), 0.0)
    divisors = np.maximum(sizes, max(1.0, message.noise.counts))
    variance = public.row_l2**2 / public.n_items
    weights = _weights(sizes, message.noise.values, variance)
    noise = message.noise.values / divisors
    if message.observed is None:
        means = message.value_sums() / divisors[:, None]
        return WeightedRows(values=means, row_weights=weights, noise=noise, sizes=sizes, seeded=message.seeded)
    means, entry_weights = _observed_means(message, public)
    return WeightedRows(
        values=means,
        row_weights=weights,
        noise=noise,
        sizes=sizes,
        seeded=message.seeded,
        entry_weights=entry_weights,
    )


def _observed_means(message: Prototypes, public: Public) -> tuple[Floats, Floats]:
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
        raise BadShape("two messages were not made by the same public numbers.", fix="let both use the same plan")
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
            "more messages came in than can be added up without overflow.",
            expected=f"at most {MOST_MESSAGES:,} messages",
            fix="add up groups of entities in federations of their own",
        )


def _check_message(message: Prototypes, public: Public) -> None:
    if message.sums.shape[1] != public.n_items:
        raise BadShape(
            "a message has another catalog.", found=f"{message.sums.shape[1]} items", expected=f"{public.n_items}"
        )
    if (message.observed is None) != (public.feedback == "counts"):
        raise BadParameter("a message is about another kind of feedback.", expected=public.feedback)
