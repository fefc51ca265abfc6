"""Reading tables: twofold into Ratings against polars' own read, and growth to 100 million rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.table import Table, measure, versions
from twofold import Catalog, read_ratings

NAMES = ["user", "item", "rating"]


def run(*, quick: bool) -> list[Table]:
    """The tables of this benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_movielens(Path(folder), quick), _growth(Path(folder), quick)]


def _movielens(folder: Path, quick: bool) -> list[Table]:
    named = os.environ.get("TWOFOLD_DATA")
    if not named:
        return [Table(title="MovieLens 1M", columns=["skipped"], rows=[["TWOFOLD_DATA is not set"]])]
    source = Path(named) / "movielens-1m"
    frame = pl.read_csv(source / "ratings.csv.gz")
    catalog = Catalog(pl.read_csv(source / "movies.csv.gz")["item"])
    files = {"CSV.gz": source / "ratings.csv.gz", "CSV": folder / "ratings.csv", "Parquet": folder / "ratings.parquet"}
    frame.write_csv(files["CSV"])
    frame.write_parquet(files["Parquet"])
    rows = [_compare(kind, path, catalog, 3 if quick else 25) for kind, path in files.items()]
    note = (
        "Best of many runs, taken in turns. Ours ends in sorted, checked sparse rows with numbered ids; polars' read "
        f"ends in a frame, its encoding in a frame with numbered ids. {versions('twofold', 'polars', 'scipy')}."
    )
    columns = ["file", "polars read ms", "+ encode ms", "twofold ms", "twofold / read", "twofold / (read + encode)"]
    return [Table(title="MovieLens 1M, 1,000,209 rows", columns=columns, rows=rows, note=note)]


def _compare(kind: str, path: Path, catalog: Catalog, repeat: int) -> list[object]:
    def read() -> pl.DataFrame:
        return pl.read_parquet(path, columns=NAMES) if kind == "Parquet" else pl.read_csv(path)

    jobs: list[Callable[[], object]] = [
        read,
        lambda: read().with_columns(pl.col("user", "item").rank("dense")),
        lambda: read().with_columns(pl.col("user", "item").cast(pl.String).cast(pl.Categorical).to_physical()),
        lambda: read_ratings(path, catalog, value="rating"),
    ]
    walls = np.array([[measure(job, repeat=1).wall for job in jobs] for _ in range(repeat)]).min(axis=0) * 1e3
    plain, encoded, ours = walls[0], walls[1:3].min(), walls[3]
    return [kind, f"{plain:.1f}", f"{encoded:.1f}", f"{ours:.1f}", f"{ours / plain:.2f}", f"{ours / encoded:.2f}"]


def _growth(folder: Path, quick: bool) -> Table:
    millions = (0.1, 1) if quick else (1, 10, 100)
    rows = []
    for size in millions:
        path = folder / "generated.parquet"
        _generate(path, round(size * 1e6))
        ours, peer = (_child(who, path) for who in ("twofold", "polars"))
        per_row = ours["seconds"] / ours["rows"] * 1e9
        ratio = f"{ours['seconds'] / peer['seconds']:.2f}"
        memory = [f"{ours['megabytes']:,.0f}", f"{peer['megabytes']:,.0f}"]
        rows.append([f"{size:g}", f"{ours['seconds']:.2f}", f"{peer['seconds']:.2f}", ratio, f"{per_row:.0f}", *memory])
        path.unlink()
    columns = ["million rows", "twofold s", "polars s", "ratio", "twofold ns per row", "twofold MB", "polars MB"]
    note = "Each read in a process of its own; MB is its peak, interpreter included. Polars: read and number the ids."
    return Table(title="Generated counts from Parquet, 500 items", columns=columns, rows=rows, note=note)


def _generate(path: Path, rows: int) -> None:
    """Distinct (user, item) pairs in blocks: each user takes a run of items from a start of its own."""
    each, block, rng = 100, 1_000_000, np.random.default_rng(0)
    parts = path.with_suffix("")
    parts.mkdir()
    for number, first in enumerate(range(0, rows, block)):
        order = rng.permutation(np.arange(first, min(first + block, rows)))
        users = order // each
        items = (users * 37 + order % each * 3) % 500
        frame = pl.DataFrame({"user": users * 7 + 3, "item": items, "value": rng.poisson(2, order.size) + 1})
        frame.write_parquet(parts / f"{number:04}.parquet")
    pl.scan_parquet(parts / "*.parquet").sink_parquet(path)
    for part in parts.iterdir():
        part.unlink()
    parts.rmdir()


def _child(who: str, path: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks._reading_child", who, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(result.stdout))
