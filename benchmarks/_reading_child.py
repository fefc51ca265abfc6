"""One read in a process of its own, to tell its memory apart: `python -m benchmarks._reading_child WHO FILE`."""

from __future__ import annotations

import json
import sys
import time

import polars as pl

from benchmarks.table import peak_megabytes
from twofold import Catalog, read_ratings


def with_polars(path: str) -> int:
    """Polars' own read, and the faster of its two ways to number ids."""
    frame = pl.read_parquet(path, columns=["user", "item", "value"])
    return encode(frame).height


def encode(frame: pl.DataFrame) -> pl.DataFrame:
    """Number the ids of both columns the way polars users do."""
    text = (pl.col(name).cast(pl.String).cast(pl.Categorical).to_physical() for name in ("user", "item"))
    return frame.with_columns(*text)


def with_twofold(path: str) -> int:
    """Read into Ratings: numbered ids, sorted rows, checked values."""
    return read_ratings(path, Catalog(range(500)), feedback="counts").n_entries


if __name__ == "__main__":
    who, file = sys.argv[1:]
    base = peak_megabytes()
    start, cpu = time.perf_counter(), time.process_time()
    rows = {"polars": with_polars, "twofold": with_twofold}[who](file)
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    report = {"rows": rows, "seconds": seconds, "cpu": used, "megabytes": peak_megabytes(), "base": base}
    print(json.dumps(report))
