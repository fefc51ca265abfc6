"""The numbers of the frontier: data sets, sizes, mechanisms and targets, read from frontier.toml and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

import numpy as np

from twofold.errors import BadParameter

__all__ = ["SIZES", "DataSetting", "Grid", "Release", "Size", "Target", "quarters", "read_frontier", "sampled"]

SIZES: Final = ("tiny", "quick", "full")
_OF_SIZE: Final = ("sample", "users", "seeds")
_OF_SOURCE: Final = ("structure", "entity", "row", "watched", "n_entities", "items", "most")


@dataclass(frozen=True, kw_only=True)
class Release:
    """One mechanism on one data set.

    Parameters
    ----------
    name : str
        How results call it.
    mechanism : str
        Name of the mechanism.
    noises : tuple of str
        Under which noises it runs: "own", "secure".
    n_prototypes : int
        Prototypes, or columns of a sketch.
    features : bool
        Whether the plan has the public table of features.
    """

    name: str
    mechanism: str
    noises: tuple[str, ...]
    n_prototypes: int = 10
    features: bool = False


@dataclass(frozen=True, kw_only=True)
class DataSetting:
    """Public numbers of one data set.

    Parameters
    ----------
    name, title, short : str
        As the command, as the page, and as figures and sentences call it.
    source : str
        As for `studies.case.load_case`; `options` are of that source.
    feedback, lower, bound, max_items, n_users, delta, rank
        As in a plan.
    held : {"five", "two", "tenth"}
        Held out: five or two entries of every user, or a tenth of the entries.
    sample : tuple of int
        Entities that are fitted and measured, by quarter, the smallest first; 0: all.
    users : int
        Users of an entity that are measured at most.
    seeds : int
        Reported splits.
    headline : str
        The mechanism that targets and words speak of, chosen by public numbers.
    features : bool
        Whether the catalog has public features.
    releases : tuple of Release
        What is run.
    """

    name: str
    title: str
    short: str
    source: str
    feedback: Literal["counts", "ratings"]
    bound: float
    max_items: int
    n_users: int
    held: Literal["five", "two", "tenth"]
    sample: tuple[int, ...]
    users: int
    seeds: int
    headline: str
    features: bool
    releases: tuple[Release, ...]
    options: tuple[tuple[str, Any], ...] = ()
    lower: float = 0.0
    delta: float = 1e-6
    rank: int = 20

    @property
    def case(self) -> dict[str, Any]:
        """Arguments of `studies.case.load_case`."""
        limits = {"held": self.held, "lower": self.lower, "bound": self.bound}
        return {"source": self.source, **dict(self.options), **limits}

    @property
    def metric(self) -> str:
        """The metric: nDCG@10 for counts, RMSE for ratings."""
        return "ndcg" if self.feedback == "counts" else "rmse"


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target: a least share of the gap, a largest RMSE, or a place beside the best control.

    `beside` is "not below" (by more than one standard error) or "above".
    """

    data: str
    noise: str
    epsilon: float
    group: str
    way: str = "adapted"
    least: float | None = None
    most: float | None = None
    beside: Literal["not below", "above"] | None = None


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of a run."""

    name: str
    seeds: int
    epsilons: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Everything of one size."""

    size: Size
    first_seed: int
    development: int
    own_epsilons: tuple[float, ...]
    honest_share: float
    noise_only: float
    data: tuple[DataSetting, ...]
    targets: tuple[Target, ...]

    def epsilons(self, noise: str) -> tuple[float, ...]:
        """Every ε that is run under a noise; where entities add their own, fewer.

        Examples
        --------
        >>> read_frontier("full").epsilons("own")
        (1.0, 10.0)
        """
        return tuple(one for one in self.size.epsilons if noise != "own" or one in self.own_epsilons)

    def seeds(self, setting: DataSetting, number: int | None = None) -> range:
        """The reported splits of a data set."""
        return range(self.first_seed, self.first_seed + (number or setting.seeds))

    def of(self, name: str) -> DataSetting:
        """One data set by name.

        Examples
        --------
        >>> read_frontier("full").of("movielens-zip3").feedback
        'ratings'
        """
        found = next((one for one in self.data if one.name == name), None)
        if found is None:
            known = ", ".join(one.name for one in self.data)
            raise BadParameter("this data set is not part of this size.", found=f"{name!r:.60}", expected=known)
        return found


