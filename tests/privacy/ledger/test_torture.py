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
import sys
from pathlib import Path
from twofold.privacy.ledger import torture
from twofold.privacy.ledger.book import Ledger

class DrawsFirst(Ledger):
    def release(self, *, draw, **asked):
        content = draw()
        return super().release(draw=lambda: content, **asked)

class Forgets(Ledger):
    def release(self, *, version, **asked):
        sent = super().release(version=version, **asked)
        (entry,) = [one for one in self.state().entries if one.key[1] == version and one.status == "released"]
        self._files.release(entry, entry.digest).write_bytes(b"other")
        return sent

torture.Ledger = {"draws first": DrawsFirst, "forgets": Forgets}[sys.argv[2]]
print(torture.torture(Path(sys.argv[1]), kills=60, seed=1).failures)
"""


def run(folder, kills: int, seed: int) -> dict[str, object]:
    command = [sys.executable, "-m", "twofold.privacy.ledger.torture", str(folder)]
    done = subprocess.run([*command, f"--kills={kills}", f"--seed={seed}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def check(tally: dict[str, object], kills: int) -> None:
    assert tally["kills"] == kills
    assert (tally["double_spends"], tally["lost_releases"], tally["changed_releases"]) == (0, 0, 0)


def test_kills_spend_nothing_twice_and_lose_nothing(tmp_path):
    tally = run(tmp_path, 200, 7)
    check(tally, 200)
    # The run must have met the hard cases, or it shows nothing.
    assert min(tally["recovered"], tally["torn_lines"], tally["draws_lost"], tally["releases"]) > 0
    places = {"inside a write", "append: write", "append: sync", "replace: rename", "sync folder", "drawn"}
    assert places <= set(tally["where"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_thousands_of_kills(tmp_path, seed):
    check(run(tmp_path, 1000, seed), 1000)


def test_the_torture_notices_a_ledger_that_draws_before_it_reserves(tmp_path):
    assert int(_broken(tmp_path, "draws first").stdout) > 0


def test_the_torture_notices_a_ledger_that_forgets(tmp_path):
    assert "a stored release was changed" in _broken(tmp_path, "forgets").stderr


def _broken(folder, kind: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BROKEN, str(folder), kind], capture_output=True, text=True)
