"""From noisy sums of products to a covariance, its leading directions, and ridge predictions. All post-processing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from studies.systems.base import Feedback, Score
from twofold.algorithms.fold_in import FoldIn
from twofold.csr import with_data

__all__ = ["Covariance", "Directions", "covariance_score", "leading"]

Floats = NDArray[Any]
_PAIR_DAMPING = 0.5  # weight of pairs with no surprise; a pair rated by one person of 100 ratings weighs 1/100
_LEAST = 1e-3  # residual variance never below this share of the mean variance


@dataclass(frozen=True, kw_only=True, eq=False)
class Covariance:
    """A noisy symmetric matrix and the largest eigenvalue that its noise alone could have."""

    matrix: Floats
    edge: float

    @classmethod
    def of_counts(cls, products: Floats, deviation: float, means: Floats, users: float) -> Covariance:
        """Σ x xᵀ/n less the product of the means.

        Examples
        --------
        >>> rows = np.array([[2.0, 0.0], [0.0, 2.0]])
        >>> Covariance.of_counts(rows.T @ rows, 0.0, rows.mean(axis=0), 2.0).matrix.tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
        """
        edge = 2 * deviation / users * np.sqrt(len(products))  # norm of a symmetric matrix of independent noise
        return cls(matrix=products / users - np.outer(means, means), edge=float(edge))

    @classmethod
    def of_ratings(cls, products: Floats, pairs: Floats, deviations: tuple[float, float]) -> Covariance:
        """Sum of products over weight of pairs, drawn to zero where few or only noise speaks."""
        weight = np.maximum(pairs, 0.0)
        share = weight / np.maximum(weight**2 + deviations[1] ** 2 + _PAIR_DAMPING * weight, 1e-300)
        spread = np.sqrt(((deviations[0] * share) ** 2).sum(axis=1).max(initial=0.0))
        return cls(matrix=products * share, edge=float(2 * spread))


@dataclass(frozen=True, kw_only=True, eq=False)
class Directions:
    """Leading eigenvectors, each times the root of its variance, and the variance that is left per item."""

    vectors: Floats
    rest: float


def leading(covariance: Covariance, rank: int) -> Directions:
    """Keep at most `rank` eigenvalues above the noise edge, and take off them what the noise has added.

    Examples
    --------
    >>> found = leading(Covariance(matrix=np.diag([9.0, 1.0, 0.5]), edge=2.0), 2)
    >>> np.abs(found.vectors).round(3).ravel()
    array([2.962, 0.   , 0.   ], dtype=float32)
    """
    size = len(covariance.matrix)
    span = (max(0, size - rank), size - 1)
    values, vectors = linalg.eigh(covariance.matrix, subset_by_index=span)
    above = values > max(covariance.edge, 0.0)
    clean = np.sqrt(values[above] ** 2 - covariance.edge**2)
    total = max(float(np.trace(covariance.matrix)), 0.0)
    rest = max((total - clean.sum()) / size, _LEAST * max(total, 1e-12) / size)
    return Directions(vectors=(vectors[:, above] * np.sqrt(clean)).astype(np.float32), rest=float(rest))


def covariance_score(
    means: Floats, kept: NDArray[np.intp], found: Directions, *, feedback: Feedback, damping: float
) -> Score:
    """Predict means plus what a person's own residuals say, by ridge regression on the directions.

    Parameters
    ----------
    means : array (items,)
        Of all items.
    kept : int array
        Columns that the directions are about.
    found : Directions
        What was learned.
    feedback, damping
        For ratings only observed items speak, and a person has a damped offset.

    Examples
    --------
    >>> found = Directions(vectors=np.ones((2, 1), np.float32), rest=1e-9)
    >>> score = covariance_score(np.zeros(3), np.array([0, 2]), found, feedback="ratings", damping=1e9)
    >>> score(sparse.csr_array(np.array([[4.0, 0.0, 0.0]]))).round(3).tolist()
    [[4.0, 0.0, 4.0]]
    """
    base = np.asarray(means, dtype=np.float64)
    if feedback == "counts":
        return lambda rows: _of_counts(rows, base, kept, found)
    ready = None
    if found.vectors.shape[1]:
        ready = FoldIn(
            found.vectors, feedback="ratings", regularization=found.rest, count_scaling=0.0, nonnegative=False
        )
    return lambda rows: _of_ratings(rows, base, kept, found, ready, damping)


def _of_counts(rows: sparse.csr_array, means: Floats, kept: NDArray[np.intp], found: Directions) -> Floats:
    """Means plus E d/(d + rest) Eᵀ of the centred row, written with factors F = E√d."""
    scores = np.tile(means, (rows.shape[0], 1))
    F = found.vectors.astype(np.float64)
    centred = np.asarray(rows[:, kept] @ F) - means[kept] @ F
    scores[:, kept] += centred @ np.diag(1 / ((F**2).sum(axis=0) + found.rest)) @ F.T
    return scores


def _of_ratings(
    rows: sparse.csr_array,
    means: Floats,
    kept: NDArray[np.intp],
    found: Directions,
    ready: FoldIn | None,
    damping: float,
) -> Floats:
    lengths = np.diff(rows.indptr)
    owners = np.repeat(np.arange(lengths.size), lengths)
    above = rows.data.astype(np.float64) - means[rows.indices]
    offsets = np.bincount(owners, weights=above, minlength=lengths.size) / (lengths + damping)
    scores = means + offsets[:, None]
    if ready is None or not rows.shape[0]:
        return np.asarray(scores)
    own = sparse.csr_array(with_data(rows, (above - offsets[owners]).astype(np.float32))[:, kept])
    scores[:, kept] += ready.rows(own) @ found.vectors.T
    return np.asarray(scores)
