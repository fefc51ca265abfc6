r"""Bounds on the error of shared second moments and of what they reconstruct, from public numbers.

Let n people have rows of norm at most 1 over m items, :math:`M = \frac1n \sum x x^T`, and let the pairs be released as
:math:`\tilde M = M + E/n`. Off its diagonal, E has independent Gaussian entries of deviation σ; on it, at most √2 times
as much (99/70 for counts). Then, with probability at least 1 - β,

.. math:: \|\tilde M - M\| \le \frac{2\sigma}{n}(\sqrt m + \sqrt{\ln(2/\beta)}).

Let R(V) be the mean squared length that r directions V leave of a row, and V̂ the first r eigenvectors of M̃. No r
directions leave less than the first r of M do, and

.. math:: R(\hat V) - R(V) \le 2 r \|\tilde M - M\|.

docs/explanation/error_bounds.md has the proofs, and what is measured beside them.
"""

from __future__ import annotations

import math

__all__ = ["moments_bound", "reconstruction_bound"]

#: Chance that a stated bound is exceeded.
FAILURE = 0.05


def moments_bound(edge: float, *, n_items: int, failure: float = FAILURE) -> float:
    """Spectral norm that the error of the second moments, per person, exceeds with a small chance only.

    Parameters
    ----------
    edge : float
        2σ√m/n: `share` of `twofold.release.usefulness.Usefulness` for a gram.
    n_items : int
        Length of the catalog.
    failure : float
        The chance.

    Examples
    --------
    >>> round(moments_bound(0.01, n_items=457), 5)
    0.0109
    """
    return edge * (1 + math.sqrt(math.log(2 / failure) / n_items))


def reconstruction_bound(edge: float, rank: int, *, n_items: int, failure: float = FAILURE) -> float:
    """Part of the squared length of rows that noise costs at most, with shared directions of some rank.

    From 1 on it says nothing: no directions leave more than the whole length.

    Parameters
    ----------
    edge, n_items, failure
        As for `moments_bound`.
    rank : int
        Number of shared directions.

    Examples
    --------
    >>> [round(reconstruction_bound(0.0007, rank, n_items=457), 4) for rank in (1, 10, 50)]
    [0.0015, 0.0153, 0.0763]
    """
    return 2 * rank * moments_bound(edge, n_items=n_items, failure=failure)
