"""A release of a scan: the bytes of memory, nothing spent where a pass fails."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import twofold as tw
from twofold.entity.gather import part_of
from twofold.errors import DataError, PlanMismatch, UnreadableSource
from twofold.federation.plan import Plan
from twofold.privacy.ledger import Ledger
from twofold.release.clamp import ExactSum, joined, sums_digest

pytest.importorskip("duckdb", reason="a scan needs DuckDB: pip install 'twofold[duckdb]'")

CATALOG = tw.Catalog(list(range(40)))


def table(n: int = 1_000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {"user": rng.integers(0, 200, n), "item": rng.integers(0, 40, n), "value": rng.integers(1, 9, n)}
    )
    return frame.unique(["user", "item"], keep="first", maintain_order=True)


def stored(folder: Path, frame: pl.DataFrame) -> Path:
    folder.mkdir()
    for at in range(3):
        frame.gather_every(3, at).write_parquet(folder / f"{at}.parquet")
    return folder


def plan(mechanism: str = "gram", **more: Any) -> Plan:
    numbers: dict[str, Any] = {"bound": 5, "max_items": 10, "n_users": 200, "epsilon": 1, "delta": 1e-6}
    return Plan(catalog=CATALOG, feedback="counts", mechanism=mechanism, simulation=True, **{**numbers, **more})


@pytest.mark.parametrize("mechanism", ["gram", "sketch", "popularity", "buckets"])
@pytest.mark.parametrize("batch_rows", [61, 1 << 20])
def test_the_bytes_of_a_scan_are_those_of_memory(tmp_path: Path, mechanism: str, batch_rows: int) -> None:
    frame, agreed = table(), plan(mechanism, n_prototypes=2, epsilon=64)
    found = tw.scan(stored(tmp_path / "a", frame), CATALOG, batch_rows=batch_rows)
    held = tw.read_ratings(frame, CATALOG)
    assert tw.Entity("x", found, agreed, rng=7).release().data == tw.Entity("x", held, agreed, rng=7).release().data


def test_ratings_too(tmp_path: Path) -> None:
    frame = table().with_columns(value=pl.col("value").clip(1, 5))
    agreed = Plan(
        catalog=CATALOG, feedback="ratings", bound=5, lower=1, centre=3, max_items=10, delta=1e-6, n_users=200,
        mechanism="gram", simulation=True,
    )  # fmt: skip
    found = tw.scan(stored(tmp_path / "a", frame), CATALOG, batch_rows=61)
    held = tw.read_ratings(frame, CATALOG)
    assert tw.Entity("x", found, agreed, rng=7).release().data == tw.Entity("x", held, agreed, rng=7).release().data


def test_nobody(tmp_path: Path) -> None:
    found = tw.scan(stored(tmp_path / "a", table(0)), CATALOG)
    held = tw.read_ratings(table(0), CATALOG)
    assert tw.Entity("x", found, plan(), rng=7).release().data == tw.Entity("x", held, plan(), rng=7).release().data


def test_any_cut_of_the_users_gives_the_same_sums() -> None:
    held, agreed = tw.read_ratings(table(), CATALOG), plan()
    whole = sums_digest(part_of(agreed, [held]))
    rng = np.random.default_rng(1)
    for _ in range(5):
        order = rng.permutation(held.n_users)
        parts = np.split(order, np.sort(rng.choice(held.n_users, 4)))
        assert sums_digest(joined(part_of(agreed, [held.take(part)]) for part in parts)) == whole
    assert sums_digest(joined([part_of(agreed, [held]), part_of(agreed, [held])])) != whole


def test_sums_beyond_a_word_join_exactly() -> None:
    parts = []
    for _ in range(6):
        one = ExactSum(2)
        for _ in range(3):
            one.add(np.array([2**61, -(2**61)]), most=2**61)
        parts.append((one,))
    total = joined(parts)[0]
    high, low = total.words()
    exact = [int(a) * 2**40 + int(b) for a, b in zip(high, low, strict=True)]
    assert exact == [18 * 2**61, -18 * 2**61]
    assert [int(one) for one in total.held(2**61)] == [2**61, -(2**61)]


def test_a_mechanism_that_needs_all_rows_refuses_a_scan(tmp_path: Path) -> None:
    found = tw.scan(stored(tmp_path / "a", table()), CATALOG)
    with pytest.raises(PlanMismatch) as caught:
        tw.Entity("x", found, plan("sulq", epsilon=10**6, n_users=10**6, n_prototypes=2, delta=0))
    assert caught.value.parameter == "mechanism"
    assert caught.value.expected is not None
    assert "gram" in caught.value.expected


def test_a_pass_that_fails_spends_nothing(tmp_path: Path) -> None:
    folder, agreed = stored(tmp_path / "a", table()), plan()
    found = tw.scan(folder, CATALOG)
    os.utime(folder / "1.parquet", ns=(0, 0))
    hospital = tw.Entity("x", found, agreed, ledger=tmp_path / "x.ledger")
    with pytest.warns(tw.NewLedger), pytest.raises(UnreadableSource):
        hospital.release()
    assert not Ledger(tmp_path / "x.ledger").state().entries
    assert tw.Entity("x", tw.scan(folder, CATALOG), agreed, ledger=tmp_path / "x.ledger").release().data


def test_a_full_disk_spends_nothing_and_leaves_no_file(tmp_path: Path) -> None:
    folder, spill = tmp_path / "a", tmp_path / "spill"
    folder.mkdir()
    spill.mkdir()
    n = 1_000_000
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"user": rng.permutation(n), "item": rng.integers(0, 40, n), "value": rng.random(n)})
    frame.write_parquet(folder / "a.parquet")
    found = tw.scan(folder, CATALOG, memory="30MB", spill=spill, most_spill="1MB")
    hospital = tw.Entity("x", found, plan("popularity"), ledger=tmp_path / "x.ledger")
    with pytest.warns(tw.NewLedger), pytest.raises(DataError) as caught:
        hospital.release()
    assert caught.value.parameter == "spill"
    assert not Ledger(tmp_path / "x.ledger").state().entries
    assert list(spill.iterdir()) == []


def test_a_stored_release_is_given_again_without_reading(tmp_path: Path) -> None:
    folder, agreed = stored(tmp_path / "a", table()), plan()
    with pytest.warns(tw.NewLedger):
        sent = tw.Entity("x", tw.scan(folder, CATALOG), agreed, ledger=tmp_path / "x.ledger").release()
    found = tw.scan(folder, CATALOG)
    for path in folder.iterdir():
        path.unlink()
    assert tw.Entity("x", found, agreed, ledger=tmp_path / "x.ledger").release().data == sent.data


def test_an_empty_part_adds_nothing() -> None:
    agreed, held = plan(), tw.read_ratings(table(), CATALOG)
    nobody = part_of(agreed, [])
    assert sums_digest(joined([part_of(agreed, [held]), nobody])) == sums_digest(part_of(agreed, [held]))
    assert not any(word.any() for one in nobody for word in one.words())
