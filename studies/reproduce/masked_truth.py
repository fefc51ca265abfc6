"""MovieLens as ratings: what the paper's question looks like when only ratings count."""

from __future__ import annotations

import math
from typing import Final

from studies.reproduce.judge import Judge
from studies.reproduce.results import Results
from studies.reproduce.told import line
from studies.reproduce.verdicts import Judgement, all_of, said

__all__ = ["JUDGES"]

RMSE: Final = "rmse_pooled"
POOLED: Final = "pooled MF"
ALONE: Final = "individual MF"
PRIVATE: Final = "federated, private"
ADAPTED: Final = "adapted, private"
EXACT: Final = "federated, not private"
#: Standard deviation of one split's error with the choice of users, over splits 0 to 3.
_ONE_SPLIT: Final = 0.008
_BOUND: Final = 0.877


def _pooled(results: Results) -> Judgement:
    point = results.at(POOLED, results.x[0], RMSE)
    unsure = 0.0 if point.seeds >= 4 else _ONE_SPLIT / math.sqrt(point.seeds)
    close = abs(point.mean - _BOUND) < unsure
    return Judgement(
        holds=said(None if close else point.mean <= _BOUND),
        ours=f"RMSE {point} over {point.seeds} split{'s' if point.seeds > 1 else ''}",
        rule="at most 0.877 as the mean over splits; with fewer than four, what is nearer to it than one standard "
        "deviation of their mean cannot be told",
        why="The error of one split has a standard deviation of about 0.008 with the choice of users.",
    )


def _federated(results: Results) -> Judgement:
    orders = results.orders(PRIVATE, ALONE, RMSE)
    return Judgement(
        holds=said(all_of(list(orders), ("lower",))),
        ours=line(results, (POOLED, ALONE, EXACT, PRIVATE, ADAPTED), RMSE),
        rule="error in stars of private prototypes lower than that of individual models for every ε shown",
        why=f"Next to individual models: prototypes {', '.join(orders)}; adapted by each entity to its own ratings, "
        f"{', '.join(results.orders(ADAPTED, ALONE, RMSE))}, for ε = {', '.join(f'{x:g}' for x in results.x)}.",
    )


JUDGES: Final[dict[str, Judge]] = {
    "pooled-as-ratings": _pooled,
    "federated-beats-individual-ratings": _federated,
}
