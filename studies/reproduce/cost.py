"""Cost of federating: bytes and rounds at equal accuracy."""

from __future__ import annotations

import math
from typing import Final

from studies.reproduce.judge import Judge
from studies.reproduce.results import Results
from studies.reproduce.verdicts import Judgement, said

__all__ = ["JUDGES"]

RMSE: Final = "rmse_pooled"
TWO: Final = "two rounds, k-means"
PRIVATE: Final = "two rounds, private, ε = 10"
ITERATIVE: Final = ("federated ALS", "FedAvg")


def _reached(results: Results, name: str, error: float) -> tuple[float, float, float]:
    """Iterations, megabytes and rounds of the shortest run that errs no more; not numbers if none does."""
    for x in results.x:
        if results.at(name, x, RMSE).mean <= error:
            return x, results.at(name, x, "megabytes").mean, results.at(name, x, "rounds").mean
    return math.nan, math.nan, math.nan


def _cheaper(results: Results) -> Judgement:
    x = results.x[0]
    own = results.at(TWO, x, RMSE).mean, results.at(TWO, x, "megabytes").mean
    reached = {name: _reached(results, name, own[0]) for name in ITERATIVE}
    known = [found for found in reached.values() if math.isfinite(found[1])]
    told = all(found[1] > own[1] for found in known) if known else None
    private = f"{results.at(PRIVATE, x, RMSE)} with {results.at(PRIVATE, x, 'megabytes').mean:.1f} MB"
    return Judgement(
        holds=said(told),
        ours=f"two rounds, k-means: RMSE {own[0]:.3f} with {own[1]:.1f} MB; private at ε = 10: {private}; "
        + "; ".join(_words(name, found) for name, found in reached.items()),
        rule="every iterative system that reaches the error of exact prototypes needs more megabytes for it; one that "
        "does not get there is not counted",
        why=f"Two rounds are fewer by construction. Iterative systems send exact functions of raw ratings every time; "
        f"with {results.x[-1]:g} iterations they get to {_lowest(results)}.",
    )


def _lowest(results: Results) -> str:
    return ", ".join(f"{results.at(name, results.x[-1], RMSE)} ({name})" for name in ITERATIVE)


def _words(name: str, found: tuple[float, float, float]) -> str:
    if not math.isfinite(found[1]):
        return f"{name} does not get there"
    return f"{name} gets there with {found[1]:.1f} MB in {found[2]:.0f} rounds"


JUDGES: Final[dict[str, Judge]] = {"two-rounds-cheaper": _cheaper}
