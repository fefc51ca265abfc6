"""Goodness of fit against a law written from its definition."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import pairwise

import numpy as np
import pytest


def p_value(sample: Iterable[Hashable], law: Mapping[Hashable, float], *, least: float = 8.0) -> float:
    """Chi-squared p-value of a sample or its Counter; outcomes hardly expected, or not in the law, are one class."""
    from scipy.stats import chi2

    if isinstance(sample, Counter):
        seen = sample
    else:
        seen = Counter(sample.tolist() if isinstance(sample, np.ndarray) else sample)
    size = sum(seen.values())
    large = {outcome: p for outcome, p in law.items() if p * size >= least}
    observed = [seen.get(outcome, 0) for outcome in large]
    expected = [p * size for p in large.values()]
    rest_observed, rest_expected = size - sum(observed), size - sum(expected)
    if rest_expected > least:
        observed.append(rest_observed)
        expected.append(rest_expected)
    elif rest_observed > 6 * least:
        return 0.0  # far too many outcomes that should hardly happen
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    return float(chi2.sf(statistic, len(observed) - 1))


@pytest.fixture
def fit() -> Callable[..., float]:
    return p_value


def binned(
    cdf: Callable[[float], float], scale: float, *, bins: int = 60, reach: float = 6.0
) -> tuple[np.ndarray, dict]:
    """Edges and law of the bin numbers of an integer variable: bin i is (edges[i-1], edges[i]]."""
    edges = np.unique(np.round(np.linspace(-reach * scale, reach * scale, bins)).astype(np.int64))
    below = [0.0, *(cdf(float(edge)) for edge in edges), 1.0]
    return edges, {index: high - low for index, (low, high) in enumerate(pairwise(below))}


@pytest.fixture
def in_bins() -> Callable[..., tuple[np.ndarray, dict]]:
    return binned


def laplace_cdf(scale: float) -> Callable[[float], float]:
    """Cdf of the discrete Laplace law, from its definition."""
    ratio = math.exp(-1 / scale)

    def cdf(k: float) -> float:
        if k < 0:
            return math.exp(k / scale) / (1 + ratio)
        return 1 - math.exp(-(k + 1) / scale) / (1 + ratio)

    return cdf


def gaussian_cdf(sigma: float) -> Callable[[float], float]:
    """Cdf of the discrete Gaussian law: sums for small σ; for large σ the normal one at k + 1/2.

    Poisson summation: the discrete law differs from the continuous one by about exp(-2π²σ²), and the midpoint
    rule by 1/(24σ²), far below what a sample of this size can see for σ >= 100.
    """
    if sigma >= 100:
        return lambda k: 0.5 * math.erfc(-(k + 0.5) / (sigma * math.sqrt(2)))
    reach = int(12 * sigma) + 2
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    running = np.cumsum(weights) / weights.sum()
    return lambda k: float(running[int(np.clip(k + reach, 0, 2 * reach))])


@pytest.fixture
def cdfs() -> dict[str, Callable[[float], Callable[[float], float]]]:
    return {"laplace": laplace_cdf, "gaussian": gaussian_cdf}
