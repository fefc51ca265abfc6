"""One price pays for one release: whatever fails and whoever asks, no other bytes go out."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from fractions import Fraction

import pytest

from twofold.errors import LedgerBroken
from twofold.storage import files as disk

# Runs in its own small process: forking one that has threads (polars, numba) is not safe.
FORKS = """
import json, os, sys
from pathlib import Path
from twofold.errors import LedgerBroken
from twofold.privacy.budget import PureDP
from twofold.privacy.events import ThresholdEvent
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.unit import Unit

unit, first, parent = Unit.person(), sys.argv[2], os.getpid()
ledger = Ledger.create(sys.argv[1], dataset="x", ceiling=PureDP(epsilon=1), unit=unit)
event = ThresholdEvent(unit=unit, scale=10, threshold=5)
read, write = os.pipe()
child = 0

def draw():
    global child
    child = os.fork()
    if child and first == "child":
        os.waitpid(child, 0)
    if not child and first == "parent":
        os.read(read, 1)
    return os.urandom(30)

try:
    sent = ledger.release(plan=digest(b"p"), data=digest(b"d"), events=[event], unit=unit, draw=draw)
except LedgerBroken as refusal:
    sent = str(refusal).encode()
if os.getpid() != parent:
    Path(sys.argv[1] + ".child").write_bytes(sent)
    os._exit(0)
if first == "parent":
    os.write(write, b".")
    os.waitpid(child, 0)
told = Path(sys.argv[1] + ".child").read_bytes()
ledger.verify()
state = Ledger(sys.argv[1]).state()
stored = ledger.stored(plan=digest(b"p")) == sent
print(json.dumps({"child": told.decode(errors="replace"), "stored": stored, "records": state.length}))
"""


def fails_once_after(start: str, place: str):
    """Refuse the first step `place` that follows a step `start`."""
    left = [start, place]

    def listen(name: str) -> None:
        if left and name == left[0]:
            left.pop(0)
            if not left:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    return listen


@pytest.mark.parametrize(
    ("start", "place"),
    [
        ("drawn", "replace: open"),  # nothing stored
        ("drawn", "sync folder"),  # stored, perhaps not durable
        ("drawn", "append: write"),  # stored, not recorded
        ("append: sync", "replace: rename"),  # recorded, the head not moved
    ],
)
def test_a_commit_that_failed_takes_the_same_bytes_and_no_others(ledger, ask, monkeypatch, start, place, reserve):
    with reserve(ledger, **ask()) as reservation:
        with monkeypatch.context() as patch:
            patch.setattr(disk, "_listener", fails_once_after(start, place))
            with pytest.raises(LedgerBroken, match="cost is spent"):
                reservation.commit(b"first draw")
        with pytest.raises(LedgerBroken, match="other bytes were tried before"):
            reservation.commit(b"second draw")
        assert reservation.commit(b"first draw") == b"first draw"
    ledger.verify()
    assert ledger.stored(plan=ask()["plan"], version=ask()["version"]) == b"first draw"
    assert ledger.state().spent.epsilon == Fraction(1, 2)


def test_a_reservation_that_was_given_up_commits_nothing(ledger, ask, reserve):
    with reserve(ledger, **ask()) as reservation:
        reservation.give_up("changed my mind")
        with pytest.raises(LedgerBroken, match="settled otherwise"):
            reservation.commit(b"late")
    assert [entry.status for entry in ledger.state().entries] == ["lost"]


def test_a_reservation_ends_with_its_block(ledger, ask, monkeypatch, reserve):
    with reserve(ledger, **ask()) as reservation:
        monkeypatch.setattr(disk, "_listener", fails_once_after("append: open", "append: write"))
    monkeypatch.setattr(disk, "_listener", None)
    before = ledger.path.read_bytes()
    with pytest.raises(LedgerBroken, match="a block that has ended"):
        reservation.commit(b"late")
    assert ledger.path.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("first", ["child", "parent"])
def test_a_fork_inside_the_draw_gives_one_release(tmp_path, first):
    command = [sys.executable, "-c", FORKS, str(tmp_path / "x.ledger"), first]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "belongs to another process" in told["child"]
    assert (told["stored"], told["records"]) == (True, 3)
