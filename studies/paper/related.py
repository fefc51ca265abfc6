"""Claims about private k-means of the related work: coresets, and the choice of Balcan et al."""

from __future__ import annotations

from typing import Final

from studies.paper.results import Results
from studies.paper.verdicts import Judge, Judgement, line, said

__all__ = ["JUDGES"]

RATIO: Final = "objective_ratio"
BALCAN: Final = "balcan"
#: Others with a pure promise, and with a δ.
PURE: Final = ("sulq", "buckets", "coreset")
APPROXIMATE: Final = ("sulq, δ", "buckets, δ", "coreset, δ", "sample and aggregate, δ")


def _scales(results: Results) -> Judgement:
    first = {
        name: next((x for x in results.x if results.at(name, x, RATIO).mean < 1), None)
        for name in ("coreset", "coreset, δ", BALCAN)
    }
    words = "; ".join(f"{name} from {'no ε' if x is None else f'ε = {x:g}'}" for name, x in first.items())
    worked = first["coreset, δ"] is not None or first["coreset"] is not None
    return Judgement(
        holds=said(not worked),
        ours=f"better than one exact mean: {words}; {line(results, ('coreset, δ',), RATIO)}",
        rule="the coreset runs on all users of this size, and at some ε its centres beat one exact mean; then the "
        "claim does not hold",
        why="A tree of sign hashes reads every row twice, whatever k is."
        if worked
        else "It ran, but its centres are nowhere better than one mean.",
    )


def _best(results: Results) -> Judgement:
    lower = {name: [x for x in results.x if results.order(name, BALCAN, x, RATIO) == "lower"] for name in PURE}
    beaten = {name: xs for name, xs in lower.items() if xs}
    words = "; ".join(f"{name} at ε = {', '.join(f'{x:g}' for x in xs)}" for name, xs in beaten.items())
    unknown = any(results.order(name, BALCAN, x, RATIO) == "unknown" for name in PURE for x in results.x)
    return Judgement(
        holds=said(False if beaten else None if unknown else True),
        ours=line(results, (BALCAN, *PURE, *APPROXIMATE, "k-means"), RATIO),
        rule="no other mechanism with the same pure ε has a lower objective at any ε shown",
        why=f"Lower than it: {words}." if beaten else "None is lower at any ε.",
    )


JUDGES: Final[dict[str, Judge]] = {
    "coresets-do-not-scale": _scales,
    "balcan-is-the-one": _best,
}
