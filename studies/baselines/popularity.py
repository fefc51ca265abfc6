"""Popularity: own, pooled, and own with the others' under differential privacy."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import optimize, sparse, special

from studies.baselines.base import (
    Baseline,
    Floats,
    Options,
    Score,
    Setting,
    Site,
    read_values,
    spread,
)
from twofold.csr import with_data

__all__ = ["POPULARITY", "multiplier", "noise_source", "unit_rows"]


def _values(setting: Setting) -> list[Options]:
    return [{"values": one} for one in setting.values]


def _constant(weights: Floats) -> Score:
    return lambda rows: np.broadcast_to(weights, (rows.shape[0], weights.size))


def _sums(rows: sparse.csr_array, values: str) -> Floats:
    return np.asarray(np.bincount(rows.indices, read_values(rows, values).data, rows.shape[1]), np.float64)


def _own(site: Site, options: Options) -> Score:
    return _constant(_sums(site.rows, options["values"]))


def _pooled(site: Site, options: Options) -> Score:
    everyone = site.everyone
    return _constant(everyone.once(options["values"], lambda: _sums(everyone.pooled, options["values"])))


def _private(site: Site, options: Options) -> Score:
    """Own unit rows, and α times the shape of the others', whose sum came with noise; the own part is taken out."""
    everyone, setting = site.everyone, site.setting

    def released() -> Floats:
        noise = noise_source(setting, "popularity").normal(0, multiplier(setting.epsilon, setting.delta), n_items)
        return np.asarray(unit_rows(everyone.pooled).sum(axis=0)).ravel() + noise

    n_items = site.rows.shape[1]
    own = np.asarray(unit_rows(site.rows).sum(axis=0)).ravel()
    others = np.maximum(everyone.once("sums", released) - own, 0.0)
    return _constant(own + options["alpha"] * others / max(float(others.sum()), 1e-12))


def unit_rows(rows: sparse.csr_array) -> sparse.csr_array:
    """Roots of the values, each row brought to length one: what bounds a person's part of a sum.

    Examples
    --------
    >>> unit_rows(sparse.csr_array(np.array([[9.0, 16.0], [0.0, 0.0]]))).toarray()
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    read = read_values(rows, "root")
    lengths = np.sqrt(
        np.bincount(np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), read.data**2, rows.shape[0])
    )
    return with_data(read, read.data / np.repeat(lengths, np.diff(rows.indptr)))


def multiplier(epsilon: float, delta: float) -> float:
    """Standard deviation of Gaussian noise for sensitivity one (Balle and Wang, 2018, theorem 8).

    Examples
    --------
    >>> round(multiplier(1.0, 1e-5), 2)
    3.73
    """

    def excess(sd: float) -> float:
        inner, outer = 0.5 / sd - epsilon * sd, -0.5 / sd - epsilon * sd
        return float(special.ndtr(inner) - np.exp(epsilon + special.log_ndtr(outer)) - delta)

    return float(optimize.brentq(excess, 1e-3, 1e6, xtol=1e-9))


def noise_source(setting: Setting, name: str) -> np.random.Generator:
    """Seeded noise: a measurement, not a release."""
    return np.random.default_rng([setting.seed, *name.encode()])


def _shares(setting: Setting) -> list[Options]:  # noqa: ARG001
    return [{"alpha": one} for one in spread(1, 10_000, 12)]


#: Popularity in every scope.
POPULARITY: Final = (
    Baseline(name="own popularity", scope="alone", fit=_own, trials=_values),
    Baseline(name="pooled popularity", scope="pooled", fit=_pooled, trials=_values),
    Baseline(name="shared popularity, private", scope="shared", fit=_private, trials=_shares),
)
