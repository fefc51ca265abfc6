"""Growth out of core: release, personalize and recommend over more rows than memory holds.

`python -m benchmarks.scan --interactions 1e6 1e7 1e8 --same --spark .venv-spark/bin/python`
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._scan_child import FILES, ITEMS, PER_USER
from benchmarks.table import Table, versions

STEPS = ("release", "personalize", "recommend")
NOTE = (
    f"Generated: {ITEMS} items, up to {PER_USER} entries a person, whose rows are in {FILES} files and in no order. "
    "Every step is a process of its own that starts from the files; DuckDB may hold 1 GB. Peak: VmHWM of the process. "
    "Read and written count every byte that the process asked for, temporary files included; files is the size on disk."
)


def run(
    *,
    quick: bool,
    interactions: Sequence[float] = (),
    steps: Sequence[str] = STEPS,
    same: bool = False,
    spark: str | None = None,
    folder: Path | None = None,
) -> list[Table]:
    """Growth over some sizes; with `same`, also whether every engine releases the same bytes."""
    sizes = tuple(interactions) or ((1e5, 1e6) if quick else (1e6, 1e7, 1e8))
    rows: list[list[object]] = []
    proofs: list[list[object]] = []
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder, prefix="twofold-growth-") as place:
            _child("generate", place, f"{size:.0f}")
            total = sum(path.stat().st_size for path in Path(place).glob("*.parquet"))
            told = {step: _child(step, place) for step in steps}
            rows += [_line(size, step, told[step], total) for step in steps]
            if same:
                proofs += _same(size, place, told["release"], spark)
    tables = [_growth(rows, sizes, steps)]
    if proofs:
        columns = ("interactions", "engine", "wall s", "CPU s", "peak MB", "receipt", "same")
        note = "CPU and peak are those of the process that draws the noise; workers have their own."
        tables.append(Table(title="The same bytes from every engine", columns=columns, rows=proofs, note=note))
    return tables


def _growth(rows: list[list[object]], sizes: Sequence[float], steps: Sequence[str]) -> Table:
    columns = ("interactions", "step", "wall s", "CPU s", "peak MB", "files MB", "read MB", "written MB")
    powers = []
    for step in steps:
        seconds = [float(str(row[3])) for row in rows if row[1] == step]
        if len(sizes) > 1:
            powers.append(f"{step} {np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2]):.2f}")
    grown = f"From the last size but one to the last, CPU time grows with the power: {', '.join(powers)}. "
    note = grown * bool(powers) + NOTE + " " + versions("duckdb", "numpy", "polars")
    return Table(title="Growth with interactions, out of core", columns=columns, rows=rows, note=note)


def _line(size: float, step: str, told: dict[str, Any], total: int) -> list[object]:
    mega = [f"{number / 1e6:,.0f}" for number in (total, told["read"], told["wrote"])]
    return [f"{size:,.0f}", step, round(told["wall"], 1), round(told["cpu"], 1), f"{told['megabytes']:,.0f}", *mega]


def _same(size: float, place: str, due: dict[str, Any], spark: str | None) -> list[list[object]]:
    rows = [_proof(size, "scan (DuckDB)", due, due)]
    for engine, python in (("memory", None), ("dask", None), *((("spark", spark),) if spark else ())):
        rows.append(_proof(size, engine, _child(engine, place, python=python), due))
    return rows


def _proof(size: float, engine: str, told: dict[str, Any], due: dict[str, Any]) -> list[object]:
    seconds = [round(told["wall"], 1), round(told["cpu"], 1), f"{told['megabytes']:,.0f}"]
    return [f"{size:,.0f}", engine, *seconds, told["receipt"][:16], told["receipt"] == due["receipt"]]


def _child(step: str, *arguments: str, python: str | None = None) -> dict[str, Any]:
    command = [python or sys.executable, "-m", "benchmarks._scan_child", step, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(step, *arguments[1:], told, file=sys.stderr, flush=True)
    return told


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scan", description=__doc__)
    parser.add_argument("--interactions", type=float, nargs="+", default=[], help="sizes, as 1e6 1e7")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--same", action="store_true", help="also release from memory, Dask and Spark, and compare")
    parser.add_argument("--spark", metavar="PYTHON", help="a Python that has pyspark, such as .venv-spark/bin/python")
    parser.add_argument("--folder", type=Path, help="where to put the files")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    for table in run(**vars(parser.parse_args())):
        print(table.markdown(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
