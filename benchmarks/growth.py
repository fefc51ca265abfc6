"""How time grows with interactions and with rank: `python -m benchmarks.growth --plot growth.svg`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks import _peers
from benchmarks._growth_plot import Line, draw
from benchmarks.table import Table, versions
from twofold.algorithms import fold_in, masked_nmf

ENTRIES_PER_USER, ITEMS, RANK = 100, 10_000, 20
Measurement = tuple[float, float, float]  # what was varied, seconds of an iteration, seconds of a fold-in


def run(*, quick: bool, plot: Path | None = None) -> list[Table]:
    """Two tables, and a plot if a file is named."""
    sizes = (50_000, 100_000, 200_000) if quick else (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
    ranks = (5, 10, 20) if quick else (5, 10, 20, 50, 100, 200)
    by_size = [(float(n), *_seconds(_interactions(n), RANK)) for n in sizes]
    middle = _interactions(sizes[-1] if quick else 1_000_000)
    by_rank = [(float(rank), *_seconds(middle, rank)) for rank in ranks]
    if plot is not None:
        plot.write_text(_picture(by_size, by_rank), encoding="utf-8")
    note = f"CPU seconds, one thread, float32, {ENTRIES_PER_USER} entries per user, {ITEMS:,} items. "
    used = versions("numpy", "numba")
    return [
        _table(f"Growth with interactions, rank {RANK}", "interactions", by_size, note + used),
        _table(f"Growth with rank, {middle.nnz:,} interactions", "rank", by_rank, note + used),
    ]


def _interactions(n: int) -> sp.csr_array:
    """Users of 100 entries each; columns rise by random steps, so no cell repeats."""
    rng = np.random.default_rng(0)
    n_users = n // ENTRIES_PER_USER
    columns = rng.integers(1, ITEMS // ENTRIES_PER_USER, (n_users, ENTRIES_PER_USER), dtype=np.int32)
    np.cumsum(columns, axis=1, out=columns)
    values = rng.integers(1, 6, n_users * ENTRIES_PER_USER, dtype=np.int8).astype(np.float32)
    starts = np.arange(n_users + 1, dtype=np.int32 if n < 2**31 else np.int64) * ENTRIES_PER_USER
    return sp.csr_array((values, columns.ravel(), starts), shape=(n_users, ITEMS))


def _seconds(X: sp.csr_array, rank: int) -> tuple[float, float]:
    """Seconds of one iteration of masked_nmf (two runs' difference) and of folding in every user."""

    def factor(iterations: int) -> object:
        return masked_nmf(X, rank, max_iterations=iterations, tolerance=0.0, threads=1)

    masked_nmf(X[:100], rank, max_iterations=1, threads=1)  # compile
    repeat = 1 if X.nnz > 20_000_000 else 3
    short, long = (min(_peers.clocked(lambda n=n: factor(n))[0] for _ in range(repeat)) for n in (1, 3))
    V = np.random.default_rng(0).random((X.shape[1], rank)).astype(np.float32)
    folded = min(_peers.clocked(lambda: fold_in(X, V, threads=1))[0] for _ in range(repeat))
    return (long - short) / 2, folded


def _table(title: str, varied: str, rows: Sequence[Measurement], note: str) -> Table:
    first, *_, last = rows
    slopes = [np.log(last[k] / first[k]) / np.log(last[0] / first[0]) for k in (1, 2)]
    power = f"Over the whole range time grows like the power {slopes[0]:.2f} (iteration) and {slopes[1]:.2f} (fold-in)."
    cells = [[f"{row[0]:,.0f}", row[1], row[2]] for row in rows]
    return Table(title=title, columns=(varied, "iteration, s", "fold-in, s"), rows=cells, note=f"{power} {note}")


def _picture(by_size: Sequence[Measurement], by_rank: Sequence[Measurement]) -> str:
    panels = []
    for title, rows in (("interactions", by_size), ("rank", by_rank)):
        x = [row[0] for row in rows]
        lines = [Line(name=n, x=x, y=[row[k] for row in rows]) for k, n in ((1, "iteration"), (2, "fold-in"))]
        panels.append((title, lines))
    return draw(panels)


def main() -> None:
    """Print the tables; save the plot where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--plot", type=Path, help="SVG file to write")
    arguments = parser.parse_args()
    for table in run(quick=arguments.quick, plot=arguments.plot):
        print(table.markdown(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
