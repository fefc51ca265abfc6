"""Public draws: directions that every entity and the server compute alike, on any machine and with any library."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from twofold.prototypes.message import Floats, Integers

__all__ = ["directions", "public_points"]


def directions(*, count: int, n_items: int, seed: int) -> Integers:
    """Random directions as whole numbers of 16 bits, each balanced so that its entries add up to about zero.

    Parameters
    ----------
    count, n_items : int
        How many, and their length.
    seed : int
        Public.

    Notes
    -----
    The bytes come from SHAKE-256 of the public numbers, not from a library's generator, whose stream may change with
    its version. Every number is a sum of four uniform bytes, nearly normal. Balancing keeps a direction from measuring
    how much a user has of everything, which would put all users with non-negative rows into few cells.

    Examples
    --------
    >>> lines = directions(count=2, n_items=4, seed=0)
    >>> lines.shape, bool((abs(lines.sum(axis=1)) < 4).all())
    ((2, 4), True)
    """
    name = f"twofold directions 1 {count} {n_items} {seed}".encode()
    stream = hashlib.shake_256(name).digest(4 * count * n_items)
    drawn = np.frombuffer(stream, dtype=np.uint8).reshape(count, n_items, 4).sum(axis=2, dtype=np.int64)
    scaled = 32 * drawn
    return np.asarray(scaled - scaled.sum(axis=1, keepdims=True) // n_items, dtype=np.int64)


def public_points(*, count: int, n_items: int, seed: int, radius: float) -> Floats:
    """Random points at a distance from the origin.

    Examples
    --------
    >>> points = public_points(count=3, n_items=5, seed=1, radius=2.0)
    >>> (points**2).sum(axis=1).round(6)
    array([4., 4., 4.])
    """
    lines = directions(count=count, n_items=n_items, seed=seed).astype(np.float64)
    norms = np.sqrt((lines**2).sum(axis=1, keepdims=True))
    return np.where(norms > 0, lines / np.maximum(norms, 1.0), 1 / math.sqrt(n_items)) * radius
