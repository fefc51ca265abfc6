"""Reading without a lock while others write."""

from __future__ import annotations

from tests.refused import refused
from twofold.errors import LedgerBroken
from twofold.privacy.ledger import Ledger
from twofold.privacy.ledger import writer as reader


def test_a_reader_starts_again_when_the_head_moved(ledger, ask, monkeypatch):
    """A whole release happens between reading the head and reading the file."""
    real, left = reader.read_head, [1]

    def moved(path):
        found = real(path)
        if left:
            left.pop()
            Ledger(ledger.path).release(**ask(), draw=lambda: b"x")
        return found

    monkeypatch.setattr(reader, "read_head", moved)
    assert ledger.state().length == 3


def test_a_long_lived_ledger_notices_an_edit_of_what_it_has_read(ledger, ask):
    ledger.release(**ask(), draw=lambda: b"x")
    ledger.state()
    content = ledger.path.read_bytes()
    ledger.path.write_bytes(content.replace(b'"epsilon":"1/2"', b'"epsilon":"1/9"'))
    with refused(LedgerBroken, "ledger", found="hash does not fit"):
        ledger.state()
    ledger.path.write_bytes(content)
    assert ledger.state().length == 3


def test_memory_and_a_fresh_reading_agree(ledger, ask):
    for name in "abc":
        ledger.release(**ask(name), draw=lambda: b"x")
        assert ledger.state() == Ledger(ledger.path).state()
