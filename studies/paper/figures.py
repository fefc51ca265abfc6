"""Figures of the paper: the numbers of every experiment (one TOML file each), lines, cells, and what was recorded."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, Final

from studies.store import Cell
from twofold.errors import BadParameter

__all__ = [
    "FAMILIES",
    "FIGURES",
    "GROUPS",
    "SIZES",
    "Figure",
    "Line",
    "Recorded",
    "Size",
    "figure",
    "figures_of",
    "read_settings",
]

Size = str
SIZES: Final = ("quick", "paper")
#: One file and one TOML per experiment; an experiment may have several figures, which share its runs.
FAMILIES: Final = (
    "fig1",
    "eicu",
    "eicu_demo",
    "eicu_full",
    "movielens",
    "exp1",
    "private_kmeans",
    "entities",
    "supplement",
    "masked_truth",
    "cost",
    "tensor",
    "synthesis",
    "noise_control",
    "comparison",
    "systems",
)
#: What a file takes over from the one it says it is like.
_SHARED: Final = ("feedback", "objective", "line")
_PACKAGE: Final = "studies.paper"


@cache
def read_settings(family: str) -> dict[str, Any]:
    """Read the TOML file of an experiment.

    Examples
    --------
    >>> sorted(read_settings("movielens")["size"])
    ['paper', 'quick']
    >>> read_settings("magic")
    Traceback (most recent call last):
    twofold.errors.BadParameter: this experiment is unknown...
    """
    if family not in FAMILIES:
        raise BadParameter("this experiment is unknown.", found=f"{family!r:.60}", expected=", ".join(FAMILIES))
    own = tomllib.loads(_text(family))
    like = read_settings(own["like"]) if "like" in own else {}
    return {**{name: like[name] for name in _SHARED if name in like}, **own}


def _text(family: str) -> str:
    return files(_PACKAGE).joinpath(f"{family}.toml").read_text(encoding="utf-8")


_TAKEN_BY_DATA: Final = ("n_entities",)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One system of a figure, over everything the figure varies."""

    name: str
    system: str
    takes: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)
    common: bool = True
    feedback: str = ""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What the authors recorded for one line, and for which sizes its x values mean the same as ours."""

    name: str
    metric: str
    at: tuple[float, ...]
    values: tuple[float, ...]
    sizes: tuple[str, ...] = SIZES


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One page of results.

    Parameters
    ----------
    name, title, about : str
        What it is called, and what it shows.
    family : str
        The experiment it belongs to.
    across : str
        What its x axis is: "rank", "n_prototypes", "epsilon", "n_entities", "iterations", "regularization".
    metrics : tuple of str
        One plot and one table each.
    lines : tuple of Line
        All systems.
    drawn : tuple of str
        Lines that are drawn; at most six can be told apart.
    x_metric : str
        A measured number for the x axis instead of what was varied.

    Examples
    --------
    >>> figure("movielens-rank").across
    'rank'
    >>> len(figure("movielens-rank").cells("quick", seeds=1)) >= 4
    True
    """

    name: str
    family: str
    title: str
    about: str
    across: str
    metrics: tuple[str, ...]
    lines: tuple[Line, ...]
    drawn: tuple[str, ...]
    recorded: tuple[Recorded, ...] = ()
    x_metric: str = ""

    def seeds(self, size: str, asked: int | None = None) -> int:
        """Number of seeds: as requested, or that of the size."""
        return asked or int(self._size(size)["seeds"])

    def values(self, size: str) -> tuple[float, ...]:
        """The x values of a size."""
        return tuple(self._size(size)[self.across])

    def cells(self, size: str, *, seeds: int | None = None) -> list[Cell]:
        """Every cell once, in the order in which they are run: one data set after the other."""
        found = {cell.key: cell for line in self.lines for _, cell in self.points(line, size, seeds=seeds)}
        return sorted(found.values(), key=lambda cell: (str(sorted(cell.data.items())), cell.seed))

    def points(self, line: Line, size: str, *, seeds: int | None = None) -> Iterator[tuple[float, Cell]]:
        """The x values of a line, each with its cells; none for a line that a size does not have."""
        if line.name in self._size(size).get("without", ()):
            return
        for seed in range(self.seeds(size, seeds)):
            for x in self.values(size):
                yield x, self._cell(line, size, x, seed)

    def _size(self, size: str) -> dict[str, Any]:
        if size not in SIZES:
            raise BadParameter("this size is unknown.", found=f"{size!r:.40}", expected=" or ".join(SIZES))
        settings = read_settings(self.family)
        own = settings["figure"][self.name].get(size, {})
        return {**settings["size"][size], **own}

    def _cell(self, line: Line, size: str, x: float, seed: int) -> Cell:
        settings, chosen = read_settings(self.family), self._size(size)
        varied = {**chosen.get("fixed", {}), self.across: x}
        common = settings.get("objective", {}) if line.common else {}
        options = {**common, **line.options, **_taken(line.takes, varied)}
        data = {**settings.get("data", {}), **chosen.get("data", {}), **line.data}
        data |= {name: varied[name] for name in _TAKEN_BY_DATA if name in varied}
        return Cell(
            data=data,
            system=line.system,
            options=options,
            seed=seed,
            feedback=line.feedback or settings.get("feedback", "counts"),  # type: ignore[arg-type]
            task=settings.get("task", "fit"),
        )


