"""An older ledger beside newer releases, and other ledgers in its place: nothing is drawn (audit M4a)."""

from __future__ import annotations

import os
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.errors import LedgerBroken
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.card import card_from_ledger
from twofold.privacy.ledger import Ledger
from twofold.privacy.unit import Unit
from twofold.storage import files as disk

MORE = ApproxDP(epsilon=3, delta=1e-5)


class Killed(BaseException):
    """The process ends here."""


def never() -> bytes:
    raise AssertionError("nothing may be drawn")


def copied(ledger: Ledger, folder: Path) -> Path:
    """Copy ledger and head, as a backup does."""
    folder.mkdir()
    for path in (ledger.path, ledger.path.with_name(ledger.path.name + ".head")):
        shutil.copy(path, folder / path.name)
    return folder


def put_back(folder: Path, ledger: Ledger) -> None:
    for path in folder.iterdir():
        shutil.copy(path, ledger.path.with_name(path.name))


def stops_everything(path: Path, ask) -> None:
    for use in (
        lambda: Ledger(path).state(),
        lambda: Ledger(path).verify(),
        lambda: Ledger(path).statement(),
        lambda: Ledger(path).release(**ask("new", epsilon="1/100"), draw=never),
        lambda: Ledger(path).release(**ask("a"), draw=never),
        lambda: Ledger(path).raise_ceiling(MORE, reason="more"),
        lambda: card_from_ledger(Ledger(path)),
    ):
        with refused(LedgerBroken, "releases"):
            use()


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_an_older_copy_beside_newer_releases_stops_everything(ledger, ask, tmp_path, kept):
    """Audit M4a: the newer files in `.releases` prove the rollback; they were ignored, and noise was drawn again."""
    for number, name in enumerate("abc"):
        if number == kept:
            copied(ledger, tmp_path / "backup")
        ledger.release(**ask(name), draw=lambda name=name: name.encode())
    before = sorted(path.name for path in ledger.path.with_name(ledger.path.name + ".releases").iterdir())
    put_back(tmp_path / "backup", ledger)
    stops_everything(ledger.path, ask)
    assert sorted(path.name for path in ledger.path.with_name(ledger.path.name + ".releases").iterdir()) == before


def test_an_older_copy_that_was_used_again_is_found_when_the_releases_return(ledger, ask, tmp_path):
    """Rolled back with its releases hidden, drawn from again, and the releases put back: two ledgers in one folder."""
    ledger.release(**ask("a"), draw=lambda: b"a")
    copied(ledger, tmp_path / "backup")
    ledger.release(**ask("b"), draw=lambda: b"b")
    releases = ledger.path.with_name(ledger.path.name + ".releases")
    hidden = max(releases.iterdir())
    hidden.rename(tmp_path / hidden.name)
    put_back(tmp_path / "backup", ledger)
    ledger.release(**ask("b"), draw=lambda: b"b again")  # without the proof nobody can know, but for the noted hash
    (tmp_path / hidden.name).rename(hidden)
    stops_everything(ledger.path, ask)


def test_bytes_that_were_begun_prove_it_too(ledger, ask, tmp_path):
    copied(ledger, tmp_path / "backup")
    ledger.release(**ask("a"), draw=lambda: b"a")
    (stored,) = ledger.path.with_name(ledger.path.name + ".releases").glob("*.release")
    stored.rename(stored.with_name(stored.name + ".new"))
    put_back(tmp_path / "backup", ledger)
    stops_everything(ledger.path, ask)


def test_two_releases_of_one_reservation_stop_everything(ledger, ask):
    ledger.release(**ask("a"), draw=lambda: b"a")
    (stored,) = ledger.path.with_name(ledger.path.name + ".releases").glob("*.release")
    shutil.copy(stored, stored.with_name(stored.name.rpartition("-")[0] + f"-{'ab' * 32}.release"))
    stops_everything(ledger.path, ask)


