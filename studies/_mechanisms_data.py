"""The audit's Gaussian mixtures, their public bounds, and the judge of a set of centres."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twofold.algorithms.kmeans import kmeans
from twofold.release import ReleaseParameters

__all__ = ["Case", "loss", "make_case"]

Floats = NDArray[np.float64]
_NORM = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One mixture with the loss of the best centres known."""

    rows: Floats
    n_clusters: int
    best: float
    judge: str
    seed: int

    @property
    def name(self) -> str:
        """Shape in words."""
        return f"n={self.rows.shape[0]:,} m={self.rows.shape[1]} k={self.n_clusters}"

    @property
    def one_mean(self) -> float:
        """Ratio of publishing the exact mean of everybody."""
        return loss(self.rows, self.rows.mean(axis=0, keepdims=True)) / self.best

    def public(self, epsilon: str, delta: str) -> ReleaseParameters:
        """Bounds from the recipe of the data: norm 10, noise of norm about 1, hence hardly ever above 10.5."""
        users, items = self.rows.shape
        return ReleaseParameters(
            n_items=items,
            n_users=users,
            max_items=items,
            bound=_NORM,
            lower=-_NORM,
            l2_cap=1.05 * _NORM,
            n_prototypes=self.n_clusters,
            epsilon=epsilon,
            delta=delta,
            seed=self.seed,
        )


def make_case(n_users: int, n_items: int, n_clusters: int, seed: int) -> Case:
    """Draw a mixture: centres of norm 10 in random directions, noise of norm about 1.

    Examples
    --------
    >>> case = make_case(200, 20, 3, 0)
    >>> case.rows.shape, 0.8 < case.best / 200 < 1.2
    ((200, 20), True)
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_clusters, n_items))
    centres *= _NORM / np.linalg.norm(centres, axis=1, keepdims=True)
    noise = rng.normal(size=(n_users, n_items)) / np.sqrt(n_items)
    rows = centres[rng.integers(n_clusters, size=n_users)] + noise
    best, judge = _best(rows, n_clusters)
    return Case(rows=rows, n_clusters=n_clusters, best=best, judge=judge, seed=seed)


def loss(rows: Floats, centres: Floats) -> float:
    """Sum of squared distances to the nearest centre.

    Examples
    --------
    >>> loss(np.array([[0.0], [3.0]]), np.array([[1.0]]))
    5.0
    """
    squares = (rows**2).sum(axis=1)[:, None] - 2 * rows @ centres.T + (centres**2).sum(axis=1)
    return float(np.maximum(squares.min(axis=1), 0.0).sum())


def _best(rows: Floats, n_clusters: int) -> tuple[float, str]:
    if importlib.util.find_spec("sklearn") is None:
        return kmeans(rows, n_clusters, n_init=10, rng=0).inertia, "twofold kmeans (scikit-learn not installed)"
    KMeans = importlib.import_module("sklearn.cluster").KMeans
    return float(KMeans(n_clusters, n_init=10, random_state=0).fit(rows).inertia_), "scikit-learn KMeans"
