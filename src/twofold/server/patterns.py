"""Common patterns of all users from noisy second moments: directions, sizes, and how many rose above the noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.prototypes.message import Floats
from twofold.server.denoise import shrink_sketch, shrink_symmetric

__all__ = ["Patterns", "feature_basis", "sketch_patterns", "symmetric_patterns"]

#: Of the largest: what a direction without noise may have by rounding alone.
_ROUNDING = 1e-12
#: Of the largest: directions of a sketch that its public map hardly sees are not solved for.
_BLIND = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class Patterns:
    """Orthonormal directions, the strongest first, and their sizes.

    Attributes
    ----------
    axes : array (items, patterns)
        Directions; the largest entry of each is positive.
    sizes : array (patterns,)
        Above 0: ``axes @ diag(sizes) @ axes.T`` is the denoised matrix, positive semi-definite.
    risen : int
        How many rose above the noise by themselves.
    helped : int
        How many more did among mixtures of public features.
    """

    axes: Floats = field(repr=False)
    sizes: Floats = field(repr=False)
    risen: int
    helped: int = 0

    def strongest(self, most: int) -> Patterns:
        """Keep the strongest ones, at most so many."""
        return replace(self, axes=self.axes[:, :most], sizes=self.sizes[:most])

    @property
    def diagonal(self) -> Floats:
        """What they explain of each item's mean square."""
        return np.asarray((self.axes**2) @ self.sizes)


def symmetric_patterns(pairs: Floats, noise: float, *, basis: Floats | None = None) -> Patterns:
    """Denoise a symmetric matrix of second moments.

    Parameters
    ----------
    pairs : array (items, items)
        Noisy totals of x xᵀ.
    noise : float
        Standard deviation of a number off the diagonal.
    basis : array (items, features), optional
        Orthonormal mixtures of public features (`feature_basis`). What the whole matrix could not show is looked for
        among these: noise reaches only as far there as for so few items.

    Returns
    -------
    Patterns
        Negative directions are noise: second moments have none.

    Examples
    --------
    >>> found = symmetric_patterns(np.diag([4.0, 9.0, 0.0]), 0.0)
    >>> found.sizes.tolist(), found.axes.T.tolist(), found.risen
    ([9.0, 4.0], [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], 2)
    """
    axes, sizes = _shrunk(pairs, noise)
    if basis is None or not basis.shape[1]:
        return _patterns(axes, sizes, risen=sizes.size)
    inner, more = _shrunk(basis.T @ (pairs - (axes * sizes) @ axes.T) @ basis, noise)
    if not more.size or noise == 0:
        return _patterns(axes, sizes, risen=sizes.size)
    found = _orthonormal(np.hstack([axes * np.sqrt(sizes), (basis @ inner) * np.sqrt(more)]))
    return _patterns(*found, risen=sizes.size, helped=more.size)


def sketch_patterns(pairs: Floats, noise: float, mapping: NDArray[Any], *, length: float) -> Patterns:
    """Denoise a sketch and read the second moments off it.

    Parameters
    ----------
    pairs : array (items, columns)
        Noisy totals of x sᵀ, s = xᵀM brought to norm 1.
    noise : float
        Standard deviation of a number.
    mapping : array (items, columns)
        M, public.
    length : float
        Mean norm of xᵀM: what s was divided by.

    Notes
    -----
    With N the mean of x xᵀ over the norm of xᵀM, the sketch is N M. Its left directions Q are those of N, and
    ``S = QᵀNQ`` solves ``S (QᵀM) = QᵀNM``. Directions that the map hardly sees are left at zero.

    Examples
    --------
    >>> found = sketch_patterns(np.diag([4.0, 9.0, 0.0])[:, :2], 0.0, np.eye(3)[:, :2], length=2.0)
    >>> found.sizes.round(9).tolist()
    [18.0, 8.0]
    """
    left, values, right = np.linalg.svd(pairs, full_matrices=False)
    sizes = shrink_sketch(values, noise, *pairs.shape) * (values > _ROUNDING * values.max(initial=0.0))
    kept = sizes > 0
    Q = left[:, kept]
    if not kept.any():
        return _patterns(Q, sizes[kept], risen=0)
    square = length * (sizes[kept, None] * right[kept]) @ np.linalg.pinv(Q.T @ mapping, rcond=_BLIND)
    inner, amounts = _shrunk((square + square.T) / 2, 0.0)
    return _patterns(Q @ inner, amounts, risen=int(kept.sum()))


def feature_basis(use: Floats, features: NDArray[Any]) -> Floats:
    """Mixtures of items that public features name, each item by the root of its use; orthonormal.

    The use should come from elsewhere than the matrix that is to be denoised, so that both noises are independent.

    Examples
    --------
    >>> feature_basis(np.array([1.0, 4.0, 0.0]), np.array([[1], [1], [1]])).round(3).ravel().tolist()
    [0.447, 0.894, 0.0]
    """
    left, values, _ = np.linalg.svd(np.sqrt(np.maximum(use, 0.0))[:, None] * features, full_matrices=False)
    return _upright(left[:, values > 1e-9 * values.max(initial=0.0)])


def _shrunk(matrix: Floats, noise: float) -> tuple[Floats, Floats]:
    values, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    sizes = shrink_symmetric(values, noise, len(matrix)) * (values > _ROUNDING * np.abs(values).max(initial=0.0))
    return axes[:, sizes > 0], sizes[sizes > 0]


def _orthonormal(columns: Floats) -> tuple[Floats, Floats]:
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    kept = values > 1e-9 * values.max(initial=0.0)
    return left[:, kept], values[kept] ** 2


def _patterns(axes: Floats, sizes: Floats, *, risen: int, helped: int = 0) -> Patterns:
    order = np.argsort(-sizes, kind="stable")
    return Patterns(axes=_upright(axes[:, order]), sizes=sizes[order], risen=risen, helped=helped)


def _upright(axes: Floats) -> Floats:
    """Turn every direction so that its largest entry is positive: equal input gives equal signs."""
    if not axes.size:
        return axes
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.asarray(axes * np.where(largest < 0, -1.0, 1.0) + 0.0)
