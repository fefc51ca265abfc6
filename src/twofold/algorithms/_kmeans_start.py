"""Starting centers drawn from the rows: k-means++ with a few tries per center."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms._blas_threads import one_blas_thread
from twofold.algorithms._kmeans_rows import Rows

__all__ = ["plus_plus"]

Doubles = NDArray[np.float64]


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
        # Sparse rows hold zeros, so they cannot all lie far from zero and need no common offset.
        self._offset = np.zeros(rows.shape[1]) if rows.sparse else rows.values.mean(axis=0, dtype=np.float64)
        self._squares = self._squared_norms()

    def to(self, chosen: NDArray[np.intp]) -> Doubles:
        """Return one line of distances per chosen row; exactly 0 from a row to itself."""
        centers = self._rows.take(chosen) - self._offset
        with one_blas_thread():
            products = (self._rows.matrix @ centers.T.astype(self._rows.dtype)).T.astype(np.float64)
        products -= (centers @ self._offset)[:, None]
        distances: Doubles = self._squares - 2.0 * products + self._squares[chosen][:, None]
        np.maximum(distances, 0.0, out=distances)
        distances[np.arange(chosen.size), chosen] = 0.0
        return distances

    def _squared_norms(self) -> Doubles:
        n_rows = self._rows.shape[0]
        result = np.empty(n_rows)
        size = max(1, (1 << 20) // max(1, self._rows.shape[1]))
        for start in range(0, n_rows, size):
            span = np.arange(start, min(n_rows, start + size))
            result[span] = ((self._rows.take(span) - self._offset) ** 2).sum(axis=1)
        return result


def _draw(mass: Doubles, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw positions with probability proportional to `mass`; evenly where there is no mass left."""
    climbing = np.cumsum(mass)
    if not climbing[-1] > 0:
        return rng.integers(mass.size, size=size).astype(np.intp)
    positions = np.searchsorted(climbing, rng.random(size) * climbing[-1], side="right")
    last: int = np.flatnonzero(mass)[-1]  # rounding may carry a draw past the end
    drawn: NDArray[np.intp] = np.minimum(positions, last)
    return drawn
