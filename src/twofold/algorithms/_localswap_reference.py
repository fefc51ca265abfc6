"""The swap step in plain NumPy: slow, short, and what the compiled kernels are tested against."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["add_swap_losses", "nearest_two"]

Array = Any
_BLOCK = 64


def nearest_two(points: Array, centers: Array, far: float, near: Array, first: Array, second: Array) -> None:
    """Nearest center of each point, its squared distance, and that of the second nearest."""
    distances = ((points[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
    near[:] = distances.argmin(axis=1)
    everyone = np.arange(len(points))
    first[:] = distances[everyone, near]
    distances[everyone, near] = far
    second[:] = distances.min(axis=1)


def add_swap_losses(
    points: Array, table: Array, near: Array, first: Array, second: Array, base: Array, extra: Array
) -> None:
    """Add what each point loses when a candidate joins, and more when its own center leaves."""
    for start in range(0, table.shape[1], _BLOCK):
        block = slice(start, start + _BLOCK)
        distances = ((points[:, :, None] - table[None, :, block]) ** 2).sum(axis=1)
        kept = np.minimum(distances, first[:, None])
        base[block] += kept.sum(axis=0)
        np.add.at(extra[:, block], near, np.minimum(distances, second[:, None]) - kept)
