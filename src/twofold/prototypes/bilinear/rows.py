r"""From a user's entries to the row x on a whole-number grid, capped in integer arithmetic.

x is a public function of the user's own entries:

* counts: the root of the bounded count, sign kept; absent is 0;
* ratings: the rating minus the user's own mean, where the mean is that of the ratings and of five more at the public
  centre; observed items only, 0 elsewhere.

x becomes z, the nearest whole numbers to :math:`x N/C`, held to ``entry_limit`` in size (the bounds of the values imply
it; a clip makes it a fact), and z is shortened to :math:`\|z\|_2^2 \le N^2` by `twofold.privacy.caps`, which only
makes entries smaller. Everything a user's z depends on is that user's entries: sums over a row are taken in whole
numbers, the rest is done entry by entry, so z is the same to the last unit whoever else is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from twofold.privacy.caps import cap_l1, cap_l2
from twofold.privacy.grid import Grid
from twofold.prototypes.base import Public
from twofold.prototypes.bilinear.layout import BilinearLayout
from twofold.prototypes.message import Floats, Integers

__all__ = ["OWN_RATINGS", "RowBlock", "row_blocks"]

#: Ratings at the public centre that a user's own mean is shrunk with.
OWN_RATINGS: Final = 5
# Dense doubles of a block: 32 megabytes.
_BLOCK_ENTRIES: Final = 1 << 22
_RATING_BITS: Final = 12


@dataclass(frozen=True, kw_only=True)
class RowBlock:
    """Whole rows of some users, by rows.

    Parameters
    ----------
    values : int64 array
        z, capped: what pairs are made of.
    base, marks : int64 arrays, marks None for counts
        Row and marks of the base record, capped together.
    columns, starts : int64 arrays
        Item of every entry; where each user begins.
    n_items : int
        Length of the catalog.
    """

    values: Integers
    base: Integers
    marks: Integers | None
    columns: Integers
    starts: Integers
    n_items: int

    @property
    def n_users(self) -> int:
        """How many users the block holds."""
        return len(self.starts) - 1

    @property
    def matrix(self) -> sp.csr_array:
        """The rows z, users by items."""
        parts: Any = (self.values, self.columns, self.starts)
        return sp.csr_array(parts, shape=(self.n_users, self.n_items))


def row_blocks(rows: sp.csr_array, public: Public, layout: BilinearLayout) -> Iterator[RowBlock]:
    """Turn rows (as `twofold.prototypes.records.check_rows` gives them) into whole ones, some thousand at a time.

    Examples
    --------
    >>> public = Public(n_items=2, n_users=9, max_items=2, bound=9, delta=1e-6)
    >>> layout = BilinearLayout.of(public, "gram")
    >>> next(row_blocks(sp.csr_array([[1, 0], [9, 9]]), public, layout)).values.tolist(), layout.norm
    ([181, 181, 181], 256)
    """
    users = max(1, min(_BLOCK_ENTRIES // layout.columns, 1 << 15))
    for start in range(0, rows.shape[0], users):
        edges = rows.indptr[start : start + users + 1].astype(np.int64)
        span = slice(int(edges[0]), int(edges[-1]))
        starts = edges - edges[0]
        entries = np.clip(rows.data[span].astype(np.float64), public.lower, public.bound)
        columns = rows.indices[span].astype(np.int64)
        yield _block(_whole(_x(entries, starts, public), layout), columns, starts, layout)


def _x(entries: Floats, starts: Integers, public: Public) -> Floats:
    if public.feedback == "counts":
        return np.asarray(np.sign(entries) * np.sqrt(np.abs(entries)))
    # Whole numbers first, so that a user's sum does not depend on the order of addition.
    grid = Grid(exponent=int(np.frexp(public.value_cap)[1]) - _RATING_BITS)
    ratings, sizes = grid.put(entries - public.centre), np.diff(starts)
    running = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(ratings)])
    number = np.repeat(sizes + OWN_RATINGS, sizes)
    total = np.repeat(running[starts[1:]] - running[starts[:-1]], sizes)
    return np.asarray((ratings * number - total) / number * float(grid.step))


def _whole(x: Floats, layout: BilinearLayout) -> Integers:
    scaled = np.rint(x * (layout.norm / layout.cap))
    return np.clip(scaled, -layout.entry_limit, layout.entry_limit).astype(np.int64)


def _block(whole: Integers, columns: Integers, starts: Integers, layout: BilinearLayout) -> RowBlock:
    values = cap_l2(whole, starts, limit_squared=layout.norm**2)
    if not layout.l2:
        values = cap_l1(values, starts, limit=layout.row_limit)
    base, marks = _base(whole, starts, layout) if layout.mark else (values, None)
    return RowBlock(values=values, base=base, marks=marks, columns=columns, starts=starts, n_items=layout.n_items)


def _base(whole: Integers, starts: Integers, layout: BilinearLayout) -> tuple[Integers, Integers]:
    """Cap every user's row and marks as one record, entry and mark in turn."""
    joint = np.empty(2 * whole.size, dtype=np.int64)
    joint[0::2], joint[1::2] = whole, layout.mark
    if layout.l2:
        capped = cap_l2(joint, 2 * starts, limit_squared=layout.base_limit)
    else:
        capped = cap_l1(joint, 2 * starts, limit=layout.base_limit)
    return capped[0::2], capped[1::2]
