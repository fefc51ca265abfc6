"""`twofold card` on files: made, signed, checked, exported; every refusal writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.refused import check_refusal
from twofold.cli import app
from twofold.errors import BadCard, BadPlan, DataError, TransportError, TwofoldError
from twofold.identity.keys import Secrets
from twofold.privacy.budget import PureDP
from twofold.privacy.events import DiscreteLaplaceEvent
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.unit import Unit
from twofold.secure_sum.keys import Keys
from twofold.storage.signing import SigningKey

KEY, OTHER = SigningKey(b"\1" * 32), SigningKey(b"\2" * 32)
SITE = 'curator = "St. Anna"\ncurator_type = "Nonprofit"\nuse = "tests"\nregion = "Austria"\nsector = "Healthcare"\n'
AUDIT = {
    "schema": "twofold.audit/1",
    "at": "2026-05-03T10:00:00Z",
    "software": "twofold 1",
    "passed": True,
    "findings": [{"broken": False, "as_expected": True}, {"broken": True, "as_expected": True}],
}


def run(*arguments: object) -> Any:
    done = CliRunner().invoke(app, ["card", *map(str, arguments)])
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done


def fails(kind: type[TwofoldError], parameter: str | None, *arguments: object, **facts: str) -> None:
    done = CliRunner().invoke(app, ["card", *map(str, arguments)])
    check_refusal(done.exception, kind, parameter, **facts)


def book(folder: Path) -> Path:
    path = folder / "st-anna.ledger"
    ledger = Ledger.create(path, dataset="visits", ceiling=PureDP(epsilon=1), unit=Unit.person())
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=3, coordinates=5)
    asked = {"plan": digest(b"p"), "data": digest(b"raw"), "events": [event], "unit": Unit.person()}
    ledger.release(**asked, draw=lambda: b"noisy")
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger, the site's words, an audit and public keys beside it."""
    (tmp_path / "site.toml").write_text(SITE)
    (tmp_path / "audit.json").write_text(json.dumps(AUDIT))
    for name, key in (("st-anna", KEY), ("st-bern", OTHER)):
        secrets = Secrets(name=name, sign=key, sum=Keys.new())
        (tmp_path / f"{name}.keys").write_bytes(secrets.to_bytes())
        secrets.identity.write(tmp_path / f"{name}.pub")
    return book(tmp_path)


@pytest.fixture(params=["card.json", "card.html", "card.md"])
def card(ledger: Path, request: pytest.FixtureRequest) -> Path:
    out = ledger.with_name(request.param)
    run("show", ledger, "--keys", ledger.with_name("st-anna.keys"), "--site", ledger.with_name("site.toml"), "-o", out)
    return out


def test_show_prints_a_draft(ledger):
    shown = run("show", ledger).output
    assert "not signed by the entity: a draft" in shown
    assert "not stated" in shown
    assert (
        run("show", ledger, "--json").output
        == CliRunner().invoke(app, ["ledger", "card", str(ledger), "--json"]).output
    )


def test_the_ledger_s_verb_is_still_there(ledger):
    done = CliRunner().invoke(app, ["ledger", "card", str(ledger)])
    assert done.output == run("show", ledger).output


def test_options_win_over_the_file(ledger):
    site, audit = ledger.with_name("site.toml"), ledger.with_name("audit.json")
    given = ("--curator", "St. Bern", "--why-epsilon", "enough", "--decided-by", "board", "--dpia", "D-1")
    told = json.loads(
        run(
            "show", ledger, "--site", site, "--audit", audit, *given, "--officer", "DPO", "--advice", "yes", "--json"
        ).output
    )
    assert told["statement"]["curator"] == "St. Bern"
    assert told["statement"]["region"] == "Austria"
    assert told["statement"]["why_epsilon"] == "enough"
    assert told["audit"]["passed"] is True


def test_the_output_s_name_says_the_form(card):
    assert card.read_text()[:1] == {".json": "{", ".html": "<", ".md": "#"}[card.suffix]


