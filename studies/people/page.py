"""The page of people as entities."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from studies.frontier.settings import read_frontier

__all__ = ["markdown"]

_METRIC: Final = {"ndcg": "nDCG@10, more is better", "rmse": "RMSE, less is better"}
_NOISES: Final = {"operators": "two operators", "peers": "a sum among the senders", "own": "plain: every sender's own"}
_PERSON: Final = "each person with a device"
_HOSPITAL: Final = "the same people in their hospital or region"


def markdown(rows: Sequence[Mapping[str, Any]], sizes: Iterable[Mapping[str, Any]]) -> str:
    """Write every table."""
    parts = [_table(rows, name) for name in dict.fromkeys(one["data"] for one in rows)]
    return "\n\n".join([*parts, _sizes(sizes)]) + "\n"


def _table(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    here = [one for one in rows if one["data"] == name]
    title = read_frontier("full").of(name).title
    seeds, people = sorted({one["seed"] for one in here}), sorted({one["people"] for one in here})
    lines = [
        f"## {title[0].upper()}{title[1:]}",
        f"{people[-1]:,} people in the sum, {len(seeds)} seeds. {_METRIC[here[0]['metric']]}; mean ± standard error.",
        "| control | " + _METRIC[here[0]["metric"]].split(",")[0] + " |\n|---|---|\n" + "\n".join(_controls(here)),
        "| who sends | what | noise | ε = 1 | ε = 3 | ε = 10 |\n|---|---|---|---|---|---|\n"
        + "\n".join(_private(here)),
    ]
    return "\n\n".join(lines)


def _controls(here: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    names = {"people": _PERSON, "hospitals": _HOSPITAL, "everybody": "all data in one place, not private"}
    for who, what in dict.fromkeys((one["who"], one["mechanism"]) for one in here if not one["noise"]):
        yield f"| {names[who]}: {what} | {_figure(here, who=who, mechanism=what, noise='')} |"
    for noise, words in (("none", "no noise"), ("noise only", "nothing but two operators' noise of ε = 1")):
        for who, what in dict.fromkeys((one["who"], one["mechanism"]) for one in here if one["noise"] == noise):
            yield f"| {names[who]}: {what}, {words} | {_figure(here, who=who, mechanism=what, noise=noise)} |"


def _private(here: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    names = {"people": _PERSON, "hospitals": _HOSPITAL}
    for noise, words in _NOISES.items():
        for who, what in dict.fromkeys((one["who"], one["mechanism"]) for one in here if one["noise"] == noise):
            figures = [_figure(here, who=who, mechanism=what, noise=noise, epsilon=one) for one in (1.0, 3.0, 10.0)]
            yield f"| {names[who]} | {what} | {words} | {' | '.join(figures)} |"


def _figure(here: Sequence[Mapping[str, Any]], **wanted: Any) -> str:
    found = [one["value"] for one in here if all(one[key] == value for key, value in wanted.items())]
    if not found:
        return "-"
    error = statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    return f"{statistics.fmean(found):.4f} ± {error:.4f}"


def _sizes(sizes: Iterable[Mapping[str, Any]]) -> str:
    lines = [
        f"| {one['catalog']} | {one['what']} | {one['numbers']:,} | {one['bytes']:,} | {one['first']:,} | "
        f"{one['second']:,} | {one['milliseconds']:.1f} |"
        for one in sizes
    ]
    head = "| catalog | statistic | numbers | bytes of the report | half of the first operator | half of the second | "
    return "\n".join(["## What a person sends", "", head + "ms to make it |", "|---|---|---|---|---|---|---|", *lines])
