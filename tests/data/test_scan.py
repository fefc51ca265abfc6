"""Scans: the same ratings as in memory, whatever the order of the rows and the size of the batches."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import twofold as tw
from twofold.data.scan import whole_users
from twofold.errors import (
    BadIdentifier,
    BadValue,
    DataError,
    DuplicateEntries,
    MissingColumn,
    UnknownItems,
    UnknownUser,
    UnreadableSource,
)

pytest.importorskip("duckdb", reason="a scan needs DuckDB: pip install 'twofold[duckdb]'")

ITEMS = [f"item {at}" for at in range(30)]
CATALOG = tw.Catalog(ITEMS)
NAMES = ("user", "item", "value")


def rows(n: int = 900, *, text: bool = False, seed: int = 0) -> pl.DataFrame:
    """Rows in no order, some (user, item) pairs more than once, values that floats round."""
    rng = np.random.default_rng(seed)
    users = rng.integers(-40, 60, n)
    return pl.DataFrame(
        {
            "user": [f"p{one}" for one in users] if text else users,
            "item": [ITEMS[at] for at in rng.integers(0, len(ITEMS), n)],
            "value": rng.random(n).astype(np.float32) * 7,
            "other": rng.random(n),
        }
    )


def written(folder: Path, frame: pl.DataFrame, files: int = 3) -> Path:
    """The rows dealt out to some files, so that most users are in all of them."""
    folder.mkdir(exist_ok=True)
    for at in range(files):
        frame.gather_every(files, at).write_parquet(folder / f"part-{at}.parquet", row_group_size=100)
    return folder


def in_files(frame: pl.DataFrame, files: int = 3) -> pl.DataFrame:
    """The same rows in the order of the files."""
    return pl.concat([frame.gather_every(files, at) for at in range(files)])


def together(batches: Any) -> list[tuple[Any, dict[Any, float]]]:
    return [(user, batch.of(user)) for batch in batches for user in batch.user_ids]


@pytest.mark.parametrize("rule", ["sum", "mean", "last"])
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("batch_rows", [7, 1 << 20])
def test_a_scan_reads_what_memory_reads(tmp_path: Path, rule: Any, text: bool, batch_rows: int) -> None:
    frame = rows(text=text)
    held = tw.read_ratings(in_files(frame), CATALOG, duplicates=rule)
    found = tw.scan(written(tmp_path / "a", frame), CATALOG, duplicates=rule, batch_rows=batch_rows)
    assert found.read().digest() == held.digest()
    assert together(found.batches()) == together([held])


def test_one_user_looked_up(tmp_path: Path) -> None:
    frame = rows(text=True)
    held = tw.read_ratings(in_files(frame), CATALOG, duplicates="last")
    found = tw.scan(written(tmp_path / "a", frame), CATALOG, duplicates="last")
    assert found.of("p7") == held.of("p7")
    with pytest.raises(UnknownUser):
        found.of("nobody")


def test_counted_rows(tmp_path: Path) -> None:
    frame = rows()
    held = tw.read_ratings(frame, CATALOG, value=None, duplicates="sum")
    assert (
        tw.scan(written(tmp_path / "a", frame), CATALOG, value=None, duplicates="sum").read().digest() == held.digest()
    )


@pytest.mark.parametrize("source", ["folder", "pattern", "list", "file"])
def test_sources(tmp_path: Path, source: str) -> None:
    frame, folder = rows(200), tmp_path / "a'b"
    written(folder, frame, files=1 if source == "file" else 3)
    given: Any = {
        "folder": folder,
        "pattern": str(folder / "*.parquet"),
        "list": [*sorted(folder.iterdir()), folder / "part-0.parquet"],  # one of them twice
        "file": folder / "part-0.parquet",
    }[source]
    assert tw.scan(given, CATALOG, duplicates="last").read().n_entries == frame.unique(["user", "item"]).height


def test_files_that_are_sorted_need_no_sorting(tmp_path: Path) -> None:
    frame = rows().unique(["user", "item"]).sort("user", "item")
    folder = tmp_path / "a"
    folder.mkdir()
    for at in range(4):
        frame[at * 250 : (at + 1) * 250].write_parquet(folder / f"{at}.parquet")
    held = tw.read_ratings(frame, CATALOG)
    found = tw.scan(folder, CATALOG, ordered=True, batch_rows=100)
    assert together(found.batches()) == together([held])


def test_a_broken_promise_of_order_is_refused(tmp_path: Path) -> None:
    found = tw.scan(written(tmp_path / "a", rows()), CATALOG, ordered=True, duplicates="last")
    with pytest.raises(DataError) as caught:
        list(found.batches())
    assert caught.value.parameter == "ordered"


def test_users_who_come_back_in_a_later_frame() -> None:
    frames = [pl.DataFrame({"u": [1, 2]}), pl.DataFrame({"u": [1]})]
    with pytest.raises(DataError):
        list(whole_users(frames, "u"))


def test_a_table_without_rows_is_one_without_users(tmp_path: Path) -> None:
    found = tw.scan(written(tmp_path / "a", rows(0)), CATALOG)
    assert [batch.n_users for batch in found.batches()] == [0]
    assert found.read().n_users == 0


def test_the_rules_of_reading_hold(tmp_path: Path) -> None:
    frame = rows(50).unique(["user", "item"])
    twice = tw.scan(written(tmp_path / "a", pl.concat([frame, frame])), CATALOG)
    with pytest.raises(DuplicateEntries):
        list(twice.batches())
    short = tw.Catalog(ITEMS[:3])
    with pytest.raises(UnknownItems):
        list(tw.scan(written(tmp_path / "b", frame), short).batches())
    dropped = tw.scan(tmp_path / "b", short, unknown_items="drop")
    held = tw.read_ratings(in_files(frame), short, unknown_items="drop")
    assert together(dropped.batches()) == together([held])
    with pytest.raises(BadValue):
        list(tw.scan(tmp_path / "b", CATALOG, value_range=(0, 1)).batches())
    holes = frame.with_columns(user=pl.when(pl.col("user") > 0).then(pl.col("user")))
    with pytest.raises(BadIdentifier):
        list(tw.scan(written(tmp_path / "c", holes), CATALOG).batches())


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    folder = written(tmp_path / "a", rows())
    whole = (folder / "part-1.parquet").read_bytes()
    (folder / "part-1.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableSource, match="part-1") as caught:
        tw.scan(folder, CATALOG)
    assert caught.value.found == "a file that is cut off"
    (folder / "part-1.parquet").write_bytes(whole[:200] + bytes(500) + whole[700:])
    damaged = tw.scan(folder, CATALOG, duplicates="last")
    with pytest.raises(UnreadableSource):
        list(damaged.batches())
    (folder / "part-1.parquet").write_text("user,item,value\n1,2,3\n")
    with pytest.raises(UnreadableSource):
        tw.scan(folder, CATALOG)
    rows(10, text=True).write_parquet(folder / "part-1.parquet")
    with pytest.raises(UnreadableSource) as caught:
        tw.scan(folder, CATALOG)
    assert caught.value.parameter == "user"
    rows(10).drop("user").write_parquet(folder / "part-1.parquet")
    with pytest.raises(MissingColumn):
        tw.scan(folder, CATALOG)
    with pytest.raises(UnreadableSource):
        tw.scan(tmp_path / "no" / "*.parquet", CATALOG)
    with pytest.raises(UnreadableSource):
        tw.scan(rows(), CATALOG)
    dates = rows(10).with_columns(user=pl.lit("2020-01-01").str.to_date())
    with pytest.raises(BadIdentifier):
        tw.scan(written(tmp_path / "d", dates), CATALOG)
    with pytest.raises(DataError):
        tw.scan(tmp_path / "d", CATALOG, memory="much")


@pytest.mark.parametrize("change", ["longer", "same size", "gone"])
def test_a_file_that_changes(tmp_path: Path, change: str) -> None:
    folder = written(tmp_path / "a", rows())
    found = tw.scan(folder, CATALOG, duplicates="last", batch_rows=100)
    batches = found.batches()
    next(batches)
    path = folder / "part-2.parquet"
    if change == "gone":
        path.unlink()
    elif change == "longer":
        rows(3_000, seed=1).write_parquet(path)
    else:
        os.utime(path, ns=(0, 0))
    with pytest.raises(UnreadableSource, match="changed"):
        list(batches)
    with pytest.raises(UnreadableSource, match="changed"):
        found.read()


def test_a_disk_that_fills(tmp_path: Path) -> None:
    """DuckDB may spill a megabyte where it needs many; the folder for temporary files is empty afterwards."""
    folder, spill = tmp_path / "a", tmp_path / "spill"
    folder.mkdir()
    spill.mkdir()
    rng = np.random.default_rng(0)
    n = 1_000_000
    frame = pl.DataFrame({"user": rng.permutation(n), "item": rng.integers(0, 30, n), "value": rng.random(n)})
    frame.write_parquet(folder / "a.parquet")
    catalog = tw.Catalog(list(range(30)))
    found = tw.scan(folder, catalog, memory="30MB", spill=spill, most_spill="1MB")
    with pytest.raises(DataError) as caught:
        list(found.batches())
    assert caught.value.parameter == "spill"
    assert list(spill.iterdir()) == []
    enough = tw.scan(folder, catalog, memory="30MB", spill=spill)
    assert sum(batch.n_users for batch in enough.batches()) == n
    assert list(spill.iterdir()) == []


def test_a_reader_that_stops_early_leaves_nothing(tmp_path: Path) -> None:
    folder, spill = written(tmp_path / "a", rows()), tmp_path / "spill"
    spill.mkdir()
    batches = tw.scan(folder, CATALOG, duplicates="last", batch_rows=100, spill=spill).batches()
    next(batches)
    batches.close()
    assert list(spill.iterdir()) == []


def test_rows_with_something_missing_are_dropped_as_in_memory(tmp_path: Path) -> None:
    frame = rows(200).unique(["user", "item"], maintain_order=True)
    holes = [pl.when(pl.int_range(pl.len()) % 7 != at).then(pl.col(name)).alias(name) for at, name in enumerate(NAMES)]
    frame = frame.with_columns(holes)
    scanned = tw.scan(written(tmp_path, frame), CATALOG, missing="drop", batch_rows=20)
    inside = tw.read_ratings(frame, CATALOG, missing="drop")
    assert together(scanned.engine.batches(scanned.reading)) == together([inside])
