"""Key files: who may read them, what is believed of them, and that nothing shown tells anything about them."""

from __future__ import annotations

import json
import os
import stat
from fractions import Fraction

import pytest

from tests.refused import refused
from twofold.errors import BadPrivacyParameter, LedgerBroken, PrivacyError
from twofold.privacy.card import card_from_ledger
from twofold.privacy.ledger import Ledger
from twofold.privacy.ledger.head import head_of
from twofold.privacy.ledger.record import encode, read_chain, seal
from twofold.privacy.ledger.reservation import Request
from twofold.privacy.rng import Keyed
from twofold.report.card import to_html, to_markdown
from twofold.storage import files as disk


def draw(source: Keyed) -> bytes:
    return source.words(20).tobytes()


def killed(ledger: Ledger, asked: dict[str, object]) -> bytes:
    """Leave an open reservation; give what was drawn for it."""
    seen = []

    def dies(source: Keyed) -> bytes:
        seen.append(draw(source))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.release(**asked, draw=dies)
    return seen[0]


def key_file(ledger: Ledger):
    (found,) = ledger.path.with_name(ledger.path.name + ".releases").glob("*.key")
    return found


def statuses(ledger: Ledger) -> list[str]:
    return [entry.status for entry in ledger.state().entries]


def test_the_draw_uses_the_key_that_is_on_the_disk_and_only_its_owner_can_read_it(ledger, ask):
    drawn = killed(ledger, ask())
    assert draw(Keyed(key_file(ledger).read_bytes())) == drawn
    assert stat.S_IMODE(key_file(ledger).stat().st_mode) == 0o600


def test_the_key_is_durable_before_its_record_and_gone_after_the_commit(ledger, ask, monkeypatch):
    steps: list[tuple[str, int, int]] = []
    folder = ledger.path.with_name(ledger.path.name + ".releases")

    def listen(name: str) -> None:
        steps.append((name, len(list(folder.glob("*.key"))), len(ledger.path.read_bytes().splitlines())))

    monkeypatch.setattr(disk, "_listener", listen)
    ledger.release(**ask(), draw=draw)
    reserved = [keys for name, keys, lines in steps if lines == 2]
    assert set(reserved) == {1}
    assert ("sync folder", 1, 1) in steps  # its name too, before the record
    assert [lines for name, _, lines in steps if name == "destroy: open"] == [3]
    assert list(folder.glob("*.key*")) == []


