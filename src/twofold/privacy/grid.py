r"""From real numbers to whole numbers and back, and caps on whole records that hold to the last unit.

Noise is only ever added to integers. A grid has a step ``2^exponent``; a real x becomes the nearest integer to x/step.
The step is a power of two because then x/step is exact in floating point and ``rint`` is the only rounding there is.

Privacy
-------
*Records, then sum.* Each unit's record is put on the grid first, then capped, and integers are summed. Under
add-or-remove-one the sum changes by exactly one record, in integer arithmetic, in any order of addition, so the cap
itself is the sensitivity. *Sum, then grid* is not offered: a floating-point sum depends on its order, so its
sensitivity has no short proof.

*Rounding.* It moves a coordinate by at most 1/2 and leaves zero at zero, so a record with at most s non-zero
coordinates and real norms :math:`\|x\|_1 \le B`, :math:`\|x\|_2 \le R` becomes an integer record z with

.. math:: \|z\|_1 \le B/step + s/2, \qquad \|z\|_2 \le R/step + \sqrt{s}/2

(triangle inequality on z = x/step + r, with \|r\|_1 ≤ s/2 and \|r\|_2 ≤ √s/2). The real norms must really hold: a clip
in floating point can exceed its bound by its last bit, and then a sensitivity stated from it is wrong by a little.

*Caps.* `cap_l1` and `cap_l2` shrink a record that is on the grid already, towards zero and in integer arithmetic, after
which its norm is at most the limit, exactly. Each record is shrunk by a rule that sees only that record, so one unit's
presence changes nobody else's. No record is refused for its size: one too large for 64 bits is capped in whole numbers
of any size, by the same formula. Proofs. l1: each entry becomes ⌊\|z\|·limit/norm⌋ in size, and the sum of these is at
most limit. l2: with f = ⌊√(limit²·2^64/norm²)⌋ each entry becomes ⌊\|z\|·f/2^32⌋ in size, and the sum of squares is at
most norm²·f²/2^64 <= limit².
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import checks
from twofold.errors import BadPrivacyParameter

__all__ = ["LIMIT", "Grid", "Integers", "cap_l1", "cap_l2", "whole"]

Integers = NDArray[np.int64]

# Values and noise stay below 2^61, so that value + noise cannot overflow 64 bits; see `whole`.
LIMIT = 2**61
_SHIFT = 32
_ROOM = 2**62


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A grid of step 2^exponent; exponent 0 is the grid of the integers themselves.

    Parameters
    ----------
    exponent : int
        Between -1000 and 1000; -10 makes steps of 1/1024.

    Examples
    --------
    >>> grid = Grid(exponent=-2)
    >>> grid.put([0.3, -1.0])
    array([ 1, -4])
    >>> grid.back(grid.put([0.3, -1.0]))
    array([ 0.25, -1.  ])
    """

    exponent: int = 0

    def __post_init__(self) -> None:
        checks.whole("exponent", self.exponent, least=-1000, most=1000, error=BadPrivacyParameter)

    @property
    def step(self) -> Fraction:
        """The value of one grid unit."""
        return Fraction(2) ** self.exponent

    def put(self, values: ArrayLike) -> Integers:
        """Round real values to the grid (half to even); NaN, infinity or too large is refused.

        Examples
        --------
        >>> Grid(exponent=-1).put([0.5, 0.75, 2.0])
        array([1, 2, 4])
        """
        with np.errstate(over="ignore"):  # an overflow becomes infinity and is refused below
            scaled = np.ldexp(_floats(values), -self.exponent)
        rounded = np.rint(scaled)
        if not np.all(np.abs(rounded) < LIMIT):  # false for NaN too
            raise BadPrivacyParameter(
                "a value cannot be put on the grid: it is not a number, infinite or too large.",
                expected=f"finite values below {LIMIT} steps of {self.step}",
                fix="bound the values first, or use a coarser grid",
            )
        return rounded.astype(np.int64)

    def back(self, integers: ArrayLike) -> NDArray[np.float64]:
        """Turn grid integers into real numbers; this is post-processing.

        Examples
        --------
        >>> Grid(exponent=3).back([2])
        array([16.])
        """
        return np.ldexp(np.asarray(integers).astype(np.float64), self.exponent)


