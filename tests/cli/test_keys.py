"""`twofold keys new`: keys for one plan, and nothing written over."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.refused import check_refusal
from twofold.cli import app
from twofold.errors import BadPlan, DataError
from twofold.federation.plan import CatalogKey, Plan
from twofold.identity.keystore import KeyStore
from twofold.identity.roster import Roster

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
    roster = Roster.read("st-anna.pub")
    assert list(roster) == ["st-anna"]
    assert roster.hash[:16] in result.output
    assert stat.S_IMODE(Path("st-anna.keys").stat().st_mode) == 0o600
    secret = json.loads(Path("st-anna.keys").read_bytes())
    assert not any(str(value) in result.output + Path("st-anna.pub").read_text() for value in list(secret.values())[:4])


def test_again_the_same(folder: Path):
    ask(LINE)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    record = json.loads(ask(f"{LINE} --json").stdout)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert (record["entity"], record["hash"], record["plan"]) == ("st-anna", Roster.read("st-anna.pub").hash, None)


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
