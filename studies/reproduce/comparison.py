"""Other libraries on the same split: whether our pooled factorization is a fair yardstick."""

from __future__ import annotations

import math
from typing import Final

from studies.reproduce.judge import Judge
from studies.reproduce.results import Point, Results
from studies.reproduce.verdicts import Judgement, said

__all__ = ["JUDGES"]

RATINGS: Final = ("cmfrec, ratings", "LensKit, ratings")
IMPLICIT: Final = ("implicit ALS", "cmfrec, implicit", "LensKit, implicit")


def _alike(results: Results) -> Judgement:
    x = results.x[-1]
    own, ranked = results.at("twofold, ratings", x, "rmse_pooled"), results.at("twofold, counts", x, "ndcg")
    errors = {name: results.at(name, x, "rmse_pooled") for name in RATINGS}
    gains = {name: results.at(name, x, "ndcg") for name in IMPLICIT}
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


JUDGES: Final[dict[str, Judge]] = {"peers-alike": _alike}
