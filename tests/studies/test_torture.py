"""Hundreds of kills in seconds; thousands in the slow run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# Runs in its own small process: forking one that has threads (polars, numba) is not safe.
BROKEN = """
import os, sys
from pathlib import Path
from studies import torture
from twofold.privacy.ledger import keys, reservation
from twofold.privacy.ledger.book import Ledger
from twofold.privacy.rng import Keyed, OperatingSystem

class DrawsFirst(Ledger):
    def release(self, *, draw, **asked):
        content = draw(OperatingSystem()) if reservation.takes_source(draw) else draw()
        return super().release(draw=lambda: content, **asked)

class Forgets(Ledger):
    def release(self, *, version, **asked):
        sent = super().release(version=version, **asked)
        (entry,) = [one for one in self.state().entries if one.key[1] == version and one.status == "released"]
        self._files.release(entry, entry.digest).write_bytes(b"other")
        return sent

torture.Ledger = {"draws first": DrawsFirst, "forgets": Forgets}.get(sys.argv[2], Ledger)
if sys.argv[2] == "draws anew":
    keys.Keys.source = lambda self, entry: Keyed(os.urandom(32))
if sys.argv[2] == "resumes with any data":
    reservation.resumes, torture.CHANGES = (lambda entry, body: entry.status == "open"), 0.7
if sys.argv[2] == "pays again":
    reservation.resumes = lambda entry, body: False
tally = torture.torture(Path(sys.argv[1]), kills=60, seed=1)
print(tally.failures - tally.errors, tally.double_spends, tally.changed_releases, tally.reused_keys)
"""


def run(folder, kills: int, seed: int) -> dict[str, object]:
    command = [sys.executable, "-m", "studies", "torture", str(folder)]
    done = subprocess.run([*command, f"--kills={kills}", f"--seed={seed}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def check(tally: dict[str, object], kills: int) -> None:
    assert tally["kills"] == kills
    must_be_zero = ("double_spends", "lost_releases", "changed_releases", "reused_keys", "errors")
    assert {name: tally[name] for name in must_be_zero} == dict.fromkeys(must_be_zero, 0)


def test_kills_spend_nothing_twice_and_lose_nothing(fast_disk):
    tally = run(fast_disk, 200, 7)
    check(tally, 200)
    # The run must have met the hard cases, or it shows nothing.
    hard = ("recovered", "torn_lines", "draws_lost", "releases", "resumed")
    assert min(tally[name] for name in hard) > 0
    places = {"inside a write", "append: write", "append: sync", "replace: rename", "sync folder", "drawn"}
    assert places <= set(tally["where"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_thousands_of_kills(tmp_path, seed):
    check(run(tmp_path, 1000, seed), 1000)


def test_the_torture_notices_a_ledger_that_draws_before_it_reserves(fast_disk):
    assert _tallied(fast_disk, "draws first")[0] > 0


@pytest.mark.parametrize(("kind", "place"), [("pays again", 1), ("draws anew", 2), ("resumes with any data", 3)])
def test_the_torture_notices_a_ledger_that_resumes_wrongly(fast_disk, kind, place):
    assert _tallied(fast_disk, kind)[place] > 0


def test_the_torture_notices_a_ledger_that_forgets(tmp_path):
    assert "a stored release was changed" in _broken(tmp_path, "forgets").stderr


def _broken(folder, kind: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BROKEN, str(folder), kind], capture_output=True, text=True)


def _tallied(folder, kind: str) -> list[int]:
    done = _broken(folder, kind)
    assert done.stdout, done.stderr
    return [int(count) for count in done.stdout.split()]
