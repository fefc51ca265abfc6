"""Conjugate gradient steps of implicit ALS: one row's factors given the other side's.

Row r minimises ``Σ_e (x_e - u·v_e)² + Σ_j shared_rj u_j²``. What all rows have in common is diagonal: the caller has
turned the factors into the basis in which it is. So a step costs one pass over the row's entries and no matrix, and the
same basis is the preconditioner. Four entries are read together, so that the direction is loaded once for all four.
Vectors are spelled out: where a compiler reorders sums by itself, bits depend on where arrays happen to be in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms._jit import kernel
from twofold.algorithms._lanes import LANES, fill, load, multiply, multiply_add, store, subtract_product, total

Array = NDArray[Any]


@kernel()
def add_products(
    first: int, last: int, columns: Array, values: Array, sign: Any, factors: Array, width: int, x: Array, out: Array
) -> None:
    """Add ``Σ_e (value_e + sign v_e·x) v_e`` over some entries to `out`; no values stand for zeros."""
    given, none = values.size > 0, fill(sign - sign)
    whole = first + (last - first) // 4 * 4
    for e in range(first, whole, 4):
        a, b = np.int64(columns[e]) * width, np.int64(columns[e + 1]) * width
        c, d = np.int64(columns[e + 2]) * width, np.int64(columns[e + 3]) * width
        p, q, r, s = none, none, none, none
        for j in range(0, width, LANES):
            y = load(x, j)
            p, q = multiply_add(load(factors, a + j), y, p), multiply_add(load(factors, b + j), y, q)
            r, s = multiply_add(load(factors, c + j), y, r), multiply_add(load(factors, d + j), y, s)
        f, g, h, i = sign * total(p), sign * total(q), sign * total(r), sign * total(s)
        if given:
            f, g, h, i = f + values[e], g + values[e + 1], h + values[e + 2], i + values[e + 3]
        p, q, r, s = fill(f), fill(g), fill(h), fill(i)
        for j in range(0, width, LANES):
            y = multiply_add(p, load(factors, a + j), load(out, j))
            y = multiply_add(q, load(factors, b + j), y)
            y = multiply_add(r, load(factors, c + j), y)
            store(out, j, multiply_add(s, load(factors, d + j), y))
    for e in range(whole, last):
        a = np.int64(columns[e]) * width
        p = none
        for j in range(0, width, LANES):
            p = multiply_add(load(factors, a + j), load(x, j), p)
        f = sign * total(p)
        if given:
            f += values[e]
        p = fill(f)
        for j in range(0, width, LANES):
            store(out, j, multiply_add(p, load(factors, a + j), load(out, j)))


@kernel()
def descend_rows(
    first: int,
    last: int,
    starts: Array,
    columns: Array,
    values: Array,
    factors: Array,
    width: int,
    base: Array,
    scale: Array,
    ridge: Array,
    steps: int,
    out: Array,
) -> None:
    """Improve rows `first` to `last` of `out` by some steps from where they are; a row without entries becomes zero.

    Parameters
    ----------
    starts, columns, values : arrays
        Entries in compressed rows.
    factors : array
        The other side's factors, flat, in the basis.
    width : int
        Columns of `factors` and `out`.
    base, scale, ridge : arrays
        The diagonal of row r is ``base + ridge[r] * scale``.
    steps : int
        Conjugate gradient steps.
    out : array
        Solutions, flat, in the basis; holds the start.
    """
    kind = factors.dtype.type
    one, minus, none = kind(1), kind(-1), fill(kind(0))
    nothing = np.empty(0, factors.dtype)
    vectors = np.empty((4, width), factors.dtype)
    shared, rest, way, image = vectors[0], vectors[1], vectors[2], vectors[3]
    for row in range(first, last):
        x = out[row * width : (row + 1) * width]
        begin, end = starts[row], starts[row + 1]
        if begin == end:
            x[:] = 0
            continue
        weight = fill(ridge[row])
        for j in range(0, width, LANES):
            both = multiply_add(weight, load(scale, j), load(base, j))
            store(shared, j, both)
            store(rest, j, subtract_product(none, both, load(x, j)))
        add_products(begin, end, columns, values, minus, factors, width, x, rest)
        sums = none
        for j in range(0, width, LANES):
            r = load(rest, j)
            store(way, j, r)
            sums = multiply_add(r, r, sums)
        size = total(sums)
        for _ in range(steps):
            if not size > 0:
                break
            for j in range(0, width, LANES):
                store(image, j, multiply(load(shared, j), load(way, j)))
            add_products(begin, end, columns, nothing, one, factors, width, way, image)
            sums = none
            for j in range(0, width, LANES):
                sums = multiply_add(load(way, j), load(image, j), sums)
            curve = total(sums)
            if not curve > 0:
                break
            length, sums = fill(size / curve), none
            for j in range(0, width, LANES):
                store(x, j, multiply_add(length, load(way, j), load(x, j)))
                r = subtract_product(load(rest, j), length, load(image, j))
                store(rest, j, r)
                sums = multiply_add(r, r, sums)
            before, size = size, total(sums)
            turn = fill(size / before)
            for j in range(0, width, LANES):
                store(way, j, multiply_add(turn, load(way, j), load(rest, j)))
