"""What every baseline is given, what it gives back, and how it is tuned: the same number of trials for each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import with_data
from twofold.errors import BadParameter
from twofold.features import Features

__all__ = [
    "TRIALS",
    "VALUES",
    "Baseline",
    "Everyone",
    "Floats",
    "Options",
    "Score",
    "Setting",
    "Site",
    "Tuned",
    "read_values",
    "spread",
    "tune",
]

Floats = NDArray[np.floating[Any]]
#: Scores of every item, for a block of histories.
Score = Callable[[sparse.csr_array], Floats]
Options = dict[str, Any]
Made = TypeVar("Made")
#: Trials of every baseline that has anything to tune.
TRIALS: Final = 12
_KEPT: Final = 4
#: How a count can be read.
VALUES: Final = ("one", "root", "count")


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """Public numbers of a data set.

    Parameters
    ----------
    feedback : {"counts", "ratings"}
        Whether absent entries are zeros or unknown.
    lower, bound : float
        Range of the values.
    epsilon, delta : float
        Of baselines that are private.
    rank : int
        Most factors of our own models.
    seed : int
        Of noise and random starts.
    features : Features, optional
        Public table of the items.
    """

    feedback: Literal["counts", "ratings"]
    lower: float = 0.0
    bound: float = 5.0
    epsilon: float = 1.0
    delta: float = 1e-6
    rank: int = 20
    seed: int = 0
    features: Features | None = field(default=None, repr=False)

    @property
    def values(self) -> tuple[str, ...]:
        """Ways to read a value that differ: for 0 and 1 there is one."""
        return VALUES[:1] if self.bound <= 1 else VALUES


class Everyone:
    """The rows of all entities, and what a baseline computes of them once for all entities.

    Parameters
    ----------
    rows : mapping of csr arrays
        Training entries, entity by entity.
    setting : Setting
        Public numbers.
    """

    def __init__(self, rows: Mapping[str, sparse.csr_array], setting: Setting) -> None:
        self.rows, self.setting = dict(rows), setting
        self._kept: OrderedDict[Any, Any] = OrderedDict()

    @cached_property
    def pooled(self) -> sparse.csr_array:
        """All rows in one table."""
        return sparse.csr_array(sparse.vstack(list(self.rows.values()), format="csr"))

    def once(self, key: Any, make: Callable[[], Made]) -> Made:
        """What `make` gives. The last few are kept until `forget`: each may be a table of items by items."""
        if key not in self._kept:
            self._kept[key] = make()
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        found: Made = self._kept[key]
        return found

    def forget(self) -> None:
        """Free what was made; dense tables of one baseline are of no use to the next."""
        self._kept.clear()

    def site(self, entity: str) -> Site:
        """One entity among the others."""
        return Site(entity=entity, rows=self.rows[entity], everyone=self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Site:
    """One entity: its own rows, and everyone's for baselines that pool or share."""

    entity: str
    rows: sparse.csr_array = field(repr=False)
    everyone: Everyone = field(repr=False)

    @property
    def setting(self) -> Setting:
        """Public numbers."""
        return self.everyone.setting


def _nothing(_: Setting) -> list[Options]:
    return [{}]


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """One way to recommend.

    Parameters
    ----------
    name : str
        As tables call it.
    scope : {"alone", "pooled", "shared"}
        Whether it sees one entity's rows, everybody's, or what entities send.
    fit : function
        From a site and options to the scores of histories.
    trials : function
        Options to try on data of this kind, at most `TRIALS`; the first is the default.
    features : bool
        Whether it needs public features.
    """

    name: str
    scope: Literal["alone", "pooled", "shared"]
    fit: Callable[[Site, Options], Score] = field(repr=False)
    trials: Callable[[Setting], list[Options]] = field(repr=False, default=_nothing)
    features: bool = False


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What tuning took.

    Attributes
    ----------
    name : str
        Of the baseline.
    options : mapping
        The options taken.
    trials : tuple of (options, figure)
        All that was tried; of equal figures the first was taken.
    """

    name: str
    options: Options
    trials: tuple[tuple[Options, float], ...] = field(repr=False)

    @property
    def words(self) -> str:
        """The options in one line.

        Examples
        --------
        >>> Tuned(name="EASE", options={"ridge": 0.5, "values": "one"}, trials=()).words
        'ridge 0.5, values one'
        """
        return ", ".join(
            f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in self.options.items()
        )


def tune(
    baseline: Baseline, everyone: Everyone, judge: Callable[[str, Score], float], entities: Sequence[str]
) -> Tuned:
    """Try every option on a split that no figure is reported of, and take the best.

    Parameters
    ----------
    baseline : Baseline
        What is tuned.
    everyone : Everyone
        Training rows of the split.
    judge : function
        From an entity and scores to what the entity adds to the figure; more is better.
    entities : sequence of str
        Where it is judged: one choice for all of them.

    Examples
    --------
    >>> ways = [{"way": 1}, {"way": 4}]
    >>> both = Baseline(name="x", scope="alone", fit=lambda _, how: how["way"], trials=lambda _: ways)
    >>> everyone = Everyone({"a": sparse.csr_array((1, 2))}, Setting(feedback="counts"))
    >>> tune(both, everyone, lambda _, score: score, ["a"]).options
    {'way': 4}
    """
    offered = baseline.trials(everyone.setting)
    if not 1 <= len(offered) <= TRIALS:
        raise BadParameter(
            "a baseline has the wrong number of trials.", found=f"{len(offered)}", expected=f"1 to {TRIALS}"
        )
    if len(offered) == 1:
        return Tuned(name=baseline.name, options=offered[0], trials=((offered[0], float("nan")),))
    tried = []
    for options in offered:
        figure = sum(judge(entity, baseline.fit(everyone.site(entity), options)) for entity in entities)
        tried.append((options, float(figure)))
    # a fit that failed to give numbers is never the best
    best = max(tried, key=lambda one: -np.inf if np.isnan(one[1]) else one[1])
    return Tuned(name=baseline.name, options=best[0], trials=tuple(tried))


def read_values(rows: sparse.csr_array, values: str) -> sparse.csr_array:
    """Read counts as they are, by their root, or as 0 and 1; in float64.

    Examples
    --------
    >>> read_values(sparse.csr_array(np.array([[4.0, 0.0]])), "root").toarray()
    array([[2., 0.]])
    """
    data = rows.data.astype(np.float64)
    if values == "count":
        return with_data(rows, data)
    return with_data(rows, np.sqrt(data) if values == "root" else np.ones_like(data))


def spread(low: float, high: float, number: int) -> list[float]:
    """Numbers from low to high at equal ratios.

    Examples
    --------
    >>> spread(1, 100, 3)
    [1.0, 10.0, 100.0]
    """
    return [float(f"{one:.3g}") for one in np.geomspace(low, high, number)]
