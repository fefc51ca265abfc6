"""The compiled half of a swap step; `_localswap_reference` says the same in NumPy.

All numbers are whole and below 2^53 in size, so float64 holds them exactly and no order of addition changes a sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twofold.algorithms._jit import kernel

__all__ = ["add_swap_losses", "nearest_two"]

Array = Any


@kernel()
def nearest_two(points: Array, centers: Array, far: float, near: Array, first: Array, second: Array) -> None:
    """Nearest center of each point (ties: the lower number), its squared distance, and that of the second nearest."""
    for i in range(points.shape[0]):
        best, next_best, place = far + 1.0, far, 0
        for j in range(centers.shape[0]):
            distance = 0.0
            for a in range(points.shape[1]):
                gap = points[i, a] - centers[j, a]
                distance += gap * gap
            if distance < best:
                if best < next_best:
                    next_best = best
                best = distance
                place = j
            elif distance < next_best:
                next_best = distance
        near[i], first[i], second[i] = place, best, next_best


@kernel(fastmath={"nnan", "nsz", "reassoc", "contract"})
def add_swap_losses(
    points: Array, table: Array, near: Array, first: Array, second: Array, base: Array, extra: Array
) -> None:
    """Add what each point loses when a candidate joins (`base`), and more when its own center leaves (`extra`)."""
    count = table.shape[1]
    distances = np.empty(count)
    for i in range(points.shape[0]):
        for j in range(count):
            distances[j] = 0.0
        for a in range(points.shape[1]):
            value, line = points[i, a], table[a]
            for j in range(count):
                gap = value - line[j]
                distances[j] += gap * gap
        one, two, row = first[i], second[i], extra[near[i]]
        for j in range(count):
            distance = distances[j]
            kept = distance if distance < one else one
            left = distance if distance < two else two
            base[j] += kept
            row[j] += left - kept