def test_a_removed_ledger_is_not_started_anew_beside_its_releases(ledger, ask):
    """Ledger and head removed, releases left: a new ledger of that name would forget everything."""
    ledger.release(**ask("a"), draw=lambda: b"a")
    ledger.path.unlink()
    ledger.path.with_name(ledger.path.name + ".head").unlink()
    asked = {"dataset": "x", "ceiling": PureDP(epsilon=1), "unit": Unit.person()}
    for make in (Ledger.create, Ledger.open_or_create):
        with refused(LedgerBroken, "releases"):
            make(ledger.path, **asked)


def test_the_ledger_of_others_in_its_place(ledger, ask, tmp_path):
    """Two ledgers merged into one folder: the releases of one are unknown to the other."""
    ledger.release(**ask("a"), draw=lambda: b"a")
    other = Ledger.create(tmp_path / "other.ledger", dataset="other", ceiling=MORE, unit=Unit.person())
    other.release(**ask("a"), draw=lambda: b"a")
    for end in ("", ".head"):
        shutil.copy(f"{other.path}{end}", f"{ledger.path}{end}")
    stops_everything(ledger.path, ask)


def test_records_merged_from_two_copies_are_found(ledger, ask, tmp_path):
    """Each copy went on by itself; the end of one does not follow from the other."""
    ledger.release(**ask("a"), draw=lambda: b"a")
    twin = tmp_path / "twin"
    shutil.copytree(ledger.path.parent, twin, ignore=shutil.ignore_patterns("twin"))
    ledger.release(**ask("b"), draw=lambda: b"b")
    second = Ledger(twin / ledger.path.name)
    second.release(**ask("c"), draw=lambda: b"c")
    mine = ledger.path.read_bytes()
    theirs = second.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(mine + b"".join(theirs[3:]))
    with refused(LedgerBroken, "ledger"):
        Ledger(ledger.path).verify()
    shutil.copy(f"{second.path}.head", f"{ledger.path}.head")
    with refused(LedgerBroken, "ledger"):
        Ledger(ledger.path).release(**ask("d", epsilon="1/100"), draw=never)


def test_the_head_of_another_ledger_is_refused(ledger, ask, tmp_path):
    other = Ledger.create(tmp_path / "other.ledger", dataset="visits 2020", ceiling=MORE, unit=Unit.person())
    shutil.copy(f"{other.path}.head", f"{ledger.path}.head")
    with refused(LedgerBroken, "ledger"):
        Ledger(ledger.path).state()


@pytest.mark.parametrize("keyed", [True, False])
def test_a_kill_at_any_step_never_looks_like_a_rollback(ledger, ask, tmp_path, monkeypatch, keyed):
    """The crash window: whatever step a kill ends, the next process opens the ledger, and the cost is paid once."""
    step = 0
    while True:
        step += 1
        folder = tmp_path / f"{step}"
        shutil.copytree(ledger.path.parent, folder, ignore=shutil.ignore_patterns("[0-9]*"))
        path, left = folder / ledger.path.name, [step]

        def listen(name, left=left):
            left[0] -= 1
            if left[0] == 0:
                raise Killed(name)

        draw = (lambda source: source.words(4).tobytes()) if keyed else (lambda: os.urandom(32))
        with monkeypatch.context() as patch:
            patch.setattr(disk, "_listener", listen)
            try:
                Ledger(path).release(**ask("a"), draw=draw)
                done = True
            except Killed:
                done = False
        Ledger(path).verify()
        Ledger(path).release(**ask("b", epsilon="1/10"), draw=draw)
        Ledger(path).release(**ask("a"), draw=draw)
        assert Ledger(path).verify().releases == 2
        if keyed:
            assert Ledger(path).state().spent.epsilon == Fraction(6, 10)
        if done:
            break
    assert step > 20


def test_a_clock_set_back_is_noted_and_stops_nothing(ledger, ask, monkeypatch):
    import twofold.privacy.ledger.writer as writer

    ledger.release(**ask("a"), draw=lambda: b"a")
    monkeypatch.setattr(writer, "now", lambda: "2001-01-01T00:00:00Z")
    ledger.release(**ask("b"), draw=lambda: b"b")
    assert ledger.release(**ask("a"), draw=never) == b"a"
    (note,) = ledger.verify().notes
    assert "2001-01-01" in note
    assert "record 3" in note
