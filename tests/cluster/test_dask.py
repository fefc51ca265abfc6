"""A release on a real Dask cluster of processes: the bytes of memory, a worker lost, a part computed twice."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import twofold as tw
from twofold.data.clusters import once
from twofold.errors import DataError, DuplicateEntries

distributed = pytest.importorskip("distributed", reason="a Dask cluster needs distributed")
frames = pytest.importorskip("dask.dataframe", reason="Dask frames need dask[dataframe]")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Dask's own warnings are not ours

CATALOG = tw.Catalog(list(range(40)))


def table(n: int = 20_000) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"user": rng.integers(0, 900, n), "item": rng.integers(0, 40, n), "value": rng.integers(1, 9, n)}
    )
    return frame.unique(["user", "item"], keep="first", maintain_order=True)


def plan() -> tw.Plan:
    numbers: dict[str, Any] = {"bound": 5, "max_items": 10, "n_users": 900, "epsilon": 1, "delta": 1e-6}
    return tw.Plan(catalog=CATALOG, feedback="counts", mechanism="gram", simulation=True, **numbers)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("visits")
    for at in range(4):
        table().gather_every(4, at).write_parquet(folder / f"{at}.parquet")
    return folder


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster) as made:
        yield made


@pytest.fixture(scope="module")
def due() -> bytes:
    return tw.Entity("x", tw.read_ratings(table(), CATALOG), plan(), rng=7).release().data


@pytest.mark.parametrize("parts", [1, 7, None])
def test_the_bytes_of_dask_are_those_of_memory(client: Any, files: Path, due: bytes, parts: int | None) -> None:
    found = tw.scan(frames.read_parquet(files), CATALOG, parts=parts)
    assert tw.Entity("x", found, plan(), rng=7).release().data == due


def test_threads_will_do(files: Path, due: bytes) -> None:
    found = tw.scan(frames.read_parquet(files), CATALOG, parts=3)
    assert tw.Entity("x", found, plan(), rng=7).release().data == due


def test_a_worker_killed_in_the_middle_changes_nothing(client: Any, files: Path, due: bytes, monkeypatch: Any) -> None:
    """Parts are made slow, and a worker process is killed once some of them are done."""
    found = tw.scan(frames.read_parquet(files), CATALOG, parts=8)
    slow = tw.scan(frames.read_parquet(files), CATALOG, parts=8)
    victim = next(iter(client.run(os.getpid).values()))
    done: list[int] = []

    def kill() -> None:
        while not done:
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)

    from functools import partial

    from twofold.entity.gather import part_of
    from twofold.release.clamp import joined, sums_digest

    killer = threading.Thread(target=kill)
    killer.start()
    results = []
    for part in slow.parts(partial(_slowly, plan())):
        results.append(part)
        done.append(1)
    killer.join()
    assert len(results) == 8
    after = set(client.run(os.getpid).values())
    assert victim not in after
    whole = part_of(plan(), [tw.read_ratings(table(), CATALOG)])
    assert sums_digest(joined(results)) == sums_digest(whole)
    assert tw.Entity("x", found, plan(), rng=7).release().data == due


def _slowly(agreed: tw.Plan, batches: Any) -> Any:
    from twofold.entity.gather import part_of

    time.sleep(0.5)
    return part_of(agreed, batches)


def test_a_model_of_dask_is_that_of_memory(client: Any, files: Path) -> None:
    held = tw.Entity("x", tw.read_ratings(table(), CATALOG), plan(), rng=7).personalize(None)
    found = tw.Entity("x", tw.scan(frames.read_parquet(files), CATALOG, parts=5), plan(), rng=7).personalize(None)
    due = {name: part.tobytes() for name, part in held.scorer.arrays().items()}
    assert {name: part.tobytes() for name, part in found.scorer.arrays().items()} == due


def test_a_part_computed_twice_counts_once() -> None:
    assert list(once([(0, "a"), (0, "a"), (1, "b")])) == ["a", "b"]


def test_our_errors_come_back_as_they_are(client: Any, files: Path, tmp_path: Path) -> None:
    twice = frames.concat([frames.read_parquet(files), frames.read_parquet(files)])
    with pytest.raises(DuplicateEntries):
        tw.Entity("x", tw.scan(twice, CATALOG), plan(), rng=7).release()
    last = tw.scan(twice, CATALOG, duplicates="last")
    with pytest.raises(DataError) as caught:
        tw.Entity("x", last, plan(), rng=7).release()
    assert caught.value.parameter == "duplicates"
    with pytest.raises(DataError):
        list(last.batches())
