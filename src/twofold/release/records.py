r"""From a user's row to whole numbers with a norm that holds to the last unit.

A record has up to three parts, each capped on its own in integer arithmetic (`twofold.privacy.grid`), so a row that
was never bounded, or holds a million items, or numbers of any size, moves a sum by no more than a bounded one:

* *values*: the centred entries on a grid of step 2^e, norm at most ``values_limit``;
* *observed* (ratings only): ``observed_weight`` for every observed item, at most ``max_items`` items' worth;
* *count*: ``count_weight``, always.

Privacy
-------
The parts stand side by side in one vector, so the norm of a record is at most
:math:`limit + w_o s + w_c` in l1 and :math:`\sqrt{limit^2 + w_o^2 s + w_c^2}` in l2. Records are integers and are
added as integers: removing a user changes the sum by exactly that user's record, in any order of addition. The
rounding to the grid comes *before* the caps, so nothing has to be added for it.

The weights decide how one budget is shared: a part's noise in its own unit is the common noise divided by its weight.
Of the l1 norm (of the squared l2 norm) 0.9 is for values and 0.1 for the count; with observations 0.7, 0.2 and 0.1.
About 9:1 minimises the error of a ratio of sum and count.

Public draws: directions that every entity and the server compute alike, on any machine and with any library.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from twofold.csr import csr_rows, with_data
from twofold.privacy.budget import exact
from twofold.privacy.grid import Grid, cap_l1, cap_l2
from twofold.progress import tell
from twofold.release.clamp import LARGEST_NUMBER, ExactSum, Sums
from twofold.release.content import Floats, Integers, Units
from twofold.release.contract import ReleaseParameters

__all__ = [
    "Block",
    "RecordPlan",
    "Statistic",
    "blocks",
    "cell_sums",
    "directions",
    "public_points",
    "statistic",
    "total_of",
]

# A value fills about 12 bits: finer than any noise a useful ε allows, coarse enough for exact 64-bit sums.
_BITS = 12
_BLOCK_ROWS = 1 << 15
_COUNT_SHARE = Fraction(1, 9)
_RATING_SHARES = Fraction(2, 7), Fraction(1, 7)


@dataclass(frozen=True, kw_only=True)
class RecordPlan:
    """Grid, caps and weights of a record, from public numbers, and the largest norm.

    Examples
    --------
    >>> plan = RecordPlan.of(ReleaseParameters(n_items=9, n_users=9, max_items=4, bound=1))
    >>> plan.grid.step, plan.values_limit, plan.count_weight, plan.sensitivity
    (Fraction(1, 2048), 8192, 910, 9102)
    """

    l2: bool
    grid: Grid
    values_limit: int
    observed_weight: int
    count_weight: int
    items: int

    @classmethod
    def of(cls, public: ReleaseParameters, *, observed: bool | None = None) -> RecordPlan:
        """Plan the records of a release; without observations when told so."""
        l2 = public.law == "gaussian"
        grid = Grid(exponent=math.frexp(public.value_cap)[1] - _BITS)
        steps = exact(public.row_l2 if l2 else public.row_l1) / grid.step
        limit = max(1, math.floor(steps**2 if l2 else steps))
        with_observed = public.feedback == "ratings" if observed is None else observed
        shares = _RATING_SHARES if with_observed else (Fraction(0), _COUNT_SHARE)
        root = math.isqrt if l2 else int
        items = public.row_items
        return cls(
            l2=l2,
            grid=grid,
            values_limit=limit,
            observed_weight=max(1, root(math.floor(limit * shares[0] / items))) if with_observed else 0,
            count_weight=max(1, root(math.floor(limit * shares[1]))),
            items=items,
        )

    @property
    def sensitivity(self) -> int:
        """Largest l1 norm of a record, or largest squared l2 norm, in grid units."""
        power = 2 if self.l2 else 1
        return int(self.values_limit + self.items * self.observed_weight**power + self.count_weight**power)

    @property
    def units(self) -> Units:
        """Value of one whole number of each part."""
        observed = 1 / self.observed_weight if self.observed_weight else 1.0
        return Units(values=float(self.grid.step), observed=observed, counts=1 / self.count_weight)

    def cap(self, entries: Integers, starts: Integers, limit: int) -> Integers:
        """Shrink the records whose norm exceeds the limit."""
        return cap_l2(entries, starts, limit_squared=limit) if self.l2 else cap_l1(entries, starts, limit=limit)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Records of some users: whole values and observation weights of their entries, by rows."""

    values: Integers
    observed: Integers | None
    columns: Integers
    starts: Integers
    n_items: int

    @property
    def n_users(self) -> int:
        """Number of users in the block."""
        return len(self.starts) - 1

    def products(self, directions: Integers) -> Integers:
        """Exact inner products of every user's values with every direction (rows), in 64-bit integers."""
        matrix = csr_rows(self.values, self.columns, self.starts, (self.n_users, self.n_items))
        return np.asarray(matrix @ np.ascontiguousarray(directions.T), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """Exact sums of records per cell. Private until noise is added."""

    sums: Integers
    counts: Integers
    observed: Integers | None


def blocks(rows: sp.csr_array, public: ReleaseParameters, plan: RecordPlan) -> Iterator[Block]:
    """Turn rows into records, a few thousand users at a time."""
    for start in range(0, rows.shape[0], _BLOCK_ROWS):
        edges = rows.indptr[start : start + _BLOCK_ROWS + 1].astype(np.int64)
        span = slice(int(edges[0]), int(edges[-1]))
        entries = np.clip(rows.data[span].astype(np.float64), public.lower, public.bound) - public.centre
        starts = edges - edges[0]
        values = plan.cap(plan.grid.put(entries), starts, plan.values_limit)
        yield Block(
            values=values,
            observed=_observed(plan, values.size, starts),
            columns=rows.indices[span].astype(np.int64),
            starts=starts,
            n_items=public.n_items,
        )
        tell("people", min(start + _BLOCK_ROWS, rows.shape[0]), rows.shape[0])


def statistic(
    rows: sp.csr_array, public: ReleaseParameters, plan: RecordPlan, cell_of: Callable[[Block], Integers], *, cells: int
) -> Statistic:
    """Add up records per cell; `cell_of` must look at each user's own record and public numbers only.

    Sums beyond `LARGEST_NUMBER` are cut to it (`twofold.release.clamp`).
    """
    return total_of(cell_sums(rows, public, plan, cell_of, cells=cells))


def cell_sums(
    rows: sp.csr_array, public: ReleaseParameters, plan: RecordPlan, cell_of: Callable[[Block], Integers], *, cells: int
) -> Sums:
    """Add up the records of some users per cell, exactly: sums, counts and, for ratings, observations."""
    shape = (cells, public.n_items)
    sums, counts = ExactSum(shape), ExactSum(cells)
    observed = ExactSum(shape) if plan.observed_weight else None
    for block in blocks(rows, public, plan):
        cell, most = cell_of(block), block.n_users * plan.sensitivity
        counts.add(np.bincount(cell, minlength=cells) * plan.count_weight, most=most)
        places = np.repeat(cell, np.diff(block.starts)) * public.n_items + block.columns
        sums.add(_added(places, block.values, shape), most=most)
        if observed is not None and block.observed is not None:
            observed.add(_added(places, block.observed, shape), most=most)
    return (sums, counts) if observed is None else (sums, counts, observed)


def total_of(sums: Sums) -> Statistic:
    """Cut the sums over all users to what a message can hold."""
    values, counts, *observed = (one.held(LARGEST_NUMBER) for one in sums)
    return Statistic(sums=values, counts=counts, observed=observed[0] if observed else None)


def _observed(plan: RecordPlan, entries: int, starts: Integers) -> Integers | None:
    if not plan.observed_weight:
        return None
    weights = np.full(entries, plan.observed_weight, dtype=np.int64)
    return plan.cap(weights, starts, plan.items * plan.observed_weight ** (2 if plan.l2 else 1))


def _added(places: Integers, amounts: Integers, shape: tuple[int, int]) -> Integers:
    """Sums at places. Whole numbers below 2^13 times 2^15 rows are exact in the doubles that bincount adds in."""
    added = np.bincount(places, weights=amounts.astype(np.float64), minlength=shape[0] * shape[1])
    return added.astype(np.int64).reshape(shape)


def centred_rows(rows: sp.csr_array, public: ReleaseParameters) -> sp.csr_array:
    """Bounded, centred rows in the units of the values, as the records hold them."""
    plan = RecordPlan.of(public)
    made = list(blocks(rows, public, plan))
    values = np.concatenate([block.values for block in made]) * plan.units.values if made else np.zeros(0)
    return with_data(rows, values)


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
