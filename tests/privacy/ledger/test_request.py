"""A hash that is shown must not tell whether a guess at the private data is right."""

from __future__ import annotations

from pathlib import Path

from twofold.privacy.budget import PureDP
from twofold.privacy.card import card_from_ledger
from twofold.privacy.ledger import Ledger, book, writer
from twofold.privacy.ledger.record import read_chain, seal
from twofold.privacy.unit import Unit
from twofold.report.card import to_html, to_markdown


def records(ledger: Ledger):
    return read_chain(ledger.path.read_bytes()).records


def release(folder: Path, ask) -> Ledger:
    folder.mkdir()
    ledger = Ledger.create(folder / "x.ledger", dataset="x", ceiling=PureDP(epsilon=9), unit=Unit.person())
    ledger.release(**ask(), draw=lambda: b"what left")
    return ledger


def test_the_right_guess_at_the_data_does_not_give_the_hash_on_the_card(tmp_path, ask, monkeypatch):
    for module in (book, writer):
        monkeypatch.setattr(module, "now", lambda: "2026-01-01T00:00:00Z")
    shown, guess = release(tmp_path / "entity", ask), release(tmp_path / "attacker", ask)
    assert records(shown)[0] == records(guess)[0]  # the attacker got everything public right, the time too
    assert card_from_ledger(shown).record_hash != card_from_ledger(guess).record_hash
    assert shown.state().as_dict()["head"] != guess.state().as_dict()["head"]


def test_without_the_nonce_the_record_hashes_otherwise(ledger, ask):
    ledger.release(**ask(), draw=lambda: b"x")
    kept = records(ledger)[1]
    body = {name: value for name, value in kept.body.items() if name != "nonce"}
    assert seal(number=1, previous=kept.previous, body=body).hash != card_from_ledger(ledger).record_hash


def test_every_record_about_private_data_has_its_own_nonce_and_shows_it_nowhere(ledger, ask):
    for name in ("a", "b"):
        ledger.release(**ask(name), draw=lambda: b"x")
    line = ledger.path.read_bytes().splitlines()[1]
    with ledger.path.open("ab") as file:
        file.write(line[: line.index(b'"nonce"')])  # a crash that left the digest of the data and not the nonce
    ledger.release(**ask("c"), draw=lambda: b"x")
    kept = [record for record in records(ledger) if record.kind in ("reserve", "repair")]
    nonces = {record.body["nonce"] for record in kept}
    assert [record.kind for record in kept] == ["reserve", "reserve", "repair", "reserve"]
    assert len(nonces) == 4
    assert {len(nonce) for nonce in nonces} == {64}
    card = card_from_ledger(ledger)
    shown = "".join(
        (to_html(card), to_markdown(card), card.to_json(), repr(ledger.state()), str(ledger.state().as_dict()))
    )
    assert not any(nonce in shown for nonce in nonces)
    assert ledger.verify(head=card.record_hash).releases == 3
