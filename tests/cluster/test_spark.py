"""A release on a real Spark in local mode: the bytes of memory. Run by `make test-spark`."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import twofold as tw
from twofold.errors import DataError, DuplicateEntries

sql = pytest.importorskip("pyspark.sql", reason="Spark is not here: make spark")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Spark's own warnings are not ours
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17"),
]

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
def spark() -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers start whatever python3 is
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = sql.SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("visits")
    for at in range(4):
        table().gather_every(4, at).write_parquet(folder / f"{at}.parquet")
    return folder


@pytest.mark.parametrize("parts", [1, 7, None])
def test_the_bytes_of_spark_are_those_of_memory(spark: Any, files: Path, parts: int | None) -> None:
    found = tw.scan(spark.read.parquet(str(files)), CATALOG, parts=parts, batch_rows=1000)
    held = tw.Entity("x", tw.read_ratings(table(), CATALOG), plan(), rng=7)
    assert tw.Entity("x", found, plan(), rng=7).release().data == held.release().data


def test_text_ids(spark: Any, tmp_path: Path) -> None:
    frame = table().with_columns(user=pl.format("p{}", "user"))
    frame.write_parquet(tmp_path / "a.parquet")
    found = tw.scan(spark.read.parquet(str(tmp_path)), CATALOG, parts=3)
    held = tw.Entity("x", tw.read_ratings(frame, CATALOG), plan(), rng=7)
    assert tw.Entity("x", found, plan(), rng=7).release().data == held.release().data


def test_a_model_of_spark_is_that_of_memory(spark: Any, files: Path) -> None:
    held = tw.Entity("x", tw.read_ratings(table(), CATALOG), plan(), rng=7).personalize(None)
    found = tw.scan(spark.read.parquet(str(files)), CATALOG, parts=60)  # more parts than some have people
    due = {name: part.tobytes() for name, part in held.scorer.arrays().items()}
    made = tw.Entity("x", found, plan(), rng=7).personalize(None)
    assert {name: part.tobytes() for name, part in made.scorer.arrays().items()} == due


def test_our_errors_come_back_as_they_are(spark: Any, files: Path) -> None:
    once = spark.read.parquet(str(files))
    with pytest.raises(DuplicateEntries):
        tw.Entity("x", tw.scan(once.union(once), CATALOG), plan(), rng=7).release()
    with pytest.raises(DataError) as caught:
        tw.Entity("x", tw.scan(once, CATALOG, duplicates="last"), plan(), rng=7).release()
    assert caught.value.parameter == "duplicates"
