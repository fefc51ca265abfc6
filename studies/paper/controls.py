"""Our controls: noise alone, MovieLens as ratings, every system, other libraries, bytes and rounds."""

from __future__ import annotations

import math
from typing import Final

from studies.paper.results import Point, Results
from studies.paper.verdicts import PLACES, Judge, Judgement, all_of, line, said

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


RMSE: Final = "rmse_pooled"
POOLED: Final = "pooled MF"
ALONE: Final = "individual MF"
FEDERATED: Final = "federated, private"
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
    orders = results.orders(FEDERATED, ALONE, RMSE)
    return Judgement(
        holds=said(all_of(list(orders), ("lower",))),
        ours=line(results, (POOLED, ALONE, EXACT, FEDERATED, ADAPTED), RMSE),
        rule="error in stars of private prototypes lower than that of individual models for every ε shown",
        why=f"Next to individual models: prototypes {', '.join(orders)}; adapted by each entity to its own ratings, "
        f"{', '.join(results.orders(ADAPTED, ALONE, RMSE))}, for ε = {', '.join(f'{x:g}' for x in results.x)}.",
    )


MEANS: Final = "own item means"
PRIVATE_SYSTEMS: Final = (
    "private, balcan (the paper's)",
    "private, buckets",
    "private, sulq, δ = 1e-6",
    "private, popularity prototype",
    "McSherry-Mironov, private",
    "item means, private",
)


def _any_private(results: Results) -> Judgement:
    x = results.x[-1]
    errors = {name: results.at(name, x, RMSE) for name in PRIVATE_SYSTEMS}
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


RATING_LIBRARIES: Final = ("cmfrec, ratings", "LensKit, ratings")
IMPLICIT_LIBRARIES: Final = ("implicit ALS", "cmfrec, implicit", "LensKit, implicit")


def _alike(results: Results) -> Judgement:
    x = results.x[-1]
    own, ranked = results.at("twofold, ratings", x, "rmse_pooled"), results.at("twofold, counts", x, "ndcg")
    errors = {name: results.at(name, x, "rmse_pooled") for name in RATING_LIBRARIES}
    gains = {name: results.at(name, x, "ndcg") for name in IMPLICIT_LIBRARIES}
    best = min((point.mean for point in errors.values() if math.isfinite(point.mean)), default=math.nan)
    top = max((point.mean for point in gains.values() if math.isfinite(point.mean)), default=math.nan)
    known = math.isfinite(best) and math.isfinite(top)
    told = own.mean <= 1.02 * best and ranked.mean >= 0.95 * top if known else None
    numbers = [f"{name} {point}" for name, point in errors.items()]
    ranks = [f"{name} {point}" for name, point in gains.items()]
    return Judgement(
        holds=said(told),
        ours=f"ℓ = {x:g}. RMSE: twofold {own}, {', '.join(numbers)}. nDCG@10: twofold {ranked}, {', '.join(ranks)}",
        rule="error no more than 2% above the best of the others and nDCG@10 no less than 95% of the best, at the "
        "largest ℓ; both limits are our choice",
        why=f"{_verdict_of_error(own.mean, best)} {_verdict_of_rank(ranked.mean, top)}{_missing(errors | gains)}",
    )


def _verdict_of_error(own: float, best: float) -> str:
    return f"Our error is {100 * (own / best - 1):+.1f}% next to the best of the others."


def _verdict_of_rank(own: float, best: float) -> str:
    return f"Our nDCG@10 is {100 * own / best:.0f}% of the best; nothing was tuned for it."


def _missing(points: dict[str, Point]) -> str:
    """Libraries without a number."""
    names = sorted({name.split(",")[0] for name, point in points.items() if not point.seeds})
    return f" Not installed: {', '.join(names)}." if names else ""


TWO: Final = "two rounds, k-means"
TWO_PRIVATE: Final = "two rounds, private, ε = 10"
ITERATIVE: Final = ("federated ALS", "FedAvg")


def _reached(results: Results, name: str, error: float) -> tuple[float, float, float]:
    """Iterations, megabytes and rounds of the shortest run with no larger error; NaN if there is none."""
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
    private = f"{results.at(TWO_PRIVATE, x, RMSE)} with {results.at(TWO_PRIVATE, x, 'megabytes').mean:.1f} MB"
    return Judgement(
        holds=said(told),
        ours=f"two rounds, k-means: RMSE {own[0]:.3f} with {own[1]:.1f} MB; private at ε = 10: {private}; "
        + "; ".join(_reached_words(name, found) for name, found in reached.items()),
        rule="every iterative system that reaches the error of exact prototypes needs more megabytes for it; one that "
        "does not get there is not counted",
        why=f"Two rounds are fewer by construction. Iterative systems send exact functions of raw ratings every time; "
        f"with {results.x[-1]:g} iterations they get to {_lowest(results)}.",
    )


def _lowest(results: Results) -> str:
    return ", ".join(f"{results.at(name, results.x[-1], RMSE)} ({name})" for name in ITERATIVE)


def _reached_words(name: str, found: tuple[float, float, float]) -> str:
    if not math.isfinite(found[1]):
        return f"{name} does not get there"
    return f"{name} gets there with {found[1]:.1f} MB in {found[2]:.0f} rounds"


JUDGES: Final[dict[str, Judge]] = {
    "noise-is-chance": _chance,
    "pooled-as-ratings": _pooled,
    "federated-beats-individual-ratings": _federated,
    "some-private-beats-individual": _any_private,
    "peers-alike": _alike,
    "two-rounds-cheaper": _cheaper,
}
