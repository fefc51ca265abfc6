"""Selection of the largest scores in plain NumPy: slow, short, and what the compiled kernels are tested against.

Each function has the signature of its namesake in `_top_items_kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["collect", "hide", "select_few"]

Array = Any


def hide(scores: Array, indptr: Array, indices: Array, positions: Array) -> None:
    """Take the stored entries of a CSR block out of the race."""
    rows = np.repeat(np.arange(len(scores)), np.diff(indptr))
    columns = positions[indices[indptr[0] : indptr[-1]]]
    scores[rows[columns >= 0], columns[columns >= 0]] = -np.inf


def select_few(scores: Array, items: Array, values: Array) -> None:
    """Fill each line with its best items, in order."""
    items[:], values[:] = -1, -np.inf
    n = min(items.shape[1], scores.shape[1])
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    values[:, :n] = np.take_along_axis(scores, order, axis=1)
    items[:, :n] = np.where(values[:, :n] > -np.inf, order, -1)


def collect(scores: Array, floors: Array, items: Array, values: Array) -> None:
    """Fill each line with the items above its floor and the first ones at it, by item number."""
    items[:], values[:] = -1, -np.inf
    for row, floor, who, best in zip(scores, floors, items, values, strict=True):
        above = np.flatnonzero(row > floor)
        level = np.flatnonzero((row == floor) & (row > -np.inf))[: items.shape[1] - above.size]
        chosen = np.sort(np.concatenate([above, level]))
        who[: chosen.size], best[: chosen.size] = chosen, row[chosen]
