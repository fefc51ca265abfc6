"""The server at scale: 2,000 entities, and catalogs of 100,000 items with public features."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import _peers
from benchmarks.table import Table, versions
from twofold.features import Features
from twofold.federation.messages import encode_release
from twofold.federation.plan import CatalogKey, Plan
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.content import BilinearSums
from twofold.server import Server

GROUPS = 16
USERS = 500


def run(*, quick: bool) -> list[Table]:
    """Gram matrices of 457 items from ever more entities; then features of ever longer catalogs."""
    many = (20, 100) if quick else (205, 500, 1_000, 2_000)
    long = ((2_000, 10), (10_000, 10)) if quick else ((10_000, 50), (30_000, 50), (100_000, 50), (100_000, 200))
    rows = _grown([(457, number) for number in many], "gram")
    rows += _grown(list(long), "features")
    return [
        Table(
            title=f"The server at scale: up to {many[-1]:,} entities, up to {long[-1][0]:,} items with features",
            columns=("mechanism", "items", "entities", "MB of messages", "wall s", "CPU s", "extra MB"),
            rows=rows,
            note=f"Messages of noisy whole numbers, as files; features: {GROUPS} public groups of items. Each is "
            "read and checked, all are added up and factorized to rank 20. Extra MB: what the job adds to the process "
            "at its peak. " + versions("numpy", "scipy", "numba"),
        )
    ]


def _grown(cases: list[tuple[int, int]], mechanism: str) -> list[list[object]]:
    rows: list[list[object]] = []
    for items, number in cases:
        plan = _plan(items, number, mechanism)
        with tempfile.TemporaryDirectory() as place:
            paths = _write(plan, Path(place), number)
            megabytes = sum(path.stat().st_size for path in paths) / 1e6
            rows.append([mechanism, f"{items:,}", f"{number:,}", megabytes, *_measured(plan, paths)])
    return rows


def _measured(plan: Plan, paths: list[Path]) -> tuple[float, float, float]:
    """Wall and CPU seconds, and the memory that the job adds to the process."""
    seconds: list[float] = []

    def job() -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        Server(plan).factorize(paths)
        seconds.extend((time.perf_counter() - wall, time.process_time() - cpu))

    memory = _peers.extra_megabytes(job)
    return seconds[0], seconds[1], memory


def _plan(items: int, entities: int, mechanism: str) -> Plan:
    groups = np.zeros((items, GROUPS), dtype=np.int64)
    groups[np.arange(items), np.arange(items) % GROUPS] = 1
    return Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=items),
        feedback="counts",
        bound=5,
        max_items=60,
        mechanism=mechanism,
        n_users=USERS,
        n_entities=entities,
        rank=20,
        epsilon=3,
        delta=1e-6,
        features=Features(matrix=groups, names=tuple(f"group {one}" for one in range(GROUPS)))
        if mechanism == "features"
        else None,
    )


def _write(plan: Plan, folder: Path, number: int) -> list[Path]:
    """Messages with the sums of `USERS` people each: use that falls with the place in the list, and noise."""
    public, spec = plan.parameters, plan.spec
    layout = BilinearLayout.of(public, plan.spec.mechanism)  # type: ignore[arg-type]
    assert spec.sum is not None
    use = 1.0 / np.arange(1, plan.n_items + 1)
    exact = np.zeros(layout.length)
    exact[: plan.n_items] = USERS * use / layout.sums_unit / np.linalg.norm(use)
    exact[layout.pairs.start - 1] = USERS * layout.count_weight
    paths = [folder / f"site-{one}.round1" for one in range(number)]
    for one, path in enumerate(paths):
        noise = np.random.default_rng(one).normal(scale=spec.sum.deviation, size=layout.length)
        content = BilinearSums(
            mechanism=spec.mechanism,
            numbers=np.rint(exact + noise).astype(np.int64),
            deviation=spec.sum.deviation,
            law="gaussian",
            seeded=False,
        )
        path.write_bytes(encode_release(content, entity=f"site-{one}", plan=plan))
    return paths
