"""Killed at any point and started again: one publication, the same bytes, nothing lost. And a disk that is full."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.refused import refused
from twofold.errors import TransportError
from twofold.federation.factors import encode_factors
from twofold.federation.plan import Plan
from twofold.server import Server
from twofold.server.coordinate import CoordinationStatus, coordinate
from twofold.server.state import FolderState
from twofold.storage import files as disk

MakePlan = Callable[..., Plan]
MakeMessage = Callable[..., bytes]


def look(plan: Plan, box: Any, state: Path) -> CoordinationStatus:
    """Be a server that was just started."""
    return coordinate(Server(plan), box, state=FolderState(state, plan))


class Crash(BaseException):
    """Stands for the end of the process."""


class Counter:
    """Ends what runs at the n-th announcement of a step on disk."""

    def __init__(self, last: int | None) -> None:
        self.last, self.seen = last, []

    def __call__(self, name: str) -> None:
        self.seen.append(name)
        if len(self.seen) == self.last:
            raise Crash


@pytest.fixture
def plan(make_plan: MakePlan) -> Plan:
    return make_plan(n_entities=2, rank=2)


@pytest.fixture
def full(plan: Plan, box: Any, make_message: MakeMessage) -> bytes:
    """A mailbox with every message and one bad one; gives what is to be published."""
    messages = [make_message(plan, number) for number in range(2)]
    for number, data in enumerate(messages):
        box.put(f"site-{number}", data)
    box.put("bad", b"nonsense")
    return encode_factors(Server(plan).factorize(messages), plan)


def crashed(plan: Plan, box: Any, state: Path, last: int | None, patch: pytest.MonkeyPatch) -> tuple[list[str], bool]:
    """Run until the n-th step on disk; give the steps seen and whether it ended early."""
    counter = Counter(last)
    with patch.context() as patched:
        patched.setattr(disk, "_listener", counter)
        try:
            look(plan, box, state)
        except Crash:
            return counter.seen, True
    return counter.seen, False


def test_a_crash_at_every_step_on_disk_leaves_one_publication(
    plan: Plan, box: Any, full: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, _ = crashed(plan, box, tmp_path / "whole", None, monkeypatch)
    assert box.published() == full
    assert "coordinator: publish" in steps
    for last in range(1, len(steps) + 1):
        (box.folder / "out").unlink(missing_ok=True)
        state = tmp_path / f"state-{last}"
        _, ended = crashed(plan, box, state, last, monkeypatch)
        assert ended
        assert box.published() in (None, full)
        seen = look(plan, box, state)
        assert (seen.arrived, len(seen.refused), seen.closed, seen.published) == (2, 1, True, True)
        assert box.published() == full
        assert not list(state.rglob("*.part"))
    assert set(box.published_calls) == {full}


def test_crash_after_crash_still_ends(
    plan: Plan, box: Any, full: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start gets a few steps further than the one before."""
    for last in range(3, 60, 7):
        if not crashed(plan, box, tmp_path / "state", last, monkeypatch)[1]:
            break
    else:
        pytest.fail("never ended")
    assert box.published() == full


def test_messages_between_crashes_and_the_list_once_closed(
    plan: Plan, box: Any, full: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_message: MakeMessage
) -> None:
    """After closed.json, a message that arrives while the coordinator is down changes nothing."""
    steps, _ = crashed(plan, box, tmp_path / "whole", None, monkeypatch)
    (box.folder / "out").unlink()
    closing = len(steps) - steps[::-1].index("coordinator: publish")
    for last in range(1, closing):
        state = tmp_path / f"state-{last}"
        crashed(plan, box, state, last, monkeypatch)
        was_closed = (state / "closed.json").exists()
        box.put("site-5", make_message(plan, 5))
        look(plan, box, state)
        if was_closed:
            assert box.published() == full
        (box.folder / "site-5.in").unlink()
        (box.folder / "out").unlink()


@pytest.mark.parametrize("what", ["messages", "refused.json", "closed.json", "items.round2", "out"])
def test_a_full_disk_loses_nothing(
    what: str, plan: Plan, box: Any, full: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twofold.storage import files

    target, honest = "", files._write_new

    def no_room(path: Path, data: bytes, mode: int) -> None:
        nonlocal target
        name = "messages" if path.parent.name == "messages" else path.name
        if what in name:
            target = name
            path.write_bytes(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        honest(path, data, mode)

    with monkeypatch.context() as patched:
        patched.setattr(files, "_write_new", no_room)
        with refused(TransportError, "path", found=os.strerror(errno.ENOSPC)):
            look(plan, box, tmp_path / "state")
    assert target
    assert box.published() is None
    assert look(plan, box, tmp_path / "state").published
    assert box.published() == full


_KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from conftest import FileBox, _plan
from twofold.storage import files as disk
from twofold.server import Server
from twofold.server.coordinate import coordinate
from twofold.server.state import FolderState

seen = 0
def listener(name):
    global seen
    seen += 1
    if seen == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)

disk._listener = listener
plan = _plan(n_entities=2, rank=2)
coordinate(Server(plan), FileBox(Path(sys.argv[2])), state=FolderState(sys.argv[3], plan))
"""


def _run(box: Any, state: Path, last: int) -> int:
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", _KILLED, here, str(box.folder), str(state), str(last)]
    return subprocess.run(command, check=False, capture_output=True).returncode


@pytest.mark.parametrize("points", [(8, 21, 0), pytest.param((*range(2, 40, 3), 0), marks=pytest.mark.slow)])
def test_a_process_that_is_really_killed_goes_on(
    plan: Plan, box: Any, full: bytes, tmp_path: Path, points: tuple[int, ...]
) -> None:
    assert plan.n_entities == 2
    codes = [_run(box, tmp_path / "state", last) for last in points]
    assert codes[0] == -9
    assert codes[-1] == 0
    assert box.published() == full
