"""`twofold init` and `twofold doctor`: what a new site has after them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.world import ask, call
from tests.refused import check_refusal
from twofold.cli import doctor as doctoring
from twofold.errors import BadParameter, BadPlan
from twofold.federation.plan import Plan
from twofold.identity.keystore import KeyStore


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("items.csv").write_text("item,title\na,A\nb,B\nc,C\n")
    return tmp_path


def test_an_entity_gets_keys_and_folders() -> None:
    told = call("init site --part entity --name st-anna --yes")
    assert KeyStore("site/st-anna.keys").identity.name == "st-anna"
    assert Path("site/inbox").is_dir()
    assert "twofold join --plan site/plan.toml" in told
    assert not Path("site/plan.toml").exists()


def test_an_operator_with_keys_of_entities_gets_a_plan() -> None:
    call("init a --part entity --name anna --yes")
    call("init b --part entity --name bern --yes")
    keys = "--public-key a/anna.pub --public-key b/bern.pub"
    call(f"init server --part operator --name centre --catalog items.csv {keys} --n-users 500 --epsilon 2 --yes")
    plan = Plan.read("server/plan.toml")
    assert plan.members is not None
    assert (set(plan.members), plan.n_users, float(plan.epsilon)) == ({"anna", "bern", "centre"}, 500, 2)
    assert not plan.simulation


def test_running_it_again_changes_nothing() -> None:
    line = "init site --part entity --name st-anna --yes"
    call(line)
    before = {path: path.read_bytes() for path in Path("site").iterdir() if path.is_file() and path.suffix != ".lock"}
    call(line)
    assert {path: path.read_bytes() for path in before} == before


def test_a_plan_that_is_there_is_kept() -> None:
    call("init t --part trial --catalog items.csv --yes")
    before = Path("t/plan.toml").read_bytes()
    call("init t --part trial --catalog items.csv --epsilon 5 --yes")
    assert Path("t/plan.toml").read_bytes() == before


def test_at_a_terminal_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.cli.init._can_ask", lambda: True)
    told = ask("init", "site", given="entity\nst-anna\n")
    assert told.code == 0, told
    assert Path("site/st-anna.keys").is_file()
    told = ask("init", "t", given="trial\nitems.csv\n700\n2\n")
    assert told.code == 0, told
    assert Plan.read("t/plan.toml").n_users == 700


@pytest.mark.parametrize(
    ("line", "kind", "parameter"),
    [
        ("init x --yes", BadParameter, "part"),
        ("init x --part entity --yes", BadParameter, "name"),
        ("init x --part trial --yes", BadParameter, "catalog"),
        ("init x --part trial --catalog items.csv --epsilon 0 --yes", BadPlan, "epsilon"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_made(line: str, kind: type, parameter: str) -> None:
    check_refusal(ask(*line.split()).error, kind, parameter)
    assert not Path("x").exists()


def test_doctor_finds_a_machine_ready() -> None:
    told = json.loads(call("doctor --json"))
    assert told["ready"] is True
    assert {"twofold", "numpy", "randomness", "disk", "clock", "data", "threads", "terminal"} <= {
        one["name"] for one in told["findings"]
    }
    assert call("doctor").endswith("ready\n")


def test_doctor_names_a_folder_that_cannot_be_used() -> None:
    told = ask("doctor", "--folder", "none", "--json")
    assert told.code == 2
    [disk] = [one for one in json.loads(told.out)["findings"] if one["name"] == "disk"]
    assert disk["verdict"] == "fault"
    assert "--folder" in disk["fix"]


def test_doctor_distrusts_randomness_that_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctoring.os, "urandom", bytes)
    assert [one.verdict for one in doctoring._randomness()] == ["fault"]


def test_doctor_names_a_library_that_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    found = {one.name: one for one in doctoring._versions()}
    assert (found["numba"].verdict, found["numpy"].verdict) == ("fault", "ok")


def test_doctor_cannot_reach_a_server_that_is_not_there() -> None:
    told = ask("doctor", "--server", "http://127.0.0.1:1", "--json")
    assert told.code == 2
    assert [one["verdict"] for one in json.loads(told.out)["findings"] if one["name"] == "server"] == ["fault"]