def test_verify(card, ledger):
    shown = run("verify", card, "--key", ledger.with_name("st-anna.pub"), "--ledger", ledger).output
    for fact in ("sound", "ε = 0.334", "the one you named", "holds this release"):
        assert fact in shown
    shown = run("verify", card).output
    assert "signer not checked" in shown
    assert "ledger not checked" in shown


def test_a_statement_in_the_place_of_the_ledger_says_what_it_can_prove(card, ledger):
    keys, statement = ledger.with_name("st-anna.keys"), ledger.with_name("x.statement")
    statement.write_bytes(Ledger(ledger).statement())
    assert json.loads(run("verify", card, "--ledger", statement, "--json").output)["statement"] == "unsigned"
    assert "proves nothing by itself" in run("verify", card, "--ledger", statement).output
    Ledger(ledger).change_signer(KEY, reason="from now on")
    export = ["ledger", "export", str(ledger), "-o", str(statement), "--force", "--keys"]
    done = CliRunner().invoke(app, [*export, str(keys)])
    assert done.exit_code == 0, done.output
    assert json.loads(run("verify", card, "--ledger", statement, "--json").output)["statement"] == "signed"
    assert "signed both" in run("verify", card, "--ledger", statement).output
    assert json.loads(run("verify", card, "--ledger", ledger, "--json").output)["statement"] is None
    other = ledger.with_name("st-bern.keys")
    done = CliRunner().invoke(app, [*export, str(other)])
    check_refusal(done.exception, DataError, "keys")


def test_what_is_not_a_ledger_is_named(card, ledger, tmp_path):
    model = tmp_path / "x.model"
    model.write_bytes(b"\x10\0\0\0\0\0\0\0" + b'{"__metadata__":{}}')
    for path in (card, model):
        done = CliRunner().invoke(app, ["ledger", "verify", str(path)])
        check_refusal(done.exception, DataError, "ledger")
        fails(DataError, "ledger", "show", path)
        fails(DataError, "ledger", "verify", card, "--ledger", path)


def test_verify_as_json(card, ledger):
    told = json.loads(run("verify", card, "--key", ledger.with_name("st-anna.pub"), "--json").output)
    assert (told["sound"], told["signer_checked"], told["ledger_checked"]) == (True, True, False)
    assert told["card"]["statement"]["curator"] == "St. Anna"


def test_an_outdated_card_says_so(card, ledger):
    """First reader A3: after a second release, the old card was "sound" and its total passed for today's."""
    told = json.loads(run("verify", card, "--ledger", ledger, "--json").output)
    assert (told["ledger_has_grown"], told["spent_now"]) == (False, "ε = 0.334")
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=3, coordinates=5)
    asked = {"plan": digest(b"2"), "data": digest(b"raw"), "events": [event], "unit": Unit.person()}
    Ledger(ledger).release(**asked, draw=lambda: b"noisy")
    told = json.loads(run("verify", card, "--ledger", ledger, "--json").output)
    assert (told["sound"], told["ledger_has_grown"], told["spent_now"]) == (True, True, "ε = 0.667")
    assert told["releases_now"] == 2
    shown = run("verify", card, "--ledger", ledger).output
    for fact in ("as of the card", "ε = 0.667", "2 releases"):
        assert fact in shown
    assert json.loads(run("verify", card, "--json").output)["ledger_has_grown"] is None


def test_show_says_what_it_wrote(ledger):
    """First reader A12: nothing was printed."""
    out = ledger.with_name("c.html")
    assert "draft" in run("show", ledger, "-o", out).output
    assert (
        "c.html: html card of visits, signed"
        in run("show", ledger, "--keys", ledger.with_name("st-anna.keys"), "-o", out, "--force").output
    )
    assert run("show", ledger, "-o", out, "--json", "--force").output == ""


def test_another_signer_is_refused(card, ledger):
    fails(BadCard, "key", "verify", card, "--key", ledger.with_name("st-bern.pub"))


