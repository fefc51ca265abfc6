"""MEDS: a folder of shards in, recommendations with titles out."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
from made_up import ITEMS, visits

import twofold as tw

# Yours: the folder that a converter wrote. These shards are made up, with one event per visit.
root = Path("meds")
start = datetime(2025, 1, 1)
for shard, hospital in enumerate(("st-anna", "st-bern")):
    rows = [
        (1000 * shard + int(patient.rpartition("-")[2]), start + timedelta(days=day), f"LAB//{code}//mmol/L")
        for day, (_, patient, code, count) in enumerate(visits(hospital, 120))
        for _ in range(count)
    ]
    file = root / "data" / "train" / f"{shard}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, schema=["subject_id", "time", "code"], orient="row").write_parquet(file)
(root / "metadata").mkdir(exist_ok=True)
(root / "metadata" / "dataset.json").write_text('{"dataset_name": "made up"}')

# The list of items is public: here it is the vocabulary of the example, and not metadata/codes.parquet of the data.
pl.DataFrame({"code": [f"LAB//{item}" for item in ITEMS], "description": ITEMS}).write_csv("codes.csv")
catalog = tw.meds_catalog("codes.csv", public=True)

ratings = tw.read_meds(root, catalog, codes=["LAB//"], since="2025-01-01", before="2027-01-01")
print(f"{ratings.n_users} people, {ratings.notes.rows:,} events")
titles = dict(zip(catalog.items, catalog.features["title"], strict=True))
for item, score in tw.fit_alone(ratings).recommend(7, n=3):
    print(f"{titles[item]:10} {score:.3f}")
