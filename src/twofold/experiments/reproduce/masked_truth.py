"""MovieLens as ratings: what the paper's question looks like when only ratings count."""

from __future__ import annotations

from typing import Final

from twofold.experiments.reproduce.judge import Judge
from twofold.experiments.reproduce.results import Results
from twofold.experiments.reproduce.told import line
from twofold.experiments.reproduce.verdicts import Judgement, all_of, said

__all__ = ["JUDGES"]

RMSE: Final = "rmse_pooled"
POOLED: Final = "pooled MF"
ALONE: Final = "individual MF"
PRIVATE: Final = "federated, private"
ADAPTED: Final = "adapted, private"
EXACT: Final = "federated, not private"
#: One split's error moves by this much with the choice of users.
_ONE_SPLIT: Final = 0.004


def _pooled(results: Results) -> Judgement:
    point = results.at(POOLED, results.x[0], RMSE)
    room = 0.0 if point.seeds >= 4 else 2 * _ONE_SPLIT
    told = point.mean <= 0.877 or (None if point.mean <= 0.877 + room else False)
    return Judgement(
        holds=said(told),
        ours=f"RMSE {point} over {point.seeds} split{'s' if point.seeds > 1 else ''}",
        rule="at most 0.877 as the mean over four splits or more; with fewer, up to 0.885 cannot be told",
        why="One split moves by about 0.004 with the choice of users.",
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
