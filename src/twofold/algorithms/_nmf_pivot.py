"""Block principal pivoting on eight small systems at once, one per lane.

Each lane holds a passive set: the columns allowed to differ from zero. A step solves for them by a Cholesky
factor, then exchanges all columns of the wrong sign at once [1]_; when their number stops falling, Murty's rule
(the last one only) takes over. Lanes do not touch each other's arithmetic, so a row's solution does not depend
on its neighbours.

Once enough columns are outside in every lane, the others are copied side by side and only they are factored: a column
outside adds exact zeros to the sums of the rest, so this changes no digit.

.. [1] J. Kim and H. Park, Fast nonnegative matrix factorization: an active-set-like method and comparisons,
   SIAM J. Sci. Comput. 33(6), 2011.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

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

Array = NDArray[Any]
PACKING = 64  # copying n columns takes about as long as factoring so many more


@kernel()
def _pivot(system: Array, passive: Array, lower: Array, reciprocal: Array, j: int, rank: int, tiny: Any) -> None:
    """Set the reciprocal of the factor's diagonal j, or 0 for a column that is outside or dependent."""
    own, one, zero = j * rank * LANES, fill(tiny / tiny), fill(tiny - tiny)
    diagonal = load(system, own + j * LANES)
    rest = diagonal
    for k in range(own, own + j * LANES, LANES):
        rest = subtract_product(rest, load(lower, k), load(lower, k))
    used = where_positive(subtract_product(rest, diagonal, fill(tiny)), load(passive, j * LANES), zero)
    store(reciprocal, j * LANES, where_positive(used, divide(one, root(rest)), zero))


@kernel()
def _next_row(system: Array, lower: Array, reciprocal: Array, j: int, rank: int) -> None:
    """Column j of row j + 1, which the next pivot needs."""
    own, below, t = j * rank * LANES, (j + 1) * rank * LANES, j * LANES
    rest = load(system, below + t)
    for k in range(0, t, LANES):
        rest = subtract_product(rest, load(lower, below + k), load(lower, own + k))
    store(lower, below + t, multiply(rest, load(reciprocal, t)))


@kernel()
def _eliminate(system: Array, lower: Array, reciprocal: Array, j: int, i: int, rank: int) -> None:
    """Columns j and j + 1 of rows i to i + 3."""
    stride, t, p, q = rank * LANES, j * LANES, j * rank * LANES, (j + 1) * rank * LANES
    o0 = i * stride
    o1, o2, o3 = o0 + stride, o0 + 2 * stride, o0 + 3 * stride
    a0, a1, a2, a3 = load(system, o0 + t), load(system, o1 + t), load(system, o2 + t), load(system, o3 + t)
    t += LANES
    b0, b1, b2, b3 = load(system, o0 + t), load(system, o1 + t), load(system, o2 + t), load(system, o3 + t)
    for k in range(0, j * LANES, LANES):
        first, second = load(lower, p + k), load(lower, q + k)
        c = load(lower, o0 + k)
        a0, b0 = subtract_product(a0, c, first), subtract_product(b0, c, second)
        c = load(lower, o1 + k)
        a1, b1 = subtract_product(a1, c, first), subtract_product(b1, c, second)
        c = load(lower, o2 + k)
        a2, b2 = subtract_product(a2, c, first), subtract_product(b2, c, second)
        c = load(lower, o3 + k)
        a3, b3 = subtract_product(a3, c, first), subtract_product(b3, c, second)
    t -= LANES
    r, between = load(reciprocal, t), load(lower, q + t)
    a0, a1, a2, a3 = multiply(a0, r), multiply(a1, r), multiply(a2, r), multiply(a3, r)
    store(lower, o0 + t, a0)
    store(lower, o1 + t, a1)
    store(lower, o2 + t, a2)
    store(lower, o3 + t, a3)
    t += LANES
    r = load(reciprocal, t)
    store(lower, o0 + t, multiply(subtract_product(b0, a0, between), r))
    store(lower, o1 + t, multiply(subtract_product(b1, a1, between), r))
    store(lower, o2 + t, multiply(subtract_product(b2, a2, between), r))
    store(lower, o3 + t, multiply(subtract_product(b3, a3, between), r))


