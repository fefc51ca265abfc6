"""A start for factors of rows that do not fit into memory: their leading patterns, found in three looks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twofold.prototypes.message import Floats
from twofold.server.descent import Look, descend
from twofold.server.scaling import Scaling
from twofold.server.survey import Blocks

__all__ = ["sketched_items"]

MORE = 20  # directions beyond the rank
MOST_STEPS = 100
TOLERANCE = 1e-5


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
    P, squares, size = _first_directions(blocks, scale, rank + MORE, rng)
    P = _orthonormal(sum_of(Y.T @ (Y @ P) for Y in _rows(blocks, scale)))
    C = np.concatenate([Y @ P for Y in _rows(blocks, scale)])

    def look(V: Floats) -> Look:
        found = Look(V=V, ridge=scale.ridge, per_item=False, threads=threads)
        assert found.square is not None
        U = found.fit(found.square, C @ (P.T @ V), squares)
        found.gram += U.T @ U
        found.given += P @ (C.T @ U)
        return found

    start = 2 * np.sqrt(size / rank) * rng.random((len(P), rank))
    return descend(look, start, most=MOST_STEPS, tolerance=TOLERANCE)


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

    total = sum_of(parts())
    return _orthonormal(total), squares, sizes / cells


def sum_of(parts: Iterator[Floats]) -> Floats:
    """Sum of arrays in their order, in place; at least one.

    Examples
    --------
    >>> sum_of(iter([np.ones(2), np.ones(2)]))
    array([2., 2.])
    """
    total = next(parts)
    for part in parts:
        total += part
    return total


def _rows(blocks: Blocks, scale: Scaling) -> Iterator[Floats]:
    return (scale.rows(block)[0] for block in blocks())


def _orthonormal(columns: Floats) -> Floats:
    return np.asarray(np.linalg.qr(columns)[0])
