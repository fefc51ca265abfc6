r"""The server's side: messages to moments. All of it is post-processing.

Under a secure sum, or from one message, the totals are taken as they are. Where several messages each have their own
noise, message h gets a weight proportional to its released number of users over its noise variance: with a common mean
and noise :math:`\sigma_h`, the signal :math:`\sum_h w_h n_h` over the noise :math:`\sqrt{\sum_h w_h^2 \sigma_h^2}` is
largest there (Cauchy and Schwarz). Weights are scaled so that the weighted users are as many as the released ones.

The released number of users is noisy itself, so it is held above its own noise, and below 100 times what the plan
promises. The weighted number of users uses every noisy size twice, as a number and in the weights. What this adds on
average is :math:`\sum_h \sigma_h^2\, \partial w_h / \partial \tilde n_h` (Stein's identity, exact for Gaussian noise),
and is taken off. Sums and pairs have noise of their own, so weights bring no such bias to them.

What one bilinear message may weigh: a sender can write any number, and a liar must not drown everybody else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from twofold.errors import BadParameter, BadShape
from twofold.release.bilinear.layout import KINDS, BilinearLayout
from twofold.release.combine import MOST_TIMES, MOST_USERS
from twofold.release.content import BilinearSums, Floats, Kind, Moments
from twofold.release.contract import ReleaseParameters

__all__ = ["believed_sums", "combine_bilinear"]


def combine_bilinear(
    messages: Iterable[BilinearSums], public: ReleaseParameters, *, layout: BilinearLayout | None = None
) -> Moments:
    """Turn messages, or the one message of a secure sum, into moments; in any order the same.

    Parameters
    ----------
    messages : iterable of BilinearSums
        At least one, all of one kind.
    public : ReleaseParameters
        The plan's numbers. With ``honest`` above 0 messages are added up as they are.
    layout : BilinearLayout, optional
        Where the release had other options than the plan's defaults.

    Examples
    --------
    >>> from twofold.release.bilinear.mechanism import Gram
    >>> public = ReleaseParameters(n_items=3, n_users=2, max_items=3, bound=1, epsilon=10**9, delta=1e-6)
    >>> message = Gram().release(np.array([[1, 1, 0], [0, 1, 0]]), public).value
    >>> combine_bilinear([message, message], public).pairs.round(1) + 0.0
    array([[2., 2., 0.],
           [2., 4., 0.],
           [0., 0., 0.]])
    """
    kept = sorted(messages, key=BilinearSums.digest)
    _check(kept)
    places = layout or BilinearLayout.of(public, _kind(kept[0]))
    for message in kept:
        _check_fit(message, places)
    if not public.honest:
        kept = [believed_sums(message, places, public) for message in kept]
    weights, taken_off = _weights(kept, places, public)
    total = np.zeros(places.length)
    for weight, message in zip(weights, kept, strict=True):
        total += weight * message.numbers
    noise = math.sqrt(sum((weight * one.deviation) ** 2 for weight, one in zip(weights, kept, strict=True)))
    return Moments(
        kind=places.kind,
        users=float(total[places.count][0]) * places.count_unit - taken_off,
        sums=total[places.sums] * places.sums_unit,
        pairs=_square(total[places.pairs], places) * places.pairs_unit,
        users_noise=noise * places.count_unit,
        sums_noise=noise * places.sums_unit,
        pairs_noise=noise * places.pairs_unit,
        cap=places.cap,
        entities=sum(message.entities for message in kept),
        seeded=any(message.seeded for message in kept),
        observed=total[places.observed] * places.observed_unit if places.mark else None,
        observed_noise=noise * places.observed_unit,
    )


def _weights(
    messages: Sequence[BilinearSums], layout: BilinearLayout, public: ReleaseParameters
) -> tuple[Floats, float]:
    """Weight of every message, and what to take off the weighted number of users."""
    if len(messages) == 1 or public.honest:
        return np.ones(len(messages)), 0.0
    released = np.array([float(one.numbers[layout.count][0]) * layout.count_unit for one in messages])
    noise = np.array([one.deviation * layout.count_unit for one in messages])
    most = np.minimum(MOST_TIMES * public.n_users, MOST_USERS) + noise
    sizes = np.clip(released, np.maximum(noise, 1.0), most)
    variances = np.maximum(noise, 1e-9) ** 2
    raw, energy = sizes / variances, float((sizes**2 / variances).sum())
    scale = float(sizes.sum()) / energy
    slopes = np.where(released == sizes, scale / variances + raw * (1 - 2 * scale * raw) / energy, 0.0)
    return raw * scale, float(slopes @ noise**2)


def _square(pairs: Floats, layout: BilinearLayout) -> Floats:
    if not layout.gram:
        return pairs.reshape(layout.n_items, layout.columns)
    square = np.zeros((layout.n_items, layout.n_items))
    square[np.triu_indices(layout.n_items)] = pairs
    return np.asarray(square + np.triu(square, 1).T)


def _kind(message: BilinearSums) -> Kind:
    found = next((kind for kind in KINDS if kind == message.mechanism), None)
    if found is None:
        raise BadParameter(
            "a message holds no bilinear statistic.", found=repr(message.mechanism), expected=", ".join(KINDS)
        )
    return found


def _check(messages: Sequence[BilinearSums]) -> None:
    if not messages:
        raise BadParameter("no message came in.", fix="wait for at least one entity")


def _check_fit(message: BilinearSums, layout: BilinearLayout) -> None:
    if message.mechanism != layout.kind or message.numbers.size != layout.length:
        raise BadShape(
            "a message was not made by these public numbers.",
            found=f"{message.mechanism}, {message.numbers.size:,} numbers",
            expected=f"{layout.kind}, {layout.length:,} numbers",
            fix="let all use the same plan",
        )
    if message.law not in ("none", "gaussian" if layout.l2 else "laplace"):
        raise BadParameter("a message has another law of noise.", found=message.law)


# Standard deviations, as for prototypes.
_FAR: Final = 20.0
_ROUNDING: Final = 1e-9


def believed_sums(message: BilinearSums, layout: BilinearLayout, public: ReleaseParameters) -> BilinearSums:
    r"""Scale down what no honest entity could have sent; everything else stays as it is, bit for bit.

    Notes
    -----
    Two public limits, each with room for noise of twenty standard deviations: a message speaks for at most 100 times
    the plan's ``n_users``, and the numbers of n users have a norm of at most n times that of one record
    (`BilinearLayout.sensitivity`). A message beyond a limit is divided by the smallest whole number that brings it
    back, as a whole, so that its proportions stay and its weight falls. Of a secure sum nobody sees single messages:
    there a liar is held by the modulus alone.

    Privacy
    -------
    Post-processing.

    Examples
    --------
    >>> from twofold.release.bilinear.mechanism import Gram
    >>> public = ReleaseParameters(n_items=3, n_users=2, max_items=3, bound=1, epsilon=10**6, delta=1e-6)
    >>> sent, layout = Gram().release(np.eye(3), public).value, Gram().layout(public)
    >>> believed_sums(sent, layout, public) is sent
    True
    >>> boasting = replace(sent, numbers=sent.numbers * 10**6)
    >>> believed_sums(boasting, layout, public).numbers[layout.count] * layout.count_unit < 201
    array([ True])
    """
    if message.law == "none" or message.entities > 1:
        return message
    by = max(_too_many(message, layout, public), 1)
    numbers = message.numbers if by == 1 else message.numbers // by
    again = _too_long(numbers, message.deviation, layout)
    if by == again == 1:
        return message
    return replace(message, numbers=numbers // again)


def _too_many(message: BilinearSums, layout: BilinearLayout, public: ReleaseParameters) -> int:
    """By how much the count is beyond 100 times the promise."""
    most = min(MOST_TIMES * public.n_users, MOST_USERS) + _FAR * message.deviation * layout.count_unit
    users = float(message.numbers[layout.count][0]) * layout.count_unit
    return math.ceil(users / most * (1 - _ROUNDING))


def _too_long(numbers: np.ndarray, deviation: float, layout: BilinearLayout) -> int:
    """By how much the whole vector is beyond what its own count of users can make."""
    far = _FAR * deviation
    users = max(float(numbers[layout.count][0]), 0.0) * layout.count_unit + far * layout.count_unit + 1.0
    root = math.sqrt(numbers.size)
    one = math.sqrt(layout.sensitivity) if layout.l2 else float(layout.sensitivity)
    noise = deviation * root + far if layout.l2 else deviation * numbers.size + far * root
    norm = float(np.linalg.norm(numbers.astype(np.float64), ord=2 if layout.l2 else 1))
    return max(1, min(math.ceil(norm / (users * one + noise) * (1 - _ROUNDING)), 2**62))
