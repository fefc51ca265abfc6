"""k-means for sparse and dense rows: k-means++ starts, Lloyd's algorithm, its single step, and assignment."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from twofold.algorithms._checks import non_negative_number, whole_number
from twofold.algorithms._jit import Workers, one_blas_thread
from twofold.algorithms._kmeans_step import (
    Bounds,
    LloydStep,
    Rows,
    as_centers,
    as_rows,
    as_weights,
    nearest,
    require_finite,
    squared_distances,
    step,
)
from twofold.errors import BadParameter, BadShape, Set

__all__ = ["KMeansResult", "LloydStep", "assign", "kmeans", "lloyd_step"]

Doubles = NDArray[np.float64]
#: Sparse rows with this part of their cells filled are copied to dense ones while starts are drawn: two to four times
#: as fast at one half, slower below a fifth. 256 MB in single precision at most.
_FILLED: Final = 0.25
_DENSE_CELLS: Final = 64_000_000


@dataclass(frozen=True, kw_only=True)
class KMeansResult:
    """Centers, with labels and loss of the rows.

    Attributes
    ----------
    centers : array of shape (n_clusters, n_columns)
        In the type the arithmetic was done in.
    labels : int32 array of shape (n_rows,)
        Nearest center of each row; ties go to the lower number.
    inertia : float
        Weighted sum of squared distances to the nearest center, for these `centers` and `labels`.
    n_iter : int
        Times the centers were moved.
    """

    centers: NDArray[Any]
    labels: NDArray[np.int32]
    inertia: float
    n_iter: int


def kmeans(
    X: Any,
    n_clusters: int,
    *,
    init: Literal["k-means++"] | ArrayLike = "k-means++",
    max_iter: int = 100,
    tol: float = 1e-4,
    n_init: int = 1,
    weights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
    threads: int | None = None,
    rng: np.random.Generator | int | None = None,
) -> KMeansResult:
    """Move centers to the means of their rows until the gain is small.

    Privacy
    -------
    None: starts, stopping and centers all depend on the rows. A private mechanism takes public starts, a public
    number of calls of `lloyd_step`, and adds its noise to the sums and counts.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_columns)
        One row per user. An entry absent from a sparse matrix is a zero.
    n_clusters : int
        Number of centers. There may be more than distinct rows; some clusters are then empty.
    init : "k-means++" or array of shape (n_clusters, n_columns)
        Draw starting centers from the rows, or start from these.
    max_iter : int
        Most moves of the centers.
    tol : float
        Stop when a move lowers the inertia by no more than this fraction of it. With 0, stop when nothing changes.
    n_init : int
        Runs with different starts; the one of smallest inertia is returned.
    weights : array of shape (n_rows,), optional
        Weight of each row; 1 by default.
    dtype : float32 or float64, optional
        Type of the arithmetic on entries; sums and counts are always float64. By default that of `X`, float32 for
        integers it holds exactly, float64 for others.
    threads : int, optional
        Threads to use, all processors by default. The result does not depend on it.
    rng : numpy.random.Generator or int, optional
        Source of the starts; pass a seed to repeat a run bit for bit.

    Returns
    -------
    KMeansResult
        The best run.

    Notes
    -----
    Empty clusters: at each move, empty clusters in order of their number go to the rows farthest from their own
    centers (positive weight and distance; ties: the lower row), one row each. An empty cluster for which no such row
    is left stays where it is. Inertia never rises.

    Examples
    --------
    >>> found = kmeans([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 8.0]], 2, rng=0)
    >>> found.labels[0] == found.labels[1] != found.labels[2] == found.labels[3]
    np.True_
    >>> found.inertia
    1.0
    """
    _check_parameters(n_clusters, max_iter, tol, n_init)
    rows, exponent = _in_range(as_rows(X, dtype))
    row_weights = as_weights(weights, rows.shape[0])
    generator = np.random.default_rng(rng)
    starts = _given_starts(init, n_clusters, rows, exponent, n_init)
    best: KMeansResult | None = None
    with Workers(threads) as workers:
        for _ in range(n_init):
            start = plus_plus(rows, row_weights, n_clusters, generator) if starts is None else starts
            run = _run(rows, row_weights, start, max_iter, tol, workers)
            best = run if best is None or run.inertia < best.inertia else best
    assert best is not None
    return _scaled_back(best, rows.dtype, exponent)


def lloyd_step(
    X: Any,
    centers: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
    threads: int | None = None,
) -> LloydStep:
    """Label each row with its nearest center and add the rows up per label.

    Privacy
    -------
    None by itself. Adding or removing one row of weight 1 changes one line of `sums` by that row and one entry of
    `counts` by 1: the sensitivities a mechanism scales its noise to.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_columns)
        The rows; no row at all is fine and gives zeros. C-ordered float arrays and CSR matrices are used in place.
    centers : array of shape (n_clusters, n_columns)
        Compared after rounding to the type of the arithmetic.
    weights, dtype, threads
        As in `kmeans`.

    Returns
    -------
    LloydStep
        Named tuple of `labels` (ties: the lower number), `sums` and `counts` (weighted, float64) and `inertia`.

    Examples
    --------
    >>> labels, sums, counts, inertia = lloyd_step([[1.0], [2.0], [8.0]], [[0.0], [9.0]])
    >>> labels.tolist(), sums.tolist(), counts.tolist(), inertia
    ([0, 0, 1], [[3.0], [8.0]], [2.0, 1.0], 6.0)
    """
    rows = as_rows(X, dtype)
    with Workers(threads) as workers:
        return step(rows, as_weights(weights, rows.shape[0]), as_centers(centers, rows.shape[1]), workers)


def assign(
    X: Any, centers: ArrayLike, *, dtype: DTypeLike | None = None, threads: int | None = None
) -> NDArray[np.int32]:
    """Return the number of the nearest center of each row; ties go to the lower number.

    Parameters
    ----------
    X, centers, dtype, threads
        As in `lloyd_step`.

    Examples
    --------
    >>> assign([[1.0], [2.0], [8.0]], [[0.0], [9.0]]).tolist()
    [0, 0, 1]
    """
    rows = as_rows(X, dtype)
    require_finite(rows)
    with Workers(threads) as workers:
        return nearest(rows, as_centers(centers, rows.shape[1]), workers)


def _run(rows: Rows, weights: Doubles, centers: Doubles, max_iter: int, tol: float, workers: Workers) -> KMeansResult:
    bounds = Bounds(rows.shape[0]) if Bounds.pay_off(rows, len(centers)) else None
    now = step(rows, weights, centers, workers, bounds)
    n_iter = 0
    while n_iter < max_iter:
        moved = _moved(rows, weights, centers, now)
        after = step(rows, weights, moved, workers, bounds)
        if not after.inertia < now.inertia:  # at a fixed point, up to rounding
            break
        helped, now, centers = now.inertia - after.inertia, after, moved
        n_iter += 1
        if helped <= tol * after.inertia:
            break
    return KMeansResult(centers=centers, labels=now.labels, inertia=now.inertia, n_iter=n_iter)


def _moved(rows: Rows, weights: Doubles, centers: Doubles, now: LloydStep) -> Doubles:
    """Means of the clusters; empty ones go where `kmeans` says."""
    empty = np.flatnonzero(now.counts <= 0)
    counts = np.where(now.counts > 0, now.counts, 1.0)
    moved = np.where(now.counts[:, None] > 0, now.sums / counts[:, None], centers)
    if empty.size:
        distances = squared_distances(rows, centers, now.labels) * (weights > 0)
        far = np.argsort(-distances, kind="stable")[: empty.size]
        far = far[distances[far] > 0]
        moved[empty[: far.size]] = rows.take(far)
    return moved


def _check_parameters(n_clusters: int, max_iter: int, tol: float, n_init: int) -> None:
    for name, value in (("n_clusters", n_clusters), ("max_iter", max_iter), ("n_init", n_init)):
        whole_number(name, value)
    non_negative_number("tol", tol)


def _given_starts(init: Any, n_clusters: int, rows: Rows, exponent: int, n_init: int) -> Doubles | None:
    if isinstance(init, str):
        if init != "k-means++":
            raise BadParameter(
                "{parameter} is unknown.",
                found=repr(init),
                expected='"k-means++" or an array of centers',
                parameter="init",
            )
        if rows.shape[0] == 0:
            raise BadShape(
                "there are no rows to draw starting centers from.",
                fix="init=an array of public starting centers",
                parameter="rows",
            )
        return None
    if n_init != 1:
        raise BadParameter("given centers allow one run.", found=f"{n_init}", fix=Set("n_init", 1), parameter="n_init")
    starts = as_centers(init, rows.shape[1])
    if len(starts) != n_clusters:
        raise BadShape(
            "{parameter} has the wrong number of centers.",
            found=str(len(starts)),
            expected=str(n_clusters),
            parameter="init",
        )
    return np.ldexp(starts, -exponent)


def _in_range(rows: Rows) -> tuple[Rows, int]:
    """Check the values; divide numbers so huge or tiny that their squares leave the type by a power of two."""
    require_finite(rows)
    largest = max(float(rows.values.max(initial=0)), -float(rows.values.min(initial=0)))
    exponent = int(np.frexp(largest)[1])
    if abs(exponent) <= np.finfo(rows.dtype).maxexp // 4:
        return rows, 0
    return replace(rows, values=np.ldexp(rows.values, -exponent)), exponent


def _scaled_back(run: KMeansResult, dtype: np.dtype[Any], exponent: int) -> KMeansResult:
    with np.errstate(over="ignore", under="ignore"):  # an inertia beyond float64 is infinite, or zero
        centers = np.ldexp(run.centers, exponent).astype(dtype)
        return replace(run, centers=centers, inertia=float(np.ldexp(run.inertia, 2 * exponent)))


def plus_plus(rows: Rows, weights: Doubles, n_clusters: int, rng: np.random.Generator) -> Doubles:
    """Draw rows as centers, each with probability proportional to weight times squared distance so far.

    Of ``2 + log(n_clusters)`` draws per center the one that lowers the sum of squares most is kept (Arthur and
    Vassilvitskii 2007, section 6). Once every row sits on a center, further centers repeat rows.
    """
    n_tries = 2 + int(math.log(n_clusters))
    geometry = _Distances(rows)
    chosen = [_draw(weights, 1, rng)[0]]
    closest = geometry.to(np.array(chosen))[0]
    while len(chosen) < n_clusters:
        tries = _draw(weights * closest, n_tries, rng)
        candidates = np.minimum(geometry.to(tries), closest)
        best = int(np.argmin(candidates @ weights))
        chosen.append(tries[best])
        closest = candidates[best]
    return rows.take(np.array(chosen, dtype=np.intp))


class _Distances:
    """Squared distances of all rows to some of them; rows are measured from their mean when dense."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._matrix = rows.matrix.toarray() if _well_filled(rows) else rows.matrix
        # Sparse rows hold zeros, so they cannot all be far from zero and need no common offset.
        self._offset = np.zeros(rows.shape[1]) if rows.sparse else rows.values.mean(axis=0, dtype=np.float64)
        self._squares = squared_distances(rows, self._offset[None, :], np.zeros(rows.shape[0], np.int32))

    def to(self, chosen: NDArray[np.intp]) -> Doubles:
        """Return one line of distances per chosen row; exactly 0 from a row to itself."""
        centers = self._rows.take(chosen) - self._offset
        with one_blas_thread():
            products = (self._matrix @ centers.T.astype(self._rows.dtype)).T.astype(np.float64)
        products -= (centers @ self._offset)[:, None]
        distances: Doubles = self._squares - 2.0 * products + self._squares[chosen][:, None]
        np.maximum(distances, 0.0, out=distances)
        distances[np.arange(chosen.size), chosen] = 0.0
        return distances


def _well_filled(rows: Rows) -> bool:
    """Whether a dense copy of sparse rows is small and so full that its products take less time."""
    cells = rows.shape[0] * rows.shape[1]
    return rows.sparse and cells <= _DENSE_CELLS and rows.values.size >= _FILLED * cells


def _draw(mass: Doubles, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw positions with probability proportional to `mass`; evenly where there is no mass left."""
    climbing = np.cumsum(mass)
    if not climbing[-1] > 0:
        return rng.integers(mass.size, size=size).astype(np.intp)
    positions = np.searchsorted(climbing, rng.random(size) * climbing[-1], side="right")
    last: int = np.flatnonzero(mass)[-1]  # rounding may carry a draw past the end
    drawn: NDArray[np.intp] = np.minimum(positions, last)
    return drawn
