"""Compiled selection of the largest scores, and places of held-out items; `_reference` does the same in NumPy.

`scores` is a block, users x items, that a selection may overwrite. A score of minus infinity is never chosen.
Outputs are filled with item -1 and score minus infinity where candidates run out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twofold.algorithms._jit import kernel

__all__ = ["collect", "hide", "places", "select_few"]

GROUP = 16  # neighbours whose largest score is found first, in vector lanes
Array = Any


@kernel()
def hide(scores: Array, indptr: Array, indices: Array, positions: Array) -> None:
    """Exclude the stored entries of a CSR block; `positions` is -1 for items that cannot be listed."""
    for r in range(scores.shape[0]):
        for p in range(indptr[r], indptr[r + 1]):
            position = positions[indices[p]]
            if position >= 0:
                scores[r, np.uint64(position)] = -np.inf


@kernel(fastmath={"nnan", "nsz"})
def _group_maxima(scores: Array, maxima: Array) -> None:
    for g in range(scores.size // GROUP):
        best = scores[g * GROUP]
        for c in range(GROUP):
            score = scores[g * GROUP + c]
            best = score if score > best else best
        maxima[g] = best
    for c in range(scores.size // GROUP * GROUP, scores.size):
        maxima[-1] = scores[c] if c % GROUP == 0 or scores[c] > maxima[-1] else maxima[-1]


@kernel()
def _insert(score: Any, item: int, values: Array, items: Array) -> None:
    """Insert a score that beats the last one, after equal scores, so that the lower item stays first."""
    q = values.size - 1
    while q > 0 and values[q - 1] < score:
        values[q] = values[q - 1]
        items[q] = items[q - 1]
        q -= 1
    values[q] = score
    items[q] = item


@kernel()
def _nth_largest(maxima: Array, values: Array, items: Array) -> Any:
    """Return a score that at least ``values.size`` items reach: as many groups have one; minus infinity if fewer."""
    values[:] = -np.inf
    for g in range(maxima.size):
        if maxima[g] > values[-1]:
            _insert(maxima[g], g, values, items)
    return values[-1]


@kernel()
def select_few(scores: Array, items: Array, values: Array) -> None:
    """Fill each line with its best items, in order: look only into groups that can hold one of them."""
    n_items = scores.shape[1]
    maxima = np.empty(-(-n_items // GROUP), scores.dtype)
    for r in range(scores.shape[0]):
        row, best, who = scores[r], values[r], items[r]
        _group_maxima(row, maxima)
        floor = _nth_largest(maxima, best, who)
        best[:] = -np.inf
        who[:] = -1
        for g in range(maxima.size):
            if maxima[g] >= floor and maxima[g] > best[-1]:
                for c in range(g * GROUP, min(n_items, g * GROUP + GROUP)):
                    if row[c] >= floor and row[c] > best[-1]:
                        _insert(row[c], c, best, who)


@kernel()
def _collect_plain(row: Array, floor: Any, items: Array, values: Array) -> None:
    """Fill with all items that reach the floor, exactly as many as there is room for; no branch to mispredict."""
    q = 0
    for c in range(row.size):
        items[q] = c
        values[q] = row[c]
        q += row[c] >= floor
        if q == items.size:
            return


@kernel()
def _collect_level(row: Array, floor: Any, level: int, items: Array, values: Array) -> None:
    """Fill with all items above the floor and the first `level` ones at it."""
    q = 0
    for c in range(row.size):
        at = row[c] == floor and level > 0
        if at or row[c] > floor:
            items[q] = c
            values[q] = row[c]
            q += 1
            level -= at


@kernel()
def collect(scores: Array, floors: Array, items: Array, values: Array) -> None:
    """Fill each line with the items above its floor and the first ones at it, by item number."""
    n = items.shape[1]
    for r in range(scores.shape[0]):
        row, floor = scores[r], floors[r]
        above = 0
        reached = 0
        for c in range(row.size):
            above += row[c] > floor
            reached += row[c] >= floor
        if floor > -np.inf and reached == n:
            _collect_plain(row, floor, items[r], values[r])
        else:
            items[r, :] = -1
            values[r, :] = -np.inf
            _collect_level(row, floor, n - above if floor > -np.inf else 0, items[r], values[r])


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
