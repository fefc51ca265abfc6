r"""Combining bilinear messages at the server: many rows of noisy whole numbers to the moments of all users.

Post-processing. Under a secure sum, or from one message, the totals are taken as they are. Where several messages each
have their own noise, message h gets a weight proportional to its released number of users over its noise variance: with
a common mean and noise :math:`\sigma_h`, the signal :math:`\sum_h w_h n_h` over the noise
:math:`\sqrt{\sum_h w_h^2 \sigma_h^2}` is largest there (Cauchy and Schwarz). Weights are scaled so that the weighted
users are as many as the released ones.

The released number of users is noisy itself, so it is held above its own noise, and below 100 times what the plan
promises. The weighted number of users uses every noisy size twice, as a number and in the weights. What this adds on
average is :math:`\sum_h \sigma_h^2\, \partial w_h / \partial \tilde n_h` (Stein's identity, exact for Gaussian noise),
and is taken off. Sums and pairs have separate noise, so weights do not bias them.

A weight needs the sizes of all messages, so each message is taken twice: for what it says of itself, and to be added.
Between the two nothing of it is kept but a few numbers.

The diagonal of a gram of counts was sent smaller (`DIAGONAL`) and gets its size back, and its noise grows with it.

A sender can write any number. `plausible_sums` limits the weight of one message, so that no sender outweighs others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from twofold.errors import BadParameter, BadShape
from twofold.release.bilinear.layout import KINDS, BilinearLayout
from twofold.release.combine import MOST_TIMES, MOST_USERS
from twofold.release.content import DIAGONAL, BilinearSums, Floats, Integers, Kind, Moments, symmetric
from twofold.release.contract import ReleaseParameters

__all__ = ["FAR", "combine_bilinear", "plausible_sums"]

#: Standard deviations that noise is given room for, as for prototypes.
FAR: Final = 20
# Of a norm: what adding up in floating point may lose.
_ROUNDING: Final = 1e-9


def combine_bilinear(
    messages: Iterable[BilinearSums], public: ReleaseParameters, *, layout: BilinearLayout | None = None
) -> Moments:
    """Turn messages, or the one message of a secure sum, into moments; their order does not matter.

    Parameters
    ----------
    messages : iterable of BilinearSums
        At least one, all of one kind. Of a sequence, each is taken twice and none is held, so one that loads its
        messages when asked needs memory for one of them however many there are. Anything else is held.
    public : ReleaseParameters
        The plan's numbers. Under a secure sum messages are added up as they are.
    layout : BilinearLayout, optional
        For a release with options other than the plan's defaults.

    Notes
    -----
    Weighted sums are not whole numbers, so they run in the order of the messages' digests.

    Examples
    --------
    >>> from twofold.release.bilinear.mechanism import Gram
    >>> public = ReleaseParameters(n_items=3, n_users=2, max_items=3, bound=1, epsilon=10**9, delta=1e-6)
    >>> message = Gram().release(np.array([[1, 1, 0], [0, 1, 0]]), public).value
    >>> combine_bilinear([message, message], public).pairs.round(1) + 0.0
    array([[1., 1., 0.],
           [1., 3., 0.],
           [0., 0., 0.]])
    """
    given = messages if isinstance(messages, Sequence) else list(messages)
    if not given:
        raise BadParameter("no message arrived.", fix="wait for at least one entity", parameter="messages")
    places = layout or BilinearLayout.of(public, _kind(given[0]))
    said = sorted(_said(given[number], number, places, public) for number in range(len(given)))
    weights, taken_off, per_user = _weights(said, places, public)
    total = np.zeros(places.length)
    for weight, one in zip(weights, said, strict=True):
        total += weight * _counted(given[one.number], places, public).numbers
    noise = math.sqrt(sum((weight * one.deviation) ** 2 for weight, one in zip(weights, said, strict=True)))
    return Moments(
        kind=places.kind,
        users=float(total[places.count][0]) * places.count_unit - taken_off,
        sums=total[places.sums] * places.sums_unit,
        pairs=_square(total[places.pairs], places),
        users_noise=noise * places.count_unit,
        sums_noise=noise * places.sums_unit,
        pairs_noise=noise * places.pairs_unit,
        cap=places.cap,
        entities=sum(one.entities for one in said),
        seeded=any(one.seeded for one in said),
        observed=total[places.observed] * places.observed_unit if places.mark else None,
        observed_noise=noise * places.observed_unit,
        weight_per_user=per_user,
    )


class _Said(NamedTuple):
    """What one message says of itself; ordered by its digest."""

    digest: str
    number: int
    users: float
    deviation: float
    entities: int
    seeded: bool


def _said(message: BilinearSums, number: int, layout: BilinearLayout, public: ReleaseParameters) -> _Said:
    _check_fit(message, layout)
    users = float(_counted(message, layout, public).numbers[layout.count][0]) * layout.count_unit
    return _Said(message.digest(), number, users, message.deviation, message.entities, message.seeded)


def _counted(message: BilinearSums, layout: BilinearLayout, public: ReleaseParameters) -> BilinearSums:
    """Give the message as it counts; behind a secure sum there is nothing to limit."""
    return message if public.summed else plausible_sums(message, layout, public)


def _weights(said: Sequence[_Said], layout: BilinearLayout, public: ReleaseParameters) -> tuple[Floats, float, float]:
    """Weight of every message, the correction of the weighted number of users, and the weight of one user."""
    if len(said) == 1 or public.summed:
        return np.ones(len(said)), 0.0, 0.0
    released = np.array([one.users for one in said])
    noise = np.array([one.deviation * layout.count_unit for one in said])
    most = np.minimum(MOST_TIMES * public.n_users, MOST_USERS) + noise
    sizes = np.clip(released, np.maximum(noise, 1.0), most)
    variances = np.maximum(noise, 1e-9) ** 2
    raw, energy = sizes / variances, float((sizes**2 / variances).sum())
    scale = float(sizes.sum()) / energy
    slopes = np.where(released == sizes, scale / variances + raw * (1 - 2 * scale * raw) / energy, 0.0)
    # The messages of a plan all have the same noise, so that this is the same for all of them.
    return raw * scale, float(slopes @ noise**2), scale / float(variances.mean())


def _square(pairs: Floats, layout: BilinearLayout) -> Floats:
    """Totals of the pairs in units of x, as a table."""
    if not layout.gram:
        return pairs.reshape(layout.n_items, layout.columns) * layout.pairs_unit
    square = symmetric(pairs, layout.n_items)
    if layout.unit_rows:
        np.fill_diagonal(square, np.diag(square) / float(DIAGONAL))
    square *= layout.pairs_unit
    return square


def _kind(message: BilinearSums) -> Kind:
    found = next((kind for kind in KINDS if kind == message.mechanism), None)
    if found is None:
        raise BadParameter(
            "a message does not hold a bilinear statistic.",
            found=repr(message.mechanism),
            expected=", ".join(KINDS),
            parameter="mechanism",
        )
    return found


def _check_fit(message: BilinearSums, layout: BilinearLayout) -> None:
    if message.mechanism != layout.kind or message.numbers.size != layout.length:
        raise BadShape(
            "a message was made with other public numbers.",
            found=f"{message.mechanism}, {message.numbers.size:,} numbers",
            expected=f"{layout.kind}, {layout.length:,} numbers",
            fix="use the same plan everywhere",
        )
    if message.law not in ("none", "gaussian" if layout.l2 else "laplace"):
        raise BadParameter("a message has another noise distribution.", found=message.law, parameter="law")


def plausible_sums(message: BilinearSums, layout: BilinearLayout, public: ReleaseParameters) -> BilinearSums:
    r"""Scale down what no honest entity could have sent; everything else stays unchanged, bit for bit.

    Notes
    -----
    Two public limits, each with room for noise of twenty standard deviations: a message counts for at most 100 times
    the plan's ``n_users``, and the numbers of n users have a norm of at most n times that of one record
    (`BilinearLayout.sensitivity`). A message beyond a limit is divided by the smallest whole number that brings it
    back, as a whole, so that its proportions stay and its weight falls. In a secure sum nobody sees single messages:
    there only the modulus limits a dishonest sender.

    Privacy
    -------
    Post-processing.

    Examples
    --------
    >>> from twofold.release.bilinear.mechanism import Gram
    >>> public = ReleaseParameters(n_items=3, n_users=2, max_items=3, bound=1, epsilon=10**6, delta=1e-6)
    >>> sent, layout = Gram().release(np.eye(3), public).value, Gram().layout(public)
    >>> plausible_sums(sent, layout, public) is sent
    True
    >>> boasting = replace(sent, numbers=sent.numbers * 10**6)
    >>> plausible_sums(boasting, layout, public).numbers[layout.count] * layout.count_unit < 201
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
    """Factor by which the count exceeds 100 times the promise."""
    most = min(MOST_TIMES * public.n_users, MOST_USERS) + FAR * message.deviation * layout.count_unit
    users = float(message.numbers[layout.count][0]) * layout.count_unit
    return math.ceil(users / most * (1 - _ROUNDING))


def _too_long(numbers: Integers, deviation: float, layout: BilinearLayout) -> int:
    """Factor by which the whole vector exceeds what its own count of users can give."""
    far = FAR * deviation
    users = max(float(numbers[layout.count][0]), 0.0) * layout.count_unit + far * layout.count_unit + 1.0
    root = math.sqrt(numbers.size)
    one = math.sqrt(layout.sensitivity) if layout.l2 else float(layout.sensitivity)
    noise = deviation * root + far if layout.l2 else deviation * numbers.size + far * root
    norm = float(np.linalg.norm(numbers.astype(np.float64), ord=2 if layout.l2 else 1))
    return max(1, min(math.ceil(norm / (users * one + noise) * (1 - _ROUNDING)), 2**62))
