"""Other libraries on the same split: whether our pooled factorization is a fair yardstick."""

from __future__ import annotations

import math
from typing import Final

from twofold.experiments.reproduce.judge import Judge
from twofold.experiments.reproduce.results import Results
from twofold.experiments.reproduce.verdicts import Judgement, said

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
        why="Asked as: no more than 2% above the best error and no less than 95% of the best nDCG. A dash is a library "
        "that is not installed.",
    )


JUDGES: Final[dict[str, Judge]] = {"peers-alike": _alike}
