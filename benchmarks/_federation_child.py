"""One federation in a process of its own, for its memory: `python -m benchmarks._federation_child WHO SCALE`."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from typing import Any

from benchmarks.table import peak_megabytes
from twofold.data.federation import Federation
from twofold.data.sources import hospitals, movielens
from twofold.federation.plan import Plan
from twofold.simulation import simulate


def hospital_federation(scale: float) -> tuple[Federation, Plan]:
    """The simulator at `scale` times the paper's size, with a plan of public numbers only."""
    federation = hospitals.load(scale)
    return federation, _plan(federation, bound=5, max_items=60, n_users=900)


def movielens_federation(scale: float) -> tuple[Federation, Plan]:
    """MovieLens 1M by the first digit of the ZIP code; below 1 only some users of each entity."""
    whole = movielens.load()
    step = round(1 / scale)
    federation = Federation({name: ratings.take(range(0, ratings.n_users, step)) for name, ratings in whole.items()})
    return federation, _plan(federation, bound=5, lower=1, max_items=100, n_users=600)


def _plan(federation: Federation, **public: Any) -> Plan:
    return Plan(catalog=federation.catalog, feedback=federation.feedback, n_entities=len(federation), rank=20, **public)


def measured(who: str, scale: float) -> dict[str, Any]:
    """Run both rounds with real noise and a ledger each, then ten recommendations for everyone."""
    federation, plan = {"hospitals": hospital_federation, "movielens": movielens_federation}[who](scale)
    loaded, wall, cpu = peak_megabytes(), time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        done = simulate(federation, plan, ledgers=folder, new_ledgers=True)
    start = time.perf_counter()
    lists = sum(model.recommend_all(n=10).height for model in done.models.values())
    end = time.perf_counter()
    kinds = [model.scorer.kind for model in done.models.values()]
    return {
        "entities": len(federation),
        "users": federation.n_users,
        "entries": federation.n_entries,
        **done.seconds,
        "top 10": end - start,
        "wall": end - wall,
        "cpu": time.process_time() - cpu,
        "loaded": loaded,
        "megabytes": peak_megabytes(),
        "lists": lists,
        "sent": max(done.sent.values()),
        "strength": statistics.median(done.strengths.values()),
        "item-item": kinds.count("item-item"),
    }


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], float(sys.argv[2]))))
