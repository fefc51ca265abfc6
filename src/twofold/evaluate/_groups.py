"""All users, quarters of the entities and single entities, each with its bootstrap replicates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from twofold.errors import BadParameter, EmptyTable
from twofold.evaluate._scope import Scope
from twofold.evaluate.measured import COVERAGE, LIST_METRICS, Measured

__all__ = ["Group", "Seed", "groups", "quarters"]

Seed = int | np.random.Generator | np.random.SeedSequence | None


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
        """What a row of a table is about."""
        length = self.n if metric in (*LIST_METRICS, COVERAGE) else None
        return {"scope": self.scope, "name": self.name, "metric": metric, "n": length}

    def values(self) -> dict[str, npt.NDArray[np.float64]]:
        """Of each metric the truth and then its replicates."""
        return self.part.values(self.metrics, several=self.several and self.scope != "entity")


def groups(measured: Measured | Mapping[Any, Measured], *, level: float, resamples: int, rng: Seed) -> Iterator[Group]:
    """All users, quarters of the entities and single entities, each with its replicates."""
    _check(level, resamples)
    several = isinstance(measured, Mapping)
    entities = measured if isinstance(measured, Mapping) else {"all": measured}
    first = _alike(entities)
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

    Quarters hold equally many entities, the first ones one more if four does not divide their number.

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


def _alike(entities: Mapping[Any, Measured]) -> Measured:
    """Any one of the entities, if all were measured the same way."""
    if not entities:
        raise EmptyTable("nothing was measured.", expected="at least one entity")
    if len({(one.metrics, one.n, one.n_items) for one in entities.values()}) > 1:
        raise BadParameter("the entities were not measured alike.", expected="equal metrics, n and number of items")
    return next(iter(entities.values()))


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1:
        raise BadParameter("level is out of range.", found=repr(level), expected="0 < level < 1")
    if not isinstance(resamples, (int, np.integer)) or resamples < 0:
        raise BadParameter("resamples is out of range.", found=repr(resamples), expected="a whole number, 0 or more")
