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
from scipy import stats

from studies.paper.figures import Figure
from studies.store import Cell

__all__ = ["SCHEMA", "TINY", "Order", "Point", "Results", "compare", "tidy"]

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
#: Differences below this share of a number count as none, however sure they are.
TINY: Final = 0.002
#: With fewer seeds entities are compared, where there are any: two seeds say next to nothing of their spread.
_ENOUGH_SEEDS: Final = 3
#: What an average over entities is made of.
_OF_ENTITIES: Final = {"rmse_per_entity_mean": "rmse_pooled"}
Order = Literal["lower", "alike", "higher", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Point:
    """A mean over seeds, the spread of the seeds, and the uncertainty of the mean.

    Attributes
    ----------
    mean, spread : float
        Mean and standard deviation over seeds; the spread of one seed is not a number.
    margin : float
        Half the width of a 95% interval of the mean: Student's over seeds; with one seed that of a bootstrap over
        users, where there is one.
    seeds : int
        How many.
    """

    mean: float
    spread: float = math.nan
    margin: float = math.nan
    seeds: int = 1

    def __str__(self) -> str:
        digits = 3 if abs(self.mean) < 100 else 0
        tail = f" ± {self.spread:.{digits}f}" if math.isfinite(self.spread) else ""
        return f"{self.mean:.{digits}f}{tail}" if math.isfinite(self.mean) else "–"


def compare(one: Point, other: Point, *, within: float = TINY) -> Order:
    """Whether a number is lower than another: by more than its margin, and by more than a share of it.

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
    margin = math.hypot(*(point.margin if math.isfinite(point.margin) else 0.0 for point in (one, other)))
    if abs(gap) <= max(margin, within * abs(other.mean)):
        return "alike"
    return "lower" if gap < 0 else "higher"


@dataclass(frozen=True, kw_only=True)
class Results:
    """The tidy table of a figure, with the figure.

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
        """Number of seeds that were run."""
        return int(self.frame["seed"].n_unique())

    @property
    def data(self) -> str:
        """The data sets in words."""
        return "; ".join(self.frame["data"].unique().sort().to_list())

    def at(self, line: str, x: float, metric: str, *, group: str = "all") -> Point:
        """One number with its spread; NaN if it was not measured."""
        found = self.frame.filter(line=line, x=float(x), metric=metric, group=group)
        values = found["value"].to_numpy()
        if not values.size:
            return Point(mean=math.nan, seeds=0)
        if values.size > 1:
            spread = float(values.std(ddof=1))
            return Point(mean=float(values.mean()), spread=spread, margin=_margin(values), seeds=values.size)
        half = (found["high"] - found["low"]).fill_null(math.nan).to_numpy()[0] / 2
        return Point(mean=float(values[0]), margin=float(half))

    def over(self, line: str, metric: str) -> list[Point]:
        """A whole line."""
        return [self.at(line, x, metric) for x in self.x]

    def mean(self, line: str, metric: str) -> Point:
        """The mean of a whole line, for statements about all of it."""
        points = [point for point in self.over(line, metric) if math.isfinite(point.mean)]
        if not points:
            return Point(mean=math.nan, seeds=0)
        margins = np.array([point.margin for point in points])
        return Point(
            mean=float(np.mean([point.mean for point in points])),
            margin=float(np.sqrt(np.nansum(margins**2)) / len(points)) if np.isfinite(margins).any() else math.nan,
            seeds=points[0].seeds,
        )

    def order(self, one: str, other: str, x: float, metric: str, *, within: float = TINY) -> Order:
        """How two lines compare at one x, seed by seed on the same data; with one or two seeds, entity by entity."""
        first, second = self.at(one, x, metric), self.at(other, x, metric)
        gaps = self._gaps(one, other, x, metric, "seed", "all")
        if gaps.size < _ENOUGH_SEEDS:
            apart = self._gaps(one, other, x, _OF_ENTITIES.get(metric, metric), "group", "entity ")
            gaps = apart if apart.size > gaps.size else gaps
        if gaps.size < 2:
            return compare(first, second, within=within)
        return compare(replace(first, margin=_margin(gaps)), replace(second, margin=0.0), within=within)

    def _gaps(self, one: str, other: str, x: float, metric: str, key: str, group: str) -> npt.NDArray[np.float64]:
        """One line less another, pair by pair: of seeds, or of entities with the mean over seeds."""
        frame = self.frame.filter(
            (pl.col("x") == x) & (pl.col("metric") == metric) & pl.col("group").str.starts_with(group)
        )
        mine, theirs = (frame.filter(line=name).group_by(key).agg(pl.col("value").mean()) for name in (one, other))
        pairs = mine.join(theirs, on=key, suffix="_other")
        return np.asarray((pairs["value"] - pairs["value_other"]).to_numpy(), dtype=np.float64)

    def orders(self, one: str, other: str, metric: str, *, within: float = TINY) -> list[Order]:
        """How two lines compare at every x."""
        return [self.order(one, other, x, metric, within=within) for x in self.x]


def _margin(values: npt.NDArray[np.float64]) -> float:
    """Half the width of Student's 95% interval of a mean; exact for few values, where two standard errors are not."""
    return float(stats.t.ppf(0.975, values.size - 1) * values.std(ddof=1) / math.sqrt(values.size))


def tidy(
    figure: Figure, size: str, found: Mapping[str, dict[str, Any]], *, seeds: int | None = None
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Put the results of the cells, by key, into one table; missing cells leave gaps."""
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
