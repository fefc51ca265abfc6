"""polars: three hospitals in one table, a simulated federation, and who took something from the others."""

from __future__ import annotations

import polars as pl
from made_up import ITEMS, visits

import twofold as tw
from twofold.simulation import read_federation

rows = [*visits("st-anna", 800), *visits("st-bern", 800), *visits("st-clara", 50)]
frame = pl.DataFrame(rows, schema=["hospital", "patient", "code", "count"], orient="row")
catalog = tw.Catalog(ITEMS)
federation = read_federation(
    frame, catalog, entity="hospital", user="patient", item="code", value="count", feedback="counts"
)
plan = tw.Plan(
    catalog=catalog,
    feedback="counts",
    bound=5,
    max_items=6,
    rank=4,
    mechanism="gram",
    n_users=500,
    n_entities=3,
    secure=tw.OperatorSum(floor=3),
    simulation=True,  # one process holds everybody's data, so nothing here is private
)
done = tw.simulate(federation, plan, rng=0)
for name, model in done.models.items():
    taken = next(line for line in model.summary().splitlines() if line.startswith("The shared item factors"))
    print(f"{name}: {taken}")
print(pl.DataFrame([{"item": one.item, "score": one.score} for one in done.recommend("st-clara", "st-clara-7", n=3)]))
