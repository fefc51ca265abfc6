"""A draw that was killed is made again: the same bytes, one price, and never the same key on other data."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from fractions import Fraction
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.errors import BudgetExceeded, LedgerBroken, PrivacyError
from twofold.privacy.budget import PureDP
from twofold.privacy.ledger import Ledger, StaleRelease, keys
from twofold.privacy.ledger import reservation as request
from twofold.privacy.rng import Keyed
from twofold.privacy.unit import Unit
from twofold.storage import files as disk

HALF = Fraction(1, 2)


class Killed(BaseException):
    """Nothing runs after this."""


class World:
    """Draws that show the noise they got, so that noise used twice is seen."""

    def __init__(self) -> None:
        self.drawn: list[bytes] = []

    def draw(self, source: Keyed) -> bytes:
        self.drawn.append(source.words(20).tobytes())
        return self.drawn[-1]

    def killed(self, source: Keyed) -> bytes:
        self.draw(source)
        raise Killed


@pytest.fixture
def world() -> World:
    return World()


def tight(path: Path, releases: int = 1) -> Ledger:
    """A ledger with room for so many releases and no more."""
    return Ledger.create(path, dataset="x", ceiling=PureDP(epsilon=HALF * releases), unit=Unit.person(), wait=0.0)


def key_files(ledger: Ledger) -> list[Path]:
    return sorted(ledger.path.with_name(ledger.path.name + ".releases").glob("*.key*"))


def statuses(ledger: Ledger) -> list[str]:
    return [entry.status for entry in ledger.state().entries]


def kill_in_draw(ledger: Ledger, world: World, asked: dict[str, object]) -> None:
    with pytest.raises(Killed):
        ledger.release(**asked, draw=world.killed)
    assert statuses(ledger)[-1] == "open"


def dies_at(step: int, met: list[str]) -> Callable[[str], None]:
    """End the process at a step; a dead process takes no further one."""

    def listen(name: str) -> None:
        if len(met) < step:
            met.append(name)
        if len(met) == step:
            raise Killed

    return listen


def killed_at(path: Path, step: int, world: World, asked: dict[str, object], patch: pytest.MonkeyPatch) -> list[str]:
    """Release, and die at a step; give the steps met."""
    met: list[str] = []
    with patch.context() as armed:
        armed.setattr(disk, "_listener", dies_at(step, met))
        with suppress(Killed):
            Ledger(path).release(**asked, draw=world.draw)
    return met


def test_killed_at_every_step_it_pays_once_and_gives_the_same_bytes(tmp_path, ask, monkeypatch):
    step, met = 0, []
    while len(met) == step:  # until a release came through
        step += 1
        ledger, world = tight(tmp_path / str(step)), World()
        met = killed_at(ledger.path, step, world, ask(), monkeypatch)
        sent = ledger.release(**ask(), draw=world.draw)
        assert set(world.drawn) == {sent}, f"killed before {met[-1]}, step {step}"
        assert statuses(ledger) == ["released"]
        assert ledger.state().spent.epsilon == HALF
        assert key_files(ledger) == []
        assert len(list(ledger.path.with_name(f"{step}.releases").iterdir())) == 1
        ledger.verify()
        assert ledger.release(**ask(), draw=world.killed) == sent
    assert {"reserved", "drawn", "destroy: write", "append: sync", "replace: rename", "room"} <= set(met)


def test_killed_at_every_pair_of_steps_it_pays_once(tmp_path, ask, monkeypatch):
    """A restart is killed too."""
    for first in range(3, 40, 3):
        for second in range(1, 30, 4):
            ledger, world = tight(tmp_path / f"{first} {second}"), World()
            killed_at(ledger.path, first, world, ask(), monkeypatch)
            killed_at(ledger.path, second, world, ask(), monkeypatch)
            assert set(world.drawn) <= {ledger.release(**ask(), draw=world.draw)}, f"{first}, {second}"
            assert (statuses(ledger), key_files(ledger)) == (["released"], [])


def test_killed_at_every_step_the_key_never_meets_other_data(tmp_path, ask, monkeypatch):
    step, met = 0, []
    while len(met) == step:
        step += 1
        ledger, before, after = tight(tmp_path / str(step), 2), World(), World()
        met = killed_at(ledger.path, step, before, ask(), monkeypatch)
        there = set(key_files(ledger))

        def draw(source: Keyed, there=there, ledger=ledger, after=after) -> bytes:
            assert not there & set(key_files(ledger))  # destroyed before anything is drawn
            return after.draw(source)

        asked = {**ask(), "data": "f" * 64}
        with pytest.warns(StaleRelease) if _stored(ledger) else nullcontext():
            sent = ledger.release(**asked, draw=draw)
        assert sent in before.drawn if not after.drawn else sent == after.drawn[0]
        assert not set(before.drawn) & set(after.drawn), f"killed before {met[-1]}, step {step}"
        assert statuses(ledger).count("released") == 1
        assert len(statuses(ledger)) <= 2
        ledger.verify()


def _stored(ledger: Ledger) -> bool:
    """Whether whole bytes wait to be adopted."""
    return any(ledger.path.with_name(ledger.path.name + ".releases").glob("*.release"))


@pytest.mark.parametrize(
    "changed",
    [
        {"data": "f" * 64},
        {"epsilon": "1/4"},
        {"cost": PureDP(epsilon="3/4")},
        {"about": {"what": "other words"}},
    ],
)
def test_a_changed_request_is_another_one(tmp_path, ask, world, changed):
    ledger = tight(tmp_path / "x", 3)
    kill_in_draw(ledger, world, ask())
    assert ledger.release(**ask(**changed), draw=world.draw) == world.drawn[1] != world.drawn[0]
    assert statuses(ledger) == ["lost", "released"]
    assert key_files(ledger) == []


@pytest.mark.parametrize("what", ["software", "libraries"])
def test_another_program_does_not_resume(tmp_path, ask, world, monkeypatch, what):
    ledger = tight(tmp_path / "x", 2)
    kill_in_draw(ledger, world, ask())
    if what == "software":
        monkeypatch.setattr(request, "__version__", "99")
    else:
        monkeypatch.setattr(keys, "_makers", lambda: "numpy 99")
    assert ledger.release(**ask(), draw=world.draw) != world.drawn[0]
    assert statuses(ledger) == ["lost", "released"]


def test_a_refused_request_leaves_what_waits(tmp_path, ask, world):
    ledger = tight(tmp_path / "x")
    kill_in_draw(ledger, world, ask())
    before, there = ledger.path.read_bytes(), key_files(ledger)
    with pytest.raises(BudgetExceeded):
        ledger.release(**ask(data="f" * 64), draw=world.killed)
    assert (ledger.path.read_bytes(), key_files(ledger)) == (before, there)
    assert ledger.release(**ask(), draw=world.draw) == world.drawn[0]
    assert len(world.drawn) == 2


def test_other_releases_and_a_raise_leave_what_waits(tmp_path, ask, world):
    ledger = tight(tmp_path / "x", 2)
    kill_in_draw(ledger, world, ask())
    ledger.release(**ask("another version"), draw=world.draw)
    ledger.raise_ceiling(PureDP(epsilon=5), reason="more")
    assert statuses(ledger) == ["open", "released"]
    assert any("resumes it" in note for note in ledger.verify().notes)
    assert ledger.release(**ask(), draw=world.draw) == world.drawn[0] == world.drawn[2] != world.drawn[1]
    assert ledger.state().spent.epsilon == 1
    ledger.verify()


def test_own_noise_does_not_resume(tmp_path, ask, world):
    ledger = tight(tmp_path / "x", 2)
    kill_in_draw(ledger, world, ask())

    def own() -> bytes:
        assert key_files(ledger) == []
        return b"own"

    assert ledger.release(**ask(), draw=own) == b"own"
    assert statuses(ledger) == ["lost", "released"]
    assert "draw" not in ledger.state().entries[1].request


def test_a_copy_of_the_ledger_makes_the_same_bytes_or_none(tmp_path, ask, world):
    """A backup taken while a draw was under way, put back after it had come to its end."""
    (tmp_path / "live").mkdir()
    ledger = tight(tmp_path / "live" / "x", 2)
    kill_in_draw(ledger, world, ask())
    for name in ("same", "changed"):
        shutil.copytree(tmp_path / "live", tmp_path / name)
    sent = ledger.release(**ask(), draw=world.draw)
    assert Ledger(tmp_path / "same" / "x").release(**ask(), draw=world.draw) == sent
    other = Ledger(tmp_path / "changed" / "x").release(**ask(data="f" * 64), draw=world.draw)
    assert other not in (sent, world.drawn[0])
    assert statuses(Ledger(tmp_path / "changed" / "x")) == ["lost", "released"]


def test_an_older_ledger_beside_newer_keys_uses_none_of_them(tmp_path, ask, world):
    (tmp_path / "live").mkdir()
    ledger = tight(tmp_path / "live" / "x", 2)
    shutil.copytree(tmp_path / "live", tmp_path / "old")
    kill_in_draw(ledger, world, ask())
    shutil.copytree(tmp_path / "live" / "x.releases", tmp_path / "old" / "x.releases")
    old = Ledger(tmp_path / "old" / "x")
    assert len(key_files(old)) == 1
    assert old.release(**ask(data="f" * 64), draw=world.draw) != world.drawn[0]
    assert key_files(old) == []


def test_bytes_that_do_not_come_from_the_source_are_refused_the_second_time(tmp_path, ask, monkeypatch):
    """Storing the first ones had begun, so that somebody may know how that went."""
    ledger = tight(tmp_path / "x", 2)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "_listener", _fails_after("take room", "replace: write"))
        with refused(LedgerBroken, "disk"):
            ledger.release(**ask(), draw=lambda _: os.urandom(50))
    assert statuses(ledger) == ["open"]
    with refused(LedgerBroken, "content"):
        ledger.release(**ask(), draw=lambda _: os.urandom(50))
    assert (statuses(ledger), key_files(ledger)) == (["lost"], [])
    assert ledger.release(**ask(), draw=lambda _: b"paid again") == b"paid again"


def _fails_after(start: str, place: str) -> Callable[[str], None]:
    """Refuse `place` from the first step `start` on."""
    met = []

    def listen(name: str) -> None:
        met.append(name)
        if start in met and name == place:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return listen


@pytest.mark.parametrize(
    "place", ["replace: open", "replace: write", "replace: sync", "replace: rename", "append: write"]
)
def test_a_disk_that_fills_while_storing_costs_nothing_more(tmp_path, ask, world, monkeypatch, place):
    ledger = tight(tmp_path / "x")
    with monkeypatch.context() as patch:
        patch.setattr(disk, "_listener", _fails_after("drawn", place))
        with refused(LedgerBroken, "disk"):
            ledger.release(**ask(), draw=world.draw)
    assert Ledger(ledger.path).release(**ask(), draw=world.draw) == world.drawn[0]
    assert (statuses(ledger), ledger.state().spent.epsilon) == (["released"], HALF)


@pytest.mark.parametrize("bad", [lambda _: 1 // 0, lambda _: "text", lambda source: source.words(-1)])
def test_an_error_of_the_draw_closes_its_reservation(tmp_path, ask, world, bad):
    ledger = tight(tmp_path / "x", 2)
    with pytest.raises((ZeroDivisionError, PrivacyError, ValueError)):
        ledger.release(**ask(), draw=bad)
    assert (statuses(ledger), key_files(ledger)) == (["lost"], [])
    ledger.release(**ask(), draw=world.draw)
    assert ledger.state().spent.epsilon == 1


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_ends_a_process_leaves_its_reservation_open(tmp_path, ask, world, kind):
    ledger = tight(tmp_path / "x")

    def stopped(source: Keyed) -> bytes:
        world.draw(source)
        raise kind

    with pytest.raises(kind):
        ledger.release(**ask(), draw=stopped)
    assert ledger.release(**ask(), draw=world.draw) == world.drawn[0]
    assert ledger.state().entries[0].resumed


RACER = """
import sys, time
from pathlib import Path
from twofold.privacy.events import ThresholdEvent
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.unit import Unit

