"""How a command ends when it is not let finish: Ctrl-C, a closed pipe, a full disk, a full device, a fault of ours."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_bad_input import check, state
from tests.cli.world import ask, build

TWOFOLD = [sys.executable, "-m", "twofold"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(folder)
    return folder


WRITING = (
    "plan new x.toml --catalog items.csv --simulation",
    "plan agree plan.toml --keys anna.keys -o x.agreement",
    "plan agreed plan.toml anna.agreement bern.agreement clara.agreement coordinator.agreement -o x.agreed",
    "keys new --entity x --keys x.keys -o x.pub",
    "keys revoke --keys anna.keys -o x.revoked",
    "keys person --keys x.keys -o x.request",
    "release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys -o x.out --entity anna",
    "release --plan plan.toml --data anna.csv --ledger x.ledger --new-ledger --keys anna.keys -o anna.out",
    "factorize anna.round1 bern.round1 clara.round1 --plan plan.toml --keys coordinator.keys -o x.round2",
    "personalize items.round2 --plan plan.toml --data anna.csv -o anna.x",
    "invite --plan plan.toml --entity anna --server https://a.example --keys coordinator.keys -o x.invitation",
    "ledger new x.ledger --dataset x --epsilon 1",
    "ledger export anna.ledger -o x.statement",
    "ledger card anna.ledger -o x.md",
    "card show anna.ledger -o x.html",
    "card export card.json --registry --author me -o x.yaml",
    "policy new -o x.toml",
    "recommend anna.model --all -o x.csv",
    "init new --part entity --name x --yes",
)


@pytest.mark.parametrize("line", WRITING)
def test_a_full_disk_leaves_no_half_written_file(line: str, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site)
    before, write = state(site), os.write

    def full(descriptor: int, data: bytes) -> int:
        if descriptor <= 2:
            return write(descriptor, data)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        told = ask(*line.split())
    check(told)
    assert os.strerror(errno.ENOSPC) in told.err
    after = state(site)
    changed = {name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}
    assert {name for name in changed if name not in ("new", "new/inbox", "new/outbox")} == set()


@pytest.mark.parametrize("line", ["--help", "errors", "plan explain plan.toml", "ledger card anna.ledger"])
def test_a_reader_that_goes_away_is_no_error(line: str, site: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*TWOFOLD, *line.split()], stdout=write, stderr=subprocess.PIPE, cwd=site, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("line", ["--help", "errors", "plan explain plan.toml", "card show anna.ledger"])
def test_a_full_device_is_told(line: str, site: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*TWOFOLD, *line.split()], stdout=full, stderr=subprocess.PIPE, cwd=site, check=False)
    assert done.returncode == 2
    assert done.stderr.count(b"Error: ") == 1
    assert b"Traceback" not in done.stderr
    assert os.strerror(errno.ENOSPC).encode() in done.stderr


#: Ctrl-C so many seconds after the interpreter has started.
INTERRUPTED = """
import os, signal, sys, threading
from twofold.cli import main

threading.Timer(float(sys.argv.pop(1)), os.kill, (os.getpid(), signal.SIGINT)).start()
main()
"""


@pytest.mark.parametrize("after", [0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6])
def test_ctrl_c_at_once(after: float, site: Path) -> None:
    """While libraries are loaded, and while the verb begins."""
    run = [sys.executable, "-c", INTERRUPTED, str(after), "audit", "--seed", "1"]
    done = subprocess.run(run, capture_output=True, cwd=site, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("Stopped")
    assert len(done.stderr.splitlines()) == 1


def test_ctrl_c_in_the_middle(site: Path, tmp_path: Path) -> None:
    before = state(site)
    words = [*TWOFOLD, "demo", "--output", "x.html"]
    started = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=site,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    until = time.monotonic() + 120
    while not list(tmp_path.glob("twofold-demo-*/private/*.ledger")):  # the first hospital has begun
        assert time.monotonic() < until
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=120)
    assert (started.returncode, out) == (130, "")
    assert err.startswith("Stopped.")
    assert "Traceback" not in err
    assert state(site) == before


def test_a_fault_of_ours_shows_no_text_of_its_own(site: Path) -> None:
    script = (
        "import sys; from twofold.cli import main, errors\n"
        "from twofold.cli.errors import pages\n"
        "def broken(*_): raise RuntimeError('Jane Doe has hiv-test positive')\n"
        "errors.pages = broken\n"
        "sys.argv = ['twofold', 'errors']\n"
        "main()\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "TWOFOLD_TRACE"}
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=site, env=environment)
    assert done.returncode == 1
    assert done.stderr.startswith("Fault: ")
    assert "RuntimeError" in done.stderr
    assert "Jane" not in done.stderr
    told = subprocess.run(
        run, capture_output=True, text=True, check=False, cwd=site, env=environment | {"TWOFOLD_TRACE": "1"}
    )
    assert "Traceback" in told.stderr


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1"])
def test_odd_encodings_of_a_real_process(encoding: str, site: Path) -> None:
    for line in ("plan explain plan.toml", "ledger card anna.ledger", "--help"):
        done = subprocess.run(
            [*TWOFOLD, *line.split()],
            capture_output=True,
            check=False,
            cwd=site,
            env=os.environ | {"PYTHONIOENCODING": encoding},
        )
        assert (done.returncode, done.stderr) == (0, b""), line
        assert done.stdout.decode("utf-8" if encoding == "ascii" else encoding)  # click takes ASCII for a mistake
