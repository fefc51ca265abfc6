"""Every system on one split: whether any private release does better than staying alone."""

from __future__ import annotations

import math
from typing import Final

from studies.reproduce.judge import Judge
from studies.reproduce.results import Results
from studies.reproduce.told import PLACES
from studies.reproduce.verdicts import Judgement, said

__all__ = ["JUDGES"]

RMSE: Final = "rmse_pooled"
ALONE: Final = "individual MF"
MEANS: Final = "own item means"
PRIVATE: Final = (
    "private, balcan (the paper's)",
    "private, buckets",
    "private, sulq, δ = 1e-6",
    "private, popularity prototype",
    "McSherry-Mironov, private",
    "item means, private",
)


def _any_private(results: Results) -> Judgement:
    x = results.x[-1]
    errors = {name: results.at(name, x, RMSE) for name in PRIVATE}
    known = {name: point for name, point in errors.items() if math.isfinite(point.mean)}
    best = min(known, key=lambda name: known[name].mean)
    order = results.order(best, ALONE, x, RMSE)
    return Judgement(
        holds=said({"lower": True, "higher": False}.get(order)),
        ours=f"ε = {x:g}: " + "; ".join(f"{name}: {point}" for name, point in errors.items()) + f"; {ALONE} "
        f"{results.at(ALONE, x, RMSE)}; {MEANS} {results.at(MEANS, x, RMSE)}",
        rule="the best private system has a lower error in stars than individual models at the largest ε shown; the "
        "best was picked with the same split, which favours it",
        why=f"The best is {best}, {PLACES[order]} individual models.",
    )


JUDGES: Final[dict[str, Judge]] = {"some-private-beats-individual": _any_private}
