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
from pathlib import Path

import pytest

from tests.cli.world import build
from twofold.cli.progress import bars
from twofold.progress import tell

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
