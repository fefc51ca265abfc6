r"""Exact sums of bilinear records, a few thousand users at a time.

Whole numbers only, so the sums do not depend on the order of users nor on how they are cut into blocks. Where a dense
product is faster it is taken in doubles, and is exact all the same: every product of two entries is a whole number of
at most N² <= 2^24, a block has at most 2^15 users, so every partial sum is a whole number below 2^53 whatever the order
of addition.

From a user's entries to the row z of whole numbers, held to the norm N in integer arithmetic.

* Counts: x is the root of the bounded count, sign kept; absent is 0. The row is scaled by a power of two so that its
  largest entry has 18 bits, rounded to whole numbers t, and t is brought *up or down* to the norm N: an entry becomes
  :math:`\lfloor \sqrt{\lfloor t_i^2 N^2 / \|t\|_2^2 \rfloor} \rfloor` in size. So
  :math:`\|z\|_2^2 \le \sum_i t_i^2 N^2 / \|t\|_2^2 = N^2`, and it is less by rounding alone. A row of zeros stays one.
  All of it fits 64 bits: t has at most 2^25 entries of at most 2^18, and N is at most 2^12.
* Ratings: x is the rating minus the user's own mean, where the mean is that of the ratings and of five more at the
  public centre; observed items only, 0 elsewhere. x becomes z, the nearest whole numbers to :math:`x N/C`, held to
  ``entry_limit`` in size (the bounds of the values imply it; a clip makes it a fact), and z is shortened to
  :math:`\|z\|_2^2 \le N^2` by `twofold.privacy.grid`, which only makes entries smaller.

Everything a user's z depends on is that user's entries: sums over a row are taken in whole numbers, its largest entry
does not depend on any order, the rest is done entry by entry. So z is the same to the last unit, independent of other
users.

The second vector of a pair: a public linear map of the row, brought to one norm in integer arithmetic.

t = zᵀM is exact in 64-bit integers for a public whole matrix M. It is brought up or down to the norm S as well:

* l2: with :math:`f = \lfloor \sqrt{\lfloor S^2 2^{64} / \|t\|_2^2 \rfloor} \rfloor` an entry becomes
  :math:`\lfloor |t_j| f / 2^{32} \rfloor` in size, and the sum of squares is at most
  :math:`\|t\|_2^2 f^2 / 2^{64} \le S^2`;
* l1: with :math:`f = \lfloor S\,2^{32} / \|t\|_1 \rfloor` the sum is at most :math:`\|t\|_1 f / 2^{32} \le S`.

The products fit 64 bits: :math:`|t_j| f \le S\,2^{32}`, and S is below 2^20. A t of zeros stays one. Whatever t is, the
bound holds, so nothing else about it matters for privacy.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from twofold.csr import csr_rows
from twofold.privacy.grid import Grid, cap_l1, cap_l2
from twofold.progress import tell
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.clamp import LARGEST_NUMBER, ExactSum, Sums
from twofold.release.content import DIAGONAL, Floats, Integers, upper_triangle
from twofold.release.contract import ReleaseParameters

__all__ = [
    "OWN_RATINGS",
    "RowBlock",
    "exact_sums",
    "part_sums",
    "placed",
    "profiles",
    "public_map",
    "random_signs",
    "row_blocks",
]

# Squared share of stored entries from which a dense product is faster than a sparse one; it steers speed alone.
_DENSE: Final = 0.0015


def exact_sums(
    rows: sp.csr_array, public: ReleaseParameters, layout: BilinearLayout, *, limit: int = LARGEST_NUMBER
) -> Integers:
    """Sum of the records of all users, in the places of the layout. Private until noise is added.

    Parameters
    ----------
    rows : csr array (users, items)
        As `twofold.release.records.check_rows` gives them.
    public : ReleaseParameters
        The release.
    layout : BilinearLayout
        Places and limits.
    limit : int
        Public; a larger sum is cut to it.

    Privacy
    -------
    Adding a user to the rows adds that user's record, ``exact_sums`` of the one row, exactly; its norm is at most
    ``layout.sensitivity``. The cut only brings neighbours closer (`twofold.release.clamp`).

    Examples
    --------
    >>> public = ReleaseParameters(n_items=2, n_users=9, max_items=2, bound=9, delta=1e-6)
    >>> layout = BilinearLayout.of(public, "gram")
    >>> both, one, other = (exact_sums(sp.csr_array(r), public, layout) for r in ([[1, 0], [9, 9]], [[1, 0]], [[9, 9]]))
    >>> (both == one + other).all(), int((one**2).sum()) <= layout.sensitivity
    (np.True_, True)
    """
    return placed(part_sums(rows, public, layout), layout, limit=limit)


def part_sums(rows: sp.csr_array, public: ReleaseParameters, layout: BilinearLayout) -> Sums:
    """Sum of the records of some users: of single numbers, and of pairs. Those of other users add to it."""
    base, pairs = ExactSum(layout.pairs.start), ExactSum((layout.n_items, layout.columns))
    mapping = None if layout.gram else public_map(public, layout)
    one = max(layout.largest, layout.base_weight * layout.base_limit)
    for block in row_blocks(rows, public, layout):
        most = block.n_users * one
        base.add(_base_sums(block, layout), most=most)
        pairs.add(_gram(block, layout) if mapping is None else _products(block, mapping, layout), most=most)
    return base, pairs


def placed(sums: Sums, layout: BilinearLayout, *, limit: int = LARGEST_NUMBER) -> Integers:
    """Cut the sums over all users to a public limit, and put them in the places of the layout."""
    base, pairs = sums
    squares = pairs.held(limit)
    upper = upper_triangle(squares) if layout.gram else squares.ravel()
    return np.concatenate([base.held(limit), upper])


def _base_sums(block: RowBlock, layout: BilinearLayout) -> Integers:
    parts = [_by_item(block, part) * layout.base_weight for part in (block.base, block.marks) if part is not None]
    return np.concatenate([*parts, np.array([block.n_users * layout.count_weight], dtype=np.int64)])


def _by_item(block: RowBlock, amounts: Integers) -> Integers:
    """Totals per item; exact in doubles as in the module's note."""
    return np.bincount(block.columns, weights=amounts.astype(np.float64), minlength=block.n_items).astype(np.int64)


