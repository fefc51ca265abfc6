"""Exact least squares for many rows at once: one small Gram matrix per row, eight rows solved side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from twofold.algorithms._jit import kernel
from twofold.algorithms._lanes import (
    LANES,
    add,
    divide,
    fill,
    load,
    multiply,
    multiply_add,
    root,
    store,
    subtract,
    subtract_product,
    where_positive,
)

CHUNK = 64  # entries of one row gathered at a time: they stay in the first-level cache


@kernel()
def _tile3(scaled: Any, plain: Any, n: int, width: int, a: int, b: int, gram: Any) -> None:
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
def _tile1(scaled: Any, plain: Any, n: int, width: int, a: int, b: int, gram: Any) -> None:
    """As `_tile3` for a tile of 4 by 8."""
    g0 = a * width + b
    g1, g2, g3 = g0 + width, g0 + 2 * width, g0 + 3 * width
    c0, c1, c2, c3 = load(gram, g0), load(gram, g1), load(gram, g2), load(gram, g3)
    for j in range(n):
        r = j * width + a
        v = load(plain, j * width + b)
        c0 = multiply_add(fill(scaled[r]), v, c0)
        c1 = multiply_add(fill(scaled[r + 1]), v, c1)
        c2 = multiply_add(fill(scaled[r + 2]), v, c2)
        c3 = multiply_add(fill(scaled[r + 3]), v, c3)
    store(gram, g0, c0)
    store(gram, g1, c1)
    store(gram, g2, c2)
    store(gram, g3, c3)


@kernel()
def _add_gram(scaled: Any, plain: Any, n: int, rank: int, width: int, gram: Any) -> None:
    """Upper triangle (in tiles) of scaled.T @ plain."""
    for a in range(0, rank, 4):
        b = (a // LANES) * LANES
        while b + 3 * LANES <= width:
            _tile3(scaled, plain, n, width, a, b, gram)
            b += 3 * LANES
        while b < width:
            _tile1(scaled, plain, n, width, a, b, gram)
            b += LANES


@kernel()
def _gather(columns, values, weights, first, last, factors, width, absent, absent_column, scaled, plain, rhs):
    """Copy the factors of some entries side by side, plain and times weight; add weight * value * factor to rhs."""
    energy = 0.0
    weighted, counts = weights.size > 0, absent_column.size > 0
    for e in range(first, last):
        source, target = np.int64(columns[e]) * width, (e - first) * width
        x = values[e]
        w = weights[e] if weighted else values.dtype.type(1.0)
        energy += w * x * x
        times = fill(w * x)
        share = fill(w - absent * absent_column[columns[e]] if counts else w)
        for b in range(0, width, LANES):
            v = load(factors, source + b)
            store(plain, target + b, v)
            store(rhs, b, multiply_add(times, v, load(rhs, b)))
            if weighted or counts:
                store(scaled, target + b, multiply(share, v))
    return energy


@kernel()
def _one_row(row, starts, columns, values, weights, factors, rank, width, absent, absent_column, scaled, plain, gram, rhs):
    """Gram matrix, right-hand side and energy of one row's entries, added to what `gram` and `rhs` hold."""
    energy = 0.0
    first, last = starts[row], starts[row + 1]
    simple = weights.size == 0 and absent_column.size == 0
    while first < last:
        n = min(CHUNK, last - first)
        energy += _gather(
            columns, values, weights, first, first + n, factors, width, absent, absent_column, scaled, plain, rhs
        )
        _add_gram(plain if simple else scaled, plain, n, rank, width, gram)
        first += n
    return energy