def _taken(takes: tuple[str, ...], varied: Mapping[str, Any]) -> dict[str, Any]:
    """Options that a line takes from the varied values; "rank=rank_low" takes one under another name."""
    pairs = (one.partition("=") for one in takes)
    return {name: varied[other or name] for name, _, other in pairs if (other or name) in varied}


def figure(name: str) -> Figure:
    """Find a figure by name.

    Examples
    --------
    >>> figure("fig9")
    Traceback (most recent call last):
    twofold.errors.BadParameter: this figure is unknown...
    """
    if name not in FIGURES:
        near = get_close_matches(name.lower(), FIGURES, n=1)
        raise BadParameter(
            "this figure is unknown.",
            found=f"{name!r:.60}",
            expected=", ".join(("all", *GROUPS, *FIGURES)),
            fix=f"python -m studies reproduce {near[0] if near else 'all'}",
        )
    return FIGURES[name]


def figures_of(name: str) -> list[Figure]:
    """All figures, those of an experiment that has several, or one.

    Parameters
    ----------
    name : str
        "all", a name of `GROUPS`, or that of a figure.

    Examples
    --------
    >>> [one.name for one in figures_of("eicu")]
    ['eicu-train', 'eicu-rmse', 'eicu-rank']
    """
    if name == "all":
        return list(FIGURES.values())
    return [FIGURES[one] for one in GROUPS[name]] if name in GROUPS else [figure(name)]


def _figures(family: str) -> Iterator[Figure]:
    settings = read_settings(family)
    lines = {line.name: line for table in settings["line"] for line in _lines(table)}
    for name, table in settings["figure"].items():
        chosen = [lines[one] for one in table.get("lines", lines) if one not in table.get("without", ())]
        yield Figure(
            name=name,
            family=family,
            title=table["title"],
            about=table.get("about", settings["about"]),
            across=table["across"],
            metrics=tuple(table["metrics"]),
            lines=tuple(chosen),
            drawn=tuple(table.get("drawn", [line.name for line in chosen][:6])),
            recorded=tuple(
                _recorded(one, table.get("recorded", SIZES))
                for one in settings.get("recorded", ())
                if one["metric"] in table["metrics"]
            ),
            x_metric=table.get("x_metric", ""),
        )


def _lines(table: dict[str, Any]) -> Iterator[Line]:
    """Expand a table with several ε into one line each."""
    for epsilon in table.get("epsilons", [None]):
        more = {} if epsilon is None else {"epsilon": epsilon}
        yield Line(
            name=table["name"] if epsilon is None else table["name"].format(epsilon=f"{epsilon:g}"),
            system=table["system"],
            takes=tuple(table.get("takes", ())),
            options={**table.get("options", {}), **more},
            data=table.get("data", {}),
            common=table.get("common", True),
            feedback=table.get("feedback", ""),
        )


def _recorded(table: dict[str, Any], sizes: Sequence[str]) -> Recorded:
    return Recorded(
        name=table["name"],
        metric=table["metric"],
        at=tuple(table["at"]),
        values=tuple(table["values"]),
        sizes=tuple(sizes),
    )


FIGURES: Final[dict[str, Figure]] = {one.name: one for family in FAMILIES for one in _figures(family)}
_FAMILY: Final = {family: tuple(n for n, one in FIGURES.items() if one.family == family) for family in FAMILIES}
#: Experiments with several figures, which share their runs.
GROUPS: Final[dict[str, tuple[str, ...]]] = {family: names for family, names in _FAMILY.items() if len(names) > 1}