def test_a_card_signed_again_is_refused(card, ledger):
    run("show", ledger, "--keys", ledger.with_name("st-bern.keys"), "-o", card, "--force")
    fails(BadCard, "key", "verify", card, "--key", ledger.with_name("st-anna.pub"))


def test_a_swapped_ledger_is_refused(card, tmp_path):
    (tmp_path / "other").mkdir()
    fails(BadCard, "ledger", "verify", card, "--ledger", book(tmp_path / "other"))


def test_an_edit_is_refused(card):
    card.write_text(card.read_text().replace("St. Anna", "St. Bern", 1))
    fails(BadCard, None, "verify", card)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"sign": 3}', '{"sign": "zz"}', '{"sign": "' + "f" * 64 + '"}'])
def test_other_files_are_no_keys(ledger, tmp_path, content):
    out = ledger.with_name("card.json")
    run("show", ledger, "--keys", ledger.with_name("st-anna.keys"), "-o", out)
    (tmp_path / "x.pub").write_text(content)
    fails(BadPlan, None, "verify", out, "--key", tmp_path / "x.pub")


def test_missing_files_are_said(ledger):
    fails(TransportError, None, "verify", ledger.with_name("none.json"))
    fails(TransportError, None, "show", ledger, "--site", ledger.with_name("none.toml"))


@pytest.mark.parametrize(
    "name", ["st-anna.ledger", "st-anna.ledger.head", "st-anna.ledger.releases/card.md", "site.toml"]
)
def test_a_card_overwrites_nothing_that_is_needed(ledger, name):
    path = ledger.with_name(name) if "/" not in name else ledger.parent / name
    before = path.read_bytes() if path.exists() else None
    fails(DataError, "output", "show", ledger, "--site", ledger.with_name("site.toml"), "-o", path)
    assert (path.read_bytes() if path.exists() else None) == before


def test_export_for_the_registry(card, tmp_path):
    out = tmp_path / "visits_2020.yaml"
    shown = run("export", card, "--registry", "--author", "A. Officer", "--author", "B", "-o", out).output
    assert "Draft" in shown
    told = yaml.safe_load(out.read_text())
    assert told["deployment"]["administrative"]["registry_authors"] == ["A. Officer", "B"]
    assert told["deployment"]["basic"]["data_product_region"] == "Austria"


@pytest.mark.parametrize(
    ("parameter", "arguments"),
    [
        ("registry", ("--author", "A", "-o", "a.yaml")),
        ("author", ("--registry", "-o", "a.yaml")),
        ("output", ("--registry", "--author", "A", "-o", "A b.yaml")),
    ],
)
def test_an_export_that_the_registry_would_refuse_is_not_written(card, tmp_path, monkeypatch, parameter, arguments):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    fails(DataError, parameter, "export", card, *arguments)
    assert sorted(tmp_path.iterdir()) == before


def test_a_card_that_does_not_state_enough_is_not_exported(ledger, tmp_path):
    out = ledger.with_name("bare.json")
    run("show", ledger, "--keys", ledger.with_name("st-anna.keys"), "-o", out)
    fails(DataError, "curator", "export", out, "--registry", "--author", "A", "-o", tmp_path / "a.yaml")
    assert not (tmp_path / "a.yaml").exists()


def test_an_edited_card_is_not_exported(card, tmp_path):
    card.write_text(card.read_text().replace("St. Anna", "St. Bern", 1))
    fails(BadCard, None, "export", card, "--registry", "--author", "A", "-o", tmp_path / "a.yaml")


def test_keys_that_cannot_sign_are_refused(tmp_path):
    """Keys of a secure sum alone, as older versions made them."""
    (tmp_path / "old.keys").write_text(
        json.dumps({"version": 1} | dict.fromkeys(("mask", "seal", "seed", "salt"), "11" * 32))
    )
    fails(BadPlan, "keys", "show", book(tmp_path), "--keys", tmp_path / "old.keys")
