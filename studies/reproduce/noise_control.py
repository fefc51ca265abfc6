"""The noise control: what an evaluation says about prototypes that know nothing."""

from __future__ import annotations

from typing import Final

from studies.reproduce.judge import Judge
from studies.reproduce.results import Results
from studies.reproduce.verdicts import Judgement, said

__all__ = ["JUDGES"]

FROZEN: Final = "pure noise, frozen"
REFITTED: Final = "noise, refitted as recorded"


def _chance(results: Results) -> Judgement:
    points = results.over(FROZEN, "mean_rank")
    numbers = "; ".join(f"ℓ = {x:g}: {point}" for x, point in zip(results.x, points, strict=True))
    refitted = results.at(REFITTED, results.x[0], "mean_rank")
    return Judgement(
        holds=said(all(abs(point.mean - 0.5) <= 0.02 for point in points)),
        ours=f"{numbers}; refitted to raw ratings, as recorded: {refitted}",
        rule="mean rank between 0.48 and 0.52 at every ℓ",
        why="Only frozen item factors make the evaluation say what the prototypes are worth.",
    )


JUDGES: Final[dict[str, Judge]] = {"noise-is-chance": _chance}
