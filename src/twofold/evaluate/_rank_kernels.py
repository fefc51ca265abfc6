"""Compiled places of held-out items; `_rank_reference` says the same in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from twofold.algorithms._jit import kernel

__all__ = ["places"]

Array = Any


@kernel()
def _above_and_tied(row: Array, score: Any) -> tuple[int, int]:
    above = 0
    reached = 0
    for c in range(row.size):
        above += row[c] > score
        reached += row[c] >= score
    return above, reached - above


@kernel()
def _place(above: int, tied: int, n_items: int) -> float:
    """Places above, plus half of the ties other than the item itself, as a share of the other items."""
    return (above + (tied - 1) / 2) / max(n_items - 1, 1)


@kernel()
def places(scores: Array, indptr: Array, indices: Array, seen_ptr: Array, seen: Array, out: Array) -> None:
    """Fill `out`, entries x 2, with each held-out item's place among all items and among the unseen ones.

    An item both seen and held out stays in the list.
    """
    n_items = scores.shape[1]
    held = np.zeros(n_items, np.bool_)
    others = np.empty(n_items, scores.dtype)
    for r in range(scores.shape[0]):
        for p in range(indptr[r], indptr[r + 1]):
            held[indices[p]] = True
        n_seen = 0
        for q in range(seen_ptr[r], seen_ptr[r + 1]):
            if not held[seen[q]]:
                others[n_seen] = scores[r, seen[q]]
                n_seen += 1
        for p in range(indptr[r], indptr[r + 1]):
            score = scores[r, indices[p]]
            above, tied = _above_and_tied(scores[r], score)
            seen_above, seen_tied = _above_and_tied(others[:n_seen], score)
            out[p, 0] = _place(above, tied, n_items)
            out[p, 1] = _place(above - seen_above, tied - seen_tied, n_items - n_seen)
        for p in range(indptr[r], indptr[r + 1]):
            held[indices[p]] = False
