"""CPU time of round 2 at some hospitals of the paper's size: `python benchmarks/_round_two_child.py SCALE HOSPITALS`.

Run by its path, so that the code on PYTHONPATH may be an older state of the repository.
"""

from __future__ import annotations

import json
import math
import sys
import time
from typing import Any

import numpy as np

from twofold.data.bounds import Bounds
from twofold.data.sources import hospitals
from twofold.entity.adapt import adapt
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.mechanism import Bilinear, BilinearNoise
from twofold.release.bilinear.records import exact_sums
from twofold.release.content import BilinearSums
from twofold.release.contract import check_rows
from twofold.server.factorize import factorize_moments, signed


def shared_factors(rows: list[Any], plan: Plan) -> ItemFactors:
    """Item factors of a secure sum, its noise drawn once and from a seed."""
    public = plan.parameters.with_(honest=max(1, len(rows) // 2))
    layout = BilinearLayout.of(public, "gram")
    total = np.sum([exact_sums(check_rows(one, public), public, layout) for one in rows], axis=0)
    variance = round(BilinearNoise(public=public, layout=layout).deviation ** 2 * len(rows))
    drawn = DiscreteGaussian(rho=0.5, sensitivity_squared=variance, unit=public.unit).release(total, rng=0).value
    message = BilinearSums(mechanism="gram", numbers=drawn, deviation=math.sqrt(variance), law="gaussian", seeded=True)
    shared = factorize_moments(Bilinear(kind="gram").combine([message], public), plan)
    return signed(shared, plan, entities=len(rows), sound=False)


def measured(scale: float, number: int) -> dict[str, Any]:
    """CPU seconds of the local model of hospitals spread evenly over all sizes, one thread each."""
    made, cut = hospitals.load(scale), Bounds(bound=5)
    rows = {name: cut.apply(ratings)[0].matrix for name, ratings in made.items()}
    plan = Plan(
        catalog=made.catalog,
        feedback="counts",
        bound=5,
        max_items=60,
        n_users=900,
        n_entities=len(made),
        rank=20,
        mechanism="gram",
        simulation=True,
    )
    shared = shared_factors(list(rows.values()), plan)
    order = sorted(rows, key=lambda name: rows[name].shape[0])
    some = [order[int(place)] for place in (np.arange(number) + 0.5) * len(order) / number]
    how: dict[str, Any] = {"feedback": "counts", "lower": 0.0, "bound": 5.0, "rank": 20, "threads": 1}
    adapt(rows[some[0]], shared, **how)  # compiles
    adapt(rows[some[-1]][:200], shared, **how)
    seconds = []
    for name in some:
        before = time.process_time()
        adapt(rows[name], shared, **how)
        seconds.append(time.process_time() - before)
    return {
        "entities": len(order),
        "users": int(made.n_users),
        "items": len(made.catalog),
        "sizes": [int(rows[name].shape[0]) for name in some],
        "seconds": seconds,
    }


if __name__ == "__main__":
    print(json.dumps(measured(float(sys.argv[1]), int(sys.argv[2]))))
