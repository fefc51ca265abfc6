"""One step of `benchmarks.scan`, in a process of its own: `python -m benchmarks._scan_child STEP FOLDER`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import twofold as tw
from benchmarks.table import peak_megabytes

ITEMS, PER_USER, FILES = 500, 50, 10
#: Users generated at once; their rows are dealt out to `FILES` files, so that every user is in all of them.
GROUP = 2_000_000


def catalog() -> tw.Catalog:
    return tw.Catalog(list(range(ITEMS)))


def plan() -> tw.Plan:
    return tw.Plan(
        catalog=catalog(),
        feedback="counts",
        bound=5,
        max_items=PER_USER,
        n_users=20_000,
        n_entities=2,
        mechanism="gram",
        epsilon=1,
        delta=1e-6,
        simulation=True,
    )


def generate(folder: Path, interactions: int) -> None:
    """Users in no order, the rows of each in ten files; items rise by random steps, two halves of the catalog apart."""
    rng, users = np.random.default_rng(0), max(1, interactions // PER_USER)
    for first in range(0, users, GROUP):
        number = min(GROUP, users - first)
        steps = rng.integers(1, 2 * (ITEMS // PER_USER), (number, PER_USER), dtype=np.int16)
        steps[::2] = steps[::2] // 2 + 1  # every other person has the first half of the catalog
        columns = np.minimum(np.cumsum(steps, axis=1, dtype=np.int16), ITEMS + PER_USER)
        for file in range(FILES):
            part = columns[:, file::FILES]
            order = (np.arange(number, dtype=np.int64) * 1_000_003 + file) % number  # prime to any size here
            frame = pl.DataFrame(
                {
                    "user": np.repeat((order + first).astype(np.int32), part.shape[1]),
                    "item": part[order].ravel(),
                    "value": rng.integers(1, 6, part.size, dtype=np.int8),
                }
            ).filter(pl.col("item") < ITEMS)
            frame.write_parquet(folder / f"{first // GROUP:04}-{file:02}.parquet", compression="lz4")


def release(folder: Path) -> dict[str, Any]:
    sent = tw.Entity("large", tw.scan(folder, catalog()), plan(), rng=7).release()
    sent.save(folder / "large.round1")
    return {"receipt": sent.receipt}


def personalize(folder: Path) -> dict[str, Any]:
    rng, agreed = np.random.default_rng(1), plan()
    rows = (rng.random((2_000, ITEMS)) < 0.1) * 1.0
    small = tw.Ratings.from_matrix(rows, catalog=catalog())
    other = tw.Entity("small", small, agreed, rng=8).release()
    factors = tw.Server(agreed).factorize([folder / "large.round1", other])
    model = tw.Entity("large", tw.scan(folder, catalog()), agreed).personalize(factors)
    model.save(folder / "large.model")
    return {"note": model.note}


def recommend(folder: Path) -> dict[str, Any]:
    model = tw.Model.load(folder / "large.model")
    model.recommend_all(folder / "lists.out.parquet", histories=tw.scan(folder, catalog()))
    lists = folder / "lists.out.parquet"
    size = lists.stat().st_size
    lists.unlink()
    return {"written": size}


def memory(folder: Path) -> dict[str, Any]:
    """The same release with everything in memory, for its receipt."""
    frame = pl.read_parquet(folder / "*.parquet")
    sent = tw.Entity("large", tw.read_ratings(frame, catalog()), plan(), rng=7).release()
    return {"receipt": sent.receipt}


def dask(folder: Path) -> dict[str, Any]:
    """The same release on a Dask cluster of two processes."""
    import dask.dataframe as frames
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster):
        frame = frames.read_parquet(sorted(folder.glob("*.parquet")))
        parts = max(4, len(list(folder.glob("*.parquet"))))
        sent = tw.Entity("large", tw.scan(frame, catalog(), parts=parts), plan(), rng=7).release()
    return {"receipt": sent.receipt}


def spark(folder: Path) -> dict[str, Any]:
    """The same release on Spark in local mode; run by a Python that has pyspark."""
    import os

    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= {"spark.driver.memory": "3g", "spark.local.dir": str(folder)}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    frame = session.read.parquet(*map(str, sorted(folder.glob("*.parquet"))))
    parts = max(4, len(list(folder.glob("*.parquet"))))
    sent = tw.Entity("large", tw.scan(frame, catalog(), parts=parts), plan(), rng=7).release()
    session.stop()
    return {"receipt": sent.receipt}


def main() -> None:
    step, folder = sys.argv[1], Path(sys.argv[2])
    began, cpu = time.perf_counter(), time.process_time()
    if step == "generate":
        generate(folder, int(float(sys.argv[3])))
        told: dict[str, Any] = {}
    else:
        told = globals()[step](folder)
    book = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    told |= {"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu, "megabytes": peak_megabytes()}
    print(json.dumps(told | {"read": int(book["rchar"]), "wrote": int(book["wchar"])}))


if __name__ == "__main__":
    main()
