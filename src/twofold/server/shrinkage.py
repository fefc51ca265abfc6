"""What a penalty at the noise edge does to factors: some are dead, the others too small by a known amount."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twofold.prototypes.message import Floats

__all__ = ["above_noise", "unshrunk"]

# Of the edge. Alternating solves bring a dead factor down by a factor in every step, never to zero itself.
_DEAD = 0.01


def above_noise(V: Floats, gram: Floats, edge: float) -> NDArray[np.int64]:
    """Numbers of the factors that hold more than a hundredth of the noise edge.

    Parameters
    ----------
    V : array (items, rank)
        Item factors of the scaled rows.
    gram : array (rank, rank)
        UᵀU of the scaled rows.
    edge : float
        See `twofold.server.scaling.noise_edge`.

    Examples
    --------
    >>> above_noise(np.array([[1.0, 0.1]]), np.diag([4.0, 0.01]), edge=10.0)
    array([0])
    """
    strength = np.sqrt(np.diag(gram) * (V**2).sum(axis=0))
    return np.flatnonzero(strength > _DEAD * edge)


def unshrunk(V: Floats, gram: Floats, moments: Floats, edge: float) -> Floats:
    r"""Give the patterns in `moments` the size they have without the penalty of the noise edge.

    Parameters
    ----------
    V, gram, edge
        As for `above_noise`.
    moments : array (rank, rank)
        Mean of u uᵀ.

    Notes
    -----
    The penalty takes the edge τ off each singular value s of the rows and leaves p = s - τ. The best guess of what was
    there before the noise is :math:`\sqrt{s^2 - \tau^2} = \sqrt{p(p + 2\tau)}` (Gavish and Donoho 2017, for square
    matrices; other shapes differ little): almost nothing at the edge, almost s far above it. The p are the singular
    values of UVᵀ. Without noise nothing changes.

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> unshrunk(3 * one, one, one, edge=0.0), unshrunk(3 * one, one, one, edge=1.5)
    (array([[1.]]), array([[2.]]))
    """
    if edge == 0 or not len(gram):
        return moments
    R: Floats = np.asarray(np.linalg.qr(V, mode="r"))
    squares, axes = np.linalg.eigh(R @ gram @ R.T)
    sizes = np.sqrt(np.maximum(squares, 0.0))
    known = sizes > 1e-9 * sizes.max(initial=0.0)
    gain = np.sqrt(1 + 2 * edge / np.where(known, sizes, np.inf))
    change = np.linalg.pinv(R) @ (axes * gain) @ axes.T @ R
    return np.asarray(change @ moments @ change.T)
