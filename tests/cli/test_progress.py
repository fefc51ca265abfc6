"""Bars of progress: time left and rate on a terminal, nothing for pipes, `--quiet` and `--json`."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import twofold as tw
from tests.cli.world import build
from twofold.cli.progress import bars, waiting
from twofold.errors import UnreadableSource
from twofold.privacy.mechanisms.lazy import SymmetricNoise
from twofold.privacy.rng import source
from twofold.progress import heard, tell
from twofold.release.bilinear.mechanism import Gram
from twofold.release.contract import ReleaseParameters

TWOFOLD = [sys.executable, "-m", "twofold"]
PERSONALIZE = "personalize items.round2 --plan plan.toml --data anna.csv -o anna.model --force"
#: What a command shows, and how it is called.
LONG = {
    "models tried": PERSONALIZE,
    "messages checked": "factorize anna.round1 bern.round1 clara.round1 --plan plan.toml --keys coordinator.keys"
    " -o items.round2 --force",
    "systems compared": "evaluate anna.model --factors items.round2 --plan plan.toml",
    "people": "recommend anna.model --all -o all.csv --force",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(folder)
    return folder


def on_terminal(command: str, folder: Path, *, columns: int = 80) -> tuple[int, str, str]:
    """Run a command with standard error on a terminal; give exit code, standard output and what was shown."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI", "COLUMNS")}
    process = subprocess.Popen(
        [*TWOFOLD, *command.split()],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment | {"TERM": "xterm", "PYTHONWARNINGS": "ignore"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert process.stdout is not None
    with process.stdout:
        printed = process.stdout.read().decode()
    os.close(ours)
    return process.wait(timeout=60), printed, shown.decode(errors="replace")


def plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


@pytest.mark.parametrize("phase", LONG)
def test_a_long_command_shows_time_left_and_rate(phase: str, site: Path) -> None:
    code, _, shown = on_terminal(LONG[phase], site)
    assert code == 0, shown
    lines = [line for line in re.split(r"[\r\n]+", plain(shown)) if phase in line]
    assert lines
    assert any(re.search(r"\d+%", line) and "left" in line for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_nothing_is_shown_if_nobody_asked(option: str, site: Path) -> None:
    code, _, shown = on_terminal(f"{PERSONALIZE} {option}", site)
    assert code == 0
    assert shown == ""


def test_a_pipe_gets_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with bars("reading") as show:
        show("messages", 1, 2)
        tell("models", 1, 2)
    assert capfd.readouterr() == ("", "")


def test_a_release_tells_how_many_people_were_added_up_and_how_much_noise_was_drawn() -> None:
    told: dict[str, list[tuple[int, int]]] = {}
    public = ReleaseParameters(n_items=3, n_users=9, max_items=2, bound=1, delta=1e-6)
    with heard(lambda phase, done, total: told.setdefault(phase, []).append((done, total))):
        Gram().release(np.eye(3), public, rng=1)
        assert told == {"people": [(3, 3)]}
        SymmetricNoise(linear=Fraction(1, 10)).draw(300_000, source(1))
    assert len(told["noise"]) > 1
    assert [done for done, _ in told["noise"]] == sorted(done for done, _ in told["noise"])
    assert told["noise"][-1] == (300_000, 300_000)


def test_a_scan_tells_its_rows_and_nothing_of_each_batch(tmp_path: Path) -> None:
    visits = {"user": [1, 1, 2, 3], "item": ["a", "b", "a", "b"], "value": [1.0] * 4}
    pl.DataFrame(visits).write_parquet(tmp_path / "visits.parquet")
    told: list[tuple[str, int, int]] = []
    found = tw.scan(tmp_path / "visits.parquet", catalog=tw.Catalog(["a", "b"]), user="user", item="item")
    with heard(lambda *one: told.append(one)):
        for users in found.parts(_people):
            assert users == 3
    assert {phase for phase, *_ in told} == {"rows"}
    assert told[-1] == ("rows", 4, 4)


def _people(batches: Iterator[tw.Ratings]) -> int:
    total = 0
    for batch in batches:
        tell("people", 1, 1)
        total += batch.n_users
    return total


def test_what_is_told_while_waiting_has_a_rate_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Terminal:
        is_terminal = True

        @contextmanager
        def status(self, _: str) -> Iterator[object]:
            yield type("Status", (), {"update": lambda _, text: shown.append(text)})()

    times = iter([10.0, 20.0, 30.0, 90.0, 91.0])
    monkeypatch.setattr("twofold.cli.progress._terminal", Terminal)
    monkeypatch.setattr("twofold.cli.progress.time.monotonic", lambda: next(times))
    with waiting() as show:
        show("sending")
        for done in (100, 200, 1_000, 100, 600):  # the same phase once more after it ended
            tell("noise", done, 1_000)
    once, again = "10.0/s, 0:01:20 left", "500.0/s, 0:00:01 left"
    first = "noise: 100 of 1,000"
    assert shown == [
        "sending",
        first,
        f"noise: 200 of 1,000, {once}",
        "sending",
        first,
        f"noise: 600 of 1,000, {again}",
    ]


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"PAR1 nothing PAR1")])
def test_a_file_that_changed_is_our_error_with_progress_too(change: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "visits.parquet"
    pl.DataFrame({"user": [1], "item": ["a"], "value": [1.0]}).write_parquet(path)
    found = tw.scan(path, catalog=tw.Catalog(["a"]), user="user", item="item")
    change(path)
    with heard(lambda *_: None), pytest.raises(UnreadableSource):
        list(found.parts(_people))
