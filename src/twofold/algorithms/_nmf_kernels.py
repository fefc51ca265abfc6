"""Exact least squares for many rows: a Gram matrix per row, eight rows solved side by side.

Row r minimises ``sum_e w_e (x_e - u . v_e)^2 + ridge_r |u|^2``, over u >= 0 or over all u.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms._jit import kernel
from twofold.algorithms._lanes import LANES, fill, load, multiply, store
from twofold.algorithms._nmf_gram import CHUNK, add_entries
from twofold.algorithms._nmf_pivot import solve_lanes

Array = NDArray[Any]


@kernel()
def _fill_lane(lane: int, gram: Array, rhs: Array, ridge: Any, rank: int, width: int, system: Array) -> None:
    """Spread one row's system over its lane."""
    for i in range(rank):
        own = i * rank * LANES + lane
        for j in range(i):
            system[own + j * LANES] = gram[j * width + i]
        system[own + i * LANES] = gram[i * width + i] + ridge
        system[(rank * rank + i) * LANES + lane] = rhs[i]


@kernel()
def _fill_shared(
    group: int,
    lanes: int,
    base: Array,
    given: Array,
    absent_row: Array,
    ridge: Array,
    rank: int,
    width: int,
    spare: Array,
    system: Array,
) -> None:
    """Fill all lanes with multiples of one Gram matrix and their own right-hand sides."""
    for lane in range(lanes):
        spare[lane] = absent_row[group + lane]
    share = load(spare, 0)
    for i in range(rank):
        for j in range(i + 1):
            store(system, (i * rank + j) * LANES, multiply(fill(base[j * width + i]), share))
    for lane in range(lanes):
        for i in range(rank):
            system[(i * rank + i) * LANES + lane] += ridge[group + lane]
            system[(rank * rank + i) * LANES + lane] = given[(group + lane) * width + i]


@kernel()
def solve_rows(
    first: int,
    last: int,
    starts: Array,
    columns: Array,
    values: Array,
    weights: Array,
    factors: Array,
    rank: int,
    width: int,
    base: Array,
    absent_row: Array,
    absent_column: Array,
    given: Array,
    ridge: Array,
    signed: bool,
    warm: bool,
    limit: int,
    tiny: Any,
    slack: Any,
    out: Array,
    energy: Array,
    failed: Array,
) -> None:
    """Solve rows `first` to `last`; arrays of size 0 stand for what a problem does not have.

    Parameters
    ----------
    starts, columns, values, weights : arrays
        Entries in compressed rows; `weights` may be empty (all 1).
    factors : array
        The other side's factors, flat and padded with zeros.
    base : array
        Gram matrix of all columns, weighted by `absent_column`, for zeros that count; empty when none do.
    absent_row, absent_column : arrays
        An absent entry weighs ``absent_row[row] * absent_column[column]``.
    given : array
        Right-hand sides computed elsewhere, flat and padded, for a problem without entries: every row's Gram
        matrix is then `base` times its `absent_row`.
    ridge : array
        Penalty per row.
    signed, warm : bool
        Allow negative solutions; start from the signs `out` holds.
    limit, tiny, slack : numbers
        Most pivoting steps; relative pivot below which a column is dependent; relative tolerance of the dual.
    out, energy, failed : arrays
        Solutions; on entry the squares behind `given`, on return the minimum; rows that hit the limit.
    """
    kind = factors.dtype
    buffers = np.empty((2, CHUNK * width), kind), np.empty(CHUNK, kind)
    system, lower = np.zeros((rank + 4) * rank * LANES, kind), np.zeros((rank + 4) * rank * LANES, kind)
    vectors = np.zeros((8, (rank + 1) * LANES), kind)
    passive, tolerance, wrong, x = vectors[0], vectors[1], vectors[2], vectors[3]
    gram, rhs = np.empty((rank + 4) * width, kind), np.empty(width, kind)
    for group in range(first, last, LANES):
        lanes = min(LANES, last - group)
        if lanes < LANES:  # empty lanes are zero systems, solved at once
            system[:] = 0
            vectors[:] = 0
        if given.size:
            _fill_shared(group, lanes, base, given, absent_row, ridge, rank, width, x, system)
        for lane in range(lanes):
            row = group + lane
            if given.size == 0:
                absent = absent_row[row] if absent_row.size else ridge[row]
                for i in range(rank * width):
                    gram[i] = base[i] * absent if base.size else 0
                rhs[:] = 0
                energy[row] += add_entries(
                    starts[row],
                    starts[row + 1],
                    columns,
                    values,
                    weights,
                    factors,
                    rank,
                    width,
                    absent,
                    absent_column,
                    buffers,
                    gram,
                    rhs,
                )
                _fill_lane(lane, gram, rhs, ridge[row], rank, width, system)
            for i in range(rank):
                diagonal = system[(i * rank + i) * LANES + lane]
                tolerance[i * LANES + lane] = slack * np.sqrt(diagonal * energy[row])
                passive[i * LANES + lane] = 0 if warm and out[row * width + i] <= 0 else 1
        busy = solve_lanes(system, lower, vectors, rank, signed, limit, tiny)
        for lane in range(lanes):
            row = group + lane
            failed[row] = busy > 0 and wrong[rank * LANES + lane] > 0
            for i in range(rank):
                u = x[i * LANES + lane]
                out[row * width + i] = u if signed or u > 0 else 0
                energy[row] -= out[row * width + i] * system[(rank * rank + i) * LANES + lane]
