r"""Exact sums of any number of records, held to public limits before noise is added.

A release must succeed for any data: a refusal that depends on the rows tells something about them, and no noise covers
it. So sums are never refused for their size; they are cut.

Privacy
-------
*Before the noise.* Let f be the exact sums and c the cut of every coordinate to :math:`[-l, l]`, with a limit l that
public numbers decide. The cut is 1-Lipschitz, :math:`|c(a) - c(b)| \le |a - b|`, so for neighbours x, x'

.. math:: \|c(f(x)) - c(f(x'))\|_p \le \|f(x) - f(x')\|_p

for every p: the sensitivity that was proven for f holds for c(f), and the noise covers it. It is monotone as well, so a
mechanism that needs scores to move one way keeps its proof. The same cut *after* a share of the noise would not do: the
share alone hides nothing, and whether a number was cut would depend on the numbers of one entity.

*The sum itself is exact*, however many users there are: what does not fit 64 bits is carried into a second word. A
running sum that is cut after every block would not do either: one more user moves everybody behind into another block,
and two such sums of neighbours can differ by more than one record.

*After the whole noise* a number is cut to `LARGEST_NUMBER` for the server's sake. That is post-processing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import numpy as np

from twofold.privacy.grid import LIMIT
from twofold.release.content import Integers

__all__ = ["LARGEST_NUMBER", "ROOM", "ExactSum", "Sums", "held", "joined", "masked_limit", "sums_digest"]

#: Of a whole number in a message: 10,000 entities add up without overflow of 64 bits.
LARGEST_NUMBER: Final = (2**63 - 1) // 10_000
#: Under a secure sum, the sums of an entity are cut at this many times the promised users.
ROOM: Final = 1_000
_WORD: Final = 40
_FULL: Final = 2**62


def held(numbers: Integers, limit: int = LARGEST_NUMBER) -> Integers:
    """Cut every number to a size.

    Examples
    --------
    >>> held(np.array([-7, 2, 9]), 5)
    array([-5,  2,  5])
    """
    return np.clip(numbers, -limit, limit)


def masked_limit(*, n_users: int, largest: int) -> int:
    """Largest sum of an entity under masks: far above that of the promised users, small enough for a modulus.

    Examples
    --------
    >>> masked_limit(n_users=900, largest=2**16)
    58982400000
    """
    return min(ROOM * n_users * largest, LIMIT - 1)


class ExactSum:
    """A sum of arrays of whole numbers that never wraps around.

    Parameters
    ----------
    shape : int or tuple of int
        Of the arrays.

    Examples
    --------
    >>> total = ExactSum(1)
    >>> for _ in range(6):
    ...     total.add(np.array([2**61]), most=2**61)
    >>> total.held(LARGEST_NUMBER) == LARGEST_NUMBER
    array([ True])
    >>> for _ in range(6):
    ...     total.add(np.array([-(2**61) + 1]), most=2**61)
    >>> total.held(LARGEST_NUMBER)
    array([6])
    """

    def __init__(self, shape: int | tuple[int, ...]) -> None:
        self._low = np.zeros(shape, dtype=np.int64)
        self._high: Integers | None = None
        self._reach = 0

    def add(self, amounts: Integers, *, most: int) -> None:
        """Add an array whose numbers are at most `most` in size, itself below 2^62."""
        if self._reach + most > _FULL:
            self._carry()
        self._low += amounts
        self._reach += most

    def join(self, other: ExactSum) -> None:
        """Add the sum of other records, which stays as it is."""
        if other._high is not None:
            self._high = other._high.copy() if self._high is None else self._high + other._high
        if self._reach + other._reach > _FULL:
            self._carry()
        self._low += other._low
        self._reach += other._reach

    def words(self) -> tuple[Integers, Integers]:
        """Give the exact sum in two words, high and low: the same for equal sums, however they came about."""
        low, high = self._low & ((1 << _WORD) - 1), self._low >> _WORD
        return (high if self._high is None else high + self._high), low

    def held(self, limit: int) -> Integers:
        """Give the exact sum, cut to a limit of at most 2^61."""
        if self._high is None:
            return held(self._low, limit)
        self._carry()
        # Beyond 2^22 high words a number is beyond any limit, whatever its low word is.
        high = np.clip(self._high, -(2**22), 2**22)
        return held((high << _WORD) + self._low, limit)

    def _carry(self) -> None:
        carried = self._low >> _WORD
        self._low &= (1 << _WORD) - 1
        self._high = carried if self._high is None else self._high + carried
        self._reach = 1 << _WORD


#: Exact sums of the records of some users, one for each array of a release. Private.
Sums = tuple[ExactSum, ...]


def joined(parts: Iterable[Sums]) -> Sums:
    """Add the sums of parts of the users, in any order; the first is changed and given back.

    Examples
    --------
    >>> one, other = ExactSum(2), ExactSum(2)
    >>> one.add(np.array([1, 2]), most=2), other.add(np.array([10, 20]), most=20)
    (None, None)
    >>> joined([(one,), (other,)])[0].held(LARGEST_NUMBER)
    array([11, 22])
    """
    stream = iter(parts)
    total = next(stream)
    for part in stream:
        for mine, more in zip(total, part, strict=True):
            mine.join(more)
    return total


def sums_digest(sums: Sums) -> str:
    """SHA-256 of exact sums: all that a release depends on besides its noise. Private.

    Examples
    --------
    >>> len(sums_digest((ExactSum(3),)))
    64
    """
    state = hashlib.sha256(b"twofold sums 1\n")
    for one in sums:
        for word in one.words():
            state.update(repr(word.shape).encode())
            state.update(np.ascontiguousarray(word, dtype="<i8").ravel().data)
    return state.hexdigest()
