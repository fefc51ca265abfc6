"""The server: time and memory of factorizing 20 to 500 messages, and of 10 GB of messages that do not fit."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _peers
from benchmarks.table import Table, versions
from twofold.federation.messages import encode_release
from twofold.federation.plan import CatalogKey, Plan
from twofold.release.content import Prototypes
from twofold.server import Server
from twofold.server import factorize as sources
from twofold.server.factorize import MEMORY_LIMIT

PATTERNS = 12
NOTE = (
    "Messages are files. Each is read and checked, then all are combined and factorized to rank 20 on 2 threads. Extra "
    "MB: what the job adds to the process at its peak, by Linux's own book. Growth: time over that of the row above, "
    "beside how many times more messages there are."
)


def run(*, quick: bool) -> list[Table]:
    """Stacked and added-up messages of 10 prototypes, then the case that needs several passes."""
    columns = ("way", "entities", "MB of messages", "wall s", "growth", "extra MB")
    sizes = (5, 20) if quick else (20, 205, 500)
    rows = [row for way in ("stacked", "added up") for row in _growth(way, sizes)]
    return [
        Table(
            title=f"Factorizing messages of 10 prototypes of 457 items, {sizes[0]} to {sizes[-1]} entities",
            columns=columns,
            rows=rows,
            note=f"{NOTE} Added up: 120 public cells a message. {versions('numpy', 'scipy', 'numba')}",
        ),
        _streamed(quick=quick),
    ]


def _growth(way: str, sizes: tuple[int, ...]) -> list[list[object]]:
    plan, rows, before = _plan(way, n_items=457), [], None
    with tempfile.TemporaryDirectory() as place:
        paths = _write(plan, Path(place), max(sizes))
        Server(plan).factorize(paths[:2])  # compile
        for number in sizes:
            wall, memory = _measured(Server(plan), paths[:number])
            growth = "" if before is None else f"{wall / before[1]:.1f} x for {number / before[0]:.1f} x"
            rows.append([way, number, _megabytes(paths[:number]), wall, growth, memory])
            before = (number, wall)
    return rows


def _streamed(*, quick: bool) -> Table:
    number, n_items, limit = (40, 8_192, 8 << 20) if quick else (500, 262_144, MEMORY_LIMIT)
    plan = _plan("stacked", n_items=n_items)
    with tempfile.TemporaryDirectory() as place:
        paths = _write(plan, Path(place), number)
        total = _megabytes(paths)
        with _counted_reads() as reads:
            wall, memory = _measured(Server(plan, memory_limit=limit), paths)
    looks = len(reads) / number
    return Table(
        title=f"Messages that do not fit into memory together: {number} of {total / number:.2g} MB",
        columns=(
            "entities",
            "MB of messages",
            "limit MB",
            "reads of a message",
            "wall s",
            "s per read of all",
            "extra MB",
        ),
        rows=[[number, total, limit / 1e6, looks, wall, wall / looks, memory]],
        note="Stacked rows beyond the limit are factorized in passes, some messages in memory at a time. Every message "
        "is read to check it, twice to squeeze the rows, and once in each pass. Its SHA-256 is compared every time.",
    )


@contextmanager
def _counted_reads() -> Iterator[list[object]]:
    """Every file the server reads."""
    reads: list[object] = []
    honest = sources.read_limited

    def counted(path: Any, limit: int) -> bytes:
        reads.append(path)
        return honest(path, limit)

    sources.read_limited = counted
    try:
        yield reads
    finally:
        sources.read_limited = honest


def _plan(way: str, *, n_items: int) -> Plan:
    """Enough users promised that an entity's own clusters stand out (stacked), or few (added up)."""
    return Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=n_items),
        feedback="counts",
        bound=5,
        max_items=60,
        mechanism="sulq" if way == "stacked" else "buckets",
        n_users=1_000_000 if way == "stacked" else 100_000,
        n_entities=500,
        epsilon=4 if n_items < 10_000 else 64,
    )


def _write(plan: Plan, folder: Path, number: int) -> list[Path]:
    """Messages as entities with a dozen common patterns would send them; made without any rows of users."""
    paths = [folder / f"site-{one}.round1" for one in range(number)]
    patterns = np.random.default_rng(0).random((PATTERNS, plan.n_items)) ** 8
    for one, path in enumerate(paths):
        path.write_bytes(encode_release(_content(plan, patterns, one), entity=f"site-{one}", plan=plan))
    return paths


def _content(plan: Plan, patterns: np.ndarray, one: int) -> Prototypes:
    rng, known = np.random.default_rng(one + 1), plan.spec
    assert known.rows is not None, "the mechanism has a public number of rows"
    users = rng.uniform(0.2, 1.8, known.rows) * plan.n_users / known.rows
    means = rng.dirichlet(np.full(PATTERNS, 0.3), known.rows) @ patterns
    noise = rng.normal(scale=known.noise.values, size=means.shape)
    return Prototypes(
        mechanism=known.mechanism,
        sums=np.round((means * users[:, None] + noise) / known.units.values).astype(np.int64),
        counts=np.round(users / known.units.counts).astype(np.int64),
        units=known.units,
        noise=known.noise,
        seeded=False,
    )


def _measured(server: Server, paths: list[Path]) -> tuple[float, float]:
    walls: list[float] = []

    def job() -> None:
        began = time.perf_counter()
        server.factorize(paths)
        walls.append(time.perf_counter() - began)

    memory = _peers.extra_megabytes(job)
    return walls[0], memory


def _megabytes(paths: list[Path]) -> float:
    return sum(path.stat().st_size for path in paths) / 1e6