@kernel()
def _factor(system, passive, lower, inverse, rank, tiny, broken):
    """Cholesky of eight matrices, rows and columns outside the passive sets left out; the last row is the right-hand side."""
    one, zero = fill(tiny / tiny), fill(tiny - tiny)
    small = fill(tiny)
    flag = load(broken, 0)
    for j in range(rank):
        pj = load(passive, j * LANES)
        diagonal = where_positive(pj, load(system, (j * rank + j) * LANES), one)
        acc = diagonal
        for k in range(j):
            l = load(lower, (j * rank + k) * LANES)
            acc = subtract_product(acc, l, l)
        safe = subtract(acc, multiply(diagonal, small))
        flag = where_positive(safe, flag, one)
        reciprocal = divide(one, root(where_positive(safe, acc, one)))
        store(inverse, j * LANES, reciprocal)
        i = j + 1
        while i + 4 <= rank + 1:
            o0 = i * rank * LANES
            o1 = o0 + rank * LANES
            o2 = o1 + rank * LANES
            o3 = o2 + rank * LANES
            t = j * LANES
            a0 = multiply(multiply(load(system, o0 + t), pj), load(passive, i * LANES))
            a1 = multiply(multiply(load(system, o1 + t), pj), load(passive, i * LANES + 8))
            a2 = multiply(multiply(load(system, o2 + t), pj), load(passive, i * LANES + 16))
            a3 = multiply(multiply(load(system, o3 + t), pj), load(passive, i * LANES + 24))
            for k in range(0, j * LANES, LANES):
                l = load(lower, j * rank * LANES + k)
                a0 = subtract_product(a0, load(lower, o0 + k), l)
                a1 = subtract_product(a1, load(lower, o1 + k), l)
                a2 = subtract_product(a2, load(lower, o2 + k), l)
                a3 = subtract_product(a3, load(lower, o3 + k), l)
            store(lower, o0 + t, multiply(a0, reciprocal))
            store(lower, o1 + t, multiply(a1, reciprocal))
            store(lower, o2 + t, multiply(a2, reciprocal))
            store(lower, o3 + t, multiply(a3, reciprocal))
            i += 4
        while i < rank + 1:
            o0 = i * rank * LANES
            t = j * LANES
            a0 = multiply(multiply(load(system, o0 + t), pj), load(passive, i * LANES))
            for k in range(0, j * LANES, LANES):
                a0 = subtract_product(a0, load(lower, o0 + k), load(lower, j * rank * LANES + k))
            store(lower, o0 + t, multiply(a0, reciprocal))
            i += 1
    store(broken, 0, flag)


@kernel()
def _substitute(lower, inverse, x, rank):
    """Back substitution: x from the factor and its last row."""
    end = rank * rank * LANES
    for i in range(rank):
        store(x, i * LANES, load(lower, end + i * LANES))
    for i in range(rank - 1, -1, -1):
        xi = multiply(load(x, i * LANES), load(inverse, i * LANES))
        store(x, i * LANES, xi)
        o = i * rank * LANES
        for k in range(0, i * LANES, LANES):
            store(x, k, subtract_product(load(x, k), load(lower, o + k), xi))


@kernel()
def _gradient(system, x, dual, rank):
    """dual = system @ x - right-hand side, from the lower triangle."""
    end = rank * rank * LANES
    for i in range(rank):
        o = i * rank * LANES
        xi = load(x, i * LANES)
        acc = multiply_add(load(system, o + i * LANES), xi, subtract(fill(x[0] - x[0]), load(system, end + i * LANES)))
        for k in range(0, i * LANES, LANES):
            a = load(system, o + k)
            acc = multiply_add(a, load(x, k), acc)
            store(dual, k, multiply_add(a, xi, load(dual, k)))
        store(dual, i * LANES, acc)


@kernel()
def _exchange(passive, x, dual, tolerance, wrong, rank, counts, fewest, chances, broken):
    """One step of block principal pivoting in every lane; returns how many lanes are not done."""
    zero = fill(tolerance[0] - tolerance[0])
    one = load(passive, rank * LANES)  # the right-hand side's row is always in
    total = zero
    for i in range(rank):
        o = i * LANES
        inside = where_positive(subtract(zero, load(x, o)), one, zero)
        outside = where_positive(subtract(subtract(zero, load(dual, o)), load(tolerance, o)), one, zero)
        bad = where_positive(load(passive, o), inside, outside)
        store(wrong, o, bad)
        total = add(total, bad)
    store(counts, 0, total)
    busy = 0
    for lane in range(LANES):
        c = counts[lane]
        if c == 0 or broken[lane] > 0:
            continue
        busy += 1
        if c < fewest[lane]:
            fewest[lane] = c
            chances[lane] = 3
        elif chances[lane] > 0:
            chances[lane] -= 1
        else:
            seen = False
            for i in range(rank - 1, -1, -1):
                if seen:
                    wrong[i * LANES + lane] = 0
                elif wrong[i * LANES + lane] > 0:
                    seen = True
    if busy:
        for i in range(rank):
            o = i * LANES
            p, bad = load(passive, o), load(wrong, o)
            store(passive, o, where_positive(bad, subtract(one, p), p))
    return busy


