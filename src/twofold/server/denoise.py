r"""Known noise, unknown signal: which directions of a noisy matrix are real, and how large they were.

The noise of a release has a published size, so nothing has to be guessed. A symmetric m x m matrix of noise with
standard deviation σ off its diagonal has its largest eigenvalue near :math:`2\sigma\sqrt m`, an m x k matrix its
largest singular value near :math:`\sigma(\sqrt m + \sqrt k)`: the *edge*. A direction counts if it is above the
edge by more than noise alone does in one draw of a hundred (`keep_symmetric`, `keep_sketch`).

A direction of true size ℓ above the edge is seen too large and turned away from itself, both by known amounts. The size
with the smallest expected squared error is (optimal shrinkage for the Frobenius norm)

.. math:: \eta(y) = \sqrt{y^2 - 4 m \sigma^2} \quad\text{and}\quad
          \eta(y) = \sqrt{(y^2 - (m + k)\sigma^2)^2 - 4 m k \sigma^4}\,/\,y .

Sources: Gavish and Donoho, Optimal shrinkage of singular values, 2017; Benaych-Georges and Nadakuditi 2011 for the
symmetric case; Johnstone 2001 and Tracy and Widom 1996 for how far the largest value strays from the edge.

Factors and directions that are the same up to scale, order or sign get one form, so that equal input gives equal bytes
(`canonical`, `upright`).

Privacy
-------
Post-processing: released numbers and the published size of their noise.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from twofold.release.content import Floats

__all__ = [
    "canonical",
    "keep_sketch",
    "keep_symmetric",
    "shrink_sketch",
    "shrink_symmetric",
    "symmetric_edge",
    "upright",
]

#: In one draw of a hundred, the largest value of pure noise exceeds the edge by this many of its scales
#: (0.99 quantile of the Tracy-Widom law of real matrices).
RARE: Final = 2.02


def symmetric_edge(noise: float, items: int) -> float:
    """Largest eigenvalue of symmetric noise.

    Parameters
    ----------
    noise : float
        Standard deviation of an entry off the diagonal; one on it may have up to twice the variance.
    items : int
        Rows.

    Examples
    --------
    >>> symmetric_edge(0.5, 100)
    10.0
    """
    return 2 * noise * math.sqrt(items)


def keep_symmetric(noise: float, items: int) -> float:
    """Eigenvalue that pure noise exceeds in about one draw of a hundred.

    Examples
    --------
    >>> round(keep_symmetric(0.5, 100) / symmetric_edge(0.5, 100), 3)
    1.047
    """
    return symmetric_edge(noise, items) * (1 + RARE / (2 * math.pow(items, 2 / 3)))


def shrink_symmetric(values: Floats, noise: float, items: int) -> Floats:
    """Sizes with the least squared error for eigenvalues seen in symmetric noise; 0 for what may be noise.

    Examples
    --------
    >>> shrink_symmetric(np.array([-9.0, 3.0, 5.0]), 0.2, 100)
    array([0., 0., 3.])
    """
    edge = symmetric_edge(noise, items)
    return np.asarray(np.sqrt(np.maximum(values**2 - edge**2, 0.0)) * (values > keep_symmetric(noise, items)))


def keep_sketch(noise: float, items: int, columns: int) -> float:
    """Singular value that pure noise exceeds in about one draw of a hundred.

    Examples
    --------
    >>> edge = 0.5 * (math.sqrt(100) + math.sqrt(25))
    >>> round(keep_sketch(0.5, 100, 25) / edge, 3)
    1.044
    """
    roots = math.sqrt(items) + math.sqrt(columns)
    scale = roots * (1 / math.sqrt(items) + 1 / math.sqrt(columns)) ** (1 / 3)
    return noise * math.sqrt(roots**2 + RARE * scale)


def shrink_sketch(values: Floats, noise: float, items: int, columns: int) -> Floats:
    """Sizes with the least squared error for singular values seen in rectangular noise; 0 for what may be noise.

    Examples
    --------
    >>> shrink_sketch(np.array([1.0, 20.0]), 0.0, 100, 25), shrink_sketch(np.array([7.7, 20.0]), 0.5, 100, 25).round(1)
    (array([ 1., 20.]), array([ 0. , 18.4]))
    """
    sizes, variance = np.maximum(values, 0.0), noise**2
    inside = (sizes**2 - (items + columns) * variance) ** 2 - 4 * items * columns * variance**2
    shrunk = np.sqrt(np.maximum(inside, 0.0)) / np.where(sizes > 0, sizes, 1.0)
    return np.asarray(shrunk * (sizes > keep_sketch(noise, items, columns)))


def canonical(V: Floats, moments: Floats) -> tuple[Floats, Floats]:
    """Balance every factor between items and users, drop dead ones, and put the strongest first.

    Parameters
    ----------
    V : array (items, rank)
        Item factors, at least 0.
    moments : array (rank, rank)
        Mean of u uᵀ.

    Returns
    -------
    V, moments : arrays
        ``V @ moments @ V.T`` is as before. The mean square of a factor over items is that over users, which is where
        a penalty of the same strength on both sides puts it. At least one column, of zeros when nothing is alive.

    Examples
    --------
    >>> V, moments = canonical(np.array([[0.0, 8.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> V.ravel(), moments
    (array([4., 0.]), array([[8.]]))
    """
    of_items, of_users = (V**2).mean(axis=0), np.diag(moments)
    strength = of_items * of_users
    alive = np.flatnonzero(strength > 1e-24 * strength.max(initial=0.0))
    if not alive.size:
        return np.zeros((len(V), 1)), np.zeros((1, 1))
    # Ties in strength go to the factor whose largest item comes first.
    order = alive[np.lexsort((V[:, alive].argmax(axis=0), -strength[alive]))]
    factor = (of_users[order] / of_items[order]) ** 0.25
    return V[:, order] * factor, moments[np.ix_(order, order)] / np.outer(factor, factor)


def upright(axes: Floats) -> Floats:
    """Turn every direction so that its largest entry is positive.

    Examples
    --------
    >>> upright(np.array([[1.0], [-2.0]])).ravel()
    array([-1.,  2.])
    """
    if not axes.size:
        return axes
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.asarray(axes * np.where(largest < 0, -1.0, 1.0))
