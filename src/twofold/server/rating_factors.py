"""Non-negative item factors that say the same as means and signed patterns: the form the paper asks for."""

from __future__ import annotations

import math

import numpy as np

from twofold.prototypes.message import Floats
from twofold.server.canonical import canonical

__all__ = ["non_negative_factors"]


def non_negative_factors(means: Floats, loadings: Floats, rank: int) -> tuple[Floats, Floats]:
    """Factors of at least 0 and moments with ``V moments Vᵀ = means meansᵀ + loadings loadingsᵀ``.

    A user who differs from the mean by c along a pattern p (c of variance 1) is a non-negative mixture: of the means,
    and of a multiple of the means plus or minus p that is nowhere negative. Patterns beyond the rank are left out.

    Parameters
    ----------
    means : array (items,)
        Above 0.
    loadings : array (items, patterns)
        Strongest first.
    rank : int
        Most factors; two for each pattern and one for the means.

    Examples
    --------
    >>> V, moments = non_negative_factors(np.array([3.0, 4.0]), np.array([[1.0], [-1.0]]), 3)
    >>> bool((V >= 0).all()), (V @ moments @ V.T).round(6).tolist()
    (True, [[10.0, 11.0], [11.0, 17.0]])
    """
    kept = loadings[:, : max(0, (rank - 1) // 2)]
    kept = kept[:, np.abs(kept).max(axis=0, initial=0.0) > 0]
    multiples = (np.abs(kept) / means[:, None]).max(axis=0, initial=0.0)
    shifted = means[:, None] * multiples
    # Rounding alone could leave an entry below 0.
    factors = np.maximum(np.hstack([means[:, None], shifted + kept, shifted - kept]), 0.0)
    change = np.eye(factors.shape[1])
    change[0, 1:] = -np.tile(multiples, 2)
    return canonical(factors, change @ _half_moments(kept.shape[1]) @ change.T)


def _half_moments(patterns: int) -> Floats:
    """Second moments of 1 and of the positive and negative parts of independent standard normal numbers."""
    first = np.concatenate([[1.0], np.full(2 * patterns, 1 / math.sqrt(2 * math.pi))])
    second = np.outer(first, first)
    for at in range(patterns):
        one, other = 1 + at, 1 + patterns + at
        second[one, one] = second[other, other] = 0.5
        second[one, other] = second[other, one] = 0.0
    return np.asarray(second)
