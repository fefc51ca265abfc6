"""Places of held-out items in plain NumPy: slow, short, and what the compiled kernel is tested against."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["places"]

Array = Any


def places(scores: Array, indptr: Array, indices: Array, seen_ptr: Array, seen: Array, out: Array) -> None:
    """Fill `out`, entries x 2, with each held-out item's place among all items and among the unseen ones."""
    for r, row in enumerate(scores):
        lines = slice(indptr[r], indptr[r + 1])
        held = indices[lines]
        unseen = np.ones(row.size, np.bool_)
        unseen[seen[seen_ptr[r] : seen_ptr[r + 1]]] = False
        unseen[held] = True
        out[lines, 0] = _places(np.sort(row), row[held])
        out[lines, 1] = _places(np.sort(row[unseen]), row[held])


def _places(ordered: Array, scores: Array) -> Array:
    reached = ordered.size - np.searchsorted(ordered, scores, side="left")
    above = ordered.size - np.searchsorted(ordered, scores, side="right")
    # Places above, plus half of the ties other than the item itself.
    return (above + (reached - above - 1) / 2) / max(ordered.size - 1, 1)
