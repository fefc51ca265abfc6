"""Factorization of rows that do not fit into memory: several passes, one block of rows at a time.

For counts the passes start from the leading patterns of the rows, found in three looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from twofold.algorithms._jit import one_blas_thread
from twofold.federation.plan import Plan
from twofold.release.combine import joined
from twofold.release.content import Floats, WeightedRows
from twofold.server.descent import Blocks, Look, Scaling, descend, scaling, survey
from twofold.server.rows import SharedFactors, finish, fit_items, usable_rank

__all__ = ["factorize_blocks", "sketched_items"]

MOST_PASSES = 40
# Of the objective, per pass. In `benchmarks.server` 40 messages of 8,192 items end by it after two passes; 500 of
# 262,144 items, nearly free of noise, do not and use up all passes.
PASS_TOLERANCE = 1e-4
MORE_DIRECTIONS = 20  # of a sketch, beyond the rank
MOST_SKETCH_STEPS = 100
SKETCH_TOLERANCE = 1e-5


def factorize_blocks(
    blocks: Blocks, plan: Plan, *, start_rows: int = 4096, threads: int | None = None
) -> SharedFactors:
    """Do the same as `factorize_rows`, with one block of rows in memory at a time.

    Parameters
    ----------
    blocks : callable
        Gives the rows in the same blocks and the same order at each call.
    plan : Plan
        As for `factorize_rows`.
    start_rows : int
        For ratings: about how many rows of the first blocks are factorized in memory for a start.
    threads : int, optional
        As for `factorize_rows`.

    Notes
    -----
    Both minimise the same objective. Each pass fits the rows of every block to the current V, exactly, adds up the
    normal equations of V, rank x rank (for ratings for each item) and items x rank, and solves them exactly at the
    end. A step lengthened along the last change is kept if it lowers the objective, as in `masked_nmf`. For counts a
    sketch of all rows (`sketched_items`) is factorized first, so that fewer passes are needed. From different
    starts the two may end in different, equally good places.

    Memory: one block several times over, and (2 + rank) arrays like V for ratings, four for counts.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=2), feedback="counts", bound=9, max_items=2, rank=1)
    >>> one = np.ones(1)
    >>> rows = WeightedRows(values=np.array([[1.0, 2.0]]), row_weights=one, noise=0 * one, sizes=one, seeded=False)
    >>> found = factorize_blocks(lambda: iter([rows, rows]), plan.with_(regularization=0.0))
    >>> (found.factors @ found.moments @ found.factors.T).round(3)
    array([[1., 2.],
           [2., 4.]])
    """
    with one_blas_thread():
        seen = survey(blocks(), plan)
        scale, rank = scaling(seen, plan), usable_rank(plan, seen)
        V = None
        if seen.rows:
            V = _start(blocks, scale, plan, rank, start_rows, threads)
            V = descend(lambda V: _look(blocks, V, scale, plan, threads), V, most=MOST_PASSES, tolerance=PASS_TOLERANCE)
        return finish(V, blocks(), seen, scale, plan, threads=threads)


def _start(blocks: Blocks, scale: Scaling, plan: Plan, rank: int, start_rows: int, threads: int | None) -> Floats:
    """Starting point of the passes: a sketch of all rows or, if entries have weights, some of the rows."""
    if plan.feedback == "counts":
        return sketched_items(blocks, scale, rank=rank, seed=plan.seed, threads=threads)
    first = _first(blocks(), start_rows, rank)
    return fit_items(first, scale, rank=rank, seed=plan.seed, threads=threads)


def _first(blocks: Iterable[WeightedRows], rows: int, rank: int) -> WeightedRows:
    """As many of the first blocks as fit, at least one and at least as many rows as factors if there are."""
    taken: list[WeightedRows] = []
    number = 0
    for block in blocks:
        if taken and number >= rank and number + block.n_rows > rows:
            break
        taken.append(block)
        number += block.n_rows
    return joined(taken)


def _look(blocks: Blocks, V: Floats, scale: Scaling, plan: Plan, threads: int | None) -> Look:
    found = Look(V=V, ridge=scale.ridge, per_item=plan.feedback == "ratings", threads=threads)
    for block in blocks():
        Y, weights, _ = scale.rows(block)
        found.add(Y, weights)
    return found


def sketched_items(blocks: Blocks, scale: Scaling, *, rank: int, seed: int, threads: int | None) -> Floats:
    """Factorize the projection of all rows on their leading directions, in memory.

    Parameters
    ----------
    blocks : callable
        Rows of counts, in blocks.
    scale : Scaling
        How they become Y.
    rank, seed, threads
        As for `factorize_rows`.

    Notes
    -----
    A random combination of the rows, drawn once towards the leading directions (Halko, Martinsson and Tropp 2011,
    algorithm 4.4), gives an orthonormal P of rank + 20 columns with Y ≈ Y P Pᵀ. The coefficients Y P are small. With
    them and P both sides of the factorization are solved as from Y itself, U against VᵀV and YP(PᵀV), V against UᵀU and
    P(YP)ᵀU. What is left out is below the directions that are kept, and mostly noise; the passes over the rows
    themselves that follow see all of it.
    """
    rng = np.random.default_rng(seed)
    P, squares, size = _first_directions(blocks, scale, rank + MORE_DIRECTIONS, rng)
    P = _orthonormal(_sum(Y.T @ (Y @ P) for Y in _rows(blocks, scale)))
    C = np.concatenate([Y @ P for Y in _rows(blocks, scale)])

    def look(V: Floats) -> Look:
        found = Look(V=V, ridge=scale.ridge, per_item=False, threads=threads)
        assert found.square is not None
        U = found.fit(found.square, C @ (P.T @ V), squares)
        found.gram += U.T @ U
        found.given += P @ (C.T @ U)
        return found

    start = 2 * np.sqrt(size / rank) * rng.random((len(P), rank))
    return descend(look, start, most=MOST_SKETCH_STEPS, tolerance=SKETCH_TOLERANCE)


def _first_directions(
    blocks: Blocks, scale: Scaling, number: int, rng: np.random.Generator
) -> tuple[Floats, float, float]:
    """Random combinations of the rows, made orthonormal; the squares of Y, and the mean size of its cells."""
    squares = sizes = 0.0
    cells = 0

    def parts() -> Iterator[Floats]:
        nonlocal squares, sizes, cells
        for Y in _rows(blocks, scale):
            squares, sizes, cells = squares + float(np.vdot(Y, Y)), sizes + float(np.abs(Y).sum()), cells + Y.size
            yield Y.T @ rng.standard_normal((len(Y), number))

    total = _sum(parts())
    return _orthonormal(total), squares, sizes / cells


def _sum(parts: Iterator[Floats]) -> Floats:
    """Sum of at least one array, in their order, in place."""
    total = next(parts)
    for part in parts:
        total += part
    return total


def _rows(blocks: Blocks, scale: Scaling) -> Iterator[Floats]:
    return (scale.rows(block)[0] for block in blocks())


def _orthonormal(columns: Floats) -> Floats:
    return np.asarray(np.linalg.qr(columns)[0])