def _gram(block: RowBlock, layout: BilinearLayout) -> Integers:
    matrix = block.matrix
    if matrix.nnz**2 > _DENSE * (block.n_users * block.n_items) ** 2:
        dense = matrix.astype(np.float64).toarray()
        square = np.asarray(dense.T @ dense).astype(np.int64)
    else:
        product: Any = matrix.T @ matrix
        square = np.asarray(product.toarray(), dtype=np.int64)
    if layout.unit_rows:  # rounded user by user, so that one user moves the sums by whole numbers of that user alone
        np.fill_diagonal(square, _by_item(block, block.values**2 * DIAGONAL.numerator // DIAGONAL.denominator))
    return square


def _products(block: RowBlock, mapping: Integers, layout: BilinearLayout) -> Integers:
    matrix = block.matrix
    return np.asarray(matrix.T @ profiles(matrix, mapping, layout), dtype=np.int64)


#: Ratings at the public centre that a user's own mean is shrunk with.
OWN_RATINGS: Final = 5
# Dense doubles of a block: 32 megabytes.
_BLOCK_ENTRIES: Final = 1 << 22
_RATING_BITS: Final = 12
_FINE_BITS: Final = 18  # of a row of counts before it gets its norm, which has 12: nothing is lost


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
        """Number of users in the block."""
        return len(self.starts) - 1

    @property
    def matrix(self) -> sp.csr_array:
        """The rows z, users by items."""
        return csr_rows(self.values, self.columns, self.starts, (self.n_users, self.n_items))


def row_blocks(rows: sp.csr_array, public: ReleaseParameters, layout: BilinearLayout) -> Iterator[RowBlock]:
    """Turn rows (as `twofold.release.records.check_rows` gives them) into whole ones, a few thousand at a time.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=2, n_users=9, max_items=2, bound=9, delta=1e-6)
    >>> layout = BilinearLayout.of(public, "gram")
    >>> next(row_blocks(sp.csr_array([[1, 0], [9, 9]]), public, layout)).values.tolist(), layout.norm
    ([4096, 2896, 2896], 4096)
    """
    users = max(1, min(_BLOCK_ENTRIES // layout.columns, 1 << 15))
    for start in range(0, rows.shape[0], users):
        edges = rows.indptr[start : start + users + 1].astype(np.int64)
        span = slice(int(edges[0]), int(edges[-1]))
        starts = edges - edges[0]
        entries = np.clip(rows.data[span].astype(np.float64), public.lower, public.bound)
        columns = rows.indices[span].astype(np.int64)
        if layout.unit_rows:
            yield _unit_block(entries, columns, starts, layout)
        else:
            yield _block(_whole(_x(entries, starts, public), layout), columns, starts, layout)
        tell("people", min(start + users, rows.shape[0]), rows.shape[0])


def _unit_block(entries: Floats, columns: Integers, starts: Integers, layout: BilinearLayout) -> RowBlock:
    """Rows of counts, each brought to the norm of the layout; in l1 shortened to its limit as well."""
    squares = _fine(np.sqrt(np.abs(entries)), starts) ** 2
    running = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(squares)])  # may wrap; differences do not
    totals = np.repeat(np.maximum(running[starts[1:]] - running[starts[:-1]], 1), np.diff(starts))
    # Whole numbers of at most 24 bits: the root in doubles, cut off, is exact.
    sizes = np.sqrt(squares * layout.norm**2 // totals).astype(np.int64)
    values = np.sign(entries).astype(np.int64) * sizes
    if not layout.l2:
        values = cap_l1(values, starts, limit=layout.row_limit)
    return RowBlock(values=values, base=values, marks=None, columns=columns, starts=starts, n_items=layout.n_items)


def _fine(x: Floats, starts: Integers) -> Integers:
    """Whole numbers in proportion to a row's entries, the largest of 18 bits; powers of two scale without rounding."""
    sizes = np.diff(starts)
    filled = sizes > 0
    largest = np.zeros(len(sizes))
    if filled.any():
        largest[filled] = np.maximum.reduceat(x, starts[:-1][filled])
    exponents = _FINE_BITS - np.frexp(largest)[1]
    return np.asarray(np.rint(np.ldexp(x, np.repeat(exponents, sizes))), dtype=np.int64)


def _x(entries: Floats, starts: Integers, public: ReleaseParameters) -> Floats:
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
    base, marks = _base(whole, starts, layout)
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


_SHIFT: Final = 32
_ROOM_BITS: Final = 30  # ‖t‖ below 2^30, so its square fits with room to spare


def random_signs(*, n_items: int, columns: int, seed: int) -> Integers:
    """Public matrix of +1 and -1, the same on any machine and with any library.

    Examples
    --------
    >>> sorted(set(random_signs(n_items=40, columns=3, seed=0).ravel().tolist()))
    [-1, 1]
    """
    number = n_items * columns
    name = f"twofold signs 1 {n_items} {columns} {seed}".encode()
    stream = np.frombuffer(hashlib.shake_256(name).digest(-(-number // 8)), dtype=np.uint8)
    return 2 * np.unpackbits(stream)[:number].reshape(n_items, columns).astype(np.int64) - 1


def public_map(public: ReleaseParameters, layout: BilinearLayout) -> Integers:
    """Matrix M of the second vectors: random signs for a sketch, the table of features for features.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=5, n_users=9, max_items=2, bound=1, n_prototypes=3)
    >>> public_map(public, BilinearLayout.of(public, "sketch")).shape
    (5, 3)
    """
    if layout.kind == "features" and public.features is not None:
        return public.features.matrix
    return random_signs(n_items=public.n_items, columns=layout.columns, seed=public.seed)


def profiles(rows: sp.csr_array, mapping: Integers, layout: BilinearLayout) -> Integers:
    """Second vectors of whole rows, one per user, of norm at most ``layout.profile_norm``.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=2, n_users=9, max_items=2, bound=1, n_prototypes=2, delta=1e-6)
    >>> layout = BilinearLayout.of(public, "sketch")
    >>> found = profiles(sp.csr_array(np.array([[3, 4], [0, 0]])), np.eye(2, dtype=np.int64), layout)
    >>> found.tolist(), layout.profile_norm
    ([[153, 204], [0, 0]], 256)
    """
    raw = np.asarray(rows @ mapping, dtype=np.int64)
    sizes = np.abs(raw) >> _spare_bits(mapping, layout)
    if layout.l2:
        norms = (sizes * sizes).sum(axis=1)
        factors = np.array([_factor(int(norm), layout.profile_norm) for norm in norms], dtype=np.int64)
    else:
        factors = (layout.profile_norm << _SHIFT) // np.maximum(sizes.sum(axis=1), 1)
    return np.asarray(np.sign(raw) * (sizes * factors[:, None] >> _SHIFT))


def _factor(norm: int, limit: int) -> int:
    return math.isqrt((limit * limit << 2 * _SHIFT) // norm) if norm else 0


def _spare_bits(mapping: Integers, layout: BilinearLayout) -> int:
    """Low bits to drop so that norms fit, from public numbers: ‖t‖₁ is at most ‖z‖₁ times the largest row of M."""
    row = layout.norm * (math.isqrt(layout.n_items) + 1)
    largest = row * int(np.abs(mapping).sum(axis=1).max(initial=0))
    return max(0, largest.bit_length() - _ROOM_BITS)
