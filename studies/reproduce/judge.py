"""Ask every experiment's own judges about its claims."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from typing import Any

from studies.reproduce.claims import claims_of
from studies.reproduce.results import Results
from studies.reproduce.verdicts import Judgement, Verdict

__all__ = ["Judge", "judge", "judges_of"]

Judge = Callable[[Results], Judgement]


def judges_of(family: str) -> Mapping[str, Judge]:
    """Judges of an experiment, by the claim they answer.

    Examples
    --------
    >>> sorted(judges_of("noise_control"))
    ['noise-is-chance']
    """
    module: Any = importlib.import_module(f"studies.reproduce.{family}")
    found: Mapping[str, Judge] = module.JUDGES
    return found


def judge(results: Results) -> tuple[Verdict, ...]:
    """A verdict on every claim that a figure answers; one without results cannot be told."""
    judges = judges_of(results.figure.family)
    return tuple(
        Verdict(claim=claim, judgement=_asked(judges[claim.key], results)) for claim in claims_of(results.figure.name)
    )


def _asked(one: Judge, results: Results) -> Judgement:
    measured = results.frame.filter(metric=results.figure.metrics[0])["value"]
    if not len(measured) or not all(math.isfinite(value) for value in measured):
        return Judgement(holds="cannot be told", ours="–", rule="not asked", why="Nothing was measured.")
    return one(results)
