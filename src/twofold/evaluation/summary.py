"""Tidy tables of per-user measures: one system, or the difference of two measured on the same users.

Rows are all users, quarters of the entities by size, and single entities. Intervals come from a bootstrap over users:
groups of entities are sums of entities, and so are their replicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from twofold.algorithms._checks import whole_number
from twofold.errors import BadParameter, EmptyTable
from twofold.evaluation.measure import COVERAGE, LIST_METRICS, Measured, finish
from twofold.evaluation.rmse import covered_items

__all__ = ["Group", "Scope", "Seed", "difference", "groups", "quarters", "resampled_sums", "summarize", "with_interval"]

Floats = npt.NDArray[np.float64]
Seed = int | np.random.Generator | np.random.SeedSequence | None
BLOCK_DRAWS = 1 << 20  # drawn users held at once
_LABELS = {"scope": pl.String, "name": pl.String, "metric": pl.String, "n": pl.Int64}
_INTERVAL = {"value": pl.Float64, "low": pl.Float64, "high": pl.Float64}
SUMMARY = {**_LABELS, **_INTERVAL, "users": pl.Int64, "entities": pl.Int64}
DIFFERENCE = {**_LABELS, **_INTERVAL, "one": pl.Float64, "other": pl.Float64}


def summarize(
    measured: Measured | Mapping[Any, Measured],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    rng: Seed = None,
) -> pl.DataFrame:
    """Average per-user measures, with percentile intervals from a bootstrap over users.

    Users are drawn with replacement within their entity, the same draws for all metrics; entities are not drawn, so
    intervals are about other users of these entities, not about other entities.

    Privacy
    -------
    For simulations and for one entity's own use: numbers of single entities are not protected by any noise.

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
    return pl.DataFrame(rows, schema=SUMMARY)


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
    level, resamples, rng
        As for `summarize`.

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
    return pl.DataFrame(rows, schema=DIFFERENCE)


def _check_same_users(one: Measured | Mapping[Any, Measured], other: Measured | Mapping[Any, Measured]) -> None:
    first, second = (each if isinstance(each, Mapping) else {None: each} for each in (one, other))
    if list(first) != list(second) or not all(_same_users(first[name], second[name]) for name in first):
        raise BadParameter(
            "the two systems were not measured on the same users.",
            expected="the same entities in the same order, held-out entries, metrics and n",
            parameter="other",
        )


def _same_users(one: Measured, other: Measured) -> bool:
    if (one.metrics, one.lists.shape, one.n_items) != (other.metrics, other.lists.shape, other.n_items):
        return False
    return all(np.array_equal(one.weights[name], other.weights[name]) for name in one.weights)


def resampled_sums(
    columns: Floats, resamples: int, rng: np.random.Generator, *, block_draws: int = BLOCK_DRAWS
) -> Floats:
    """Column sums of `resamples` tables of the same length, each made of lines drawn with replacement.

    Parameters
    ----------
    columns : array of shape (n_users, n_columns)
        One line per user.
    resamples : int
        Number of tables.
    rng : Generator
        Source of the draws; the result does not depend on `block_draws`.
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

    None if the interval is unknown: no replicates, or one that is undefined.

    Examples
    --------
    >>> with_interval(np.arange(101.0)[[40, *range(101)]], 0.5)
    {'value': 40.0, 'low': 25.0, 'high': 75.0}
    """
    tail = (1 - level) / 2
    low, high = np.quantile(values[1:], [tail, 1 - tail]) if values.size > 1 else (np.nan, np.nan)
    numbers = {"value": float(values[0]), "low": float(low), "high": float(high)}
    return {name: None if np.isnan(number) else number for name, number in numbers.items()}


@dataclass(frozen=True, kw_only=True)
class Group:
    """A scope with its name, and how its users were measured."""

    scope: str
    name: str
    part: Scope
    metrics: tuple[str, ...]
    n: int
    several: bool

    def labels(self, metric: str) -> dict[str, Any]:
        """The labels of a row of a table."""
        length = self.n if metric in (*LIST_METRICS, COVERAGE) else None
        return {"scope": self.scope, "name": self.name, "metric": metric, "n": length}

    def values(self) -> dict[str, Floats]:
        """Of each metric the truth and then its replicates."""
        return self.part.values(self.metrics, several=self.several and self.scope != "entity")


def groups(measured: Measured | Mapping[Any, Measured], *, level: float, resamples: int, rng: Seed) -> Iterator[Group]:
    """All users, quarters of the entities and single entities, each with its replicates."""
    _check(level, resamples)
    several = isinstance(measured, Mapping)
    entities = measured if isinstance(measured, Mapping) else {"all": measured}
    first = _measured_alike(entities)
    generators = np.random.default_rng(rng).spawn(len(entities))
    scopes = {
        name: Scope.of_entity(one, resamples, generator)
        for (name, one), generator in zip(entities.items(), generators, strict=True)
    }
    quarter = quarters({name: one.n_users for name, one in entities.items()})
    for scope, name, part in _parts(scopes, quarter) if several else [("all", "all", scopes["all"])]:
        yield Group(scope=scope, name=name, part=part, metrics=first.metrics, n=first.n, several=several)


