"""Numbers known to be positive, seen in noise."""

from __future__ import annotations

import numpy as np
from scipy import special

from twofold.prototypes.message import Floats

__all__ = ["positive_means"]


def positive_means(values: Floats, noise: float) -> Floats:
    r"""Posterior means of positive numbers under an exponential prior with the mean of all of them.

    Parameters
    ----------
    values : array
        Each true number plus normal noise.
    noise : float
        Standard deviation of the noise; 0 gives the values back, negative ones as 0.

    Notes
    -----
    Few items are common and many are rare, as under an exponential law. With mean μ the posterior of one number is a
    normal one around :math:`y - \sigma^2/\mu`, cut off below 0; its mean is positive whatever y is. μ is the mean of
    all values, not less than its own noise: empirical Bayes.

    Examples
    --------
    >>> positive_means(np.array([2.0, -1.0]), 0.0).tolist()
    [2.0, 0.0]
    >>> positive_means(np.array([9.0, 0.5, -1.0]), 1.0).round(2).tolist()
    [8.65, 0.85, 0.46]
    """
    if noise == 0 or not values.size:
        return np.maximum(values, 0.0)
    usual = max(float(values.mean()), noise / np.sqrt(values.size))
    centre = values - noise**2 / usual
    z = centre / noise
    # φ(z)/Φ(z), in logarithms: both vanish far below 0. There the sum itself cancels, and its limit is used instead.
    hazard = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - special.log_ndtr(z))
    return np.asarray(np.where(z < -50, noise / np.maximum(-z, 50.0), centre + noise * hazard))