def whole(values: ArrayLike) -> Integers:
    """Check that values are integers a mechanism can take: whole, and below 2^61 in size.

    Examples
    --------
    >>> whole([1, 2, 3])
    array([1, 2, 3])
    >>> whole([0.5])
    Traceback (most recent call last):
    twofold.errors.BadPrivacyParameter: a mechanism takes only whole numbers...
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise BadPrivacyParameter(
            "a mechanism takes only whole numbers.",
            found=f"an array of {array.dtype}",
            expected="integers",
            fix="Grid(exponent=-10).put(values) first",
        )
    if array.size and (int(array.max()) >= LIMIT or int(array.min()) <= -LIMIT):
        raise BadPrivacyParameter("a value is too large for the noise to be added exactly.", expected=f"below {LIMIT}")
    return array.astype(np.int64)


def _floats(values: ArrayLike) -> NDArray[np.float64]:
    """Read numbers that are exact in 64-bit floating point; anything else would be rounded unseen."""
    array = np.asarray(values)
    narrow = array.dtype.kind == "f" and array.dtype.itemsize <= 8
    exact = array.dtype.kind in "iu" and -(2**53) <= int(array.min(initial=0)) <= int(array.max(initial=0)) <= 2**53
    if array.size and not (narrow or exact):
        raise BadPrivacyParameter(
            "a value cannot be put on the grid: it is not a 64-bit number.",
            found=f"an array of {array.dtype}",
            expected="floating-point numbers, or whole numbers up to 2^53",
        )
    return array.astype(np.float64)


def cap_l1(values: ArrayLike, starts: ArrayLike, *, limit: int) -> Integers:
    """Shrink records whose l1 norm exceeds `limit`.

    Parameters
    ----------
    values : array of int
        Entries of all records, one record after the other (the data of a sparse matrix by rows).
    starts : array of int
        Where each record begins, and at the end the number of values (the indptr of that matrix).
    limit : int
        Public, from 1. The l1 sensitivity of a sum of capped records under add-or-remove-one.

    Examples
    --------
    >>> cap_l1([3, 1, 9, 9], [0, 2, 4], limit=6)
    array([3, 1, 3, 3])
    """
    entries, sizes = _records(values, starts, limit)
    amounts = np.abs(entries)
    huge = _beyond(amounts, sizes, _ROOM // np.maximum(sizes, 1))
    norms = _totals(_without(amounts, sizes, huge), sizes)
    over = norms > limit
    if over.any():  # a product with the limit must fit as well
        huge |= over & _beyond(amounts, sizes, np.full(sizes.size, _ROOM // limit))
    wide, norm = np.repeat(over & ~huge, sizes), np.repeat(norms, sizes)
    capped = entries.copy()
    if wide.any():
        capped[wide] = np.sign(entries[wide]) * (amounts[wide] * limit // norm[wide])
    return _one_by_one(capped, sizes, huge, lambda record: _l1_record(record, limit))


def cap_l2(values: ArrayLike, starts: ArrayLike, *, limit_squared: int) -> Integers:
    """Shrink records whose squared l2 norm exceeds `limit_squared`.

    Parameters
    ----------
    values, starts : arrays of int
        As for `cap_l1`.
    limit_squared : int
        Public, from 1. The squared l2 sensitivity of a sum of capped records under add-or-remove-one.

    Examples
    --------
    >>> cap_l2([3, 4, 30, 40], [0, 2, 4], limit_squared=25)
    array([3, 4, 2, 3])
    """
    entries, sizes = _records(values, starts, limit_squared)
    amounts = np.abs(entries)
    most = np.sqrt(_ROOM / np.maximum(sizes, 1)).astype(np.int64) - 1  # one less, for the rounding of the root
    huge = _beyond(amounts, sizes, np.maximum(most, 0))
    norms = _totals(_without(amounts, sizes, huge) ** 2, sizes)
    over = norms > limit_squared
    capped = entries.copy()
    if over.any():  # an entry is below 2^31 and a factor below 2^32, so products fit
        factors = np.zeros(norms.size, dtype=np.int64)
        factors[over] = [_l2_factor(int(norm), limit_squared) for norm in norms[over]]
        wide, factor = np.repeat(over, sizes), np.repeat(factors, sizes)
        capped[wide] = np.sign(entries[wide]) * (amounts[wide] * factor[wide] >> _SHIFT)
    return _one_by_one(capped, sizes, huge, lambda record: _l2_record(record, limit_squared))


def _records(values: ArrayLike, starts: ArrayLike, limit: int) -> tuple[Integers, Integers]:
    entries, edges = whole(values).ravel(), whole(starts).ravel()
    checks.whole("limit", limit, error=BadPrivacyParameter)
    sizes = np.diff(edges)
    if edges.size == 0 or edges[0] != 0 or edges[-1] != entries.size or (sizes < 0).any():
        raise BadPrivacyParameter(
            "the starts of the records do not match the values.",
            expected="increasing numbers from 0 to the number of values",
        )
    return entries, sizes


def _totals(amounts: Integers, sizes: Integers) -> Integers:
    """Sum of each record; the running sum may wrap around 64 bits, its differences do not."""
    running = np.zeros(amounts.size + 1, dtype=np.int64)
    np.cumsum(amounts, out=running[1:])
    ends = np.cumsum(sizes)
    totals: Integers = running[ends] - running[ends - sizes]
    return totals


def _beyond(amounts: Integers, sizes: Integers, most: Integers) -> NDArray[np.bool_]:
    """Mark records that have an entry larger than their `most`."""
    if int(amounts.max(initial=0)) <= int(most.min(initial=_ROOM)):
        return np.zeros(sizes.size, dtype=np.bool_)
    flags = (amounts > np.repeat(most, sizes)).astype(np.int64)
    return np.asarray(_totals(flags, sizes) > 0)


def _without(amounts: Integers, sizes: Integers, huge: NDArray[np.bool_]) -> Integers:
    return np.where(np.repeat(huge, sizes), 0, amounts) if huge.any() else amounts


def _one_by_one(
    entries: Integers, sizes: Integers, which: NDArray[np.bool_], cap: Callable[[list[int]], list[int]]
) -> Integers:
    """Cap the few records that do not fit into 64 bits, in whole numbers of any size, by the same formula."""
    ends = np.cumsum(sizes)
    for record in np.flatnonzero(which):
        span = slice(int(ends[record] - sizes[record]), int(ends[record]))
        entries[span] = cap(entries[span].tolist())
    return entries


def _l1_record(record: list[int], limit: int) -> list[int]:
    norm = sum(map(abs, record))
    return record if norm <= limit else [_signed(value, abs(value) * limit // norm) for value in record]


def _l2_record(record: list[int], limit_squared: int) -> list[int]:
    norm = sum(value * value for value in record)
    if norm <= limit_squared:
        return record
    factor = _l2_factor(norm, limit_squared)
    return [_signed(value, abs(value) * factor >> _SHIFT) for value in record]


def _l2_factor(norm: int, limit_squared: int) -> int:
    return math.isqrt((limit_squared << 2 * _SHIFT) // norm)


def _signed(value: int, amount: int) -> int:
    return -amount if value < 0 else amount
