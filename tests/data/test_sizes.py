"""Public tables that unpack to more than any list of items are refused before they fill the memory (audit L1)."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.refused import refused
from twofold import Catalog, read_ratings
from twofold.data.features import read_features
from twofold.data.sizes import MOST_BYTES, MOST_CELLS, MOST_COLUMNS, check_cells, check_parquet
from twofold.errors import BadValue, DataError, UnreadableSource

pytestmark = pytest.mark.long

CATALOG = Catalog(["a", "b"])
MEGABYTE = 1 << 20
READ = """
import sys
from twofold import Catalog, TwofoldError
try:
    Catalog.read(sys.argv[1])
except TwofoldError as error:
    print(type(error).__name__)
status = open("/proc/self/status").read()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""


def packed(path: Path, first: bytes, block: bytes, times: int) -> Path:
    with gzip.open(path, "wb", 1) as file:
        file.write(first)
        for _ in range(times):
            file.write(block)
    return path


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of memory from Linux")
@pytest.mark.parametrize("block", [b"0" * MEGABYTE, b"1\n" * (MEGABYTE // 2), b"," * MEGABYTE])
def test_a_small_gzip_file_does_not_take_a_gigabyte(block: bytes, tmp_path: Path) -> None:
    """Audit L1: a catalog of 3.7 MB took 2.6 GB."""
    path = packed(tmp_path / "items.csv.gz", b"item,title\n", block, 800)
    assert path.stat().st_size < 5 * MEGABYTE
    asked = [sys.executable, "-c", READ, str(path)]
    kind, peak = subprocess.run(asked, capture_output=True, text=True, check=True, env=dict(os.environ)).stdout.split()
    assert kind == "UnreadableSource"
    assert int(peak) < 1_000


def test_numbers_of_columns_and_cells_are_bounded() -> None:
    check_cells(b"item" + b",x" * (MOST_COLUMNS - 1) + b"\n", ",", "t")
    for content in (
        b"item" + b",x" * MOST_COLUMNS + b"\n",
        b'"a\nb"' + b",x" * MOST_COLUMNS + b"\n",
        b"item\n" + b"\n" * MOST_CELLS,
        b"item," + b"x\n" + b"," * MOST_CELLS,
    ):
        with refused(UnreadableSource, "source"):
            check_cells(content, ",", "t")


def test_sound_parquet_files_of_every_compression_pass(tmp_path: Path) -> None:
    frame = pl.DataFrame({"item": [f"i{k}" for k in range(5_000)], "n": range(5_000), "flag": [True, None] * 2_500})
    for codec in ("zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"):
        for size in (None, 700):
            frame.write_parquet(tmp_path / "t.parquet", compression=codec, row_group_size=size)
            check_parquet(tmp_path / "t.parquet")
            assert len(Catalog.read(tmp_path / "t.parquet")) == 5_000


def test_parquet_of_pages_that_unpack_too_far_is_refused(tmp_path: Path) -> None:
    bombs = {
        "rows": pl.DataFrame({"item": pl.repeat(1, MOST_CELLS + 1, eager=True, dtype=pl.Int8)}),
        "text": pl.DataFrame({"item": pl.Series(["x" * 1_000_000]).new_from_index(0, MOST_BYTES // 1_000_000 + 1)}),
        "wide": pl.DataFrame({f"c{k}": [1] for k in range(MOST_COLUMNS + 1)}),
    }
    for name, frame in bombs.items():
        frame.write_parquet(tmp_path / f"{name}.parquet")
        assert (tmp_path / f"{name}.parquet").stat().st_size < 2 * MEGABYTE
        with refused(UnreadableSource, "source", found="more than"):
            Catalog.read(tmp_path / f"{name}.parquet")


def test_features_of_a_long_catalog_are_bounded(tmp_path: Path) -> None:
    """A row of 512 features for a catalog of a million items would be a table of 4 GB."""
    path = tmp_path / "t.csv"
    path.write_text("item" + "".join(f",c{k}" for k in range(512)) + "\n0" + ",1" * 512 + "\n")
    with refused(DataError, "path", found="512"):
        read_features(path, Catalog(range(100_000)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_and_devices_are_not_waited_for(tmp_path: Path) -> None:
    """Audit L1: a FIFO as catalog, features or ratings was waited for without end."""
    os.mkfifo(tmp_path / "t.csv")
    (tmp_path / "link.csv").symlink_to("/dev/stdin")
    for path in (tmp_path / "t.csv", tmp_path / "link.csv", Path("/dev/zero"), Path("/dev/stdin")):
        with refused(UnreadableSource, "source", found="plain file"):
            Catalog.read(path)
        with refused(UnreadableSource, "source", found="plain file"):
            read_features(path, CATALOG)
        with refused(UnreadableSource, "source", found="plain file"):
            read_ratings(path, CATALOG)


def test_a_table_of_features_without_rows_is_no_foreign_error(tmp_path: Path) -> None:
    pl.DataFrame({"item": ["a"], "x": [None]}, schema={"item": pl.String, "x": pl.Float64}).write_parquet(
        tmp_path / "t.parquet"
    )
    with refused(BadValue, "x"):
        read_features(tmp_path / "t.parquet", CATALOG)
    pl.DataFrame({"item": [], "x": []}, schema={"item": pl.String, "x": pl.Int64}).write_parquet(tmp_path / "t.parquet")
    assert read_features(tmp_path / "t.parquet", CATALOG).described == 0