@cache
def read_frontier(size: str) -> Grid:
    """Read the settings of one size.

    Examples
    --------
    >>> read_frontier("full").size.epsilons
    (0.1, 0.3, 1.0, 3.0, 10.0)
    >>> read_frontier("huge")
    Traceback (most recent call last):
    twofold.errors.BadParameter: this size is unknown...
    """
    if size not in SIZES:
        raise BadParameter("this size is unknown.", found=f"{size!r:.40}", expected=", ".join(SIZES))
    text = files("studies.frontier").joinpath("frontier.toml").read_text(encoding="utf-8")
    record = tomllib.loads(text)
    chosen = record["size"][size]
    names = chosen.get("data", record["order"])
    return Grid(
        size=Size(
            name=size,
            seeds=chosen["seeds"],
            epsilons=tuple(map(float, chosen.get("epsilons", record["epsilons"]))),
        ),
        first_seed=record["first_seed"],
        development=record["development"],
        own_epsilons=tuple(map(float, record["own_epsilons"])),
        honest_share=record["honest_share"],
        noise_only=float(record["noise_only"]),
        data=tuple(_data(record, name, chosen) for name in names),
        targets=tuple(Target(**one) for one in record["target"] if one["data"] in names),
    )


def _data(record: dict[str, Any], name: str, chosen: dict[str, Any]) -> DataSetting:
    own = _inherited(record["data"], name)
    releases = _releases(own.pop("mechanisms"), chosen.get("mechanisms"))
    fixed = {key: chosen[key] for key in _OF_SIZE} | {"delta": record["delta"]}
    if chosen is not record["size"]["full"]:
        own = {key: value for key, value in own.items() if key not in _OF_SIZE}
    merged = fixed | own
    merged["sample"] = tuple(merged["sample"])
    options: dict[str, Any] = {key: merged.pop(key) for key in _OF_SOURCE if key in merged}
    if merged["source"] == "hospitals":
        options["scale"] = chosen["scale"]
    return DataSetting(name=name, releases=releases, options=tuple(sorted(options.items())), **merged)


def _inherited(tables: dict[str, Any], name: str) -> dict[str, Any]:
    own = dict(tables[name])
    like = own.pop("like", None)
    return own if like is None else _inherited(tables, like) | own


def _releases(table: dict[str, Any], allowed: list[str] | None) -> tuple[Release, ...]:
    return tuple(
        Release(
            name=name,
            mechanism=one.get("mechanism", name),
            noises=tuple(one["noises"]),
            n_prototypes=one.get("n_prototypes", 10),
            features=one.get("features", name == "features"),
        )
        for name, one in table.items()
        if allowed is None or name in allowed
    )


def quarters(sizes: Mapping[str, int]) -> dict[str, int]:
    """Quarter of every entity by its number of users; equal sizes by name.

    Examples
    --------
    >>> quarters({"a": 9, "b": 1, "c": 5, "d": 7})
    {'b': 0, 'c': 1, 'd': 2, 'a': 3}
    """
    return {name: 4 * place // len(sizes) for place, name in enumerate(_by_size(sizes))}


def sampled(sizes: Mapping[str, int], sample: Sequence[int]) -> tuple[str, ...]:
    """Entities that are measured: this many of every quarter, evenly spaced by size; 0 means all.

    Examples
    --------
    >>> sampled({name: size for size, name in enumerate("abcdefgh")}, (1, 0, 1, 1))
    ('a', 'c', 'd', 'e', 'g')
    """
    place, order = quarters(sizes), _by_size(sizes)
    chosen: list[str] = []
    for quarter, number in enumerate(sample):
        here = [name for name in order if place[name] == quarter]
        spots = np.linspace(0, len(here) - 1, number).astype(int) if 0 < number < len(here) else range(len(here))
        chosen += [here[spot] for spot in spots]
    return tuple(chosen)


def _by_size(sizes: Mapping[str, int]) -> list[str]:
    return sorted(sizes, key=lambda name: (sizes[name], name))
