"""Links, pipes and folders in the place of a ledger's files: refused or removed, never followed, never waited for."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from twofold.errors import LedgerBroken, TwofoldError
from twofold.privacy.budget import PureDP
from twofold.privacy.ledger import Ledger, Statement
from twofold.privacy.unit import Unit

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and named pipes")
PLANTED = ("link", "dangling link", "hard link", "pipe", "folder")


@pytest.fixture
def victim(tmp_path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(b"precious" * 100)
    return path


def plant(place: Path, how: str, victim: Path) -> None:
    if how == "link":
        place.symlink_to(victim)
    elif how == "dangling link":
        place.symlink_to(victim.with_name("nothing"))
    elif how == "hard link":
        os.link(victim, place)
    elif how == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()


def in_time(doing) -> object:
    """Run it, and fail instead of waiting for ever at a pipe."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(doing())
        except TwofoldError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits"
    assert found, "a foreign error"
    return found[0]


def releases(path: Path) -> Path:
    return path.with_name(path.name + ".releases")


@pytest.mark.parametrize("how", PLANTED)
def test_no_temporary_name_of_the_head_is_followed(ledger, ask, victim, how):
    """Audit M4d: `disk.replace` followed a link planted at `*.head.new`."""
    plant(ledger.path.with_name(ledger.path.name + ".head.new"), how, victim)
    done = in_time(lambda: ledger.release(**ask("a"), draw=lambda: b"a"))
    assert isinstance(done, LedgerBroken) if how == "folder" else done == b"a"
    assert victim.read_bytes() == b"precious" * 100
    assert not victim.with_name("nothing").exists()
    if how != "folder":
        assert not ledger.path.with_name(ledger.path.name + ".head").is_symlink()
        ledger.verify()


@pytest.mark.parametrize("how", PLANTED)
@pytest.mark.parametrize("name", ["room", "junk.new", f"{'ab' * 16}.key", f"{'ab' * 16}.key.new"])
def test_nothing_planted_among_the_releases_is_followed(ledger, ask, victim, how, name):
    """Keys that nobody needs are overwritten: never through a link."""
    ledger.release(**ask("a"), draw=lambda: b"a")
    plant(releases(ledger.path) / name, how, victim)
    done = in_time(lambda: ledger.release(**ask("b"), draw=lambda source: source.words(2).tobytes()))
    assert isinstance(done, LedgerBroken if how == "folder" else bytes)
    assert victim.read_bytes() == b"precious" * 100
    assert not victim.with_name("nothing").exists()


@pytest.mark.parametrize("how", ["link", "dangling link", "pipe", "folder"])
@pytest.mark.parametrize("end", ["", ".head", ".releases"])
def test_a_ledger_of_anything_but_plain_files_is_refused(ledger, ask, victim, how, end):
    """Audit L1: a pipe in the place of a file was waited for."""
    ledger.release(**ask("a"), draw=lambda: b"a")
    place = Path(f"{ledger.path}{end}")
    moved = place.rename(place.with_name(f"moved{end}"))
    if end == ".releases" and how == "folder":
        return
    plant(place, how, moved if how == "link" else victim)
    for use in (
        lambda: Ledger(ledger.path).state(),
        lambda: Ledger(ledger.path).verify(),
        lambda: Ledger(ledger.path).release(**ask("b"), draw=lambda: b"b"),
        lambda: Ledger(ledger.path).stored(plan=ask()["plan"], version="a"),
    ):
        assert isinstance(in_time(use), LedgerBroken)


@pytest.mark.parametrize("how", ["link", "dangling link", "pipe", "folder"])
def test_a_lock_that_is_not_a_plain_file_is_refused(ledger, ask, victim, how):
    """The holder writes its number into the lock."""
    lock = ledger.path.with_name(ledger.path.name + ".lock")
    lock.unlink()
    plant(lock, how, victim)
    assert isinstance(in_time(lambda: ledger.release(**ask("a"), draw=lambda: b"a")), LedgerBroken)
    assert victim.read_bytes() == b"precious" * 100
    assert not victim.with_name("nothing").exists()


@pytest.mark.parametrize("how", ["link", "pipe", "folder"])
def test_a_stored_release_that_is_not_a_plain_file_is_refused(ledger, ask, how):
    ledger.release(**ask("a"), draw=lambda: b"a")
    (stored,) = releases(ledger.path).glob("*.release")
    moved = stored.rename(ledger.path.with_name("moved"))
    plant(stored, how, moved)
    for use in (ledger.verify, lambda: ledger.release(**ask("a"), draw=lambda: b"b")):
        assert isinstance(in_time(use), LedgerBroken)


@pytest.mark.parametrize("how", ["link", "pipe", "folder"])
def test_a_key_that_is_not_a_plain_file_is_not_used(ledger, ask, how, tmp_path):
    class Killed(BaseException):
        pass

    def killed(source):
        raise Killed

    with pytest.raises(Killed):
        ledger.release(**ask("a"), draw=killed)
    (key,) = releases(ledger.path).glob("*.key")
    moved = key.rename(tmp_path / "moved")
    plant(key, how, moved)
    for use in (ledger.verify, lambda: ledger.release(**ask("a"), draw=lambda source: source.words(2).tobytes())):
        assert isinstance(in_time(use), LedgerBroken)
    assert len(moved.read_bytes()) == 32


def test_a_huge_file_in_the_place_of_a_release_is_not_read(ledger, ask):
    ledger.release(**ask("a"), draw=lambda: b"a")
    (stored,) = releases(ledger.path).glob("*.release")
    os.truncate(stored, 1 << 40)
    assert isinstance(in_time(ledger.verify), LedgerBroken)


@pytest.mark.parametrize("how", ["link", "dangling link", "pipe", "folder"])
def test_a_statement_of_anything_but_a_plain_file_is_refused(tmp_path, victim, how):
    plant(tmp_path / "s", how, victim)
    assert isinstance(in_time(lambda: Statement(tmp_path / "s")), LedgerBroken)


@pytest.mark.parametrize("how", ["link", "dangling link", "pipe", "folder"])
def test_no_ledger_is_made_in_the_place_of_anything(tmp_path, victim, how):
    plant(tmp_path / "new", how, victim)
    asked = {"dataset": "x", "ceiling": PureDP(epsilon=1), "unit": Unit.person()}
    for make in (Ledger.create, Ledger.open_or_create):
        assert isinstance(in_time(lambda make=make: make(tmp_path / "new", **asked)), LedgerBroken)
    assert victim.read_bytes() == b"precious" * 100
