"""From cells to figures: test metric with its spread, share of the gap closed, entities worse off than alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from studies.frontier.settings import DataSetting

__all__ = ["BASELINES", "GROUPS", "SCHEMA", "Harm", "Key", "Mean", "Results"]

#: Mechanism, noise and ε of a cell.
Key = tuple[str, str, float]

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
    "all_users": pl.Int64,
    "items": pl.Int64,
    "entities": pl.Int64,
    "small_users": pl.Float64,
    "directions": pl.Int64,
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
#: Tuned baselines beside our own models, by kind of data and by whose rows they see.
BASELINES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "counts": {
        "alone": ("own popularity", "EASE alone"),
        "pooled": ("pooled popularity", "EASE pooled", "EASE pooled, then adapted"),
        "shared": ("shared popularity, private",),
    },
    "ratings": {"alone": ("item and user offsets, own",), "pooled": ("item and user offsets, pooled",), "shared": ()},
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

    @property
    def clear(self) -> bool:
        """Whether it is above 0 by `CLEAR_GAP` standard errors; a single seed has none."""
        return self.mean > 0 and not self.mean < CLEAR_GAP * self.error


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

    def control(self, epsilon: float = math.inf, *, group: str = "all") -> Key:
        """The best way at one ε that shares no taste: its mean over seeds is best.

        Candidates are our model alone, with public features and with noise in place of what was shared, the tuned
        baselines of one entity, and popularity shared under the same ε.
        """
        baselines = BASELINES[self.setting.feedback]
        cells = [(name, "none", math.inf) for name in ("alone", "public features", *baselines["alone"])]
        cells += [(name, "secure", epsilon) for name in baselines["shared"]]
        return self._best([*cells, *(one for one in self.noise_only if one[0] == self.setting.headline)], group)

    def pooled(self, group: str = "all") -> Key:
        """The best of the ways that have all data in one place, or exact sums of it; its mean over seeds is best."""
        names = ("pooled", *BASELINES[self.setting.feedback]["pooled"], *(one.name for one in self.setting.releases))
        return self._best([(name, "none", math.inf) for name in names], group)

    def gap(self, group: str = "all", epsilon: float = math.inf) -> Mean:
        """Gain of the best pooled way over the best control, paired by seed."""
        return Mean.of(self._gain(self.pooled(group), self.control(epsilon, group=group), group)[1])

    def gain(self, mechanism: str, noise: str, epsilon: float, *, group: str = "all", way: str = "adapted") -> Mean:
        """Gain of one cell over the best control, paired by seed."""
        control = self.control(epsilon, group=group)
        return Mean.of(self._gain((mechanism, noise, epsilon), control, group, way)[1])

    def beside_alone(self, mechanism: str, noise: str, epsilon: float) -> dict[str, Mean]:
        """Gain of one cell over each way of an entity without anything shared or public, paired by seed.

        These are our model alone and own popularity (ratings: own offsets); those that were not run are left out.
        """
        names = ("alone", BASELINES[self.setting.feedback]["alone"][0])
        found = {
            name: Mean.of(self._gain((mechanism, noise, epsilon), (name, "none", math.inf), "all")[1]) for name in names
        }
        return {name: mean for name, mean in found.items() if mean.seeds}

    def share(self, mechanism: str, noise: str, epsilon: float, *, group: str = "all", way: str = "adapted") -> Mean:
        """Share of the gap from the best control to the best pooled way; NaN where there is no clear gap.

        The ratio of two means over seeds; its error is that of a ratio of paired means.
        """
        control = self.control(epsilon, group=group)
        seeds, made = self._gain((mechanism, noise, epsilon), control, group, way)
        known, whole = self._gain(self.pooled(group), control, group)
        gap = Mean.of(whole)
        if not made.size or not gap.clear:
            return Mean(seeds=made.size)
        both = [seed for seed in seeds if seed in known]
        above = np.array([made[seeds.index(seed)] for seed in both])
        below = np.array([whole[known.index(seed)] for seed in both])
        ratio = float(above.mean() / below.mean())
        return Mean(mean=ratio, error=Mean.of(above - ratio * below).error / float(below.mean()), seeds=len(both))

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
    def public(self) -> dict[str, Any]:
        """Size of the federation, and directions above the noise by cell: medians over splits."""
        names = ["all_users", "items", "entities", "small_users"]
        sizes = self.frame.select(pl.median(*names)).row(0, named=True)
        counted = self.frame.filter(pl.col("directions").is_not_null()).group_by(_KEY[:3]).agg(pl.median("directions"))
        directions = {tuple(row[:3]): int(row[3]) for row in counted.rows()}
        return {**{name: int(sizes[name] or 0) for name in names}, "directions": directions}

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

    def _best(self, cells: list[Key], group: str) -> Key:
        """The cell with the best mean, among those with the most splits."""
        found = {cell: self.metric(*cell, group=group) for cell in cells}
        most = max((len(one) for one in found.values()), default=0)
        whole = {cell: self._sign * sum(one.values()) for cell, one in found.items() if len(one) == most > 0}
        return max(whole, key=lambda cell: whole[cell], default=("", "none", math.inf))

    def _gain(self, cell: Key, control: Key, group: str, way: str = "adapted") -> tuple[list[int], np.ndarray]:
        """Seeds, and gain of a cell over a control on each."""
        one, other = self.metric(*cell, group=group, way=way), self.metric(*control, group=group)
        seeds = sorted(set(one) & set(other))
        return seeds, np.array([self._sign * (one[seed] - other[seed]) for seed in seeds])

    @property
    def _sign(self) -> int:
        return 1 if self.setting.metric == "ndcg" else -1


_KEY: Final = ["mechanism", "noise", "epsilon", "way"]
