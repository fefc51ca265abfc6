"""Experiment 1: what holds of the supplement's statements about the k-means objective."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from twofold.experiments.reproduce.judge import Judge
from twofold.experiments.reproduce.results import Results, compare
from twofold.experiments.reproduce.verdicts import Judgement, said

__all__ = ["JUDGES"]

RATIO: Final = "objective_ratio"
_AT_MOST: Final = 1.0  # as far as the recorded runs went


def _words(results: Results, name: str) -> str:
    points = zip(results.x, results.over(name, RATIO), strict=True)
    return f"{name}: " + ", ".join(f"{point.mean:.3f} at ε = {x:g}" for x, point in points)


def _falls(results: Results) -> Judgement:
    names = [f"sound, k = {k}" for k in (10, 100)]
    told = [compare(results.over(name, RATIO)[-1], results.over(name, RATIO)[0]) == "lower" for name in names]
    rises = "Not at every step. " if any(_rises(results, name) for name in names) else ""
    return Judgement(
        holds=said(all(told)),
        ours="; ".join(_words(results, f"sound, k = {k}") for k in (10, 100))
        + f"; k-means, k = 100: {results.at('k-means, k = 100', results.x[0], RATIO)}",
        why=f"{rises}As multiples of the objective of one exact mean. The recorded values at ε = .1 and 1, 5.079e7 and "
        "5.056e7, are those of a single mean (about 5.07e7): no clustering was found.",
    )


def _rises(results: Results, name: str) -> bool:
    """Whether a line goes up anywhere."""
    return any(compare(b, a) == "higher" for a, b in pairwise(results.over(name, RATIO)))


def _caption(results: Results) -> Judgement:
    first, last = (results.at("sound, k = 10", x, RATIO) for x in (results.x[0], results.x[-1]))
    return Judgement(
        holds=said(compare(first, last) == "lower"),
        ours=f"sound, k = 10: {first} at ε = {results.x[0]:g}, {last} at ε = {results.x[-1]:g}",
        why="The caption has it the wrong way round; the text beside it says what is meant.",
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
        why=f"k = 100 is no better at ε = {', '.join(f'{x:g}' for x in at) or 'none'}: fewer people to a centre, more "
        "noise on each.",
    )


def _repeats(results: Results) -> Judgement:
    near = [x for x in results.x if x <= _AT_MOST]
    used = {
        name: [results.at(name, x, "centres_used").mean for x in near]
        for name in ("as published, k = 100", "sound, k = 100")
    }
    told = all(count < 50 for counts in used.values() for count in counts)
    return Judgement(
        holds=said(told),
        ours="; ".join(
            f"{name}: {', '.join(f'{c:.0f}' for c in counts)} of 100 centres have anybody"
            for name, counts in used.items()
        )
        + f" at ε = {', '.join(f'{x:g}' for x in near)}",
        why="True as an observation, not as a virtue: with noise this large no cell of the partition opens, there are "
        "almost no candidates, and empty clusters are filled with noise.",
    )


JUDGES: Final[dict[str, Judge]] = {
    "objective-falls-with-epsilon": _falls,
    "objective-falls-as-epsilon-decreases": _caption,
    "larger-k-not-better": _larger_k,
    "centres-repeat": _repeats,
}
