"""`twofold join` and `twofold collect`: both rounds by folders, plain and under a secure sum."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from twofold.cli import app
from twofold.errors import BadPlan, PlanMismatch, TwofoldError, UnreadableSource
from twofold.protocol.plan import Plan
from twofold.protocol.terms import secure_terms

NAMES = ("anna", "bern", "clara", "dora")
ITEMS = [f"item-{number}" for number in range(8)]
KEYS = " ".join(f"--public-key {name}.pub" for name in NAMES)
NEW = f"plan new plan.toml --catalog items.csv --mechanism gram --n-users 25 --epsilon 30 --rank 2 --max-items 4 {KEYS}"


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def call(line: str, code: int = 0) -> str:
    result = ask(line)
    assert result.exit_code == code, (line, result.output, result.exception)
    return result.output


def join(name: str, more: str = "", *, plan: str = "plan.toml", ledger: str = "--new-ledger") -> str:
    files = f"--data {name}.csv --ledger {name}.ledger {ledger} --outbox box --inbox box -o {name}.model"
    return f"join --plan {plan} {files} {more}"


def keyed(name: str, more: str = "") -> str:
    return join(name, f"--keys {name}.keys {more}")


COLLECT = "collect --plan plan.toml --inbox box --outbox box --state state"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("box").mkdir()
    pl.DataFrame({"item": ITEMS}).write_csv("items.csv")
    for seed, name in enumerate(NAMES):
        rng = np.random.default_rng(seed)
        users, items = np.nonzero(rng.random((25, 8)) < 0.4)
        frame = {"user": users + 100, "item": np.array(ITEMS)[items], "value": rng.integers(1, 6, users.size)}
        pl.DataFrame(frame).write_csv(f"{name}.csv")
        call(f"enroll --entity {name} --keys {name}.keys -o {name}.pub")
    return tmp_path


def test_a_whole_federation():
    assert "plan.roster" in call(f"{NEW} --survivors 3")
    explained = call("plan explain plan.toml")
    assert "Secure sum: the server sees only the sum; the noise is shared among" in explained
    assert "should all others collude with the server: ε =" in explained
    for step, waits in (("key shares", "shared keys"), ("the masked message", "messages in the sum")):
        for name in NAMES:
            said = call(keyed(name), 3)
            assert step in said
            assert waits in said
            assert "not taken" not in said
        assert "not taken" not in call(COLLECT, 3)
    for name in NAMES[:3]:
        call(keyed(name), 3)
    assert json.loads(call(f"{COLLECT} --json"))["published"]
    record = json.loads(call(keyed("dora", "--json")))
    assert (record["waits"], record["dropped"], record["file"]) == (None, False, "dora.model")
    assert len(json.loads(call("recommend dora.model --user 100 -n 3 --json"))) > 0
    spent = json.loads(call("ledger show dora.ledger --json"))
    assert len(spent["entries"] if "entries" in spent else spent["records"]) == 1


def test_a_late_entity_spends_nothing_and_gets_a_model():
    call(f"{NEW} --survivors 3 --present 3 --share-deadline 2020-01-01T00:00:00Z")
    for step in range(3):
        for name in NAMES[:3]:
            call(keyed(name), 3)
        call(COLLECT, 3 if step < 2 else 0)
    said = call(keyed("dora"))
    assert "nothing was drawn or spent" in said
    assert Path("dora.model").exists()
    assert "remaining  ε=30" in call("ledger show dora.ledger")


def test_a_server_goes_on_without_those_who_are_missing():
    call(f"{NEW} --survivors 3 --present 3")
    for name in NAMES[:3]:
        call(keyed(name), 3)
    said = call(COLLECT, 3)
    assert "3 of 4 key shares" in said
    assert "--close" in said
    assert "0 of 3 messages" in call(f"{COLLECT} --close", 3)
    assert "too few messages" in str(ask(f"{COLLECT} --close").exception)
    for step in range(2):
        for name in NAMES[:3]:
            call(keyed(name), 3)
        call(COLLECT, 0 if step else 3)
    assert "nothing was drawn or spent" in call(keyed("dora"))


def test_what_is_missing_is_said_before_a_ledger_is_made():
    call(NEW)
    for line, kind, words in (
        (join("anna"), PlanMismatch, "--keys anna.keys"),
        (join("anna", "--keys nowhere.keys"), UnreadableSource, "enroll"),
        (join("anna", "--keys bern.keys"), PlanMismatch, "not the ones the plan lists"),
    ):
        error = ask(line).exception
        assert isinstance(error, kind)
        assert words in str(error)
        assert not Path("anna.ledger").exists()
    Path("plan.roster").unlink()
    secure_terms.cache_clear()  # as in a process of its own, which has not seen the list
    assert "list of public keys is missing" in str(ask(keyed("anna")).exception)


def test_another_list_of_keys_is_refused():
    call(NEW)
    call("enroll --entity anna --keys other.keys -o other.pub")
    call(NEW.replace("plan.toml", "two.toml").replace("anna.pub", "other.pub"))
    Path("plan.roster").write_bytes(Path("two.roster").read_bytes())
    assert "another list of keys" in str(ask(keyed("anna")).exception)


def test_keys_of_an_earlier_plan_are_refused():
    call(NEW)
    call(keyed("anna"), 3)
    call(NEW.replace("plan.toml", "two.toml") + " --name second")
    error = ask(keyed("anna").replace("plan.toml", "two.toml")).exception
    assert isinstance(error, PlanMismatch)
    assert "another file for the keys" in str(error)


def test_one_message_needs_join():
    call(NEW)
    error = ask(
        "prototypes --plan plan.toml --data anna.csv --ledger anna.ledger --new-ledger -o anna.round1"
    ).exception
    assert "nothing was drawn" in str(error)
    assert not Path("anna.ledger").exists()


def test_plans_that_cannot_be():
    for more, words in (
        ("--survivors 2", "not safe"),
        ("--mechanism buckets", "cannot be summed securely"),
        ("--most-alone 0.5", "seen alone"),
        ("--entity anna --entity bern", "entities"),
    ):
        error = ask(f"{NEW} {more}").exception
        assert isinstance(error, TwofoldError), more
        assert words in str(error)
    assert not Path("plan.toml").exists()
    Path("plan.roster").write_text("something of mine")
    assert isinstance(ask(NEW).exception, BadPlan)
    assert Path("plan.roster").read_text() == "something of mine"
    call(f"{NEW} --force")
    assert Plan.read("plan.toml").secure.keys is not None
    assert Plan.read("plan.toml").n_entities == 4


def test_a_plain_plan_by_folders():
    call("plan new plain.toml --catalog items.csv --n-entities 2 --n-users 25 --rank 2")
    for name in NAMES[:2]:
        said = call(join(name, plan="plain.toml"), 3)
        assert "waiting for the item factors" in said
        assert "not taken" not in said
    call("collect --plan plain.toml --inbox box --outbox box --state state")
    assert json.loads(call(join("anna", "--json", plan="plain.toml")))["file"] == "anna.model"
