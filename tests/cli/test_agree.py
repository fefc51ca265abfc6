"""`twofold plan agree` and `agreed`: who may sign which plan, and what a complete file of agreements is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.agreed import OPERATOR, make_keys
from tests.refused import check_refusal
from twofold.cli import app
from twofold.errors import BadMessage, BudgetExceeded, DataError, NotReady, PlanMismatch
from twofold.federation.agreement import Agreements, plan_words
from twofold.federation.plan import Plan
from twofold.identity.keystore import KeyStore
from twofold.identity.policy import Policy

NAMES = ("anna", "bern", OPERATOR)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("items.csv").write_text("item\na\nb\nc\n")
    public = make_keys(NAMES[:2])
    for name in ("plan", "other"):
        assert ask(f"plan new {name}.toml --catalog items.csv --name {name} --rank 1 {public}").exit_code == 0
    return tmp_path


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def sign(plan: str, *names: str) -> str:
    for name in names:
        assert ask(f"plan agree {plan}.toml --keys {name}.keys -o {name}.{plan}").exit_code == 0
    return " ".join(f"{name}.{plan}" for name in names)


def test_agreeing_signs_the_hash_and_says_what_to_compare() -> None:
    plan = Plan.read("plan.toml")
    result = ask("plan agree plan.toml --keys anna.keys")
    assert plan_words(plan) in result.output
    assert f"anna, bern; operator: {OPERATOR}" in result.output
    assert KeyStore("anna.keys").agreement(plan.hash) is not None
    assert KeyStore("anna.keys").agreement(Plan.read("other.toml").hash) is None
    record = json.loads(ask("plan agree plan.toml --keys anna.keys --json").stdout)
    assert (record["plan"], record["name"], set(record["members"])) == (plan.hash, "anna", set(NAMES))


def test_agreeing_again_gives_the_same_bytes() -> None:
    sign("plan", "anna")
    first = Path("anna.plan").read_bytes()
    sign("plan", "anna")
    assert Path("anna.plan").read_bytes() == first


def test_only_members_agree() -> None:
    """Audit H2: nobody signs for another, and a second key under a member's name is not the member's."""
    assert ask("keys new --entity clara --keys clara.keys -o clara.pub").exit_code == 0
    assert ask("keys new --entity anna --keys second.keys -o second.pub").exit_code == 0
    for keys, name in (("clara", "clara"), ("second", "anna")):
        error = ask(f"plan agree plan.toml --keys {keys}.keys").exception
        check_refusal(error, PlanMismatch, "keys", found=f"keys of {name}")
        assert not list(Path().glob(f"{keys}.keys.agreed*"))


def test_no_input_is_written_over() -> None:
    for target in ("plan.toml", "anna.keys"):
        before = Path(target).read_bytes()
        check_refusal(ask(f"plan agree plan.toml --keys anna.keys -o {target}").exception, DataError, "output")
        assert Path(target).read_bytes() == before
    parts = sign("plan", *NAMES)
    check_refusal(ask(f"plan agreed plan.toml {parts} -o anna.plan").exception, DataError, "output")


def test_all_and_only_agreements_to_this_very_plan() -> None:
    parts = sign("plan", *NAMES)
    assert ask(f"plan agreed plan.toml {parts}").exit_code == 0  # beside the plan, where all look for it
    assert Path("plan.agreed").is_file()
    Agreements.read("plan.agreed").check(Plan.read("plan.toml"))
    some = parts.replace("bern.plan", "")
    check_refusal(ask(f"plan agreed plan.toml {some} -o b.agreed").exception, NotReady, "agreements", found="bern")
    check_refusal(ask(f"plan agreed other.toml {parts} -o b.agreed").exception, NotReady, "agreements", found="3 ")
    mixed = parts.replace("bern.plan", sign("other", "bern"))
    check_refusal(ask(f"plan agreed plan.toml {mixed} -o b.agreed").exception, PlanMismatch, "agreements")
    assert not Path("b.agreed").exists()


def test_what_is_not_an_agreement() -> None:
    Path("junk").write_text("{}")
    check_refusal(ask("plan agreed plan.toml junk -o b.agreed").exception, BadMessage, "agreements")
    sign("plan", *NAMES)
    record = json.loads(Path("anna.plan").read_text())
    record["agreements"]["bern"] = record["agreements"]["anna"]  # a signature under another name
    Path("forged").write_text(json.dumps(record, sort_keys=True, separators=(",", ":")))
    line = f"plan agreed plan.toml forged {OPERATOR}.plan -o b.agreed"
    check_refusal(ask(line).exception, NotReady, "agreements", found="bern")


def test_the_policy_and_the_price_are_said() -> None:
    """First reader A2, A6: agreeing named neither the policy nor the price."""
    said = ask("plan agree plan.toml --keys anna.keys").output
    assert "no policy" in said
    assert "ε = 1" in said
    assert "73.2%" in said
    record = json.loads(ask("plan agree plan.toml --keys anna.keys --json").stdout)
    assert (record["policy"], record["epsilon"], record["guess"], record["alone"]) == (None, "1", "73.2%", None)
    rules = Policy(writers=None, operators=None, min_users=0, min_participants=0)
    Path("policy.toml").write_text(rules.text)
    assert f"policy {rules.hash[:8]} (policy.toml)" in ask("plan agree plan.toml --keys anna.keys").output
    assert json.loads(ask("plan agree plan.toml --keys anna.keys --json").stdout)["policy"] == rules.hash
    assert "policy" not in ask(f"plan agree plan.toml --keys {OPERATOR}.keys").output  # it sends no data


def test_a_ledger_without_room_is_told_before_the_plan_is_signed() -> None:
    """First reader A4."""
    assert ask("ledger new small.ledger --dataset visits --epsilon 0.5 --delta 1e-6").exit_code == 0
    line = "plan agree plan.toml --keys anna.keys --ledger"
    check_refusal(ask(f"{line} small.ledger").exception, BudgetExceeded, "cost")
    assert KeyStore("anna.keys").agreement(Plan.read("plan.toml").hash) is None
    assert ask("ledger new large.ledger --dataset visits --epsilon 2 --delta 1e-5").exit_code == 0
    before = Path("large.ledger").read_bytes()
    assert ask(f"{line} large.ledger").exit_code == 0
    assert Path("large.ledger").read_bytes() == before
