"""From cells to figures: test metric with its spread, share of the gap closed, entities worse off than alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from studies.frontier.settings import DataSetting

__all__ = ["GROUPS", "SCHEMA", "Harm", "Mean", "Results"]

#: Columns of the tidy table: one row per cell, entity and way.
SCHEMA: Final[dict[str, Any]] = {
    "data": pl.String,
    "seed": pl.Int64,
    "mechanism": pl.String,
    "noise": pl.String,
    "epsilon": pl.Float64,
    "way": pl.String,
    "entity": pl.String,
    "quarter": pl.Int64,
    "weight": pl.Float64,
    "users": pl.Int64,
    "entries": pl.Int64,
    "measured": pl.Int64,
    "ndcg": pl.Float64,
    "mean_rank": pl.Float64,
    "mse": pl.Float64,
    "gain": pl.Float64,
    "gain_error": pl.Float64,
    "chosen": pl.String,
    "note": pl.String,
    "seconds": pl.Float64,
}
#: Groups of entities by size, and which quarters are in them.
GROUPS: Final[dict[str, tuple[int, ...]]] = {
    "all": (0, 1, 2, 3),
    "smaller half": (0, 1),
    "smallest quarter": (0,),
}
#: A gap of fewer standard errors than this is too small to divide by.
CLEAR_GAP: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean over seeds with its standard error; NaN where there is nothing."""

    mean: float = math.nan
    error: float = math.nan
    seeds: int = 0

    @classmethod
    def of(cls, values: np.ndarray) -> Mean:
        """Mean and standard error.

        Examples
        --------
        >>> Mean.of(np.array([1.0, 3.0]))
        Mean(mean=2.0, error=1.0, seeds=2)
        """
        if not values.size:
            return cls()
        error = float(np.std(values, ddof=1) / math.sqrt(values.size)) if values.size > 1 else math.nan
        return cls(mean=float(values.mean()), error=error, seeds=int(values.size))


@dataclass(frozen=True, kw_only=True)
class Harm:
    """Entities, over all splits: how many were measured, took anything shared, and did worse than alone.

    Attributes
    ----------
    entities, moved : int
        Measured, and of those, that did not stay alone.
    worse, far_worse : int
        Worse by more than one and by more than two standard errors of the paired difference.
    """

    entities: int
    moved: int
    worse: int
    far_worse: int


