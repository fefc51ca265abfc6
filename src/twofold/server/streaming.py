"""Factorization of rows that do not fit into memory: a few looks at them, one block of rows at a time.

Counts are squeezed into two small matrices by two looks, factorized there until nothing moves, and then polished and
verified on the rows themselves. Ratings have a weight in every entry, which cannot be squeezed: they take a pass for
every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from twofold.algorithms._jit import Workers, one_blas_thread
from twofold.federation.plan import Plan
from twofold.release.combine import joined
from twofold.release.content import Floats, WeightedRows
from twofold.server.descent import Blocks, Look, Scaling, Survey, descend, scaling, survey
from twofold.server.rows import SharedFactors, finish, fit_items, row_moments, usable_rank

__all__ = ["Squeezed", "ahead", "factorize_blocks", "squeezed"]

T = TypeVar("T")

MOST_PASSES = 40
PASS_TOLERANCE = 1e-4  # of the objective, per pass
MORE_DIRECTIONS = 20  # of the squeezed rows, beyond the rank
MOST_STEPS = 200  # on squeezed rows
STEP_TOLERANCE = 1e-6
# Of the largest direction. Below it the rounding of the largest is as large as a direction itself.
_FAINT = 1e-7
# Items at a time where a product is added to an array of all items, so that it stays in the processor's cache.
_ITEMS = 2048


def factorize_blocks(
    blocks: Blocks, plan: Plan, *, start_rows: int = 4096, threads: int | None = None
) -> SharedFactors:
    """Do the same as `factorize_rows`, with two blocks of rows in memory at a time: the last one and the next.

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
    end. A step lengthened along the last change is kept if it lowers the objective, as in `masked_nmf`. For counts
    `squeezed` rows are factorized first, so that two passes are enough unless noise is strong and passes have
    something left to do. From different starts the two may end in different, equally good places. The note says so if
    the objective still moved after the last pass.

    Memory: two blocks several times over, and (2 + rank) arrays like V for ratings, about ten for counts.

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
    with one_blas_thread():  # sums cut otherwise by another number of threads would be other sums
        if plan.feedback == "counts":
            return _factorize_counts(blocks, plan, threads)
        return _factorize_ratings(blocks, plan, start_rows, threads)


def ahead(given: Iterable[T], threads: int | None) -> Iterator[T]:
    """Take the next one on a second thread while the caller works on one; the same ones (not None), in order.

    Examples
    --------
    >>> list(ahead("abc", threads=2))
    ['a', 'b', 'c']
    """
    if Workers(threads).threads == 1:
        yield from given
        return
    source = iter(given)
    with ThreadPoolExecutor(1, thread_name_prefix="twofold") as reader:
        coming = reader.submit(next, source, None)
        while (one := coming.result()) is not None:
            coming = reader.submit(next, source, None)
            yield one


def _factorize_counts(blocks: Blocks, plan: Plan, threads: int | None) -> SharedFactors:
    small = squeezed(blocks, plan)
    seen, scale = small.seen, small.scale
    if not seen.rows:
        return finish(None, None, seen, scale, plan)
    start = small.descend(rank=usable_rank(plan, seen), seed=plan.seed, threads=threads)
    del small  # as large as several arrays like V
    found, settled = descend(
        lambda V: _look_at_counts(blocks, V, seen, scale, threads), start, most=MOST_PASSES, tolerance=PASS_TOLERANCE
    )
    # Users are the rows of U over √(w/unit), and each counts w times: their moments are those of U, times the unit.
    return finish(found.V, (found.gram, found.gram * scale.unit), seen, scale, plan, remark=_remark(settled))


def _factorize_ratings(blocks: Blocks, plan: Plan, start_rows: int, threads: int | None) -> SharedFactors:
    seen = survey(blocks(), plan)
    scale, rank = scaling(seen, plan), usable_rank(plan, seen)
    if not seen.rows:
        return finish(None, None, seen, scale, plan)
    start = fit_items(_first(blocks(), start_rows, rank), scale, rank=rank, seed=plan.seed, threads=threads)
    found, settled = descend(
        lambda V: _look_at_ratings(blocks, V, scale, threads), start, most=MOST_PASSES, tolerance=PASS_TOLERANCE
    )
    moments = row_moments(found.V, blocks(), scale, threads)
    return finish(found.V, moments, seen, scale, plan, remark=_remark(settled))


def _remark(settled: bool) -> str:
    return "" if settled else f"not converged: the objective still moved after {MOST_PASSES} passes"


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


def _look_at_ratings(blocks: Blocks, V: Floats, scale: Scaling, threads: int | None) -> Look:
    found = Look(V=V, ridge=scale.ridge, per_item=True, threads=threads)
    for block in blocks():
        Y, weights, _ = scale.rows(block)
        found.add(Y, weights)
    return found


