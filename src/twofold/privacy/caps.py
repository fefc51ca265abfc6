r"""Caps on integer records that hold to the last unit, so that a sensitivity is a fact and not an estimate.

A record clipped in floating point can exceed its bound by a rounding error, and then the stated sensitivity
is wrong by a little. Here a record is already on the grid; if its norm exceeds the limit it is shrunk
towards zero in integer arithmetic, after which its norm is at most the limit, exactly. Each record is shrunk
by a rule that sees only that record, so one unit's presence changes nobody else's. No record is refused for its
size: one too large for 64 bits is capped in whole numbers of any size, by the same formula.

Proofs. l1: each entry becomes ⌊\|z\|·limit/norm⌋ in size, and the sum of these is at most limit. l2: with
f = ⌊√(limit²·2^64/norm²)⌋ each entry becomes ⌊\|z\|·f/2^32⌋ in size, and the sum of squares is at most
norm²·f²/2^64 <= limit².
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold.errors import BadPrivacyParameter
from twofold.privacy.grid import Integers, whole

__all__ = ["cap_l1", "cap_l2"]

_SHIFT = 32
_ROOM = 2**62


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
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise BadPrivacyParameter("a cap is a whole number from 1.", found=repr(limit))
    sizes = np.diff(edges)
    if edges.size == 0 or edges[0] != 0 or edges[-1] != entries.size or (sizes < 0).any():
        raise BadPrivacyParameter(
            "the starts of the records do not fit the values.",
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
    """Which records have an entry larger than `most` of that record."""
    if int(amounts.max(initial=0)) <= int(most.min(initial=_ROOM)):
        return np.zeros(sizes.size, dtype=np.bool_)
    flags = (amounts > np.repeat(most, sizes)).astype(np.int64)
    return np.asarray(_totals(flags, sizes) > 0)


def _without(amounts: Integers, sizes: Integers, huge: NDArray[np.bool_]) -> Integers:
    return np.where(np.repeat(huge, sizes), 0, amounts) if huge.any() else amounts


def _one_by_one(
    entries: Integers, sizes: Integers, which: NDArray[np.bool_], cap: Callable[[list[int]], list[int]]
) -> Integers:
    """Cap the few records that 64 bits have no room for in whole numbers of any size, by the same formula."""
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
