"""Exact least squares for many rows: a Gram matrix per row, eight rows solved side by side.

Row r minimises ``sum_e w_e (x_e - u . v_e)^2 + ridge_r |u|^2``, over u >= 0 or over all u. Its Gram matrix is summed
in tiles whose totals stay in registers. Factors are flat and padded: `width` columns, the rank rounded up to a multiple
of eight lanes. `transpose` turns compressed rows into compressed columns by a counting sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms._jit import kernel
from twofold.algorithms._lanes import LANES, add, fill, load, multiply, multiply_add, store
from twofold.algorithms._nmf_pivot import solve_lanes

Array = NDArray[Any]
CHUNK = 128  # entries of one row gathered at a time: they stay in the first-level cache


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
    systems = np.zeros((3, (rank + 4) * rank * LANES), kind)
    system, lower, packed = systems[0], systems[1], systems[2]
    vectors, places = np.zeros((10, (rank + 1) * LANES), kind), np.zeros(rank * LANES, np.int64)
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
        busy = solve_lanes(system, lower, packed, places, vectors, rank, signed, limit, tiny)
        for lane in range(lanes):
            row = group + lane
            failed[row] = busy > 0 and wrong[rank * LANES + lane] > 0
            for i in range(rank):
                u = x[i * LANES + lane]
                out[row * width + i] = u if signed or u > 0 else 0
                energy[row] -= out[row * width + i] * system[(rank * rank + i) * LANES + lane]


@kernel()
def _tile3(scaled: Array, plain: Array, n: int, width: int, a: int, b: int, gram: Array) -> None:
    """Add scaled[:n, a:a+4].T @ plain[:n, b:b+24] to the same tile of `gram`, sums held in registers."""
    g0 = a * width + b
    g1, g2, g3 = g0 + width, g0 + 2 * width, g0 + 3 * width
    c00, c01, c02 = load(gram, g0), load(gram, g0 + 8), load(gram, g0 + 16)
    c10, c11, c12 = load(gram, g1), load(gram, g1 + 8), load(gram, g1 + 16)
    c20, c21, c22 = load(gram, g2), load(gram, g2 + 8), load(gram, g2 + 16)
    c30, c31, c32 = load(gram, g3), load(gram, g3 + 8), load(gram, g3 + 16)
    for j in range(n):
        r, s = j * width + a, j * width + b
        v0, v1, v2 = load(plain, s), load(plain, s + 8), load(plain, s + 16)
        x = fill(scaled[r])
        c00, c01, c02 = multiply_add(x, v0, c00), multiply_add(x, v1, c01), multiply_add(x, v2, c02)
        x = fill(scaled[r + 1])
        c10, c11, c12 = multiply_add(x, v0, c10), multiply_add(x, v1, c11), multiply_add(x, v2, c12)
        x = fill(scaled[r + 2])
        c20, c21, c22 = multiply_add(x, v0, c20), multiply_add(x, v1, c21), multiply_add(x, v2, c22)
        x = fill(scaled[r + 3])
        c30, c31, c32 = multiply_add(x, v0, c30), multiply_add(x, v1, c31), multiply_add(x, v2, c32)
    store(gram, g0, c00), store(gram, g0 + 8, c01), store(gram, g0 + 16, c02)
    store(gram, g1, c10), store(gram, g1 + 8, c11), store(gram, g1 + 16, c12)
    store(gram, g2, c20), store(gram, g2 + 8, c21), store(gram, g2 + 16, c22)
    store(gram, g3, c30), store(gram, g3 + 8, c31), store(gram, g3 + 16, c32)


@kernel()
def _tile2(scaled: Array, plain: Array, n: int, width: int, a: int, b: int, gram: Array) -> None:
    """As `_tile3` for a tile of 4 by 16."""
    g0 = a * width + b
    g1, g2, g3 = g0 + width, g0 + 2 * width, g0 + 3 * width
    c00, c01 = load(gram, g0), load(gram, g0 + 8)
    c10, c11 = load(gram, g1), load(gram, g1 + 8)
    c20, c21 = load(gram, g2), load(gram, g2 + 8)
    c30, c31 = load(gram, g3), load(gram, g3 + 8)
    for j in range(n):
        r, s = j * width + a, j * width + b
        v0, v1 = load(plain, s), load(plain, s + 8)
        x = fill(scaled[r])
        c00, c01 = multiply_add(x, v0, c00), multiply_add(x, v1, c01)
        x = fill(scaled[r + 1])
        c10, c11 = multiply_add(x, v0, c10), multiply_add(x, v1, c11)
        x = fill(scaled[r + 2])
        c20, c21 = multiply_add(x, v0, c20), multiply_add(x, v1, c21)
        x = fill(scaled[r + 3])
        c30, c31 = multiply_add(x, v0, c30), multiply_add(x, v1, c31)
    store(gram, g0, c00), store(gram, g0 + 8, c01)
    store(gram, g1, c10), store(gram, g1 + 8, c11)
    store(gram, g2, c20), store(gram, g2 + 8, c21)
    store(gram, g3, c30), store(gram, g3 + 8, c31)


@kernel()
def _tile1(scaled: Array, plain: Array, n: int, width: int, a: int, b: int, gram: Array) -> None:
    """As `_tile3` for a tile of 4 by 8, two entries at a time to hide the latency of the sums."""
    g0 = a * width + b
    g1, g2, g3 = g0 + width, g0 + 2 * width, g0 + 3 * width
    c0, c1, c2, c3 = load(gram, g0), load(gram, g1), load(gram, g2), load(gram, g3)
    d0 = d1 = d2 = d3 = fill(scaled[a] - scaled[a])
    for j in range(0, n - 1, 2):
        r, s = j * width + a, j * width + b
        v, w = load(plain, s), load(plain, s + width)
        c0, d0 = multiply_add(fill(scaled[r]), v, c0), multiply_add(fill(scaled[r + width]), w, d0)
        c1, d1 = multiply_add(fill(scaled[r + 1]), v, c1), multiply_add(fill(scaled[r + width + 1]), w, d1)
        c2, d2 = multiply_add(fill(scaled[r + 2]), v, c2), multiply_add(fill(scaled[r + width + 2]), w, d2)
        c3, d3 = multiply_add(fill(scaled[r + 3]), v, c3), multiply_add(fill(scaled[r + width + 3]), w, d3)
    if n % 2:
        r = (n - 1) * width + a
        v = load(plain, (n - 1) * width + b)
        c0, c1 = multiply_add(fill(scaled[r]), v, c0), multiply_add(fill(scaled[r + 1]), v, c1)
        c2, c3 = multiply_add(fill(scaled[r + 2]), v, c2), multiply_add(fill(scaled[r + 3]), v, c3)
    store(gram, g0, add(c0, d0))
    store(gram, g1, add(c1, d1))
    store(gram, g2, add(c2, d2))
    store(gram, g3, add(c3, d3))


@kernel()
def _add_gram(scaled: Array, plain: Array, n: int, rank: int, width: int, gram: Array) -> None:
    """Upper triangle (in tiles) of scaled.T @ plain."""
    for a in range(0, rank, 4):
        b = (a // LANES) * LANES
        while width - b > 4 * LANES or width - b == 3 * LANES:
            _tile3(scaled, plain, n, width, a, b, gram)
            b += 3 * LANES
        while width - b >= 2 * LANES:
            _tile2(scaled, plain, n, width, a, b, gram)
            b += 2 * LANES
        if b < width:
            _tile1(scaled, plain, n, width, a, b, gram)


@kernel()
def _add_rhs(times: Array, plain: Array, n: int, width: int, rhs: Array) -> None:
    """Add times[:n] @ plain[:n] to rhs."""
    b = 0
    while b + 16 <= width:
        c0, c1 = load(rhs, b), load(rhs, b + 8)
        d0 = d1 = fill(times[0] - times[0])
        for j in range(0, n - 1, 2):
            s = j * width + b
            x, y = fill(times[j]), fill(times[j + 1])
            c0, c1 = multiply_add(x, load(plain, s), c0), multiply_add(x, load(plain, s + 8), c1)
            s += width
            d0, d1 = multiply_add(y, load(plain, s), d0), multiply_add(y, load(plain, s + 8), d1)
        if n % 2:
            s = (n - 1) * width + b
            x = fill(times[n - 1])
            c0, c1 = multiply_add(x, load(plain, s), c0), multiply_add(x, load(plain, s + 8), c1)
        store(rhs, b, add(c0, d0))
        store(rhs, b + 8, add(c1, d1))
        b += 16
    if b < width:
        c0 = load(rhs, b)
        d0 = fill(times[0] - times[0])
        for j in range(0, n - 1, 2):
            s = j * width + b
            c0 = multiply_add(fill(times[j]), load(plain, s), c0)
            d0 = multiply_add(fill(times[j + 1]), load(plain, s + width), d0)
        if n % 2:
            c0 = multiply_add(fill(times[n - 1]), load(plain, (n - 1) * width + b), c0)
        store(rhs, b, add(c0, d0))


@kernel()
def _gather(columns: Array, first: int, n: int, factors: Array, width: int, plain: Array) -> None:
    """Copy the factors of the entries' columns side by side."""
    for j in range(n):
        source, target = np.int64(columns[first + j]) * width, j * width
        for b in range(0, width, LANES):
            store(plain, target + b, load(factors, source + b))


