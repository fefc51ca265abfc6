"""What one entity sends, or what a secure sum gives: noisy totals in whole numbers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from twofold.errors import BadNumber, BadParameter, BadShape
from twofold.prototypes.message import Integers

__all__ = ["BilinearSums", "plain_sum"]


@dataclass(frozen=True, kw_only=True, eq=False)
class BilinearSums:
    """Noisy totals of the records of all users of one entity, or of several.

    Parameters
    ----------
    mechanism : str
        "gram", "sketch" or "features".
    numbers : int64 array (length,)
        In the places that `BilinearLayout` gives.
    deviation : float
        Standard deviation of the noise in each number, in whole-number units.
    law : {"laplace", "gaussian", "none"}
        Law of the noise.
    seeded : bool
        True when the noise came from a seed: the message is then *not private*. No default, as for `Prototypes`.
    note : str
        What was decided from public numbers, in words.
    entities : int
        Over how many entities the numbers were added up.

    Examples
    --------
    >>> one = BilinearSums(mechanism="gram", numbers=np.arange(3), deviation=2.0, law="gaussian", seeded=False)
    >>> plain_sum([one, one, one, one]).deviation
    4.0
    """

    mechanism: str
    numbers: Integers = field(repr=False)
    deviation: float
    law: Literal["laplace", "gaussian", "none"]
    seeded: bool
    note: str = ""
    entities: int = 1

    def __post_init__(self) -> None:
        if type(self.seeded) is not bool:
            raise BadParameter("a message says whether its noise was seeded.", found=type(self.seeded).__name__)
        if not isinstance(self.numbers, np.ndarray) or self.numbers.dtype != np.int64:
            raise BadNumber("a message holds whole numbers.", expected="an int64 array")
        if self.numbers.ndim != 1 or self.numbers.size == 0:
            raise BadShape("a message is one row of numbers.", found=f"shape {self.numbers.shape}")
        if self.law not in ("laplace", "gaussian", "none"):
            raise BadParameter("the law of the noise is unknown.", found=repr(self.law))
        if not math.isfinite(self.deviation) or self.deviation < 0:
            raise BadNumber("the noise of a message is a finite number from 0.", found=repr(self.deviation))
        if isinstance(self.entities, bool) or not isinstance(self.entities, int) or self.entities < 1:
            raise BadParameter("a message is of at least one entity.", found=repr(self.entities))

    def digest(self) -> str:
        """SHA-256 of the content: the order the server puts messages in."""
        said = (self.mechanism, self.numbers.size, self.deviation, self.law, self.seeded, self.entities)
        state = hashlib.sha256(repr(said).encode())
        state.update(np.ascontiguousarray(self.numbers, dtype="<i8").tobytes())
        return state.hexdigest()


def plain_sum(messages: Iterable[BilinearSums]) -> BilinearSums:
    """Add messages up as they are, in whole numbers: what a secure sum over the same entities gives.

    Examples
    --------
    >>> one = BilinearSums(mechanism="gram", numbers=np.arange(3), deviation=0.0, law="none", seeded=False)
    >>> plain_sum([one, one]).numbers, plain_sum([one, one]).entities
    (array([0, 2, 4]), 2)
    """
    total: BilinearSums | None = None
    for message in messages:
        total = message if total is None else _added(total, message)
    if total is None:
        raise BadParameter("no message came in.", fix="wait for at least one entity")
    return total


def _added(one: BilinearSums, two: BilinearSums) -> BilinearSums:
    if (one.mechanism, one.law, one.numbers.shape) != (two.mechanism, two.law, two.numbers.shape):
        raise BadShape("two messages were not made by the same public numbers.", fix="let both use the same plan")
    return replace(
        one,
        numbers=one.numbers + two.numbers,
        deviation=math.hypot(one.deviation, two.deviation),
        seeded=one.seeded or two.seeded,
        entities=one.entities + two.entities,
    )
