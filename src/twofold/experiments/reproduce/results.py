"""Results of a figure: a tidy table, and the questions that verdicts ask of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from twofold.experiments.reproduce.cell import Cell
from twofold.experiments.reproduce.figures import Figure

__all__ = ["SCHEMA", "Order", "Point", "Results", "compare", "tidy"]

SCHEMA: Final = {
    "experiment": pl.String,
    "data": pl.String,
    "line": pl.String,
    "system": pl.String,
    "options": pl.String,
    "x": pl.Float64,
    "seed": pl.Int64,
    "metric": pl.String,
    "group": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "seconds": pl.Float64,
    "versions": pl.String,
}
#: What an average over entities is made of.
_OF_ENTITIES: Final = {"rmse_per_entity_mean": "rmse_pooled"}
Order = Literal["lower", "alike", "higher", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Point:
    """A mean over seeds, how far seeds lie apart, and how unsure the mean is.

    Attributes
    ----------
    mean, spread : float
        Mean and standard deviation over seeds; the spread of one seed is not a number.
    error : float
        Standard error of the mean; with one seed that of a bootstrap over users, where there is one.
    seeds : int
        How many.
    """

    mean: float
    spread: float = math.nan
    error: float = math.nan
    seeds: int = 1

    def __str__(self) -> str:
        digits = 3 if abs(self.mean) < 100 else 0
        tail = f" ± {self.spread:.{digits}f}" if math.isfinite(self.spread) else ""
        return f"{self.mean:.{digits}f}{tail}" if math.isfinite(self.mean) else "–"


def compare(one: Point, other: Point, *, within: float = 0.0) -> Order:
    """Whether a number is lower than another: by more than two standard errors, and by more than a share of it.

    Parameters
    ----------
    one, other : Point
        Means over the same seeds.
    within : float
        Differences up to this share of the other number count as alike.

    Examples
    --------
    >>> compare(Point(mean=1.0), Point(mean=1.1)), compare(Point(mean=1.0), Point(mean=1.01), within=0.02)
    ('lower', 'alike')
    """
    gap = one.mean - other.mean
    if not math.isfinite(gap):
        return "unknown"
    error = math.hypot(*(point.error if math.isfinite(point.error) else 0.0 for point in (one, other)))
    if abs(gap) <= max(2 * error, within * abs(other.mean)):
        return "alike"
    return "lower" if gap < 0 else "higher"


@dataclass(frozen=True, kw_only=True)
class Results:
    """The tidy table of a figure, with what it is a figure of.

    Parameters
    ----------
    figure : Figure
        What was asked for.
    size : str
        Of the run.
    frame : polars.DataFrame
        Columns of `SCHEMA`, one row per line, x, seed, metric and group.
    notes : mapping
        Line to a sentence that its systems said, or to why it could not run.
    """

    figure: Figure
    size: str
    frame: pl.DataFrame = field(repr=False)
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def x(self) -> tuple[float, ...]:
        """The x values."""
        return self.figure.values(self.size)

    @property
    def seeds(self) -> int:
        """How many seeds were run."""
        return int(self.frame["seed"].n_unique())

    @property
    def data(self) -> str:
        """The data sets in words."""
        return "; ".join(self.frame["data"].unique().sort().to_list())

    def at(self, line: str, x: float, metric: str, *, group: str = "all") -> Point:
        """One number with its spread; not a number where it was not measured."""
        found = self.frame.filter(line=line, x=float(x), metric=metric, group=group)
        values = found["value"].to_numpy()
        if not values.size:
            return Point(mean=math.nan, seeds=0)
        if values.size > 1:
            spread = float(values.std(ddof=1))
            return Point(
                mean=float(values.mean()), spread=spread, error=spread / math.sqrt(values.size), seeds=values.size
            )
        half = (found["high"] - found["low"]).fill_null(math.nan).to_numpy()[0] / 2
        return Point(mean=float(values[0]), error=float(half) / 1.96)

    def over(self, line: str, metric: str) -> list[Point]:
        """A whole line."""
        return [self.at(line, x, metric) for x in self.x]

    def mean(self, line: str, metric: str) -> Point:
        """The mean of a whole line, for statements about all of it."""
        points = [point for point in self.over(line, metric) if math.isfinite(point.mean)]
        if not points:
            return Point(mean=math.nan, seeds=0)
        errors = np.array([point.error for point in points])
        return Point(
            mean=float(np.mean([point.mean for point in points])),
            error=float(np.sqrt(np.nansum(errors**2)) / len(points)) if np.isfinite(errors).any() else math.nan,
            seeds=points[0].seeds,
        )

    def order(self, one: str, other: str, x: float, metric: str, *, within: float = 0.0) -> Order:
        """How two lines compare at one x, seed by seed on the same data; with one seed, entity by entity.

        Parameters
        ----------
        one, other : str
            Names of lines.
        x : float
            Where.
        metric : str
            Which number.
        within : float
            As for `compare`.
        """
        first, second = self.at(one, x, metric), self.at(other, x, metric)
        gaps = self._gaps(one, other, x, metric, ["seed"], "all")
        if gaps.size < 2:
            gaps = self._gaps(one, other, x, _OF_ENTITIES.get(metric, metric), ["seed", "group"], "entity ")
        if gaps.size < 2:
            return compare(first, second, within=within)
        error = float(gaps.std(ddof=1)) / math.sqrt(gaps.size)
        return compare(replace(first, error=error), replace(second, error=0.0), within=within)

    def _gaps(
        self, one: str, other: str, x: float, metric: str, keys: list[str], group: str
    ) -> npt.NDArray[np.float64]:
        """One line less another, pair by pair."""
        frame = self.frame.filter(
            (pl.col("x") == x) & (pl.col("metric") == metric) & pl.col("group").str.starts_with(group)
        )
        mine, theirs = (frame.filter(line=name).select(*keys, "value") for name in (one, other))
        pairs = mine.join(theirs, on=keys, suffix="_other")
        return np.asarray((pairs["value"] - pairs["value_other"]).to_numpy(), dtype=np.float64)

    def orders(self, one: str, other: str, metric: str, *, within: float = 0.0) -> list[Order]:
        """How two lines compare at every x."""
        return [self.order(one, other, x, metric, within=within) for x in self.x]


def tidy(
    figure: Figure, size: str, found: Mapping[str, dict[str, Any]], *, seeds: int | None = None
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Put what the cells gave into one table.

    Parameters
    ----------
    figure, size, seeds
        What was asked for.
    found : mapping
        Key of a cell to what it gave; cells that are missing leave gaps.
    """
    rows: list[tuple[Any, ...]] = []
    notes: dict[str, str] = {}
    for line in figure.lines:
        for x, cell in figure.points(line, size, seeds=seeds):
            one = found.get(cell.key)
            if one is None:
                notes.setdefault(line.name, "not run: the library is not installed")
                continue
            if one.get("note"):
                notes.setdefault(line.name, one["note"])
            rows += _of_cell(figure, line.name, x, cell, one)
    return pl.DataFrame(rows, schema=SCHEMA, orient="row"), notes


def _of_cell(figure: Figure, line: str, x: float, cell: Cell, one: dict[str, Any]) -> list[tuple[Any, ...]]:
    data = ", ".join(f"{value}" if name == "source" else f"{name}={value}" for name, value in cell.data.items())
    head = (figure.name, data, line, cell.system, json.dumps(dict(cell.options), sort_keys=True), float(x), cell.seed)
    tail = (one["seconds"], json.dumps(one["versions"], sort_keys=True))
    rows = [(*head, metric, group, value, low, high, *tail) for metric, group, value, low, high in one["rows"]]
    return [*rows, (*head, "seconds_to_fit", "all", one["seconds_to_fit"], None, None, *tail)]
