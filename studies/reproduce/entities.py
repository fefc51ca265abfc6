"""Number of entities: what holds of the supplement."""

from __future__ import annotations

from typing import Final

from studies.reproduce.judge import Judge
from studies.reproduce.results import Order, Results, compare
from studies.reproduce.told import line
from studies.reproduce.verdicts import Judgement, said

__all__ = ["JUDGES"]

GROWING: Final = "MF + k-means"
SAME: Final = "MF + k-means, same users"
NOISE: Final = "MF + uniform noise"
TABLE: Final = "rmse_table"
FRESH: Final = "rmse_fresh"
LINES: Final = ("MF", GROWING, SAME, NOISE)


def _better(results: Results) -> Judgement:
    orders = {metric: _change(results, GROWING, metric) for metric in (TABLE, FRESH)}
    return Judgement(
        holds=said(_agreed([*orders.values()])),
        ours=f"fitted table: {line(results, LINES, TABLE)}. Fresh draw: {line(results, LINES, FRESH)}",
        rule="exact prototypes of the most entities lower than those of one entity, on the fitted table and on a fresh "
        "draw: the paper speaks of a test set and describes none, so both are asked, and where they differ it cannot "
        "be told",
        why=f"With more entities the error is {orders[TABLE]} on the fitted table and {orders[FRESH]} on a fresh draw.",
    )


def _change(results: Results, name: str, metric: str) -> Order:
    first, last = (results.at(name, x, metric) for x in (results.x[0], results.x[-1]))
    return compare(last, first)


def _agreed(orders: list[Order]) -> bool | None:
    """Whether all say lower; None unless they agree."""
    if set(orders) == {"lower"}:
        return True
    return None if "lower" in orders or "unknown" in orders else False


def _observations(results: Results) -> Judgement:
    change = {name: _difference(results, name) for name in (GROWING, SAME, NOISE)}
    told = change[GROWING] < 0 and change[GROWING] < 2 * min(change[SAME], change[NOISE], 0.0)
    return Judgement(
        holds=said(told),
        ours="fresh draw, change from the fewest to the most entities: "
        + "; ".join(f"{name} {number:+.4f}" for name, number in change.items()),
        rule="on a fresh draw, which tells whether V got better, new users lower the error, and by more than twice "
        "what cutting the same users into more entities does, and than noise; the factor two is our choice",
        why="More entities also send more prototypes; the line of the same users shows what that does by itself.",
    )


def _difference(results: Results, name: str) -> float:
    return results.at(name, results.x[-1], FRESH).mean - results.at(name, results.x[0], FRESH).mean


JUDGES: Final[dict[str, Judge]] = {"more-entities-better": _better, "because-more-observations": _observations}