@kernel()
def solve_block(
    first, last, starts, columns, values, weights, factors, rank, width, base, absent_row, absent_column,
    rhs_given, ridge, nonnegative, warm, limit, tiny, slack, out, energy, failed,
):
    kind = factors.dtype
    scaled = np.empty(CHUNK * width, kind)
    plain = np.empty(CHUNK * width, kind)
    gram = np.empty((width + 4) * width, kind)
    rhs = np.empty(width, kind)
    system = np.empty((rank + 1) * rank * LANES, kind)
    lower = np.empty((rank + 1) * rank * LANES, kind)
    vectors = np.empty((6, (rank + 4) * LANES), kind)
    passive, inverse, x, dual, tolerance, wrong = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4], vectors[5]
    small = np.empty((4, LANES), kind)
    counts, fewest, chances, broken = small[0], small[1], small[2], small[3]
    for group in range(first, last, LANES):
        lanes = min(LANES, last - group)
        if lanes < LANES:
            system[:] = 0
            passive[:] = 0
        for lane in range(lanes):
            row = group + lane
            if base.size:
                t = absent_row[row]
                for i in range(rank * width):
                    gram[i] = base[i] * t
            else:
                gram[:] = 0
            if rhs_given.size:
                for i in range(width):
                    rhs[i] = rhs_given[row * width + i]
            else:
                rhs[:] = 0
            absent = absent_row[row] if absent_row.size else tiny
            s = energy[row] + _one_row(
                row, starts, columns, values, weights, factors, rank, width, absent, absent_column, scaled, plain, gram, rhs
            )
            energy[row] = s
            for i in range(rank):
                for j in range(i):
                    system[(i * rank + j) * LANES + lane] = gram[j * width + i]
                d = gram[i * width + i] + ridge[row]
                # an all-zero column: any value will do, so zero does
                system[(i * rank + i) * LANES + lane] = d if d > 0 else 1
                system[(rank * rank + i) * LANES + lane] = rhs[i]
                tolerance[i * LANES + lane] = slack * np.sqrt(d * s)
                passive[i * LANES + lane] = 1.0 if (not warm or out[row * width + i] > 0) else 0.0
        for lane in range(LANES):
            passive[rank * LANES + lane] = 1
            fewest[lane] = rank + 1
            chances[lane] = 3
            broken[lane] = 0
        busy = 1
        for step in range(limit):
            _factor(system, passive, lower, inverse, rank, tiny, broken)
            _substitute(lower, inverse, x, rank)
            if not nonnegative:
                busy = 0
                break
            _gradient(system, x, dual, rank)
            busy = _exchange(passive, x, dual, tolerance, wrong, rank, counts, fewest, chances, broken)
            if busy == 0:
                break
        for lane in range(lanes):
            row = group + lane
            failed[row] = broken[lane] > 0 or (busy > 0 and counts[lane] > 0)
            fit = 0.0
            for i in range(rank):
                u = x[i * LANES + lane]
                if nonnegative and not u > 0:
                    u = kind.type(0)
                out[row * width + i] = u
                fit += u * system[(rank * rank + i) * LANES + lane]
            energy[row] -= fit


@kernel()
def transpose(starts, columns, values, weights, new_starts, new_columns, new_values, new_weights):
    """Counting sort by column; `new_starts` is shifted by one while filling and right at the end."""
    for e in range(columns.size):
        new_starts[columns[e] + 2] += 1
    for c in range(2, new_starts.size):
        new_starts[c] += new_starts[c - 1]
    for row in range(starts.size - 1):
        for e in range(starts[row], starts[row + 1]):
            c = columns[e] + 1
            t = new_starts[c]
            new_starts[c] = t + 1
            new_columns[t] = row
            new_values[t] = values[e]
            if weights.size:
                new_weights[t] = weights[e]
