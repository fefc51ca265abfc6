"""Experiment 1: what holds of the supplement's statements about the k-means objective."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from studies.as_published import printed_constants
from studies.reproduce.judge import Judge
from studies.reproduce.results import Point, Results, compare
from studies.reproduce.rules import COMPARABLE, SAME, limit, near
from studies.reproduce.verdicts import Judgement, all_of, said

__all__ = ["JUDGES"]

RATIO: Final = "objective_ratio"
_AT_MOST: Final = 1.0  # as far as the recorded runs went
_HALF: Final = 50


def _words(results: Results, name: str) -> str:
    points = zip(results.x, results.over(name, RATIO), strict=True)
    return f"{name}: " + ", ".join(f"{point.mean:.3f} at ε = {x:g}" for x, point in points)


def _falls(results: Results) -> Judgement:
    lines = {k: results.over(f"sound, k = {k}", RATIO) for k in (10, 100)}
    ends = [compare(points[-1], points[0]) for points in lines.values()]
    rising = [f"k = {k} after ε = {x:g}" for k, points in lines.items() for x in _rises(results.x, points)]
    apart = [
        points[-1].mean / results.at(f"k-means, k = {k}", results.x[-1], RATIO).mean - 1 for k, points in lines.items()
    ]
    told = set(ends) == {"lower"} and not rising and bool(near(apart, COMPARABLE, below=True))
    return Judgement(
        holds=said(None if "unknown" in ends else told),
        ours="; ".join(_words(results, f"sound, k = {k}") for k in (10, 100))
        + f"; k-means: {results.at('k-means, k = 10', results.x[0], RATIO)} and "
        f"{results.at('k-means, k = 100', results.x[0], RATIO)}; in numbers, one exact mean "
        f"{results.at('one exact mean', results.x[0], 'objective').mean:.4g}",
        rule="lower at the largest ε than at the smallest for k = 10 and 100, no step up between, and near k-means in "
        f"the end, {limit(apart, COMPARABLE, below=True)}",
        why=(f"It rises for {', '.join(rising)}. " if rising else "It never rises. ")
        + "The numbers are multiples of the objective of one exact mean.",
    )


def _rises(x: Sequence[float], points: Sequence[Point]) -> list[float]:
    """The values of ε after which a line goes up."""
    return [at for at, (a, b) in zip(x, pairwise(points), strict=False) if compare(b, a) == "higher"]


def _caption(results: Results) -> Judgement:
    first, last = (results.at("sound, k = 10", x, RATIO) for x in (results.x[0], results.x[-1]))
    return Judgement(
        holds=said(all_of([compare(first, last)], ("lower",))),
        ours=f"sound, k = 10: {first} at ε = {results.x[0]:g}, {last} at ε = {results.x[-1]:g}",
        rule="lower at the smallest ε than at the largest, for k = 10",
        why="The text beside the caption says the opposite; only one of them can be meant.",
    )


def _is_private(results: Results) -> Judgement:
    told = 0.1
    spent = printed_constants(100_000, 100, told).really_spent
    return Judgement(
        holds=said(spent <= told),
        ours=f"the printed steps add up to ε = {spent:.2f} for a told {told:g}, on the most charitable reading",
        rule="the steps of the printed algorithm pay no more than the ε that is told; arithmetic, nothing was run",
        why="Its scales and divisors also hold sizes of clusters, which are private, so that strictly it has no ε. Our "
        f"sound form pays the ε told; its lines here are {_words(results, 'sound, k = 10')}.",
    )


def _larger_k(results: Results) -> Judgement:
    pairs = [(results.at("sound, k = 100", x, RATIO), results.at("sound, k = 10", x, RATIO)) for x in results.x]
    at = [x for x, (many, few) in zip(results.x, pairs, strict=True) if compare(many, few) != "lower"]
    return Judgement(
        holds=said(bool(at)),
        ours="; ".join(
            f"ε = {x:g}: {few.mean:.3f} and {many.mean:.3f}" for x, (many, few) in zip(results.x, pairs, strict=True)
        )
        + " for k = 10 and 100",
        rule="k = 100 not lower than k = 10 for at least one ε",
        why=f"k = 100 is no better at ε = {', '.join(f'{x:g}' for x in at) or 'none'}. A larger k means fewer people "
        "to a centre and more noise on each.",
    )


def _repeats(results: Results) -> Judgement:
    near_zero = [x for x in results.x if x <= _AT_MOST]
    names = ("as published, k = 100", "sound, k = 100")
    used = {name: [results.at(name, x, "centres_used").mean for x in near_zero] for name in names}
    lowest = min(results.at(name, x, RATIO).mean for name in names for x in near_zero)
    exact = results.at("k-means, k = 100", results.x[0], RATIO).mean
    told = all(count < _HALF for counts in used.values() for count in counts) and lowest >= 1 - SAME
    return Judgement(
        holds=said(told),
        ours="; ".join(
            f"{name}: {', '.join(f'{c:.0f}' for c in counts)} of 100 centres have anybody"
            for name, counts in used.items()
        )
        + f" at ε = {', '.join(f'{x:g}' for x in near_zero)}; lowest objective {lowest:.3f} times that of one mean",
        rule="for ε up to 1, as recorded, fewer than half of 100 centres have anybody, and the objective is no more "
        f"than 2% below that of a single mean, where exact k-means is {100 * (1 - exact):.0f}% below; both limits are "
        "our choice",
        why="An observation, not a virtue: a centre that nobody is near describes nobody.",
    )


JUDGES: Final[dict[str, Judge]] = {
    "objective-falls-with-epsilon": _falls,
    "objective-falls-as-epsilon-decreases": _caption,
    "algorithm-is-private": _is_private,
    "larger-k-not-better": _larger_k,
    "centres-repeat": _repeats,
}