@kernel()
def _factor(system: Array, passive: Array, lower: Array, reciprocal: Array, rank: int, tiny: Any) -> None:
    """Cholesky factors of eight systems, two columns and four rows at a time; the right-hand side is row `rank`.

    A column with the reciprocal 0 vanishes from the factor and from the solution; what its row holds is never
    used. Rows beyond the right-hand side are scratch, so that four at a time needs no remainder.
    """
    for j in range(0, rank - 1, 2):
        _pivot(system, passive, lower, reciprocal, j, rank, tiny)
        _next_row(system, lower, reciprocal, j, rank)
        _pivot(system, passive, lower, reciprocal, j + 1, rank, tiny)
        for i in range(j + 2, rank + 1, 4):
            _eliminate(system, lower, reciprocal, j, i, rank)
    if rank % 2:
        _pivot(system, passive, lower, reciprocal, rank - 1, rank, tiny)
        _next_row(system, lower, reciprocal, rank - 1, rank)


@kernel()
def _substitute(lower: Array, reciprocal: Array, x: Array, rank: int) -> None:
    """Back substitution: x from the factor and its last row."""
    end = rank * rank * LANES
    for i in range(0, rank * LANES, LANES):
        store(x, i, load(lower, end + i))
    for i in range(rank - 1, -1, -1):
        own = i * rank * LANES
        xi = multiply(load(x, i * LANES), load(reciprocal, i * LANES))
        store(x, i * LANES, xi)
        for k in range(0, i * LANES, LANES):
            store(x, k, subtract_product(load(x, k), load(lower, own + k), xi))


@kernel()
def _slope(system: Array, x: Array, dual: Array, rank: int) -> None:
    """Set dual to system @ x - right-hand side, from the lower triangle."""
    end = rank * rank * LANES
    for i in range(rank):
        own, t = i * rank * LANES, i * LANES
        xi = load(x, t)
        total = subtract(multiply(load(system, own + t), xi), load(system, end + t))
        for k in range(0, t, LANES):
            a = load(system, own + k)
            total = multiply_add(a, load(x, k), total)
            store(dual, k, multiply_add(a, xi, load(dual, k)))
        store(dual, t, total)


@kernel()
def _find_wrong(passive: Array, x: Array, dual: Array, tolerance: Array, wrong: Array, rank: int) -> None:
    """Mark columns whose sign is wrong: negative inside, or a descent direction outside; count them last."""
    one = load(passive, rank * LANES)  # the right-hand side is always inside
    zero = subtract(one, one)
    total = zero
    for o in range(0, rank * LANES, LANES):
        inside = where_positive(subtract(zero, load(x, o)), one, zero)
        outside = where_positive(subtract(subtract(zero, load(dual, o)), load(tolerance, o)), one, zero)
        bad = where_positive(load(passive, o), inside, outside)
        store(wrong, o, bad)
        total = add(total, bad)
    store(wrong, rank * LANES, total)


@kernel()
def _exchange(passive: Array, wrong: Array, rank: int, fewest: Array, chances: Array) -> int:
    """One exchange of block principal pivoting in every lane; return how many lanes were not done."""
    busy = 0
    for lane in range(LANES):
        count = wrong[rank * LANES + lane]
        if count == 0:
            continue
        busy += 1
        if count < fewest[lane]:
            fewest[lane] = count
            chances[lane] = 3
        elif chances[lane] > 0:
            chances[lane] -= 1
        else:  # Murty: only the last one
            i = rank - 1
            while wrong[i * LANES + lane] == 0:
                i -= 1
            for k in range(i):
                wrong[k * LANES + lane] = 0
    one = load(passive, rank * LANES)
    if busy:
        for o in range(0, rank * LANES, LANES):
            p = load(passive, o)
            store(passive, o, where_positive(load(wrong, o), subtract(one, p), p))
    return busy