class Results:
    """The tidy table of one data set, with queries.

    Parameters
    ----------
    frame : DataFrame
        Columns of `SCHEMA`.
    setting : DataSetting
        Which data set.
    """

    def __init__(self, frame: pl.DataFrame, setting: DataSetting) -> None:
        self.setting = setting
        self.frame = frame.filter(data=setting.name)
        self._cells = {
            key: part.sort("seed")
            for key, part in self.frame.partition_by(_KEY, as_dict=True, include_key=True).items()
        }

    @property
    def seeds(self) -> int:
        """Number of splits with results."""
        return self.frame["seed"].n_unique()

    @property
    def epsilons(self) -> list[float]:
        """Every ε with a private cell."""
        private = self.frame.filter(pl.col("noise").is_in(["own", "secure"]))
        return sorted(private["epsilon"].unique().to_list())

    @property
    def privates(self) -> list[tuple[str, str]]:
        """Mechanism and noise of all private cells, in the order of the settings."""
        there = {(key[0], key[1]) for key in self._cells}
        return [
            (release.name, noise)
            for release in self.setting.releases
            for noise in release.noises
            if (release.name, noise) in there
        ]

    @property
    def noise_only(self) -> list[tuple[str, str, float]]:
        """Cells whose sums hold nothing but noise."""
        there = {key[:3] for key in self._cells if key[1] == "noise only" and key[3] == "adapted"}
        return [cell for release in self.setting.releases for cell in sorted(there) if cell[0] == release.name]

    def metric(
        self,
        mechanism: str,
        noise: str = "none",
        epsilon: float = math.inf,
        *,
        group: str = "all",
        way: str = "adapted",
    ) -> dict[int, float]:
        """The test metric of one group of entities by seed: nDCG@10 over users, or RMSE over ratings.

        Entities count by their users (ratings: held-out entries) and by how many others of their quarter they stand
        for.
        """
        rows = self._cells.get((mechanism, noise, epsilon, way))
        if rows is None:
            return {}
        rows = rows.filter(pl.col("quarter").is_in(GROUPS[group]), pl.col("measured") > 0)
        column, size = ("ndcg", "users") if self.setting.metric == "ndcg" else ("mse", "entries")
        share = pl.col("weight") * pl.col(size)
        made = rows.group_by("seed").agg(((share * pl.col(column)).sum() / share.sum()).alias("value"))
        values = dict(made.rows())
        return values if column == "ndcg" else {seed: math.sqrt(value) for seed, value in values.items()}

    def figure(self, *cell: Any, **options: Any) -> Mean:
        """Mean of `metric` over seeds."""
        return Mean.of(np.array(list(self.metric(*cell, **options).values())))

    def gap(self, group: str = "all") -> Mean:
        """Gain of the best federation without noise over alone, paired by seed."""
        return Mean.of(self._better(self.reference(group), "none", math.inf, group, "adapted"))

    def share(self, mechanism: str, noise: str, epsilon: float, *, group: str = "all", way: str = "adapted") -> Mean:
        """Share of the gap that is closed; NaN where there is no clear gap.

        The mean over seeds of what is gained over the mean of what could be; the error is that of what is gained.
        """
        whole, made = self.gap(group), Mean.of(self._better(mechanism, noise, epsilon, group, way))
        if not whole.seeds or whole.mean <= 0 or whole.mean < CLEAR_GAP * whole.error:
            return Mean(seeds=made.seeds)
        return Mean(mean=made.mean / whole.mean, error=made.error / whole.mean, seeds=made.seeds)

    def reference(self, group: str = "all") -> str:
        """The mechanism with the largest gain for a group without noise, among those with the most splits."""
        gains = {one.name: self._better(one.name, "none", math.inf, group, "adapted") for one in self.setting.releases}
        most = max((gain.size for gain in gains.values()), default=0)
        whole = {name: float(gain.mean()) for name, gain in gains.items() if gain.size == most > 0}
        return max(whole, key=lambda name: whole[name], default="")

    def harm(self, mechanism: str, noise: str, epsilon: float) -> Harm:
        """Entities worse off than alone in one cell, over all splits."""
        rows = self._cells[(mechanism, noise, epsilon, "adapted")]
        moved = rows.filter(pl.col("gain_error") > 0)
        return Harm(
            entities=rows.height,
            moved=moved.height,
            worse=moved.filter(pl.col("gain") < -pl.col("gain_error")).height,
            far_worse=moved.filter(pl.col("gain") < -2 * pl.col("gain_error")).height,
        )

    @property
    def entity_users(self) -> dict[str, int]:
        """Users of every measured entity; of the first split where splits differ."""
        return dict(self.frame.unique("entity", keep="first", maintain_order=True).select("entity", "users").rows())

    def entity_gains(self, mechanism: str, noise: str, epsilon: float) -> dict[str, Mean]:
        """Gain of every entity over alone, over splits."""
        rows = self._cells.get((mechanism, noise, epsilon, "adapted"))
        if rows is None:
            return {}
        parts = rows.partition_by("entity", as_dict=True)
        return {str(key[0]): Mean.of(part["gain"].to_numpy()) for key, part in parts.items()}

    def _better(self, mechanism: str, noise: str, epsilon: float, group: str, way: str) -> np.ndarray:
        """Gain over alone, by seed."""
        alone, other = self.metric("alone", group=group), self.metric(mechanism, noise, epsilon, group=group, way=way)
        sign = 1 if self.setting.metric == "ndcg" else -1
        return np.array([sign * (other[seed] - alone[seed]) for seed in sorted(other) if seed in alone])


_KEY: Final = ["mechanism", "noise", "epsilon", "way"]