def draw(source):
    content = source.words(20).tobytes()
    if sys.argv[2] == "dies":
        print(content.hex(), flush=True)
        time.sleep(60)
    return content

event = ThresholdEvent(unit=Unit.person(), scale=2, threshold=5)
asked = dict(plan=digest(b"p"), data=digest(b"d"), events=[event], unit=Unit.person())
print(Ledger(sys.argv[1]).release(**asked, draw=draw).hex(), flush=True)
"""


def test_processes_that_wait_for_one_that_is_killed_finish_its_draw(tmp_path):
    ledger = tight(tmp_path / "x")

    def start(how: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", RACER, ledger.path, how], stdout=subprocess.PIPE, text=True)

    first = start("dies")
    drawn = first.stdout.readline().strip()
    others = [start("lives") for _ in range(3)]
    first.send_signal(signal.SIGKILL)
    assert [other.communicate()[0].strip() for other in others] == [drawn] * 3
    first.communicate()
    assert (statuses(ledger), ledger.state().spent.epsilon, key_files(ledger)) == (["released"], HALF, [])


FORKS = """
import os, sys
from twofold.privacy.events import ThresholdEvent
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.unit import Unit

def draw(source):
    child = os.fork()
    if child == 0:
        raise ValueError  # must not close what the parent draws for
    os.waitpid(child, 0)
    os.kill(os.getpid(), 9)

event = ThresholdEvent(unit=Unit.person(), scale=2, threshold=5)
try:
    Ledger(sys.argv[1]).release(plan=digest(b"p"), data=digest(b"d"), events=[event], unit=Unit.person(), draw=draw)
finally:
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_cannot_take_the_key_away(tmp_path):
    ledger = tight(tmp_path / "x")
    subprocess.run([sys.executable, "-c", FORKS, ledger.path], timeout=60, capture_output=True)
    assert (statuses(ledger), len(key_files(ledger))) == (["open"], 1)