def quarters(sizes: Mapping[Any, int]) -> dict[Any, int]:
    """Number of the quarter, 1 to 4, of each entity by rising size; equal sizes keep their order.

    Quarters hold the same number of entities; if four does not divide it, the first ones hold one more.

    Examples
    --------
    >>> quarters({"north": 50, "south": 5, "east": 900, "west": 20, "centre": 70})
    {'south': 1, 'west': 1, 'north': 2, 'centre': 3, 'east': 4}
    """
    ordered = sorted(sizes, key=lambda name: sizes[name])
    parts = np.array_split(np.arange(len(ordered)), 4)
    return {ordered[place]: number for number, part in enumerate(parts, start=1) for place in part}


def _parts(scopes: Mapping[Any, Scope], quarter: Mapping[Any, int]) -> Iterator[tuple[str, str, Scope]]:
    yield "all", "all", reduce(add, scopes.values())
    for number in sorted(set(quarter.values())):
        yield "quarter", str(number), reduce(add, (scopes[name] for name in scopes if quarter[name] == number))
    for name, scope in scopes.items():
        yield "entity", str(name), scope


def _measured_alike(entities: Mapping[Any, Measured]) -> Measured:
    """Give one of the entities, if all were measured in the same way."""
    if not entities:
        raise EmptyTable("nothing was measured.", expected="at least one entity", parameter="measured")
    if len({(one.metrics, one.n, one.n_items) for one in entities.values()}) > 1:
        raise BadParameter(
            "the entities were measured differently.",
            expected="equal metrics, n and number of items",
            parameter="measured",
        )
    return next(iter(entities.values()))


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise BadParameter(
            "{parameter} is out of range.", found=repr(level), expected="0 < level < 1", parameter="level"
        )
    whole_number("resamples", resamples, least=0)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Everything a row of the summary needs; the first line of each array is the truth, the others are replicates.

    Attributes
    ----------
    names : tuple of str
        Metrics that have totals and weights.
    totals, weights : array of shape (1 + resamples, n_metrics)
        Sums over users.
    rooted : array of shape (1 + resamples,)
        Over entities, the sum of test entries times RMSE; for the mean over entities.
    covered : bool array of shape (n_items,)
        Items in any list.
    users, entities : int
        Users with something held out, and entities with such users.
    """

    names: tuple[str, ...]
    totals: Floats
    weights: Floats
    rooted: Floats
    covered: npt.NDArray[np.bool_]
    users: int
    entities: int

    @classmethod
    def of_entity(cls, measured: Measured, resamples: int, rng: np.random.Generator) -> Scope:
        """One entity, its users drawn again `resamples` times."""
        names = tuple(measured.totals)
        totals, weights = _table(measured.totals, measured), _table(measured.weights, measured)
        counted = (weights > 0).any(axis=1) | (measured.lists >= 0).any(axis=1)
        columns = np.hstack([totals[counted], weights[counted]])
        sums = np.vstack([columns.sum(axis=0), resampled_sums(columns, resamples, rng)])
        totals, weights = sums[:, : len(names)], sums[:, len(names) :]
        return cls(
            names=names,
            totals=totals,
            weights=weights,
            rooted=_entries_times_rmse(names, totals, weights),
            covered=covered_items(measured.lists, measured.n_items),
            users=int(counted.sum()),
            entities=int(counted.any()),
        )

    def __add__(self, other: Scope) -> Scope:
        """Both groups together; users are drawn within their entities, so replicates add up too."""
        return Scope(
            names=self.names,
            totals=self.totals + other.totals,
            weights=self.weights + other.weights,
            rooted=self.rooted + other.rooted,
            covered=self.covered | other.covered,
            users=self.users + other.users,
            entities=self.entities + other.entities,
        )

    def values(self, metrics: tuple[str, ...], *, several: bool) -> dict[str, Floats]:
        """Of each metric the truth and then its replicates; RMSE by its two names if there may be several entities."""
        found = {"rmse_pooled" if name == "rmse" else name: self._values(name) for name in metrics}
        if several and "rmse" in self.names:
            weights = self.weights[:, self.names.index("rmse")]
            found["rmse_per_entity_mean"] = finish("mean", self.rooted, weights)
        return found

    def _values(self, name: str) -> Floats:
        if name == COVERAGE:  # a resample repeats users, so its coverage is always too small: no replicates
            return np.array([self.covered.mean()])
        column = self.names.index(name)
        return finish(name, self.totals[:, column], self.weights[:, column])


def _table(columns: Mapping[str, Floats], measured: Measured) -> Floats:
    """One line per user, one column per metric; no column if coverage alone was measured."""
    return np.column_stack(list(columns.values())) if columns else np.empty((measured.n_users, 0))


def _entries_times_rmse(names: tuple[str, ...], totals: Floats, weights: Floats) -> Floats:
    if "rmse" not in names:
        return np.zeros(len(totals))
    column = names.index("rmse")
    return np.sqrt(totals[:, column] * weights[:, column])  # N sqrt(S / N), without a division by zero
