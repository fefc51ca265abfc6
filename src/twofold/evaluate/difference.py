"""Difference of two systems measured on the same users, with paired intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from twofold.errors import BadParameter
from twofold.evaluate._bootstrap import with_interval
from twofold.evaluate._groups import Seed, groups
from twofold.evaluate.measured import Measured

__all__ = ["difference"]

SCHEMA = {
    "scope": pl.String,
    "name": pl.String,
    "metric": pl.String,
    "n": pl.Int64,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "one": pl.Float64,
    "other": pl.Float64,
}


def difference(
    one: Measured | Mapping[Any, Measured],
    other: Measured | Mapping[Any, Measured],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    rng: Seed = None,
) -> pl.DataFrame:
    """Every metric of one system minus that of another.

    Both systems see the same drawn users, so what makes users easy or hard for both cancels out: the intervals are
    much narrower than a look at two single intervals suggests. A difference is clear if its interval leaves out 0.

    Parameters
    ----------
    one, other : Measured, or mapping of entity name to Measured
        Two systems, measured with the same held-out entries.
    level : float, default 0.95
        Confidence level of the intervals.
    resamples : int, default 1000
        Bootstrap resamples; 0 leaves the intervals empty.
    rng : int, Generator, SeedSequence or None
        Seed (SPEC 7); None draws a fresh one.

    Returns
    -------
    polars.DataFrame
        As `summarize`, with `value` the difference, and the two systems' own values in `one` and `other`.

    Examples
    --------
    >>> def hits(*values):
    ...     lists = np.zeros((len(values), 1), dtype=int)
    ...     return Measured(totals={"hit": np.array(values)}, weights={"hit": np.ones(3)}, lists=lists, n_items=2)
    >>> table = difference(hits(1.0, 1.0, 0.0), hits(1.0, 0.0, 0.0), rng=0)
    >>> table.filter(metric="hit").select("one", "other", "value").row(0)
    (0.666..., 0.333..., 0.333...)
    """
    _check_same_users(one, other)
    seed = int(np.random.default_rng(rng).integers(2**63))
    pairs = zip(*(groups(each, level=level, resamples=resamples, rng=seed) for each in (one, other)), strict=True)
    rows = []
    for first, second in pairs:
        theirs = second.values()
        for metric, values in first.values().items():
            own = {"one": values[0], "other": theirs[metric][0]}
            shown = {name: None if np.isnan(value) else float(value) for name, value in own.items()}
            rows.append(first.labels(metric) | with_interval(values - theirs[metric], level) | shown)
    return pl.DataFrame(rows, schema=SCHEMA)


def _check_same_users(one: Measured | Mapping[Any, Measured], other: Measured | Mapping[Any, Measured]) -> None:
    first, second = (each if isinstance(each, Mapping) else {None: each} for each in (one, other))
    if list(first) != list(second) or not all(_alike(first[name], second[name]) for name in first):
        raise BadParameter(
            "the two systems were not measured on the same users.",
            expected="the same entities in the same order, held-out entries, metrics and n",
        )


def _alike(one: Measured, other: Measured) -> bool:
    if (one.metrics, one.lists.shape, one.n_items) != (other.metrics, other.lists.shape, other.n_items):
        return False
    return all(np.array_equal(one.weights[name], other.weights[name]) for name in one.weights)