@kernel()
def _find_places(passive: Array, rank: int, places: Array, inside: Array) -> int:
    """List each lane's columns inside; return the length of the longest list.

    Shorter lists are filled up with column 0, marked as outside.
    """
    most = 0
    for lane in range(LANES):
        n = 0
        for i in range(rank):
            if passive[i * LANES + lane] > 0:
                places[n * LANES + lane] = i
                inside[n * LANES + lane] = 1
                n += 1
        most = max(most, n)
        for i in range(n, rank):
            places[i * LANES + lane] = 0
            inside[i * LANES + lane] = 0
    return most


@kernel()
def _pack(system: Array, places: Array, most: int, rank: int, packed: Array) -> None:
    """Copy the listed columns and their rows side by side, the right-hand side below them."""
    for i in range(most):
        for j in range(i + 1):
            to = (i * most + j) * LANES
            for lane in range(LANES):
                row, column = places[i * LANES + lane], places[j * LANES + lane]
                packed[to + lane] = system[(row * rank + column) * LANES + lane]
        for lane in range(LANES):
            own = (rank * rank + places[i * LANES + lane]) * LANES + lane
            packed[(most * most + i) * LANES + lane] = system[own]


@kernel()
def _unpack(y: Array, places: Array, inside: Array, most: int, rank: int, x: Array) -> None:
    """Write the solutions of listed columns to their places; the others are zero."""
    for i in range(rank * LANES):
        x[i] = 0
    for i in range(most):
        for lane in range(LANES):
            if inside[i * LANES + lane] > 0:
                x[places[i * LANES + lane] * LANES + lane] = y[i * LANES + lane]


@kernel()
def _solve_inside(
    system: Array, lower: Array, packed: Array, places: Array, vectors: Array, rank: int, tiny: Any
) -> None:
    """Solve for the columns inside: among themselves where they are few, else among all."""
    passive, x, reciprocal, inside, y = vectors[0], vectors[3], vectors[5], vectors[8], vectors[9]
    most = _find_places(passive, rank, places, inside)
    if most * most * (most + PACKING) < rank * rank * rank:
        _pack(system, places, most, rank, packed)
        _factor(packed, inside, lower, reciprocal, most, tiny)
        _substitute(lower, reciprocal, y, most)
        _unpack(y, places, inside, most, rank, x)
    else:
        _factor(system, passive, lower, reciprocal, rank, tiny)
        _substitute(lower, reciprocal, x, rank)


@kernel()
def solve_lanes(
    system: Array,
    lower: Array,
    packed: Array,
    places: Array,
    vectors: Array,
    rank: int,
    signed: bool,
    limit: int,
    tiny: Any,
) -> int:
    """Solve eight systems; return how many lanes are left when the limit is reached.

    Parameters
    ----------
    system : array
        Lower triangles, then the right-hand sides as row `rank`, eight lanes each.
    lower, packed : arrays
        Scratch as large as `system`.
    places : array of int
        Scratch: columns of each lane.
    vectors : array (10, (rank + 1) * LANES)
        Passive, tolerance, wrong, x, dual, reciprocal, two counters, and two rows of scratch.
    """
    passive, tolerance, wrong, x = vectors[0], vectors[1], vectors[2], vectors[3]
    dual, fewest, chances = vectors[4], vectors[6], vectors[7]
    for lane in range(LANES):
        passive[rank * LANES + lane] = 1
        fewest[lane] = rank + 1
        chances[lane] = 3
    busy = 1
    for _ in range(limit):
        _solve_inside(system, lower, packed, places, vectors, rank, tiny)
        if signed:
            return 0
        _slope(system, x, dual, rank)
        _find_wrong(passive, x, dual, tolerance, wrong, rank)
        busy = _exchange(passive, wrong, rank, fewest, chances)
        if busy == 0:
            break
    return busy
