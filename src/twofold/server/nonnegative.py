"""Non-negative item factors of a denoised matrix of second moments: the paper's V, as post-processing."""

from __future__ import annotations

from typing import Final

import numpy as np

from twofold.prototypes.message import Floats
from twofold.server.canonical import canonical

__all__ = ["nonnegative_factors"]

_ROUNDS: Final = 300
# Exponent of the multiplicative step for a symmetric product; a whole step would swing.
_STEP: Final = 0.25


def nonnegative_factors(axes: Floats, sizes: Floats, rank: int) -> tuple[Floats, Floats]:
    """Find V at least 0 and moments with ``V @ moments @ V.T`` near a positive semi-definite matrix.

    Parameters
    ----------
    axes, sizes : arrays (items, patterns) and (patterns,)
        The matrix: ``axes @ diag(sizes) @ axes.T``.
    rank : int
        Most factors.

    Returns
    -------
    V, moments : arrays (items, factors) and (factors, factors)
        In the form of `twofold.server.canonical`; one factor of zeros when there are no patterns.

    Notes
    -----
    Symmetric non-negative factorization W Wᵀ by multiplicative steps from the positive and negative halves of the
    strongest patterns, without any chance; then the moments that fit the matrix best with these factors, by least
    squares, which takes up what a product W Wᵀ cannot say.

    Examples
    --------
    >>> V, moments = nonnegative_factors(np.eye(3)[:, :2], np.array([4.0, 1.0]), 2)
    >>> np.abs(V @ moments @ V.T).round(3).tolist()
    [[4.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    items = len(axes)
    if not sizes.size:
        return np.zeros((items, 1)), np.zeros((1, 1))
    W = _start(axes, sizes, rank)
    for _ in range(_ROUNDS):
        wanted = np.maximum((axes * sizes) @ (axes.T @ W), 0.0)
        W = W * (wanted / np.maximum(W @ (W.T @ W), 1e-300)) ** _STEP
    W = W[:, (W**2).sum(axis=0) > 0]
    if not W.size:
        return np.zeros((items, 1)), np.zeros((1, 1))
    solved = np.linalg.pinv(W, rcond=1e-9) @ axes
    moments = (solved * sizes) @ solved.T
    return canonical(W, (moments + moments.T) / 2)


def _start(axes: Floats, sizes: Floats, rank: int) -> Floats:
    """Halves of the patterns, the largest first; a little of the usual item so that nothing is stuck at zero."""
    halves = np.hstack([np.maximum(axes, 0.0), np.maximum(-axes, 0.0)]) * np.sqrt(np.tile(sizes, 2))
    amount = (halves**2).sum(axis=0)
    # The other half of a pattern of one sign is rounding.
    order = [at for at in np.argsort(-amount, kind="stable") if amount[at] > 1e-6 * amount.max()][:rank]
    usual = np.sqrt((axes**2) @ sizes)
    return np.asarray(halves[:, order] + 1e-3 * usual[:, None])
