"""Bounded rows as whole numbers, and their Johnson-Lindenstrauss image inside a ball, exactly.

Everything is integer arithmetic on numbers that float64 or int64 hold exactly. A user's point is therefore a
function of that user's row and of public numbers alone, to the last bit: it does not depend on which rows stand
beside it, as a floating-point matrix product may. This is what the proof of the chain needs (audit, lemma L4).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms._checks import compressed_rows, is_sparse, whole_number
from twofold.csr import csr_rows, summed
from twofold.errors import BadNumber, BadPrivacyParameter, BadShape
from twofold.privacy.budget import Number, positive
from twofold.privacy.grid import Grid, Integers, cap_l1, cap_l2

__all__ = ["RADIUS", "RowBounds", "clip_to_ball", "project", "projection_matrix", "record_blocks", "records"]

# Radius of the ball in grid units of the projected space. Squared distances inside it are at most 2^26, so the sum
# over 2^27 users is a whole number that float64 holds exactly, in any order of addition.
RADIUS = 2**12
_BLOCK_ENTRIES = 2**20
_BLOCK_ROWS = 2**15
_MATRIX_BITS = 10
_LARGEST_ENTRY = 8.0
_WIDE = 2**24  # beyond it a coordinate is cut before the ball is, so that squares fit in 64 bits


@dataclass(frozen=True, kw_only=True)
class RowBounds:
    """The limits of a row, in the units of the rows. All public.

    Parameters
    ----------
    bound : number
        Entries are clipped to [-bound, bound], or to [0, bound] when not `signed`.
    l1, l2 : number
        Caps of the norms; a longer row is shrunk.
    signed : bool
        Whether entries may be negative.
    grid : Grid
        Step of the whole numbers that stand for entries.

    Examples
    --------
    >>> bounds = RowBounds(bound=1, l1=3, l2=2, grid=Grid(exponent=-2))
    >>> bounds.entry_steps, bounds.l1_steps, bounds.l2_steps_squared
    (4, 12, 64)
    """

    bound: Fraction
    l1: Fraction
    l2: Fraction
    signed: bool
    grid: Grid

    def __init__(self, *, bound: Number, l1: Number, l2: Number, signed: bool = False, grid: Grid) -> None:
        for name, value in (("bound", bound), ("l1", l1), ("l2", l2)):
            object.__setattr__(self, name, positive(value, name=name))
        object.__setattr__(self, "signed", bool(signed))
        object.__setattr__(self, "grid", grid)
        if min(self.entry_steps, self.l1_steps, self.l2_steps_squared) < 1 or self.l1_steps >= 2**45:
            raise BadPrivacyParameter(
                "the bounds of a row do not fit its grid.", found=f"a step of {grid.step}", fix="Grid(exponent=...)"
            )

    @property
    def entry_steps(self) -> int:
        """Largest entry in grid units."""
        return math.floor(self.bound / self.grid.step)

    @property
    def l1_steps(self) -> int:
        """Largest l1 norm in grid units: the sensitivity of a sum of records."""
        return math.floor(self.l1 / self.grid.step)

    @property
    def l2_steps_squared(self) -> int:
        """Largest squared l2 norm in squared grid units."""
        return math.floor((self.l2 / self.grid.step) ** 2)


def records(X: Any, bounds: RowBounds) -> Any:
    """Rows as capped whole numbers, a sparse matrix of int64.

    Paper
    -----
    Algorithm 1's input conditions, ‖x‖∞ <= Λ and a norm bound, which the paper assumes and here are enforced.

    Privacy
    -------
    Each row is clipped, put on the grid and shrunk by a rule that sees that row only. Afterwards its norms are at
    most `l1_steps` and the root of `l2_steps_squared`, exactly, so one row moves a sum by no more. No value of a row is
    refused, for the refusal would tell it: NaN and infinity become 0, in that entry alone. Bad values are refused where
    data is loaded (`Ratings`, `Bounds`).

    Examples
    --------
    >>> records([[0.5, 9.0, -1.0]], RowBounds(bound=1, l1=1, l2=1, grid=Grid(exponent=-2))).toarray()
    array([[1, 2, 0]])
    """
    csr = _as_rows(X)
    starts, columns = compressed_rows("X", csr)
    values = np.asarray(csr.data)[: starts[-1]].astype(np.float64)
    values[~np.isfinite(values)] = 0.0
    low = -float(bounds.bound) if bounds.signed else 0.0
    whole = bounds.grid.put(np.clip(values, low, float(bounds.bound)))
    np.clip(whole, -bounds.entry_steps, bounds.entry_steps, out=whole)
    whole = cap_l1(whole, starts, limit=bounds.l1_steps)
    whole = cap_l2(whole, starts, limit_squared=bounds.l2_steps_squared)
    return csr_rows(whole, columns, starts, csr.shape)


def record_blocks(X: Any, bounds: RowBounds, *, rows: int | None = None) -> Iterator[tuple[slice, Any]]:
    """Give the records of X block by block, with the rows of each block.

    Examples
    --------
    >>> bounds = RowBounds(bound=1, l1=2, l2=2, grid=Grid())
    >>> [(span.start, block.shape) for span, block in record_blocks(np.ones((5, 2)), bounds, rows=3)]
    [(0, (3, 2)), (3, (2, 2))]
    """
    matrix = X.tocsr() if is_sparse(X) else np.asarray(X)
    if matrix.ndim != 2 or matrix.shape[1] < 1:
        raise BadShape("the rows are not a matrix.", found=f"{matrix.ndim} dimensions", expected="users x items")
    most = rows or (_BLOCK_ROWS if is_sparse(X) else max(1, _BLOCK_ENTRIES // matrix.shape[1]))
    for start in range(0, matrix.shape[0], most):
        span = slice(start, min(start + most, matrix.shape[0]))
        yield span, records(matrix[span], bounds)


def projection_matrix(n_items: int, dimension: int, seed: int) -> Integers:
    """Give the public Gaussian matrix of the projection as whole multiples of 2^-10, shape (n_items, dimension).

    With no more items than dimensions it is the identity, and nothing is lost.

    Examples
    --------
    >>> projection_matrix(2, 4, seed=0)
    array([[1024,    0],
           [   0, 1024]])
    >>> projection_matrix(457, 4, seed=7).shape
    (457, 4)
    """
    whole_number("n_items", n_items)
    whole_number("dimension", dimension)
    if n_items <= dimension:
        return np.eye(n_items, dtype=np.int64) << _MATRIX_BITS
    normal = np.random.Generator(np.random.PCG64(seed)).standard_normal((n_items, dimension))
    return Grid(exponent=-_MATRIX_BITS).put(np.clip(normal, -_LARGEST_ENTRY, _LARGEST_ENTRY))


def project(X: Any, *, bounds: RowBounds, dimension: int, radius: Number, seed: int) -> NDArray[np.int32]:
    """Map bounded rows into a ball of `RADIUS` grid units; one unit is worth radius/RADIUS.

    Paper
    -----
    Line 3 of ``private_prototypes``: Y = XGᵀ/√p with a Gaussian G.

    Privacy
    -------
    G comes from a public seed, and the points stay inside: nothing is released here. ‖Gx‖ can exceed ‖x‖ by a
    factor (√m + √p)/√p for a user who knows G, so every point is clipped to the ball (the paper does not, and its
    sensitivity 4Λ² is then wrong). After clipping ‖y‖ <= RADIUS holds in integer arithmetic.

    Deviations
    ----------
    The dimension is a public parameter, not 8 log n. G is rounded to multiples of 2^-10.

    Examples
    --------
    >>> bounds = RowBounds(bound=1, l1=2, l2=2, grid=Grid(exponent=-10))
    >>> project([[1.0, 0.0], [1.0, 1.0]], bounds=bounds, dimension=4, radius=1, seed=0).tolist()
    [[4096, 0], [2896, 2896]]
    """
    shape = X.shape if is_sparse(X) else np.asarray(X).shape
    matrix = projection_matrix(shape[1] if len(shape) == 2 else 0, dimension, seed)
    points = np.empty((shape[0], matrix.shape[1]), dtype=np.int32)
    normal = 1.0 if shape[1] <= dimension else 1 / math.sqrt(dimension)
    unit = bounds.grid.step / 2**_MATRIX_BITS * RADIUS / positive(radius, name="radius")
    for span, block in record_blocks(X, bounds):
        image = np.rint(np.asarray(block @ matrix).astype(np.float64) * (float(unit) * normal))
        points[span] = clip_to_ball(np.clip(image, -_WIDE, _WIDE).astype(np.int64))
    return points


def clip_to_ball(points: Integers) -> Integers:
    """Shrink the points outside the ball of `RADIUS`, in integer arithmetic.

    Examples
    --------
    >>> clip_to_ball(np.array([[3, 4], [8192, 0]])).tolist()
    [[3, 4], [4096, 0]]
    """
    starts = np.arange(0, points.size + 1, points.shape[1])
    return cap_l2(points.ravel(), starts, limit_squared=RADIUS**2).reshape(points.shape)


def _as_rows(X: Any) -> Any:
    if not is_sparse(X):
        dense = np.asarray(X)
        if dense.ndim != 2:
            raise BadShape("the rows are not a matrix.", found=f"{dense.ndim} dimensions", expected="users x items")
        if dense.dtype.kind not in "biuf":
            raise BadNumber("the rows do not hold real numbers.", found=f"type {dense.dtype}")
        n, m = dense.shape  # all entries, zeros too: looking for zeros costs more than it saves
        columns, starts = np.tile(np.arange(m, dtype=np.int32), n), np.arange(0, n * m + 1, max(m, 1))[: n + 1]
        return csr_rows(dense.ravel(), columns, starts, dense.shape)
    return summed(X.tocsr())  # repeated entries would be clipped one by one
