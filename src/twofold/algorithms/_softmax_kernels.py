"""Softmaxes of weighted sums: for each row the size of its total, and the means and second moments of the parts.

One pass per row, whose numbers stay in the cache. Nothing is added across rows, so bits do not depend on how rows are
dealt out. The exponential is spelled out because a call of the C library's keeps a compiler from using vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms._jit import kernel
from twofold.algorithms._lanes import LANES, fill, load, multiply_add, total

Array = NDArray[Any]

#: Below this an exponential is taken to be this one's, which is no part of any sum.
LEAST = -700.0
LOG2E = 1.4426950408889634
#: Logarithm of 2 as a number of few bits, whose multiples are exact, and the rest.
LN2_HIGH = 0.693145751953125
LN2_LOW = 1.42860682030941723212e-6
#: A double this large has no bits below 1: adding it rounds, and leaves the whole number in the lowest bits.
ROUND = 6755399441055744.0
ONE = 0x3FF0000000000000  # bits of 1.0


@kernel()
def dot(a: Array, b: Array) -> Any:
    """Sum of products, eight at a time."""
    whole = a.size // LANES * LANES
    sums = fill(0.0)
    for j in range(0, whole, LANES):
        sums = multiply_add(load(a, j), load(b, j), sums)
    result = total(sums)
    for j in range(whole, a.size):
        result += a[j] * b[j]
    return result


@kernel()
def exponentials(x: Array, powers: Array) -> None:
    """Replace numbers of at most 0 by their exponentials; `powers` is room for as many.

    With n the nearest whole number to x / log 2, e^x is 2^n e^r. The series of e^r, r at most 0.35, ends where a term
    is below the precision of 1; bits of n are moved to where a double has its exponent.
    """
    for j in range(x.size):
        y = LEAST if x[j] < LEAST else x[j]
        shifted = y * LOG2E + ROUND
        n = shifted - ROUND
        powers[j] = shifted
        x[j] = (y - n * LN2_HIGH) - n * LN2_LOW
    bits = powers.view(np.int64)
    for j in range(x.size):
        bits[j] = (bits[j] << 52) + ONE
    for j in range(x.size):
        r = x[j]
        s = 1.0 / 479001600.0
        s = s * r + 1.0 / 39916800.0
        s = s * r + 1.0 / 3628800.0
        s = s * r + 1.0 / 362880.0
        s = s * r + 1.0 / 40320.0
        s = s * r + 1.0 / 5040.0
        s = s * r + 1.0 / 720.0
        s = s * r + 1.0 / 120.0
        s = s * r + 1.0 / 24.0
        s = s * r + 1.0 / 6.0
        s = s * r + 0.5
        s = s * r + 1.0
        x[j] = (s * r + 1.0) * powers[j]


@kernel()
def softmax_moments(parts: Array, weights: Array, starts: Array, closed: Array, sizes: Array, moments: Array) -> None:
    """Find the moments of some parts under the softmax of their weighted sum, row by row.

    Parameters
    ----------
    parts : array (rows, parts, columns)
        What is weighed.
    weights : array (parts,)
        Their weights.
    starts, closed : arrays
        Columns of each row that have no chance, compressed.
    sizes : array (rows,)
        Becomes the logarithm of the total of each row.
    moments : array (rows, parts, 1 + parts)
        Becomes the mean of each part, and the means of its products with every part.
    """
    number, width = parts.shape[1], parts.shape[2]
    chance, room, ones = np.empty(width), np.empty(width), np.ones(width)
    for row in range(parts.shape[0]):
        chance[:] = 0.0
        for k in range(number):
            weight, part = weights[k], parts[row, k]
            for j in range(width):
                chance[j] += weight * part[j]
        shut = closed[starts[row] : starts[row + 1]]
        for column in shut:
            chance[column] = -np.inf
        top = -np.inf
        for j in range(width):
            top = max(top, chance[j])
        for j in range(width):
            chance[j] -= top
        exponentials(chance, room)
        for column in shut:
            chance[column] = 0.0
        whole = dot(chance, ones)
        sizes[row] = np.log(whole) + top
        for j in range(width):
            chance[j] /= whole
        for k in range(number):
            part = parts[row, k]
            for j in range(width):
                room[j] = chance[j] * part[j]
            moments[row, k, 0] = dot(room, ones)
            for other in range(k + 1):
                moments[row, k, 1 + other] = moments[row, other, 1 + k] = dot(room, parts[row, other])
