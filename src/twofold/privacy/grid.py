r"""From real numbers to whole numbers and back, with the sensitivity that the rounding costs.

Noise is only ever added to integers. A grid has a step ``2^exponent``; a real x becomes the nearest integer
to x/step. The step is a power of two because then x/step is exact in floating point and ``rint`` is the only
rounding there is.

Privacy
-------
*Records, then sum.* Each unit's record is put on the grid first, and integers are summed. Rounding moves a
coordinate by at most 1/2 and leaves zero at zero, so a record with at most s non-zero coordinates and real
norms :math:`\|x\|_1 \le B`, :math:`\|x\|_2 \le R` becomes an integer record z with

.. math:: \|z\|_1 \le B/step + s/2, \qquad \|z\|_2 \le R/step + \sqrt{s}/2

(triangle inequality on z = x/step + r, with \|r\|_1 ≤ s/2 and \|r\|_2 ≤ √s/2). Norms of integer vectors are
whole (l1) or roots of whole numbers (l2), so the bounds may be rounded down to a whole l1 and a whole squared
l2. Under add-or-remove-one the sum changes by exactly one record, in integer arithmetic, in any order of
addition. That is the sensitivity `sensitivity_l1` and `sensitivity_l2_squared` return.

The real norms must really hold: a clip in floating point can exceed its bound by its last bit. `caps` shrinks
integer records in integer arithmetic; a sum of records capped there has the cap itself as its sensitivity.

*Sum, then grid* is not offered: a floating-point sum depends on its order, so its sensitivity has no short
proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.errors import BadPrivacyParameter
from twofold.privacy.budget import Number, positive

__all__ = ["LIMIT", "Grid", "Integers", "whole"]

Integers = NDArray[np.int64]

# Values and noise stay below 2^61, so that value + noise cannot overflow 64 bits; see `whole`.
LIMIT = 2**61


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
    >>> Grid.of_step("1/1024").exponent
    -10
    """

    exponent: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.exponent, bool) or not isinstance(self.exponent, int) or abs(self.exponent) > 1000:
            raise BadPrivacyParameter(
                "the exponent of a grid is a whole number.",
                found=repr(self.exponent),
                expected="-1000 to 1000",
            )

    @classmethod
    def of_step(cls, step: Number) -> Grid:
        """Make the grid of a step, which must be a power of two.

        Examples
        --------
        >>> Grid.of_step(0.25)
        Grid(exponent=-2)
        """
        value = positive(step, name="step")
        exponent = value.numerator.bit_length() - value.denominator.bit_length()
        if value != Fraction(2) ** exponent:
            raise BadPrivacyParameter("a grid step is a power of two.", found=str(value), fix='step="1/1024"')
        return cls(exponent=exponent)

    @property
    def step(self) -> Fraction:
        """What one grid unit is worth."""
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
        """Give grid integers their worth as real numbers; this is post-processing.

        Examples
        --------
        >>> Grid(exponent=3).back([2])
        array([16.])
        """
        return np.ldexp(np.asarray(integers).astype(np.float64), self.exponent)

    def sensitivity_l1(self, bound: Number, *, entries: int) -> Fraction:
        """Whole l1 sensitivity of a sum of records with l1 norm up to `bound` and up to `entries` non-zeros.

        Privacy
        -------
        bound/step + entries/2, rounded down to a whole number; proven in the module docstring.

        Examples
        --------
        >>> Grid(exponent=-2).sensitivity_l1(60, entries=100)
        Fraction(290, 1)
        >>> Grid().sensitivity_l1(60, entries=100)
        Fraction(110, 1)
        """
        return Fraction(math.floor(positive(bound, name="bound") / self.step + Fraction(_entries(entries), 2)))

    def sensitivity_l2_squared(self, bound: Number, *, entries: int) -> Fraction:
        """Whole squared l2 sensitivity of a sum of records of l2 norm up to `bound`, up to `entries`
        non-zeros.

        Privacy
        -------
        (bound/step + √entries/2)² = a² + a√s + s/4; the root is bounded from above with 64 extra bits, and
        the whole is rounded down because the square of an integer vector's norm is whole.

        Examples
        --------
        >>> Grid(exponent=-10).sensitivity_l2_squared(1, entries=100)
        Fraction(1058841, 1)
        """
        real = positive(bound, name="bound") / self.step
        count = _entries(entries)
        root = Fraction(math.isqrt(count << 128) + 1, 1 << 64)
        if math.isqrt(count) ** 2 == count:
            root = Fraction(math.isqrt(count))
        return Fraction(math.floor(real**2 + real * root + Fraction(count, 4)))


def whole(values: ArrayLike) -> Integers:
    """Check that values are integers a mechanism can take: whole, and below 2^61 in size.

    Examples
    --------
    >>> whole([1, 2, 3])
    array([1, 2, 3])
    >>> whole([0.5])
    Traceback (most recent call last):
    twofold.errors.BadPrivacyParameter: a mechanism takes whole numbers only...
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise BadPrivacyParameter(
            "a mechanism takes whole numbers only.",
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


def _entries(entries: int) -> int:
    if isinstance(entries, bool) or not isinstance(entries, int) or entries < 1:
        raise BadPrivacyParameter("the number of entries is a whole number from 1.", found=repr(entries))
    return entries
