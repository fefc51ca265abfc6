"""Statements: what auditors may have, which tells nothing about the data and cannot be spent from."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.errors import LedgerBroken
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.card import card_from_ledger
from twofold.privacy.ledger import Ledger, Statement, digest
from twofold.privacy.ledger.record import START, canonical, encode, seal
from twofold.privacy.ledger.statement import SHOWN
from twofold.privacy.unit import Unit
from twofold.report.card import to_markdown
from twofold.storage.signing import SigningKey

KEY, OTHER = SigningKey(bytes(32)), SigningKey(bytes([1] * 32))


@pytest.fixture(params=[None, KEY], ids=["unsigned", "signed"])
def filled(request, tmp_path, ask) -> Ledger:
    """Every kind of record: releases with and without a key, a lost one, a raise, a torn line."""
    path = tmp_path / "x.ledger"
    asked = {"dataset": "visits", "ceiling": ApproxDP(epsilon=2, delta=1e-5), "unit": Unit.person()}
    ledger = Ledger.create(path, **asked, signer=request.param)
    ledger.release(**ask("a"), draw=lambda source: source.words(9).tobytes())
    with suppress(ZeroDivisionError):
        ledger.release(**ask("b", epsilon="1/10"), draw=lambda: 1 // 0)
    path.write_bytes(path.read_bytes() + b'{"body":{"about":{},"at":"2026-01-01T00:00:00Z","data":"' + b"d" * 64)
    ledger.raise_ceiling(ApproxDP(epsilon=3, delta=1e-5), reason="agreed in May")
    ledger.release(**ask("b", epsilon="1/10"), draw=lambda: b"bytes of b")
    return ledger


@pytest.fixture
def told(filled, tmp_path) -> Path:
    path = tmp_path / "x.statement"
    path.write_bytes(filled.statement())
    return path


def test_a_statement_gives_the_same_account(filled, told):
    mine, theirs = filled.state().as_dict(), Statement(told).state().as_dict()
    assert mine == theirs
    verdict = Statement(told).verify(head=mine["head"])
    assert (verdict.records, verdict.releases) == (mine["records"], 2)
    assert to_markdown(card_from_ledger(filled)) == to_markdown(card_from_ledger(Statement(told)))


def test_a_statement_holds_nothing_that_stays_inside(filled, told):
    content = told.read_text()
    kinds = set()
    for line in filled.path.read_text().splitlines():
        with suppress(ValueError):
            body = json.loads(line)["body"]
            kinds.add(body["kind"])
            secrets = [body.get("data"), body.get("nonce"), *(body.get("draw") or {}).values()]
            if body["kind"] in ("repair", "lost"):
                secrets += [body.get("digest"), body.get("reason")]
            assert not [one for one in secrets if one and one in content], body["kind"]
    assert {"open", "reserve", "commit", "lost", "raise", "repair"} <= kinds
    assert digest(b"a") not in content  # the data of a
    records = [json.loads(line) for line in content.splitlines()[2:-1]]
    for record in records:
        assert set(record["body"]) <= {"kind", *SHOWN[record["body"]["kind"]]}
        assert "at" not in record["body"] or record["body"]["kind"] in ("open", "reserve", "raise", "signer")


def test_whether_the_data_changed_cannot_be_told_from_two_statements(tmp_path, ask, monkeypatch):
    """Two data sets, the same public requests: the statements differ in hashes and in what left, and not else."""
    import twofold.privacy.ledger.book as book
    import twofold.privacy.ledger.writer as writer

    shown = []
    for data in ("one", "other"):
        monkeypatch.setattr(writer, "now", lambda: "2026-01-01T00:00:00Z")
        monkeypatch.setattr(book, "now", lambda: "2026-01-01T00:00:00Z")
        ledger = Ledger.create(tmp_path / data, dataset="v", ceiling=PureDP(epsilon=1), unit=Unit.person())
        asked = ask("a") | {"data": digest(data.encode())}
        ledger.release(**asked, draw=lambda source: bytes(10))  # noqa: ARG005
        lines = [json.loads(line) for line in ledger.statement().splitlines()]
        shown.append([line.get("body", {}) for line in lines])
    assert shown[0] == shown[1]


def test_every_verb_that_spends_refuses_a_statement_by_type(told, ask):
    asked = {"dataset": "x", "ceiling": PureDP(epsilon=1), "unit": Unit.person()}
    for use in (lambda: Ledger(told), lambda: Ledger(told, signer=KEY), lambda: Ledger.open_or_create(told, **asked)):
        with refused(LedgerBroken, "statement"):
            use()
    with refused(LedgerBroken, "path"):
        Ledger.create(told, **asked)
    assert not hasattr(Statement(told), "release")
    assert not hasattr(Statement(told), "raise_ceiling")


def test_no_ledger_can_be_restored_from_a_statement(filled, told, tmp_path):
    """The lines without their nonces fit no hash; hashed anew they fit neither the head nor the stored releases."""
    lines = told.read_bytes().splitlines(keepends=True)
    head = json.loads(lines[1])["head"]
    folder = tmp_path / "restored"
    folder.mkdir()
    book = folder / "x.ledger"
    book.write_bytes(b"".join(lines[2:-1]))
    book.with_name("x.ledger.head").write_bytes(canonical(head) + b"\n")
    with refused(LedgerBroken, "ledger"):
        Ledger(book).state()
    previous, content = START, b""
    for number, line in enumerate(lines[2:-1]):
        record = seal(number=number, previous=previous, body=json.loads(line)["body"])
        previous, content = record.hash, content + encode(record)
    book.write_bytes(content)
    with refused(LedgerBroken, "ledger"):
        Ledger(book).state()


@pytest.mark.parametrize("filled", [KEY], indirect=True)
def test_the_signature_covers_the_whole_statement(told):
    assert Statement(told).verify(key=KEY.public).signer == KEY.public.hex()
    with refused(LedgerBroken, "signature"):
        Statement(told).verify(key=OTHER.public)
    lines = told.read_bytes().splitlines(keepends=True)
    changed = [*lines]
    changed[3] = changed[3].replace(b'"software":"twofold', b'"software":"Twofold')
    assert changed != lines
    told.write_bytes(b"".join(changed))
    for key in (None, KEY.public):
        with refused(LedgerBroken, "signature"):
            Statement(told).verify(key=key)
    end = canonical({"signature": "", "signer": ""}) + b"\n"
    told.write_bytes(b"".join([*changed[:-1], end]))
    assert "not signed" in " ".join(Statement(told).verify().notes)
    with refused(LedgerBroken, "signature"):
        Statement(told).verify(key=KEY.public)


@pytest.mark.parametrize("filled", [None], indirect=True)
def test_an_unsigned_statement_is_refused_where_a_key_is_given(told):
    with refused(LedgerBroken, "signature"):
        Statement(told).verify(key=KEY.public)


@pytest.mark.parametrize("number", range(2, 9))
def test_costs_in_a_statement_are_priced_again(told, number):
    lines = told.read_bytes().splitlines()
    whole = json.loads(lines[number])
    whole["body"]["epsilon"] = "1/100"
    lines[number] = canonical(whole)
    told.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(LedgerBroken):
        Statement(told).verify()


def test_no_damage_of_a_statement_gives_a_foreign_error(told):
    import random

    content, chance = told.read_bytes(), random.Random(3)
    lines = content.splitlines(keepends=True)
    for _ in range(600):
        how = chance.randrange(5)
        if how == 0:
            place = chance.randrange(len(content))
            damaged = content[:place] + chance.randbytes(chance.randrange(1, 4)) + content[place + 1 :]
        elif how == 1:
            damaged = content[: chance.randrange(len(content))]
        elif how == 2:
            damaged = b"".join(chance.sample(lines, chance.randrange(len(lines) + 1)))
        else:
            mixed = [*lines]
            number = chance.randrange(1, len(lines))
            whole = json.loads(mixed[number])
            inner = chance.choice([one for one in (whole, whole.get("body"), whole.get("head")) if one])
            odd = [None, -1, "", "x", [], {}, 10**400, "1e999999999", "\ud800", "-5", True, 2**70]
            inner[chance.choice(list(inner))] = chance.choice(odd)
            mixed[number] = canonical(whole) + b"\n"
            damaged = b"".join(mixed)
        told.write_bytes(damaged)
        with suppress(LedgerBroken):
            Statement(told).verify()
        with suppress(LedgerBroken):
            card_from_ledger(Statement(told))
        with suppress(LedgerBroken):
            Ledger(told).state()