DAMAGE = {
    "missing": lambda _: None,
    "empty": lambda _: b"",
    "torn": lambda key: key[:20],
    "longer": lambda key: key + b"\n",
    "zeros": lambda _: bytes(32),
    "one bit": lambda key: bytes([key[0] ^ 1]) + key[1:],
    "another key": lambda _: os.urandom(32),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_key_that_is_not_whole_is_not_used(ledger, ask, how):
    drawn, path = killed(ledger, ask()), key_file(ledger)
    damaged = DAMAGE[how](path.read_bytes())
    path.unlink()
    if damaged is not None:
        path.write_bytes(damaged)
    assert not any("resumes" in note for note in ledger.verify().notes)
    assert ledger.release(**ask(), draw=draw) != drawn
    assert statuses(ledger) == ["lost", "released"]
    assert not path.exists()


def test_the_key_of_another_reservation_does_not_fit(ledger, ask):
    first = killed(ledger, ask("a"))
    one = key_file(ledger)
    content = one.read_bytes()
    killed(ledger, ask("b"))
    (other,) = set(one.parent.glob("*.key")) - {one}
    other.write_bytes(content)
    assert ledger.release(**ask("b"), draw=draw) != first
    assert statuses(ledger) == ["open", "lost", "released"]
    assert ledger.release(**ask("a"), draw=draw) == first


def test_a_left_key_of_a_release_goes_when_it_is_asked_for_again(ledger, ask, monkeypatch):
    def refuses(name: str) -> None:
        if name.startswith("destroy"):
            raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(disk, "_listener", refuses)
        sent = ledger.release(**ask(), draw=draw)
        assert ledger.release(**ask(), draw=draw) == sent  # still handed out
    assert key_file(ledger).exists()
    before = ledger.path.read_bytes()
    assert Ledger(ledger.path).release(**ask(), draw=draw) == sent
    assert list(ledger.path.with_name(ledger.path.name + ".releases").glob("*.key")) == []
    assert ledger.path.read_bytes() == before


def test_a_key_that_cannot_be_destroyed_keeps_other_data_from_being_drawn(ledger, ask, monkeypatch):
    killed(ledger, ask())

    def refuses(name: str) -> None:
        if name.startswith("destroy"):
            raise PermissionError

    def never(source: Keyed) -> bytes:
        raise AssertionError("nothing may be drawn")

    monkeypatch.setattr(disk, "_listener", refuses)
    with refused(LedgerBroken, "disk"):
        ledger.release(**ask(data="f" * 64), draw=never)
    assert statuses(ledger) == ["open"]


def test_nothing_that_is_shown_names_a_key(ledger, ask):
    killed(ledger, ask())
    key, name = key_file(ledger).read_bytes(), key_file(ledger).name.removesuffix(".key")
    ledger.release(**ask(), draw=draw)
    made = ledger.state().entries[0].request["draw"]
    assert made["key"] == name
    card = card_from_ledger(ledger)
    shown = "".join(
        (to_html(card), to_markdown(card), card.to_json(), repr(ledger.state()), str(ledger.state().as_dict()))
    )
    assert name not in shown
    assert made["check"] not in shown
    assert not any(secret in ledger.path.read_bytes() for secret in (key, key.hex().encode()))
    assert "key" not in json.loads(card.to_json())


def test_the_check_value_is_no_word_of_the_noise(ledger, ask):
    drawn = killed(ledger, ask())
    assert bytes.fromhex(ledger.state().entries[0].request["draw"]["check"]) not in drawn


def test_a_reservation_of_a_version_that_kept_no_keys_is_read_and_closed(ledger, ask):
    ledger.release(**ask("old"), draw=lambda: b"kept")
    _append(ledger, Request(**ask()).body())  # what such a version had written when it was killed
    assert Ledger(ledger.path).verify().releases == 1
    ledger.release(**ask(), draw=draw)
    assert statuses(ledger) == ["released", "lost", "released"]
    assert ledger.state().spent.epsilon == Fraction(3, 2)


@pytest.mark.parametrize("made", ["text", {"key": "../../secret", "check": "", "by": ""}, {"key": 7}, {}, None])
def test_a_record_that_names_no_key_has_none(ledger, ask, made, tmp_path):
    (tmp_path / "secret.key").write_bytes(bytes(32))
    _append(ledger, {**Request(**ask()).body(), "draw": made})
    ledger.verify()
    ledger.release(**ask(), draw=draw)
    assert statuses(ledger) == ["lost", "released"]
    assert (tmp_path / "secret.key").exists()


def _append(ledger: Ledger, body: dict[str, object]) -> None:
    chain = read_chain(ledger.path.read_bytes())
    record = seal(number=len(chain.records), previous=chain.hash, body={"at": "2026-01-01T00:00:00Z", **body})
    ledger.path.write_bytes(ledger.path.read_bytes() + encode(record))
    head = ledger.path.with_name(ledger.path.name + ".head")
    head.write_bytes(head_of(read_chain(ledger.path.read_bytes())).encode())


def test_the_noise_ends_with_its_draw(ledger, ask):
    kept = []
    ledger.release(**ask(), draw=lambda source: kept.append(source) or b"x")
    with refused(PrivacyError, "rng"):
        kept[0].words(1)


def test_a_draw_takes_nothing_or_the_noise(ledger, ask):
    with refused(BadPrivacyParameter, "draw"):
        ledger.release(**ask(), draw=lambda one, two: one + two)
    assert ledger.state().entries == ()
    ledger.release(**ask("a"), draw=lambda rows=b"own": rows)
    ledger.release(**ask("b"), draw=lambda *given: b"%d" % len(given))
    assert ledger.stored(plan=ask()["plan"], version="b") == b"0"