def _look_at_counts(blocks: Blocks, V: Floats, seen: Survey, scale: Scaling, threads: int | None) -> Look:
    """As `Look.add`, but the rows are scaled in the products, which are small, and their squares are known."""
    found = Look(V=V, ridge=scale.ridge, per_item=False, threads=threads)
    found.objective += seen.squares / scale.unit
    assert found.square is not None
    for block in blocks():
        roots = _roots(block, scale.unit)
        U = found.fit(found.square, roots * (block.values @ V), 0.0)
        found.gram += U.T @ U
        _add_product(found.given, block.values, roots * U)
    return found


class Squeezed:
    """Rows of counts as the product of two small matrices, and their totals.

    Parameters
    ----------
    seen, scale : Survey, Scaling
        Totals of all rows, and how they become Y.
    left, right : arrays (rows, directions) and (items, directions)
        Orthonormal columns, and Yᵀ left: Y ≈ left rightᵀ.
    """

    def __init__(self, seen: Survey, scale: Scaling, left: Floats, right: Floats) -> None:
        self.seen, self.scale, self.left, self.right = seen, scale, left, right

    def look(self, V: Floats, threads: int | None) -> Look:
        """Fit all rows to V without reading them."""
        found = Look(V=V, ridge=self.scale.ridge, per_item=False, threads=threads)
        assert found.square is not None
        U = found.fit(found.square, self.left @ (self.right.T @ V), self.seen.squares / self.scale.unit)
        found.gram += U.T @ U
        found.given += self.right @ (self.left.T @ U)
        return found

    def descend(self, *, rank: int, seed: int, threads: int | None) -> Floats:
        """Item factors, from a random start of the size of the values."""
        size = np.sqrt(self.seen.squares / self.scale.unit / (self.seen.rows * self.seen.n_items))
        start = 2 * np.sqrt(size / rank) * np.random.default_rng(seed).random((self.seen.n_items, rank))
        found, _ = descend(lambda V: self.look(V, threads), start, most=MOST_STEPS, tolerance=STEP_TOLERANCE)
        return found.V


def squeezed(blocks: Blocks, plan: Plan) -> Squeezed:
    """Take the leading directions of all rows of counts, in two looks.

    Parameters
    ----------
    blocks : callable
        Rows of counts, in blocks.
    plan : Plan
        Its rank, 20 more, is the number of directions.

    Notes
    -----
    The first look adds up the totals and random combinations of the rows. Made orthonormal, these are a P of items x
    directions. The second look gives C = Y P and Yᵀ C. With C = A S Bᵀ (A, B orthonormal, S diagonal), A spans
    the leading directions of the rows (Halko, Martinsson and Tropp 2011, section 4.5, with one half of a power step),
    and Aᵀ Y = S⁻¹ Bᵀ (Yᵀ C)ᵀ needs no third look. Both sides of the factorization need Y only in products: with V it
    is A (AᵀY) V, with U it is (AᵀY)ᵀ (Aᵀ U). What is left out is below the directions that are kept, and mostly
    noise; the passes over the rows themselves that follow see all of it.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=2), feedback="counts", bound=9, max_items=2, rank=1)
    >>> one = np.ones(1)
    >>> rows = WeightedRows(values=np.array([[1.0, 2.0]]), row_weights=one, noise=0 * one, sizes=one, seeded=False)
    >>> small = squeezed(lambda: iter([rows, rows]), plan)
    >>> small.left.shape, (small.left @ small.right.T).round(6)
    ((2, 1), array([[1., 2.],
           [1., 2.]]))
    """
    seen, P = _first_directions(blocks, plan)
    scale = scaling(seen, plan)
    right, coefficients = np.zeros_like(P), []
    for block in blocks():
        roots = _roots(block, scale.unit)
        coefficients.append(roots * (block.values @ P))
        _add_product(right, block.values, roots * coefficients[-1])
    left, sizes, turned = np.linalg.svd(np.concatenate(coefficients), full_matrices=False)
    kept = sizes > _FAINT * sizes.max(initial=0.0)
    return Squeezed(seen, scale, left[:, kept], right @ (turned[kept].T / sizes[kept]))


def _first_directions(blocks: Blocks, plan: Plan) -> tuple[Survey, Floats]:
    """Totals, and random combinations of the rows, made orthonormal."""
    seen, rng = Survey(n_items=plan.n_items), np.random.default_rng(plan.seed)
    number = min(plan.rank, plan.n_items) + MORE_DIRECTIONS
    total = np.zeros((plan.n_items, number))
    for block in blocks():
        seen.add(block, plan)
        _add_product(total, block.values, _roots(block, 1.0) * rng.standard_normal((block.n_rows, number)))
    return seen, np.asarray(np.linalg.qr(total)[0])


def _roots(block: WeightedRows, unit: float) -> Any:
    return np.sqrt(block.row_weights / unit)[:, None]


def _add_product(total: Floats, values: Floats, factors: Floats) -> None:
    """Add valuesᵀ factors in place, without an array of that size beside it."""
    for first in range(0, len(total), _ITEMS):
        part = slice(first, first + _ITEMS)
        total[part] += values[:, part].T @ factors
