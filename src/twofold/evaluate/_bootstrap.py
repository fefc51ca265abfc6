"""Sums over users drawn again and again with replacement, in blocks of bounded memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["resampled_sums", "with_interval"]

Floats = npt.NDArray[np.float64]
BLOCK_DRAWS = 1 << 20  # drawn users held at once


def resampled_sums(
    columns: Floats, resamples: int, rng: np.random.Generator, *, block_draws: int = BLOCK_DRAWS
) -> Floats:
    """Column sums of `resamples` tables of the same length, each made of lines drawn with replacement.

    Parameters
    ----------
    columns : array of shape (n_users, n_columns)
        One line per user.
    resamples : int
        How many tables.
    rng : Generator
        Where the draws come from; the result does not depend on `block_draws`.
    block_draws : int
        Draws held at once.

    Returns
    -------
    array of shape (resamples, n_columns)

    Examples
    --------
    >>> resampled_sums(np.array([[1.0, 2.0]]), 2, np.random.default_rng(0)).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    n_users = len(columns)
    sums = np.zeros((resamples, columns.shape[1]))
    step = max(1, block_draws // max(n_users, 1))
    for start in range(0, resamples if n_users else 0, step):
        tables = min(step, resamples - start)
        drawn = rng.integers(n_users, size=(tables, n_users)) + np.arange(tables)[:, None] * n_users
        # How often each user was drawn turns the sums into one matrix product for all metrics.
        times = np.bincount(drawn.ravel(), minlength=tables * n_users).reshape(tables, n_users)
        sums[start : start + tables] = times.astype(np.float64) @ columns
    return sums


def with_interval(values: Floats, level: float) -> dict[str, float | None]:
    """The first value, and the percentile interval of the others, which are its replicates.

    None stands for what is not known: no replicates, or one that says nothing.

    Examples
    --------
    >>> with_interval(np.arange(101.0)[[40, *range(101)]], 0.5)
    {'value': 40.0, 'low': 25.0, 'high': 75.0}
    """
    tail = (1 - level) / 2
    low, high = np.quantile(values[1:], [tail, 1 - tail]) if values.size > 1 else (np.nan, np.nan)
    numbers = {"value": float(values[0]), "low": float(low), "high": float(high)}
    return {name: None if np.isnan(number) else number for name, number in numbers.items()}
