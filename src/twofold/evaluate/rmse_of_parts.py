"""Root mean square errors from sums of squares: pooled, and the paper's mean over entities."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from twofold.errors import BadShape

__all__ = ["rmse_per_entity_mean", "rmse_pooled"]

Floats = npt.NDArray[np.float64]


def rmse_pooled(squares: npt.ArrayLike, entries: npt.ArrayLike) -> float | Floats:
    r"""Root of the mean squared error over all test entries: $\sqrt{\sum_h S_h / \sum_h N_h}$.

    Parameters
    ----------
    squares : array of shape (..., n_parts)
        Sum of squared errors of each entity, or user, or any other part.
    entries : array of shape (..., n_parts)
        Number of test entries in each part.

    Returns
    -------
    float or array of shape (...)
        NaN where there is no entry.

    Examples
    --------
    >>> round(rmse_pooled([8.0, 0.0], [2, 2]), 4)
    1.4142
    """
    S, N = _parts(squares, entries)
    return _plain(np.sqrt(_ratio(S.sum(axis=-1), N.sum(axis=-1))))


def rmse_per_entity_mean(squares: npt.ArrayLike, entries: npt.ArrayLike) -> float | Floats:
    r"""Mean of the entities' own RMSEs, weighted by test entries: $\sum_h N_h \sqrt{S_h / N_h} / \sum_h N_h$.

    Paper
    -----
    How the recorded experiments averaged local and federated models, while the centralised one was pooled. Never
    above `rmse_pooled` on the same errors (Jensen), so the two may not be compared with each other.

    Deviations
    ----------
    The recorded code drops an entity without a result from the sum and keeps it in the denominator; here it leaves
    both.

    Parameters
    ----------
    squares : array of shape (..., n_entities)
        Sum of squared errors of each entity.
    entries : array of shape (..., n_entities)
        Number of test entries of each entity.

    Returns
    -------
    float or array of shape (...)
        NaN where there is no entry.

    Examples
    --------
    >>> rmse_per_entity_mean([8.0, 0.0], [2, 2])
    1.0
    """
    S, N = _parts(squares, entries)
    weighted = np.sqrt(S * N)  # N sqrt(S / N), without a division by zero
    return _plain(_ratio(weighted.sum(axis=-1), N.sum(axis=-1)))


def _parts(squares: npt.ArrayLike, entries: npt.ArrayLike) -> tuple[Floats, Floats]:
    S, N = np.asarray(squares, dtype=np.float64), np.asarray(entries, dtype=np.float64)
    if S.shape != N.shape or S.ndim < 1:
        raise BadShape("squares and entries do not fit.", found=f"{S.ndim} and {N.ndim} dimensions")
    return S, N


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0))


def _plain(numbers: Floats) -> float | Floats:
    return float(numbers) if numbers.ndim == 0 else numbers
