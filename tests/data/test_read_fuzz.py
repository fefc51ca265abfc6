"""Damaged files: whatever the bytes, reading gives Ratings or one of our errors, and touches nothing."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from twofold import Catalog, Ratings, TwofoldError, read_ratings

pytestmark = pytest.mark.long

#: Damaged files of each format: some always, the whole 10,500 of all seven among the slow tests.
SOME, ALL = 300, 1_500
ROWS = 60


def _frame(ids: str) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    users, items = rng.integers(0, 12, ROWS), rng.integers(0, 9, ROWS)
    frame = pl.DataFrame({"user": users, "item": items, "value": rng.integers(0, 6, ROWS)})
    return frame if ids == "integers" else frame.with_columns(pl.format("p-{}", "user").alias("user"))


def _parquet(frame: pl.DataFrame, path: Path, **options: object) -> bytes:
    frame.write_parquet(path, **options)  # type: ignore[arg-type]
    return path.read_bytes()


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Healthy files of every format."""
    path = tmp_path_factory.mktemp("originals") / "table.parquet"
    numbers, texts = _frame("integers"), _frame("texts")
    csv = numbers.write_csv().encode()
    return {
        "table.csv": csv,
        "texts.csv": texts.write_csv().encode(),
        "table.csv.gz": gzip.compress(csv, mtime=0),
        "table.parquet": _parquet(numbers, path),
        "texts.parquet": _parquet(texts, path, compression="snappy"),
        "plain.parquet": _parquet(texts, path, compression="uncompressed", statistics=False),
        "groups.parquet": _parquet(numbers, path, compression="gzip", row_group_size=20),
    }


def _flip(data: bytearray, rng: np.random.Generator) -> None:
    for _ in range(int(rng.integers(1, 4))):
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))


def _overwrite(data: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(data)))
    length = int(rng.integers(1, 16))
    data[start : start + length] = rng.bytes(length)


def _cut(data: bytearray, rng: np.random.Generator) -> None:
    del data[int(rng.integers(len(data))) :]


def _remove(data: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(data)))
    del data[start : start + int(rng.integers(1, 20))]


def _insert(data: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(data)))
    tokens = [b"\n", b",", b'"', b"NaN", b"-inf", b"\x00", b"\xff\xfe", b"1e308", b";", b"\r", b"99999999999999999999"]
    data[start:start] = tokens[int(rng.integers(len(tokens)))]


def _repeat(data: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(data)))
    data[start:start] = data[start : start + int(rng.integers(1, 60))]


DAMAGE: list[Callable[[bytearray, np.random.Generator], None]] = [_flip, _overwrite, _cut, _remove, _insert, _repeat]


@pytest.mark.parametrize("cases", [SOME, pytest.param(ALL, marks=pytest.mark.slow)])
@pytest.mark.parametrize("part", range(7))
def test_a_damaged_file_gives_ratings_or_our_error(
    part: int, cases: int, originals: dict[str, bytes], tmp_path: Path
) -> None:
    name = sorted(originals)[part]
    rng = np.random.default_rng(part)
    catalog, path, outcomes = Catalog(range(9)), tmp_path / name, {"read": 0, "refused": 0}
    for case in range(cases):
        data = bytearray(originals[name])
        DAMAGE[case % len(DAMAGE)](data, rng)
        path.write_bytes(data)
        try:
            ratings = read_ratings(path, catalog, duplicates="sum", unknown_items="drop")
        except TwofoldError as error:
            outcomes["refused"] += "More: twofold errors " in str(error)
        else:
            assert isinstance(ratings, Ratings)
            assert np.isfinite(ratings.matrix.data).all()
            outcomes["read"] += 1
        assert path.read_bytes() == data
        assert [entry.name for entry in tmp_path.iterdir()] == [name]
    # Every refusal names its page; both outcomes must occur, or the damage was never or always noticed.
    assert sum(outcomes.values()) == cases
    # The checksum of gzip notices all but one in some thousand, so a few hundred may all be refused.
    assert outcomes["refused"] > 0
    assert outcomes["read"] > 0 or (cases == SOME and name.endswith(".gz"))
