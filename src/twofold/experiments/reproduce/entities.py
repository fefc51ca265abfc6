"""Number of entities: what holds of the supplement."""

from __future__ import annotations

from typing import Final

from twofold.experiments.reproduce.judge import Judge
from twofold.experiments.reproduce.results import Results, compare
from twofold.experiments.reproduce.told import line
from twofold.experiments.reproduce.verdicts import Judgement, said

__all__ = ["JUDGES"]

GROWING: Final = "MF + k-means"
SAME: Final = "MF + k-means, same users"
NOISE: Final = "MF + uniform noise"
LINES: Final = ("MF", GROWING, SAME, NOISE)


def _better(results: Results) -> Judgement:
    first, last = (results.at(GROWING, x, "rmse_table") for x in (results.x[0], results.x[-1]))
    order = compare(last, first)
    return Judgement(
        holds=said(None if order in ("alike", "unknown") else order == "lower"),
        ours=line(results, LINES, "rmse_table"),
        why="Error over the fitted table, as in the paper, for exact k-means prototypes. On a fresh draw: "
        + line(results, LINES, "rmse_fresh")
        + ".",
    )


def _observations(results: Results) -> Judgement:
    change = {
        name: results.at(name, results.x[-1], "rmse_table").mean - results.at(name, results.x[0], "rmse_table").mean
        for name in (GROWING, SAME, NOISE)
    }
    told = change[GROWING] < 0 and change[GROWING] < 2 * min(change[SAME], 0.0)
    return Judgement(
        holds=said(told),
        ours="change from the fewest to the most entities: "
        + "; ".join(f"{name} {number:+.4f}" for name, number in change.items()),
        why="If new observations were the reason, the gain would be small where the same users are only cut into more "
        "entities, and absent for noise. More entities also send more prototypes.",
    )


JUDGES: Final[dict[str, Judge]] = {"more-entities-better": _better, "because-more-observations": _observations}
