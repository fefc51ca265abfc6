"""The verbs of the two rounds: what they print, and what they say when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from tests.agreed import OPERATOR, agree, make_keys
from tests.refused import check_refusal
from twofold.cli import app
from twofold.errors import (
    BudgetExceeded,
    CatalogError,
    DataError,
    LedgerBroken,
    NotForRealUse,
    NotReady,
    PlanMismatch,
    TooFewMessages,
    TransportError,
    TwofoldError,
    UnknownUser,
)

ITEMS = [f"item-{number}" for number in range(8)]


def table(seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((25, 8)) < 0.5)
    return pl.DataFrame({"user": users + 100, "item": np.array(ITEMS)[items], "value": rng.integers(1, 7, users.size)})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"item": ITEMS}).write_csv("items.csv")
    for seed, name in enumerate(("anna", "benno")):
        table(seed).write_parquet(f"{name}.parquet")
    frames = [table(seed).with_columns(hospital=pl.lit(name)) for seed, name in enumerate(("anna", "benno"))]
    pl.concat(frames).write_csv("all.csv")
    make_keys(("anna", "benno"))
    plan("plan.toml --n-users 25 --bound 5 --rank 2")
    call("plan new sim.toml --catalog items.csv --n-entities 2 --n-users 25 --bound 5 --rank 2 --simulation")
    return tmp_path


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def call(line: str) -> str:
    result = ask(line)
    assert result.exit_code == 0, (line, result.output, result.exception)
    return result.stdout


def refused(line: str, kind: type[TwofoldError], parameter: str | None = None, *facts: str) -> TwofoldError:
    return check_refusal(ask(line).exception, kind, parameter, *facts)


PUBLIC = f"--public-key anna.pub --public-key benno.pub --public-key {OPERATOR}.pub"
SERVER = f"--keys {OPERATOR}.keys"


def plan(line: str, *, public: str = PUBLIC, catalog: str = "items.csv") -> None:
    """Write a plan to which everybody agrees, with the agreements beside it."""
    call(f"plan new {line} --catalog {catalog} {public}")
    agree(line.split()[0], write=True)


def release(name: str = "anna", more: str = "--new-ledger") -> str:
    files = f"--data {name}.parquet --ledger {name}.ledger --keys {name}.keys -o {name}.round1"
    return call(f"release --plan plan.toml {files} {more}")


def test_from_tables_to_a_recommendation(folder: Path) -> None:
    assert "asking again costs nothing" in release("anna")
    record = json.loads(release("benno", "--new-ledger --json"))
    assert record["private"]
    assert record["bytes"] == (folder / "benno.round1").stat().st_size
    made = json.loads(call(f"factorize benno.round1 anna.round1 --plan plan.toml {SERVER} -o items.round2 --json"))
    assert made["entities"] == 2
    again = call(f"factorize anna.round1 benno.round1 --plan plan.toml {SERVER} -o again.round2")
    assert "2 entities" in again
    assert (folder / "items.round2").read_bytes() == (folder / "again.round2").read_bytes()
    call("personalize items.round2 --plan plan.toml --data anna.parquet -o anna.model")
    rows = json.loads(call("recommend anna.model --user 103 -n 3 --json"))
    seen = set(table(0).filter(pl.col("user") == 103)["item"])
    assert rows
    assert not seen & {row["item"] for row in rows}
    assert "item-" in call("recommend anna.model --user 103 -n 2 --why")


def test_a_person_never_seen_before(folder: Path) -> None:
    release()
    call(f"factorize anna.round1 --plan plan.toml {SERVER} -o items.round2")
    call("personalize items.round2 --plan plan.toml --data anna.parquet -o anna.model --strength own --local factors")
    by_pairs = call("recommend anna.model --history item-0=3,item-5=1 --json")
    assert by_pairs == call('recommend anna.model --history {"item-0":3,"item-5":1} --json')
    rows = json.loads(call("recommend anna.model --history item-0=3 --only item-4 --only item-0 --json"))
    assert [row["item"] for row in rows] == ["item-4"]
    rows = json.loads(call("recommend anna.model --history item-0=3 --only item-4 --only item-0 --seen --json"))
    assert {row["item"] for row in rows} == {"item-0", "item-4"}
    refused("recommend anna.model --history nonsense", CatalogError, "history")
    refused("recommend anna.model --history item-99=1", CatalogError, None, "1 of 1 items")
    error = refused("recommend anna.model --user 77", UnknownUser)
    assert "77" not in str(error)


def test_a_model_alone_is_that_of_a_federation_with_nothing_taken_from_it(folder: Path) -> None:
    alone = json.loads(call("personalize --plan plan.toml --data anna.parquet -o anna.model --json"))
    assert (alone["file"], float(alone["strength"])) == ("anna.model", 0.0)
    release()
    call(f"factorize anna.round1 --plan plan.toml {SERVER} -o items.round2")
    call("personalize items.round2 --plan plan.toml --data anna.parquet -o own.model --entity anna --strength own")
    lists = [call(f"recommend {name}.model --user 103 -n 4 --json") for name in ("anna", "own")]
    assert lists[0] == lists[1]
    line = "personalize --plan plan.toml --data anna.parquet --entity anna -o b.model --strength shared"
    assert ask(line).exit_code == 2
    assert not (folder / "b.model").exists()


def test_everyone_into_parquet(folder: Path) -> None:
    release()
    call(f"factorize anna.round1 --plan plan.toml {SERVER} -o items.round2")
    call("personalize items.round2 --plan plan.toml --data anna.parquet -o anna.model")
    call("recommend anna.model --all -n 2 -o all.parquet")
    found = pl.read_parquet(folder / "all.parquet")
    assert found["user"].n_unique() == table(0)["user"].n_unique()
    assert ask("recommend anna.model --all").exit_code == 2
    assert ask("recommend anna.model --all --user 103").exit_code == 2
    assert ask("recommend anna.model --all --why -o b.parquet").exit_code == 2
    assert ask("recommend anna.model --user 103 -o b.parquet").exit_code == 2


def test_a_missing_ledger_is_not_made_silently(folder: Path) -> None:
    line = "release --plan plan.toml --data anna.parquet --keys anna.keys --ledger typo.ledger -o anna.round1"
    refused(line, LedgerBroken, "new_ledger", "--new-ledger")
    assert not (folder / "typo.ledger").exists()
    assert not (folder / "anna.round1").exists()


def test_another_plan_needs_more_budget(folder: Path) -> None:
    release()
    plan("other.toml --n-users 25 --bound 4 --rank 2")
    refused(
        "release --plan other.toml --data anna.parquet --ledger anna.ledger --keys anna.keys -o b.round1 --entity anna",
        BudgetExceeded,
        None,
        "remaining ε=0",
    )
    assert not (folder / "b.round1").exists()


def test_another_catalog_and_another_plan_are_named(folder: Path) -> None:
    pl.DataFrame({"item": ITEMS[::-1]}).write_csv("other.csv")
    line = "release --plan plan.toml --data anna.parquet --keys anna.keys --ledger a.ledger --new-ledger -o a.round1"
    refused(f"{line} --entity anna --catalog other.csv", PlanMismatch, "catalog")
    release()
    plan("other.toml --n-users 25 --bound 4 --rank 2")
    line = f"factorize anna.round1 --plan other.toml {SERVER} -o items.round2"
    error = refused(line, PlanMismatch, None, "bound is 5.0")
    assert str(error).startswith("anna.round1: ")
    assert not (folder / "items.round2").exists()


def test_folders(folder: Path) -> None:
    (folder / "drop").mkdir()
    result = ask("release --plan plan.toml --data anna.parquet --keys anna.keys --ledger a.ledger --new-ledger -o drop")
    assert result.exit_code == 2
    collect = f"coordinate --plan plan.toml {SERVER} --inbox drop --outbox drop --state state --json"
    for name in ("anna", "benno"):
        waiting = ask(collect)
        assert waiting.exit_code == 3
        files = f"--keys {name}.keys --data {name}.parquet --ledger {name}.ledger --new-ledger"
        call(f"release --plan plan.toml {files} --entity {name} -o drop")
    assert json.loads(call(collect))["published"]
    call("personalize drop --plan plan.toml --data anna.parquet -o anna.model")


def test_an_inbox_that_is_not_there_is_not_made(folder: Path) -> None:
    refused("coordinate --plan plan.toml --inbox typo --outbox typo --state state", TransportError)
    assert not (folder / "typo").exists()


def test_a_refused_name_leaves_no_ledger(folder: Path) -> None:
    call("plan new named.toml --catalog items.csv --bound 5 --entity anna --entity benno")
    line = "release --plan named.toml --data anna.parquet --ledger c.ledger --new-ledger -o clara.round1"
    refused(line, PlanMismatch, "entity", "clara")
    assert not list(folder.glob("c.ledger*"))


def test_a_quorum_that_is_not_reached(folder: Path) -> None:
    plan("both.toml --n-users 25 --bound 5 --rank 2 --quorum 2")
    files = "--data anna.parquet --keys anna.keys --ledger anna.ledger --new-ledger -o anna.round1"
    call(f"release --plan both.toml {files}")
    refused(f"factorize anna.round1 --plan both.toml {SERVER} -o items.round2", TooFewMessages)


def test_simulate(folder: Path) -> None:
    line = "simulate --data all.csv --entity hospital --plan"
    call("plan new real.toml --catalog items.csv --n-entities 2 --n-users 25 --bound 5 --rank 2")
    refused(f"{line} real.toml", NotForRealUse)
    record = json.loads(call(f"{line} sim.toml --seed 3 --json -o out"))
    assert not record["messages_protected"]
    assert "private" not in record
    assert {one["entity"] for one in record["entities"]} == {"anna", "benno"}
    assert (folder / "out" / "anna.model").exists()
    assert "NOT PRIVATE" in call(f"{line} sim.toml --seed 3")
    refused(f"{line} real.toml --ledgers books", LedgerBroken)
    assert "NOT PRIVATE" not in call(f"{line} real.toml --ledgers books --new-ledgers")
    assert "NOT PRIVATE" not in call(f"{line} real.toml --ledgers books")


def test_simulate_with_a_secure_sum_writes_the_plan_its_factors_belong_to(folder: Path) -> None:
    options = "--catalog items.csv --n-entities 3 --n-users 400 --bound 5 --rank 2 --mechanism gram --survivors 3"
    call(f"plan new secure.toml {options}")
    frames = [table(seed).with_columns(hospital=pl.lit(name)) for seed, name in enumerate(("anna", "benno", "carla"))]
    pl.concat(frames).write_csv("three.csv")
    line = "simulate --data three.csv --entity hospital --plan secure.toml --ledgers books --new-ledgers"
    assert "NOT PRIVATE" not in call(f"{line} -o out")
    call("personalize out/items.round2 --plan out/plan.toml --data anna.parquet --entity anna -o out/again.model")
    refused(
        "personalize out/items.round2 --plan secure.toml --data anna.parquet --entity anna -o never.model", PlanMismatch
    )
    assert not (folder / "never.model").exists()


def test_an_output_never_writes_over_what_was_read(folder: Path) -> None:
    release()
    kept = {name: (folder / name).read_bytes() for name in ("anna.ledger", "anna.parquet", "plan.toml", "anna.round1")}
    line = "release --plan plan.toml --data anna.parquet --keys anna.keys --ledger anna.ledger --entity anna -o"
    for target in ("anna.ledger", "anna.ledger.head", "anna.parquet", "plan.toml", "./anna.parquet", "anna.keys"):
        refused(f"{line} {target}", DataError, "output")
    refused(f"factorize anna.round1 --plan plan.toml {SERVER} -o anna.round1", DataError, "output")
    call(f"factorize anna.round1 --plan plan.toml {SERVER} -o items.round2")
    refused("personalize items.round2 --plan plan.toml --data anna.parquet -o items.round2", DataError, "output")
    call("personalize items.round2 --plan plan.toml --data anna.parquet -o anna.model")
    refused("recommend anna.model --all -o anna.model", DataError, "output")
    assert kept == {name: (folder / name).read_bytes() for name in kept}


def test_a_simulation_says_so_and_states_no_price(folder: Path) -> None:
    text = call("release --plan sim.toml --data anna.parquet --ledger s.ledger --new-ledger -o anna.round1")
    assert "NOT PRIVATE" in text
    assert "costs" not in text
    assert "NOT PRIVATE" in call("ledger card s.ledger")
    call("plan new exact.toml --catalog items.csv --bound 5 --rank 2 --simulation --mechanism exact")
    call("release --plan exact.toml --data anna.parquet --ledger e.ledger --new-ledger -o e.round1")


def test_ids_with_brackets_and_odd_user_ids(folder: Path) -> None:
    pl.DataFrame({"item": ["hep [/mL]", "[bold]x", "z"]}).write_csv("odd.csv")
    rows = {"user": [1, 1, 2], "item": ["hep [/mL]", "z", "[bold]x"], "value": [1, 2, 3]}
    pl.DataFrame(rows).write_parquet("odd.parquet")
    public = f"--public-key anna.pub --public-key {OPERATOR}.pub"
    plan("odd.toml --bound 5 --rank 1 --max-items 2", public=public, catalog="odd.csv")
    files = "--data odd.parquet --keys anna.keys --ledger odd.ledger --new-ledger -o odd.round1"
    call(f"release --plan odd.toml --entity anna {files}")
    call(f"factorize odd.round1 --plan odd.toml {SERVER} -o odd.round2")
    call("personalize odd.round2 --plan odd.toml --entity anna --data odd.parquet -o odd.model")
    shown = call("recommend odd.model --user 2 --why")
    assert "hep [/mL]" in shown
    assert "[bold]x" in call("recommend odd.model --user 1")
    for user in ("--3", "²", "9" * 40):
        result = ask(f"recommend odd.model --user={user}")
        check_refusal(result.exception, UnknownUser)
        assert user not in str(result.exception)


def test_a_strength_that_is_no_number(folder: Path) -> None:
    release()
    call(f"factorize anna.round1 --plan plan.toml {SERVER} -o items.round2")
    line = "personalize items.round2 --plan plan.toml --data anna.parquet --entity anna -o a.model --strength"
    assert ask(f"{line} lots").exit_code == 2
    assert ask(f"{line} -1").exit_code == 2
    call(f"{line} 0.5")


def test_an_entity_without_users_takes_part_like_any_other(folder: Path) -> None:
    """Audit M2: the command line refused an empty table, and so told that there was nobody in it."""
    Path("empty.csv").write_text("user,item,value\n")
    Path("strange.csv").write_text("user,item,value\n7,a thing nobody knows,1\n")
    lines = {"empty": "", "strange": "--unknown-items drop"}
    said = {name: _released(name, more) for name, more in lines.items()} | {"anna": _released("anna")}
    assert said["empty"] == said["strange"] == said["anna"]
    assert json.loads(call("check empty.csv --catalog items.csv --json"))["users"] == 0
    call(f"factorize anna.round1 --plan plan.toml {SERVER} -o items.round2")
    assert "no entries of its own" in call(
        "personalize items.round2 --plan plan.toml --data empty.csv -o empty.model --entity anna"
    )
    history = json.loads(call("recommend empty.model --history item-1=3 -n 2 --json"))
    assert len(history) > 0
    refused("recommend empty.model --user 1", UnknownUser)
    assert "nothing was shared" in call("personalize --plan plan.toml --data empty.csv -o alone.model --entity anna")


def _released(name: str, more: str = "") -> dict[str, object]:
    data = f"{name}.parquet" if name == "anna" else f"{name}.csv"
    line = f"release --plan plan.toml --data {data} --ledger {name}.ledger --new-ledger -o {name}.round1 --json"
    record = json.loads(call(f"{line} --entity anna --keys anna.keys {more}"))
    return {key: value for key, value in record.items() if key not in ("file", "receipt")}


def test_a_release_needs_keys_and_everybodys_agreement(folder: Path) -> None:
    line = "release --plan plan.toml --data anna.parquet --ledger anna.ledger --new-ledger -o anna.round1"
    refused(line, PlanMismatch, "keys", "signed")
    refused(f"{line} --keys benno.keys", PlanMismatch, "keys", "keys of benno")
    (folder / "plan.agreed").rename(folder / "elsewhere")
    refused(f"{line} --keys anna.keys", NotReady, "agreements")
    refused(f"factorize x.round1 --plan plan.toml {SERVER} -o items.round2", NotReady, "agreements")
    assert not list(folder.glob("anna.ledger*"))
    call(f"{line} --keys anna.keys --agreements elsewhere")


def test_item_factors_are_the_operators(folder: Path) -> None:
    release()
    refused("factorize anna.round1 --plan plan.toml -o items.round2", PlanMismatch, "keys")
    refused("factorize anna.round1 --plan plan.toml --keys anna.keys -o items.round2", PlanMismatch, "keys")
    assert not (folder / "items.round2").exists()
