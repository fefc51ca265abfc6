"""People on the command line: a key, a voucher, one report, both operators, and recommendations on the device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.refused import check_refusal
from twofold.cli import app
from twofold.errors import BadMessage, DataError, NotReady, PlanMismatch
from twofold.identity.keys import Role
from twofold.identity.keystore import KeyStore, new_keys

PEOPLE = ("ann", "ben", "cleo")
OPERATORS = ("clinic", "uni")
NEW = "plan new plan.toml --catalog items.csv --secure operators --people --floor 3 --mechanism gram --rank 2 "


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def call(line: str, code: int = 0) -> str:
    result = ask(line)
    assert result.exit_code == code, (line, result.output, result.exception)
    return result.output


def release(name: str, more: str = "--confirm --new-ledger") -> str:
    mine = f"--data {name}.csv --keys {name}.keys --voucher {name}.voucher --ledger {name}.ledger"
    return f"release --person --confirm-useless --plan plan.toml {mine} -o box {more}"


def vouch(name: str) -> None:
    call(f"keys person --keys {name}.keys -o {name}.request")
    call(f"keys vouch {name}.request --plan plan.toml --keys hospital.keys -o {name}.voucher")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan for three people, to which both operators agreed, and everybody's own file."""
    monkeypatch.chdir(tmp_path)
    Path("items.csv").write_text("item\n" + "\n".join("abcdef"))
    for name in ("hospital", *OPERATORS):
        role = Role.OPERATOR if name in OPERATORS else Role.ENTITY
        new_keys(f"{name}.keys", name, role).write(f"{name}.pub")
    keys = " ".join(f"--public-key {name}.pub" for name in ("hospital", *OPERATORS))
    call(f"{NEW} --n-entities {len(PEOPLE)} {keys}")
    for name in OPERATORS:
        call(f"plan agree plan.toml --keys {name}.keys -o {name}.agreement")
    call("plan agreed plan.toml clinic.agreement uni.agreement -o plan.agreed")
    for name, items in zip(PEOPLE, ("abc", "abd", "def"), strict=True):
        Path(f"{name}.csv").write_text("user,item,value\n" + "\n".join(f"me,{item},1" for item in items))
    Path("box").mkdir()


def test_from_a_key_to_recommendations() -> None:
    for name in PEOPLE:
        vouch(name)
        first = json.loads(call(release(name, "--confirm --new-ledger --json")))
        again = json.loads(call(release(name, "--json")))
        assert again["receipt"] == first["receipt"]
        assert first["private"]
    assert len(list(Path("box").glob("*.report"))) == len(PEOPLE)
    for _ in range(3):
        for name in OPERATORS:
            ask(f"coordinate --plan plan.toml --inbox box --outbox box --state {name}.state --keys {name}.keys")
    call("personalize box --plan plan.toml --data ann.csv -o ann.model")
    found = json.loads(call("recommend ann.model --user me -n 3 --json"))
    assert {one["item"] for one in found} == {"d", "e", "f"}
    assert "hospital" not in call("card show ann.ledger")


def test_nothing_is_written_before_the_operators_are_confirmed() -> None:
    vouch("ann")
    check_refusal(ask(release("ann", "--new-ledger")).exception, NotReady, "confirm")
    assert not Path("ann.ledger").exists()
    assert not list(Path("box").iterdir())


def test_what_does_not_fit_is_refused_before_a_ledger_is_made() -> None:
    vouch("ann")
    vouch("ben")
    Path("ann.voucher").write_bytes(Path("ben.voucher").read_bytes())
    check_refusal(ask(release("ann")).exception, BadMessage, "voucher")
    Path("ben.csv").write_text("user,item,value\nme,a,1\nyou,b,1\n")
    check_refusal(ask(release("ben")).exception, DataError, "ratings")
    check_refusal(ask(release("ben").replace("--person", "")).exception, PlanMismatch, "person")
    check_refusal(ask(release("ben").replace("--keys ben.keys", "")).exception, PlanMismatch, "keys")
    assert not list(Path().glob("*.ledger"))


def test_a_table_without_rows_sends_a_report_of_the_same_length() -> None:
    for name in ("ann", "ben"):
        vouch(name)
    Path("ben.csv").write_text("user,item,value\n")
    sizes = {json.loads(call(release(name, "--confirm --new-ledger --json")))["bytes"] for name in ("ann", "ben")}
    assert len(sizes) == 1


def test_operators_do_not_agree_with_keys_of_another_plan() -> None:
    ask("coordinate --plan plan.toml --inbox box --outbox box --state uni.state --keys uni.keys")
    keys = " ".join(f"--public-key {name}.pub" for name in ("hospital", *OPERATORS))
    call(f"{NEW} --n-entities 5 {keys}".replace("plan.toml", "other.toml"))
    check_refusal(ask("plan agree other.toml --keys uni.keys").exception, PlanMismatch, "plan")


def test_a_request_names_nobody_and_stays_the_same() -> None:
    vouch("ann")
    before = Path("ann.request").read_bytes()
    call("keys person --keys ann.keys -o ann.request")
    assert Path("ann.request").read_bytes() == before
    record = json.loads(before)
    assert record == {"schema": "twofold.request/1", "sign": KeyStore("ann.keys").identity.sign.hex()}
    check_refusal(
        ask("keys vouch ann.request --plan plan.toml --keys uni.keys -o x.voucher").exception, PlanMismatch, "keys"
    )
