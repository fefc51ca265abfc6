"""Summary: per-user measures to a tidy table, per entity, by quarter of entity size, and overall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from twofold.evaluate._bootstrap import with_interval
from twofold.evaluate._groups import Seed, groups
from twofold.evaluate.measured import Measured

__all__ = ["summarize"]

SCHEMA = {
    "scope": pl.String,
    "name": pl.String,
    "metric": pl.String,
    "n": pl.Int64,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "users": pl.Int64,
    "entities": pl.Int64,
}


def summarize(
    measured: Measured | Mapping[Any, Measured],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    rng: Seed = None,
) -> pl.DataFrame:
    """Average per-user measures, with percentile intervals from a bootstrap over users.

    Users are drawn with replacement within their entity, the same draws for all metrics; entities are not drawn, so
    intervals speak of other users of these entities, not of other entities.

    Privacy
    -------
    For simulations and for one entity's own eyes: numbers of single entities are not protected by any noise.

    Parameters
    ----------
    measured : Measured, or mapping of entity name to Measured
        What `measure` returned.
    level : float, default 0.95
        Confidence level of the intervals.
    resamples : int, default 1000
        Bootstrap resamples; 0 leaves the intervals empty.
    rng : int, Generator, SeedSequence or None
        Seed (SPEC 7); None draws a fresh one.

    Returns
    -------
    polars.DataFrame
        One row per scope ("all", "quarter", "entity"), name and metric: columns scope, name, metric, n (length of the
        lists, null if the metric has none), value, low, high, users and entities with something held out. RMSE comes
        as rmse_pooled everywhere and as rmse_per_entity_mean where a scope joins entities. Quarters have entities of
        rising size; quarter 1 holds the smallest. Coverage has no interval: a resample always covers less.

    Examples
    --------
    >>> import numpy as np
    >>> measured = Measured(
    ...     totals={"hit": np.array([1.0, 0.0])}, weights={"hit": np.ones(2)}, lists=np.array([[0], [1]]), n_items=4
    ... )
    >>> summarize(measured, rng=0).select("metric", "n", "value", "low", "high").rows()
    [('hit', 1, 0.5, 0.0, 1.0), ('coverage', 1, 0.5, None, None)]
    """
    rows = [
        group.labels(metric)
        | with_interval(values, level)
        | {"users": group.part.users, "entities": group.part.entities}
        for group in groups(measured, level=level, resamples=resamples, rng=rng)
        for metric, values in group.values().items()
    ]
    return pl.DataFrame(rows, schema=SCHEMA)
