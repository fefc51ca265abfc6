r"""Caps on integer records that hold to the last unit, so that a sensitivity is a fact and not an estimate.

A record clipped in floating point can exceed its bound by a rounding error, and then the stated sensitivity
is wrong by a little. Here a record is already on the grid; if its norm exceeds the limit it is shrunk
towards zero in integer arithmetic, after which its norm is at most the limit, exactly. Each record is shrunk
by a rule that sees only that record, so one unit's presence changes nobody else's.

Proofs. l1: each entry becomes ⌊\|z\|·limit/norm⌋ in size, and the sum of these is at most limit. l2: with
f = ⌊√(limit²·2^64/norm²)⌋ each entry becomes ⌊\|z\|·f/2^32⌋ in size, and the sum of squares is at most
norm²·f²/2^64 <= limit².
"""

from __future__ import annotations

import math

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
    norms = _totals(np.abs(entries), sizes)
    over = norms > limit
    if not over.any():
        return entries
    _check_room(int(np.abs(entries).max()) * limit)
    wide, norm = np.repeat(over, sizes), np.repeat(norms, sizes)
    shrunk = np.sign(entries[wide]) * (np.abs(entries[wide]) * limit // norm[wide])
    return _replaced(entries, wide, shrunk)


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
    largest = int(np.abs(entries).max(initial=0))
    _check_room(largest**2 * int(sizes.max(initial=0)))
    norms = _totals(entries**2, sizes)
    over = norms > limit_squared
    if not over.any():
        return entries
    _check_room(largest << _SHIFT)
    factors = np.zeros(norms.size, dtype=np.int64)
    factors[over] = [math.isqrt((limit_squared << 2 * _SHIFT) // int(norm)) for norm in norms[over]]
    wide, factor = np.repeat(over, sizes), np.repeat(factors, sizes)
    shrunk = np.sign(entries[wide]) * (np.abs(entries[wide]) * factor[wide] >> _SHIFT)
    return _replaced(entries, wide, shrunk)


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


def _replaced(entries: Integers, where: NDArray[np.bool_], shrunk: Integers) -> Integers:
    capped = entries.copy()
    capped[where] = shrunk
    return capped


def _check_room(product: int) -> None:
    if product >= _ROOM:
        raise BadPrivacyParameter(
            "records are too large to be capped exactly in 64 bits.", fix="use a coarser grid or smaller bounds"
        )
