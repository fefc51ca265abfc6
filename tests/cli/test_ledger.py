"""`twofold ledger` on files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.refused import check_refusal, refused
from twofold.cli.ledger import app
from twofold.errors import BadPrivacyParameter, DataError, LedgerBroken
from twofold.identity.keys import Secrets
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.events import DiscreteLaplaceEvent
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.mechanisms import DiscreteLaplace
from twofold.privacy.unit import Unit
from twofold.secure_sum.keys import Keys
from twofold.storage.signing import SigningKey

DATA = digest(b"raw")
KEY = SigningKey(bytes(32))


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


def test_show_lists_raises_with_date_and_reason(path):
    run("raise", path, "--epsilon", "5", "--reason", "ethics board [2027-01-31]")
    shown = run("show", path).output
    state = Ledger(path).state()
    [raised] = state.raises
    assert raised.number == state.length - 1
    for text in (raised.at[:10], "ethics board [2027-01-31]", f"{raised.number}  {raised.at[:10]}", "to ε=5, δ=1e-06"):
        assert text in shown
    assert f"record {state.entries[0].ended}" in shown
    [told] = json.loads(run("show", path, "--json").output)["raises"]
    assert told == {
        "record": raised.number,
        "at": raised.at,
        "epsilon": "5",
        "delta": "1/1000000",
        "reason": "ethics board [2027-01-31]",
    }
    statement = path.with_name("x.statement")
    run("export", path, "-o", statement)
    assert "ethics board" in run("show", statement).output


def test_a_raise_is_shown_before_anything_was_released(tmp_path):
    book = tmp_path / "new.ledger"
    run("new", book, "--dataset", "visits", "--epsilon", "1")
    run("raise", book, "--epsilon", "2", "--reason", "agreed")
    assert "agreed" in run("show", book).output


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


def test_a_raise_of_epsilon_alone_says_that_delta_is_spent(path):
    assert "--delta" not in run("raise", path, "--epsilon", "2", "--reason", "agreed").stderr
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=9, coordinates=5)
    cost = ApproxDP(epsilon="1/2", delta="1e-6")
    asked = {"plan": digest(b"q"), "data": DATA, "events": [event], "unit": Unit.person(), "cost": cost}
    Ledger(path).release(**asked, draw=lambda: b"again")
    assert "--delta" in run("raise", path, "--epsilon", "9", "--reason", "agreed").stderr
    assert "--delta" not in run("raise", path, "--epsilon", "9", "--delta", "2e-6", "--reason", "agreed").stderr


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
        assert json.loads(shown)["figures"][0]["guess"] == pytest.approx(0.58273, abs=1e-4)  # of ε = 0.334, as printed


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


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """The public part of the entity's keys."""
    path = tmp_path / "st-anna.pub"
    Secrets(name="st-anna", sign=KEY, sum=Keys.new()).identity.write(path)
    return path


def test_verify_with_a_key_needs_its_signature(path, public, tmp_path):
    run("verify", path, "--key", public, fails=LedgerBroken)
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=3, coordinates=5)
    asked = {"plan": digest(b"q"), "data": DATA, "events": [event], "unit": Unit.person()}
    Ledger(path, signer=KEY).release(**asked, draw=lambda: b"noisy")
    for key in (public, KEY.public.hex()):
        assert f"signed by {KEY.public.hex()}" in run("verify", path, "--key", key).output
        assert json.loads(run("verify", path, "--key", key, "--json").output)["signer"] == KEY.public.hex()
    other = SigningKey(bytes([1] * 32)).public.hex()
    run("verify", path, "--key", other, fails=LedgerBroken)
    done = CliRunner().invoke(app, ["verify", str(path), "--key", other, "--json"])
    assert done.exit_code == 2
    assert json.loads(done.output)["sound"] is False
    done = CliRunner().invoke(app, ["raise", str(path), "--epsilon", "2", "--reason", "x"])
    check_refusal(done.exception, LedgerBroken, "signer")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"sign": 3}', '{"sign": "ab"}', "[" * 9_999, None, "\x00"])
def test_what_is_not_a_public_key_is_refused(path, tmp_path, content):
    if content is not None:
        (tmp_path / "key").write_text(content)
    done = CliRunner().invoke(app, ["verify", str(path), "--key", str(tmp_path / "key")])
    check_refusal(done.exception, DataError, "key", found="key")
    run("verify", path, "--key", "ff" * 32, fails=DataError)


def test_export_is_read_by_show_verify_and_card_and_spent_by_nobody(path, tmp_path):
    told = tmp_path / "st-anna.statement"
    run("export", path, "-o", told)
    mine, theirs = (json.loads(run("show", one, "--json").output) for one in (path, told))
    assert mine | {"ledger": ""} == theirs | {"ledger": ""}
    assert "spent      ε=1/3" in run("show", told).output
    assert run("verify", told).output.startswith("sound: 3 records")
    assert run("card", told).output == run("card", path).output
    assert DATA not in told.read_text()
    for verb in (("raise", told, "--epsilon", "2", "--reason", "x"), ("export", told, "-o", tmp_path / "again")):
        done = CliRunner().invoke(app, [str(one) for one in verb])
        check_refusal(done.exception, LedgerBroken, "statement")
    run("new", told, "--dataset", "x", "--epsilon", "1", fails=LedgerBroken)


@pytest.mark.parametrize("end", ["", ".head", ".releases/x"])
def test_an_export_never_overwrites_the_ledger(path, end):
    before = path.read_bytes()
    done = CliRunner().invoke(app, ["export", str(path), "-o", f"{path}{end}"])
    check_refusal(done.exception, DataError, "output")
    assert path.read_bytes() == before


def test_an_export_that_cannot_be_written(path, tmp_path):
    run("export", path, "-o", tmp_path / "no" / "folder", fails=DataError)


def test_control_characters_of_a_stranger_are_not_printed(tmp_path):
    made = Ledger.create(tmp_path / "t", dataset="a\x1b[2Jb", ceiling=PureDP(epsilon=1), unit=Unit.person())
    assert "\x1b[2J" not in run("show", made.path).output
