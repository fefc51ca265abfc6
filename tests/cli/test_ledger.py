"""`twofold ledger` on files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.refused import check_refusal, refused
from twofold.cli.ledger import app
from twofold.errors import BadPrivacyParameter, DataError, LedgerBroken
from twofold.privacy.budget import PureDP
from twofold.privacy.events import DiscreteLaplaceEvent
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.mechanisms import DiscreteLaplace
from twofold.privacy.unit import Unit

DATA = digest(b"raw")


def run(*arguments: object, fails: type[Exception] | None = None):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if fails is None:
        assert done.exit_code == 0, done.output + repr(done.exception)
    else:
        assert isinstance(done.exception, fails), done.output + repr(done.exception)
    return done


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger made by the command, with one release."""
    book = tmp_path / "st-anna.ledger"
    run("new", book, "--dataset", "visits [2020]", "--epsilon", "1", "--delta", "1e-6")
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=3, coordinates=5)
    Ledger(book).release(plan=digest(b"p"), data=DATA, events=[event], unit=Unit.person(), draw=lambda: b"noisy")
    return book


def test_show_prints_the_account(path):
    shown = run("show", path).output
    for text in ("visits [2020]", "each person", "ceiling    ε=1, δ=1e-06", "spent      ε=1/3", "remaining  ε=2/3"):
        assert text in shown
    assert digest(b"noisy")[:16] in shown
    assert "released" in shown
    assert "version 1" in shown


def test_show_as_json_is_exact_and_holds_no_data_digest(path):
    shown = run("show", path, "--json").output
    told = json.loads(shown)
    assert told["remaining"] == {"epsilon": "2/3", "delta": "1/1000000"}
    assert told["entries"][0]["digest"] == digest(b"noisy")
    assert told["entries"][0]["version"] == "1"
    assert DATA not in shown
    nonce = json.loads(path.read_text().splitlines()[1])["body"]["nonce"]
    assert nonce not in shown
    assert nonce not in run("show", path).output


def test_verify(path):
    assert run("verify", path).output.startswith("sound: 3 records, 1 stored releases")
    told = json.loads(run("verify", path, "--json").output)
    assert told["sound"] is True
    assert json.loads(run("verify", path, "--json", "--head", told["head"]).output)["sound"] is True
    printed = json.loads(run("card", path, "--json").output)["record_hash"]
    assert json.loads(run("verify", path, "--json", "--head", printed).output)["sound"] is True


def test_verify_fails_on_an_edit(path):
    path.write_bytes(path.read_bytes().replace(b'"epsilon":"1/3"', b'"epsilon":"1/9"'))
    run("verify", path, fails=LedgerBroken)
    done = CliRunner().invoke(app, ["verify", str(path), "--json"])
    assert done.exit_code == 2
    assert json.loads(done.output)["sound"] is False
    assert "record 1 is damaged" in json.loads(done.output)["found"]


def test_verify_fails_on_a_hash_that_is_gone(path):
    run("verify", path, "--head", "ab" * 32, fails=LedgerBroken)


def test_raise_keeps_delta_and_records_the_reason(path):
    told = json.loads(run("raise", path, "--epsilon", "2", "--reason", "agreed in May", "--json").output)
    assert told["ceiling"] == {"epsilon": "2", "delta": "1/1000000"}
    assert "agreed in May" in path.read_text()
    run("raise", path, "--epsilon", "1", "--reason", "less", fails=BadPrivacyParameter)
    run("raise", path, "--epsilon", "9", "--reason", " ", fails=BadPrivacyParameter)


def test_new_refuses_what_exists_and_what_is_no_ceiling(path, tmp_path):
    run("new", path, "--dataset", "x", "--epsilon", "1", fails=LedgerBroken)
    run("new", tmp_path / "y", "--dataset", "x", "--epsilon", "0", fails=BadPrivacyParameter)
    assert not (tmp_path / "y").exists()
    asked = ("--dataset", "x", "--epsilon", "1", "--unit", "visit", "--json")
    told = json.loads(run("new", tmp_path / "v", *asked).output)
    assert told["unit"] == {"holder": "visit", "entities": 1, "adjacency": "add-or-remove-one"}


@pytest.mark.parametrize("form", ["markdown", "html", "json"])
def test_card_in_each_format(path, tmp_path, form):
    shown = run("card", path, "--format", form).output
    assert "58.3%" in shown or form == "json"
    run("card", path, "--format", form, "-o", tmp_path / "card")
    assert (tmp_path / "card").read_text(encoding="utf-8") == shown
    if form == "json":
        assert json.loads(shown) == json.loads(run("card", path, "--json").output)
        assert json.loads(shown)["figures"][0]["guess"] == pytest.approx(0.5826, abs=1e-4)


def test_card_that_cannot_be_written(path, tmp_path):
    run("card", path, "-o", tmp_path, fails=DataError)


def test_a_missing_ledger(tmp_path):
    for verb in ("show", "verify", "card"):
        run(verb, tmp_path / "none", fails=LedgerBroken)


@pytest.mark.parametrize("name", ["t.ledger", "t.ledger.head", "t.ledger.releases/card.md"])
def test_a_card_never_overwrites_the_ledger(name, tmp_path):
    made = Ledger.create(tmp_path / "t.ledger", dataset="d", ceiling=PureDP(epsilon=1), unit=Unit.person())
    before = made.path.read_bytes()
    result = CliRunner().invoke(app, ["card", str(made.path), "-o", str(tmp_path / name)])
    check_refusal(result.exception, DataError, "output", found=Path(name).name)
    assert made.path.read_bytes() == before


@pytest.mark.parametrize("verb", ["show", "verify", "card"])
def test_a_folder_is_not_a_ledger(verb, tmp_path):
    result = CliRunner().invoke(app, [verb, str(tmp_path)])
    check_refusal(result.exception, LedgerBroken, None, found="a folder")


@pytest.mark.parametrize("epsilon", ["1e400", "1e-400"])
def test_a_ceiling_nobody_could_print_is_refused_before_it_is_written(epsilon, tmp_path):
    result = CliRunner().invoke(app, ["new", str(tmp_path / "t.ledger"), "--dataset", "d", "--epsilon", epsilon])
    assert isinstance(result.exception, BadPrivacyParameter)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_drawn_costs_nothing(tmp_path):
    made = Ledger.create(tmp_path / "t.ledger", dataset="d", ceiling=PureDP(epsilon=1), unit=Unit.person())
    noise = DiscreteLaplace(epsilon=1, sensitivity=1, unit=Unit.person())
    with refused(BadPrivacyParameter, "draw"):
        made.release(plan="a" * 64, data="b" * 64, events=[noise.event(1)], unit=Unit.person(), draw=b"xx")
    assert not made.state().entries