@kernel()
def _scale(
    columns: Array,
    weights: Array,
    first: int,
    n: int,
    absent: Any,
    absent_column: Array,
    width: int,
    plain: Array,
    scaled: Array,
) -> None:
    """Each copied factor times the weight its square has: the entry's own, less what the base holds already."""
    for j in range(n):
        share = weights[first + j] if weights.size else absent / absent
        if absent_column.size:
            share -= absent * absent_column[columns[first + j]]
        times = fill(share)
        for b in range(j * width, j * width + width, LANES):
            store(scaled, b, multiply(times, load(plain, b)))


@kernel()
def add_entries(
    first: int,
    last: int,
    columns: Array,
    values: Array,
    weights: Array,
    factors: Array,
    rank: int,
    width: int,
    absent: Any,
    absent_column: Array,
    buffers: tuple[Array, Array],
    gram: Array,
    rhs: Array,
) -> float:
    """Add one row's entries to its Gram matrix and right-hand side; return their weighted squares."""
    energy = 0.0
    plain, scaled, times = buffers[0][0], buffers[0][1], buffers[1]
    simple = weights.size == 0 and absent_column.size == 0
    while first < last:
        n = min(CHUNK, last - first)
        _gather(columns, first, n, factors, width, plain)
        for j in range(n):
            x = values[first + j]
            times[j] = weights[first + j] * x if weights.size else x
            energy += times[j] * x
        _add_rhs(times, plain, n, width, rhs)
        if simple:
            _add_gram(plain, plain, n, rank, width, gram)
        else:
            _scale(columns, weights, first, n, absent, absent_column, width, plain, scaled)
            _add_gram(scaled, plain, n, rank, width, gram)
        first += n
    return energy


@kernel()
def transpose(
    starts: Array,
    columns: Array,
    values: Array,
    weights: Array,
    new_starts: Array,
    new_columns: Array,
    new_values: Array,
    new_weights: Array,
) -> None:
    """Fill the arrays of the transposed matrix; `new_starts` comes in as zeros, two longer than the columns.

    While entries are placed, ``new_starts[c + 1]`` is where column c's next one goes; at the end it is where
    column c stops, which leaves the starts one place to the left: the last element is spare.
    """
    for e in range(columns.size):
        new_starts[columns[e] + 2] += 1
    for c in range(2, new_starts.size):
        new_starts[c] += new_starts[c - 1]
    for row in range(starts.size - 1):
        for e in range(starts[row], starts[row + 1]):
            c = columns[e] + 1
            place = new_starts[c]
            new_starts[c] = place + 1
            new_columns[place] = row
            new_values[place] = values[e]
            if weights.size:
                new_weights[place] = weights[e]
