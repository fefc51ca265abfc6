"""`twofold keys`: who someone is, new keys under an old name, withdrawn keys; nothing is written over."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.refused import check_refusal
from twofold.cli import app
from twofold.errors import BadPlan, DataError, LogBroken, PlanMismatch
from twofold.federation.plan import CatalogKey, Plan
from twofold.identity.keys import Identity, Revocation, Role
from twofold.identity.keystore import KeyStore
from twofold.identity.policy import Policy

LINE = "keys new --entity st-anna --keys st-anna.keys -o st-anna.pub"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def test_keys_and_a_fingerprint(folder: Path):
    result = ask(LINE)
    assert result.exit_code == 0
    made = Identity.read("st-anna.pub")
    assert (made.name, made.role) == ("st-anna", Role.ENTITY)
    assert f"fingerprint: {made.words}" in result.output
    assert stat.S_IMODE(Path("st-anna.keys").stat().st_mode) == 0o600
    secret = json.loads(Path("st-anna.keys").read_bytes())
    hidden = [secret[name] for name in ("sign", "mask", "seal", "seed", "salt")]
    assert not any(value in result.output + Path("st-anna.pub").read_text() for value in hidden)


def test_again_the_same(folder: Path):
    ask(LINE)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    record = json.loads(ask(f"{LINE} --json").stdout)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    made = Identity.read("st-anna.pub")
    assert record == {
        "name": "st-anna",
        "role": "entity",
        "fingerprint": made.words,
        "sign": made.sign.hex(),
        "keys": "st-anna.keys",
        "public": "st-anna.pub",
        "log": "st-anna.log",
        "plan": None,
    }


def test_keys_that_serve_a_plan_say_so():
    ask(LINE)
    plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    KeyStore("st-anna.keys").bind(plan.hash)
    assert f"serve plan {plan.hash[:12]}" in ask(LINE).output
    assert json.loads(ask(f"{LINE} --json").stdout)["plan"] == plan.hash


def test_no_file_is_written_over():
    ask(LINE)
    secret = Path("st-anna.keys").read_bytes()
    for line in ("keys new --entity x --keys x.keys -o st-anna.keys", "keys new --entity x --keys x.keys -o x.keys"):
        check_refusal(ask(line).exception, DataError, "output")
    assert Path("st-anna.keys").read_bytes() == secret


def test_a_name_that_is_none():
    check_refusal(ask("keys new --entity ../x --keys x.keys -o x.pub").exception, BadPlan, "entity")
    assert not Path("x.keys").exists()


def test_a_place_that_cannot_be_written_is_said_before_keys_are_made():
    Path("d").mkdir()
    for line, parameter, words in (
        ("keys new --entity x --keys x.keys -o d", "output", "--output d/x.pub"),
        ("keys new --entity x --keys d -o x.pub", "keys", "--keys d/x.keys"),
        ("keys new --entity x --keys x.keys -o no/x.pub", "output", "mkdir -p no"),
    ):
        result = ask(line)
        check_refusal(result.exception, DataError, parameter)
        assert words in result.stderr
    assert [path.name for path in Path().iterdir()] == ["d"]


@pytest.mark.parametrize(("option", "role"), [("entity", "entity"), ("operator", "operator"), ("person", "person")])
def test_the_three_roles(option: str, role: str):
    assert ask(f"keys new --{option} ada --keys ada.keys -o ada.pub").exit_code == 0
    shown = json.loads(ask("keys show ada.pub --json").stdout)
    assert [(one["name"], one["role"]) for one in shown] == [("ada", role)]
    other = "operator" if option == "entity" else "entity"
    check_refusal(ask(f"keys new --{other} ada --keys ada.keys -o b.pub").exception, PlanMismatch, "keys")


@pytest.mark.parametrize("more", ["", "--entity a --operator b", "--entity a --renew x --replace y"])
def test_one_name_and_one_way(more: str):
    assert ask(f"keys new {more} --keys a.keys -o a.pub").exit_code == 2
    assert not list(Path().iterdir())


def test_show_never_shows_a_secret():
    ask(LINE)
    public, secret = ask("keys show st-anna.pub").output, ask("keys show st-anna.keys").output
    assert public == secret
    held = json.loads(Path("st-anna.keys").read_bytes())
    assert not any(held[name] in secret for name in ("sign", "mask", "seal", "seed", "salt"))


def test_renewed_keys_have_the_same_fingerprint_and_replaced_ones_are_vouched_for():
    ask(LINE)
    first = Identity.read("st-anna.pub")
    ask("keys new --entity st-anna --keys 2.keys -o 2.pub --renew st-anna.keys")
    ask("keys new --entity st-anna --keys 3.keys -o 3.pub --replace st-anna.keys")
    renewed, replaced = Identity.read("2.pub"), Identity.read("3.pub")
    assert (renewed.words, renewed.sum == first.sum) == (first.words, False)
    assert (replaced.replaces, replaced.words == first.words) == (first.sign, False)
    assert first.sign.hex() in ask("keys show 3.pub").output
    error = ask("keys new --entity st-bern --keys 4.keys -o 4.pub --renew st-anna.keys").exception
    check_refusal(error, PlanMismatch, "keys", found="st-anna")
    assert not Path("4.keys").exists()


def test_a_key_is_withdrawn_by_itself():
    ask(LINE)
    record = json.loads(ask("keys revoke --keys st-anna.keys -o st-anna.revoked --json").stdout)
    gone = Revocation.read("st-anna.revoked")
    assert record == {"name": "st-anna", "sign": gone.sign.hex(), "file": "st-anna.revoked"}
    assert gone.sign == Identity.read("st-anna.pub").sign
    check_refusal(ask("keys revoke --keys st-anna.keys -o st-anna.keys").exception, DataError, "output")


def test_the_log_is_announced():
    """First reader A9: the log of an entity was in no document and not announced."""
    assert "st-anna.log" in ask(LINE).output
    assert Path("st-anna.log").exists()
    told = json.loads(ask("keys new --operator centre --keys centre.keys -o centre.pub --json").stdout)
    assert told["log"] is None


def test_entities_share_a_policy_and_a_broken_log_does_not_cost_the_public_part():
    """First reader A8: keys of a second entity beside one policy; keys without their .pub when the log failed."""
    Path("policy.toml").write_text(Policy(writers=None, operators=None).text)
    for name in ("st-anna", "st-bern"):
        assert ask(f"keys new --entity {name} --keys {name}.keys -o {name}.pub").exit_code == 0
        assert ask(f"keys new --entity {name} --renew {name}.keys --keys {name}-2.keys -o {name}-2.pub").exit_code == 0
        assert Path(f"{name}.log").exists()
    Path("policy.toml").write_text(Policy(writers=None, operators=None, log="one.log").text)
    ask(LINE)
    error = ask("keys new --entity st-clara --keys st-clara.keys -o st-clara.pub").exception
    check_refusal(error, LogBroken, "log", "{entity}.log", found="one.log")
    assert Identity.read("st-clara.pub") == KeyStore("st-clara.keys").identity
