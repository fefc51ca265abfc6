"""The Python of the how-to pages runs as written, on a made-up table."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


def python_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)


@pytest.fixture
def frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Visits of two hospitals and the agreed list, under the names the pages use."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    patients, items = np.nonzero(rng.random((40, 12)) < 0.5)
    names = [f"item-{number:02}" for number in range(12)]
    pl.DataFrame({"item": names}).write_csv("items.csv")
    made = pd.DataFrame(
        {
            "hospital": np.where(patients % 2, "north", "south"),
            "patient": [f"patient-{number}" for number in patients],
            "code": [names[item] for item in items],
            "count": rng.integers(1, 6, items.size),
        }
    )
    pl.from_pandas(made).write_parquet("all.parquet")
    return made


def test_the_estimator_page(frame: pd.DataFrame) -> None:
    pytest.importorskip("sklearn")
    held_out = frame.assign(patient="patient-new").drop_duplicates(["hospital", "code"])
    names: dict[str, object] = {"frame": frame, "held_out": held_out}
    for block in python_of("estimator.md"):
        exec(compile(block, "estimator.md", "exec"), names)
    assert not names["search"].best_estimator_.private_  # type: ignore[attr-defined]


def test_the_simulation_page(frame: pd.DataFrame) -> None:
    names: dict[str, object] = {"__name__": "page"}  # the guarded lines would start processes that run this file again
    blocks = python_of("simulate.md")
    first, table, *rest = (block for block in blocks if "distributed" not in block)
    exec(compile(first, "simulate.md", "exec"), names)
    federation = names["federation"]
    exec(compile(table, "simulate.md", "exec"), names)
    assert len(names["federation"]) == 2  # type: ignore[arg-type]
    names["federation"] = federation
    for block in rest:
        exec(compile(block, "simulate.md", "exec"), names)
    assert len(list(Path("ledgers").glob("*.ledger"))) == 2
