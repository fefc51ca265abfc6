"""What one bilinear message may weigh: a sender can write any number, and a liar must not drown everybody else."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from twofold.prototypes.base import Public
from twofold.prototypes.bilinear.content import BilinearSums
from twofold.prototypes.bilinear.layout import BilinearLayout
from twofold.prototypes.claims import MOST_TIMES, MOST_USERS

__all__ = ["believed_sums"]

# Standard deviations, as for prototypes.
_FAR: Final = 20.0
_ROUNDING: Final = 1e-9


def believed_sums(message: BilinearSums, layout: BilinearLayout, public: Public) -> BilinearSums:
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
    >>> from twofold.prototypes.bilinear.mechanism import Gram
    >>> public = Public(n_items=3, n_users=2, max_items=3, bound=1, epsilon=10**6, delta=1e-6)
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


def _too_many(message: BilinearSums, layout: BilinearLayout, public: Public) -> int:
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
