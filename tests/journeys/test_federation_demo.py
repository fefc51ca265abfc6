"""A federation between strangers: separate processes, TLS, a kill -9 in the middle, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from studies.federation_demo.network import why_no_namespaces
from studies.federation_demo.run import HOSPITALS, SERVICES, Demonstration, Kind, demonstrate

pytestmark = pytest.mark.long

SMALLEST = {"patients": 80, "items": 20}
ROOT = Path(__file__).parents[2]


def ran(kind: Kind, folder: Path, *, loopback: bool) -> None:
    told: list[str] = []
    found = demonstrate(Demonstration(kind=kind, loopback=loopback, **SMALLEST), folder, say=told.append)
    assert found.is_good, "\n".join(told)
    assert found.releases == dict.fromkeys(HOSPITALS, 1)
    assert set(found.events) == {*SERVICES[kind], *HOSPITALS}
    assert {len(items) for items in found.recommended.values()} == {3}
    assert found.network == ("loopback" if loopback else "namespaces")
    assert ("Without network namespaces" in told[0]) == loopback
    assert left(folder) == []


def left(folder: Path) -> list[str]:
    """Processes that still work in a folder, and namespaces of this process."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            where = str((one / "cwd").readlink())
        except OSError:
            continue
        if where.startswith(str(folder)):
            found.append(one.name)
    return found + spaces(os.getpid())


def spaces(process: int) -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False) if _IP else None
    lines = [] if listed is None else listed.stdout.splitlines()
    return [line for line in lines if line.startswith(f"tfdemo-{process}-")]


_IP = any(Path(place, "ip").exists() for place in os.environ.get("PATH", "").split(os.pathsep))
needs_namespaces = pytest.mark.skipif(bool(why := why_no_namespaces()), reason=f"network namespaces: {why}")


def test_one_coordinator_over_the_loopback(tmp_path: Path) -> None:
    ran("plain", tmp_path, loopback=True)


@pytest.mark.slow
@needs_namespaces
@pytest.mark.parametrize("kind", ["plain", "operators"])
def test_every_party_in_a_network_of_its_own(kind: Kind, tmp_path: Path) -> None:
    ran(kind, tmp_path, loopback=False)


@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_when_it_is_stopped(number: signal.Signals, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "studies", "federation", "--kind", "plain", "--patients", "80", "--items", "20"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(program, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if b"Three hospitals have" in line:  # the namespaces are there, and the next processes start
                break
        time.sleep(0.5)
        assert spaces(demo.pid)
        demo.send_signal(number)
        assert demo.wait(60) != 0
        assert spaces(demo.pid) == []
        assert left(tmp_path) == []
        assert list(tmp_path.iterdir()) == []
