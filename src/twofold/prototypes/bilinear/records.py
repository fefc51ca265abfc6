r"""Exact sums of bilinear records, some thousand users at a time.

Whole numbers only, so the sums do not depend on the order of users nor on how they are cut into blocks. Where a dense
product is faster it is taken in doubles, and is exact all the same: every product of two entries is a whole number of
at most N² <= 2^24, a block has at most 2^15 users, so every partial sum is a whole number below 2^53 whatever the order
of addition.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from twofold.prototypes.base import Public
from twofold.prototypes.bilinear.layout import BilinearLayout
from twofold.prototypes.bilinear.profiles import profiles, public_map
from twofold.prototypes.bilinear.rows import RowBlock, row_blocks
from twofold.prototypes.message import Integers

__all__ = ["exact_sums"]

# Squared share of stored entries from which a dense product is faster than a sparse one; it steers speed alone.
_DENSE: Final = 0.0015


def exact_sums(rows: sp.csr_array, public: Public, layout: BilinearLayout) -> Integers:
    """Sum of the records of all users, in the places of the layout. Private until noise is added.

    Parameters
    ----------
    rows : csr array (users, items)
        As `twofold.prototypes.records.check_rows` gives them.
    public : Public
        The release.
    layout : BilinearLayout
        Places and limits.

    Privacy
    -------
    Adding a user to the rows adds that user's record, ``exact_sums`` of the one row, exactly; its norm is at most
    ``layout.sensitivity``.

    Examples
    --------
    >>> public = Public(n_items=2, n_users=9, max_items=2, bound=9, delta=1e-6)
    >>> layout = BilinearLayout.of(public, "gram")
    >>> both, one, other = (exact_sums(sp.csr_array(r), public, layout) for r in ([[1, 0], [9, 9]], [[1, 0]], [[9, 9]]))
    >>> (both == one + other).all(), int((one**2).sum()) <= layout.sensitivity
    (np.True_, True)
    """
    total = np.zeros(layout.length, dtype=np.int64)
    pairs = np.zeros((layout.n_items, layout.columns), dtype=np.int64)
    mapping = None if layout.gram else public_map(public, layout)
    for block in row_blocks(rows, public, layout):
        total[layout.sums] += _by_item(block, block.base) * layout.base_weight
        if block.marks is not None:
            total[layout.observed] += _by_item(block, block.marks) * layout.base_weight
        total[layout.count] += block.n_users * layout.count_weight
        pairs += _gram(block) if mapping is None else _products(block, mapping, layout)
    total[layout.pairs] = pairs[np.triu_indices(layout.n_items)] if layout.gram else pairs.ravel()
    return total


def _by_item(block: RowBlock, amounts: Integers) -> Integers:
    """Totals per item; exact in doubles as in the module's note."""
    return np.bincount(block.columns, weights=amounts.astype(np.float64), minlength=block.n_items).astype(np.int64)


def _gram(block: RowBlock) -> Integers:
    matrix = block.matrix
    if matrix.nnz**2 > _DENSE * (block.n_users * block.n_items) ** 2:
        dense = matrix.astype(np.float64).toarray()
        return np.asarray(dense.T @ dense).astype(np.int64)
    product: Any = matrix.T @ matrix
    return np.asarray(product.toarray(), dtype=np.int64)


def _products(block: RowBlock, mapping: Integers, layout: BilinearLayout) -> Integers:
    matrix = block.matrix
    return np.asarray(matrix.T @ profiles(matrix, mapping, layout), dtype=np.int64)
