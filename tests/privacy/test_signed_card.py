"""A signed card: tampered, re-signed, replayed against another ledger, or not signed at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.privacy.test_card import DATA, NUMBERS, make
from tests.refused import refused
from twofold.errors import BadCard, LedgerBroken
from twofold.privacy import signed_card
from twofold.privacy.card import Card, card_from_ledger
from twofold.privacy.events import DiscreteLaplaceEvent
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.signed_card import SignedCard, check_ledger, parse_signed, sign_card
from twofold.privacy.site_words import AuditResult, SiteWords
from twofold.privacy.unit import Unit
from twofold.storage.container import canonical_json
from twofold.storage.signing import Purpose, SigningKey

KEY = SigningKey(b"\1" * 32)
AUDIT = AuditResult(at="2026-05-03T10:00:00Z", software="twofold 1", passed=True, sound=9, broken=4)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return make(tmp_path, public_numbers=NUMBERS)


@pytest.fixture
def signed(ledger) -> SignedCard:
    made = card_from_ledger(ledger, statement=SiteWords(curator="St. Anna", use="a < b & c"), audit=AUDIT)
    return sign_card(made, KEY, at="2026-11-16T12:00:00Z")


def again(record: dict, key: SigningKey = KEY) -> str:
    """Sign a changed record, as an insider could."""
    content = {name: value for name, value in record.items() if name != "signature"} | {"key": key.public.hex()}
    data = canonical_json(content)
    return canonical_json({**content, "signature": key.sign(Purpose.CARD, data.encode()).hex()})


def test_what_is_signed_is_read_back(signed):
    found = parse_signed(signed.to_json())
    assert found == signed
    assert found.to_json() == signed.to_json()
    assert len(found.fingerprint.split()) == 12


def test_signing_is_repeatable(signed):
    assert sign_card(signed.card, KEY, at=signed.at) == signed


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["card"]["figures"][0].update(epsilon=0.1, guess=0.52497918747894, cost="ε = 0.1"),
        lambda record: record["card"].update(dataset="other"),
        lambda record: record["card"]["statement"].update(curator="St. Bern"),
        lambda record: record["card"]["audit"].update(sound=1000),
        lambda record: record.update(at="2026-11-17T12:00:00Z"),
        lambda record: record.update(software="twofold 9"),
        lambda record: record.update(key=SigningKey(b"\2" * 32).public.hex()),
        lambda record: record.update(signature="00" * 64),
    ],
)
def test_a_changed_field_is_refused(signed, change):
    record = json.loads(signed.to_json())
    change(record)
    with refused(BadCard, "signature"):
        parse_signed(json.dumps(record))


@pytest.mark.parametrize("purpose", [one for one in Purpose if one is not Purpose.CARD])
def test_a_signature_for_something_else_is_refused(signed, purpose):
    record = json.loads(signed.to_json())
    data = canonical_json({name: value for name, value in record.items() if name != "signature"}).encode()
    record["signature"] = KEY.sign(purpose, data).hex()
    with refused(BadCard, "signature"):
        parse_signed(json.dumps(record))


def test_a_card_signed_again_by_another_key_is_another_signer(signed):
    other = SigningKey(b"\2" * 32)
    found = parse_signed(again(json.loads(signed.to_json()), other))
    found.check_key(other.public)
    with refused(BadCard, "key", found=found.fingerprint, expected=signed.fingerprint):
        found.check_key(KEY.public)


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["figures"][0].update(guess=0.5),
        lambda card: card["figures"][0].update(epsilon=-1),
        lambda card: card["figures"][0].update(epsilon=1.2),
        lambda card: card["figures"][0].update(cost="ε = 0.9"),
        lambda card: card["figures"][0].update(cost="cheap"),
        lambda card: card["figures"][0].update(epsilon="huge"),
        lambda card: card["figures"][0].update(epsilon=True),
        lambda card: card["figures"][0].update(extra=1),
        lambda card: card.update(figures=[]),
        lambda card: card.update(figures=3),
        lambda card: card.update(extra="x"),
        lambda card: card.pop("trust"),
        lambda card: card.update(card=2),
        lambda card: card.update(sharing="magic"),
        lambda card: card.update(unit={}),
        lambda card: card["unit"].update(entities="2"),
        lambda card: card.update(signal={"low": 1.0}),
        lambda card: card.update(noise=0.0),
        lambda card: card.update(rho=-0.5),
        lambda card: card.update(dataset="\x1b[2J"),
        lambda card: card.update(what_left="\u202eturned"),
        lambda card: card.update(trust="x" * 5000),
        lambda card: card.update(bytes="37"),
        lambda card: card["statement"].update(curator="x" * 1000),
        lambda card: card["statement"].update(curator="two\nlines"),
        lambda card: card.update(statement=None),
        lambda card: card.update(audit={"passed": True}),
    ],
)
def test_an_insider_who_signs_nonsense_is_refused(signed, change):
    record = json.loads(signed.to_json())
    change(record["card"])
    with refused(BadCard, "card"):
        parse_signed(again(record))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"schema":"twofold.card/1"}',
        "[" * 200_000,
        '{"a":' * 1000,
        '{"schema":"twofold.card/1","schema":"x"}',
        '{"a":1e999}',
        '{"a":' + "9" * 5000 + "}",
        " " * 1_000_001,
    ],
)
def test_hostile_text_is_refused(text):
    with refused(BadCard, "card"):
        parse_signed(text)


def test_a_card_without_a_signature_says_so(ledger):
    with refused(BadCard, "card", found="without a signature"):
        parse_signed(card_from_ledger(ledger).to_json())


def test_an_infinite_figure_is_read_back(tmp_path):
    made = card_from_ledger(
        make(tmp_path, [DiscreteLaplaceEvent(unit=Unit.person(), seeded=True, sensitivity=1, scale=1, coordinates=1)])
    )
    assert parse_signed(sign_card(made, KEY).to_json()).card == made


def test_the_ledger_holds_the_card(ledger, signed):
    check_ledger(signed, ledger)


def test_a_ledger_that_grew_still_holds_the_card(ledger, signed):
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=2, coordinates=1)
    ledger.release(plan=digest(b"2"), data=DATA, events=[event], unit=Unit.person(), draw=lambda: b"more")
    now = check_ledger(signed, ledger)
    assert (now.has_grown, now.spent, now.releases) == (True, "ε = 1.5", 2)  # first reader A3
    later = sign_card(card_from_ledger(ledger, record=1), KEY)
    assert later.card.spent != signed.card.spent
    assert not check_ledger(later, ledger).has_grown


def test_a_swapped_ledger_is_refused(tmp_path, signed):
    (tmp_path / "other").mkdir()
    other = make(tmp_path / "other", public_numbers=NUMBERS)  # the same release, drawn again
    with refused(BadCard, "ledger", found=signed.card.record_hash[:16]):
        check_ledger(signed, other)


@pytest.mark.parametrize(
    ("field", "value"),
    [("dataset", "other"), ("spent", "ε = 0.5"), ("version", "2"), ("weak", ("x",)), ("trust", "all is well")],
)
def test_a_card_that_its_own_signer_made_up_does_not_fit_the_ledger(ledger, signed, field, value):
    lie = sign_card(replace(signed.card, **{field: value}), KEY)
    with refused(BadCard, "ledger", found=field):
        check_ledger(lie, ledger)


def test_made_up_figures_do_not_fit_the_ledger(ledger, signed):
    small = replace(signed.card.figures[0], epsilon=0.0, delta=0.0, guess=0.5, cost="ε = 0")
    lie = sign_card(replace(signed.card, figures=(small, *signed.card.figures[1:])), KEY)
    with refused(BadCard, "ledger", found="figures"):
        check_ledger(parse_signed(lie.to_json()), ledger)


def test_words_of_another_version_may_differ_but_not_figures(ledger, signed, monkeypatch):
    monkeypatch.setattr(signed_card, "__version__", "0.0.9")
    older = sign_card(replace(signed.card, trust="as it was worded then"), KEY)
    monkeypatch.undo()
    check_ledger(older, ledger)
    with refused(BadCard, "ledger", found="digest"):
        check_ledger(replace(older, card=replace(older.card, digest="0" * 64)), ledger)


def test_a_ledger_older_than_the_card_was_restored(ledger, signed, tmp_path):
    """The card's head is not in the chain of an older copy, though the release is."""
    event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=1, scale=2, coordinates=1)
    kept = {path: path.read_bytes() for path in tmp_path.glob("x.ledger*") if path.is_file()}
    ledger.release(plan=digest(b"2"), data=DATA, events=[event], unit=Unit.person(), draw=lambda: b"more")
    later = sign_card(card_from_ledger(ledger, record=1), KEY)
    for path, content in kept.items():
        path.write_bytes(content)
    with refused(LedgerBroken):
        check_ledger(later, Ledger(ledger.path))


def test_a_card_is_read_from_its_own_record_only(signed):
    assert Card.from_dict(signed.card.as_dict()) == signed.card
    with refused(BadCard, "card"):
        Card.from_dict({})


def test_what_could_not_be_read_back_is_not_signed(tmp_path):
    with refused(BadCard, "card"):
        sign_card(card_from_ledger(make(tmp_path, dataset="two\nlines")), KEY)
