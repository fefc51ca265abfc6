"""A folder or a pattern of Parquet files behind --data: the same steps, out of core."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from tests.refused import check_refusal
from twofold.cli import app
from twofold.errors import PlanMismatch, UnreadableSource
from twofold.privacy.ledger import Ledger

pytest.importorskip("duckdb", reason="a scan needs DuckDB: pip install 'twofold[duckdb]'")

ITEMS = [f"item-{number}" for number in range(8)]
PLAN = "plan new sim.toml --catalog items.csv --n-entities 2 --n-users 25 --bound 5 --rank 2 --simulation"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"item": ITEMS}).write_csv("items.csv")
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((25, 8)) < 0.5)
    table = pl.DataFrame({"who": users + 100, "item": np.array(ITEMS)[items], "value": rng.integers(1, 7, users.size)})
    table.write_parquet("all.parquet")
    Path("visits").mkdir()
    for at in range(3):
        table.gather_every(3, at).write_parquet(f"visits/{at}.parquet")
    call(f"{PLAN} --mechanism gram --delta 1e-6")
    return tmp_path


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def call(line: str) -> str:
    result = ask(line)
    assert result.exit_code == 0, (line, result.output, result.exception)
    return result.stdout


@pytest.mark.parametrize("data", ["visits", "visits/*.parquet"])
def test_from_files_to_lists(folder: Path, data: str) -> None:
    for name, source in (("held", "all.parquet"), ("scanned", data)):
        call(f"release --plan sim.toml --data {source} --user who --ledger {name}.ledger --new-ledger -o {name}.round1")
        call(f"personalize --plan sim.toml --data {source} --user who -o {name}.model")
    call("recommend held.model --all -o held-lists.parquet -n 3")
    call(f"recommend scanned.model --all --data {data} --user-column who -o scanned-lists.parquet -n 3")
    lists = [pl.read_parquet(f"{name}-lists.parquet") for name in ("held", "scanned")]
    assert lists[0].equals(lists[1])
    assert lists[0]["user"].n_unique() == 25


def test_what_a_scan_cannot_do(folder: Path) -> None:
    start = "release --plan sim.toml --user who --ledger a.ledger --new-ledger -o a.round1 --data"
    check_refusal(ask(f"{start} none/*.parquet").exception, UnreadableSource, "source")
    assert not Path("a.ledger").exists()
    call(f"{PLAN.replace('sim.toml', 'sulq.toml')} --mechanism sulq --epsilon 1000 --n-users 1000000")
    line = f"{start} visits".replace("sim.toml", "sulq.toml")
    check_refusal(ask(line).exception, PlanMismatch, "mechanism")
    assert not Path("a.ledger").exists()
    call("personalize --plan sim.toml --data visits --user who -o a.model")
    assert ask("recommend a.model --user 100").exit_code != 0
    assert ask("recommend a.model --all --data visits -o lists.csv").exit_code == 2
    assert ask("recommend a.model --all --data all.parquet -o lists.parquet").exit_code == 2


def test_a_file_cut_off_costs_nothing(folder: Path) -> None:
    whole = Path("visits/1.parquet").read_bytes()
    Path("visits/1.parquet").write_bytes(whole[:-100])
    line = "release --plan sim.toml --data visits --user who --ledger a.ledger --new-ledger -o a.round1"
    check_refusal(ask(line).exception, UnreadableSource, "source")
    assert not Path("a.round1").exists()
    Path("visits/1.parquet").write_bytes(whole)
    call(line)
    assert len(Ledger(Path("a.ledger")).state().entries) == 1


def test_rows_without_a_user_an_item_or_a_value_are_left_out_of_lists_if_asked(folder: Path) -> None:
    call("personalize --plan sim.toml --data visits --user who -o a.model")
    call("recommend a.model --all --data visits --user-column who -o whole.parquet -n 3")
    rows = pl.read_parquet("visits/1.parquet")
    Path("holes").mkdir()
    for name in Path("visits").iterdir():
        Path("holes", name.name).write_bytes(name.read_bytes())
    blank = rows.head(3).with_columns(pl.lit(None, rows.schema["who"]).alias("who"))
    pl.concat([rows, blank]).write_parquet("holes/1.parquet")
    line = "recommend a.model --all --data holes --user-column who -n 3 -o holes.parquet"
    assert ask(line).exit_code != 0
    assert not Path("holes.parquet").exists()
    call(f"{line} --missing drop")
    assert pl.read_parquet("holes.parquet").equals(pl.read_parquet("whole.parquet"))
