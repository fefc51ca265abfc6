"""Killed anywhere in either round and started again: one release each, the same bytes, nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks._kill_points import SINGLE

pytestmark = [pytest.mark.long, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]

ROOT = Path(__file__).parents[2]
MUST_BE_ZERO = (
    "double_releases",
    "changed_draws",
    "changed_messages",
    "changed_factors",
    "changed_models",
    "unpaid_draws",
    "wrong_charges",
    "charged_without_a_message",
    "left_keys",
    "unfinished",
    "errors",
)

# Ways to get it wrong that the check must find, put in place before the processes to be killed are forked.
BROKEN = """
import os, sys
from pathlib import Path
import numpy as np
from benchmarks import _kill_actors, _kills
from benchmarks._kill_points import Kill
from twofold.entity.agent import Entity
from twofold.privacy.ledger.keys import Keys
from twofold.privacy.rng import Keyed
from twofold.federation.messages import decode_release
from twofold.federation.factors import decode_factors, encode_factors
from twofold.federation.folder import ServerFolder
from twofold.federation.mailbox import ROUNDS

def draws_without_a_ledger(self):
    return decode_release(self._draw(self.plan.spec.event, self._source, None), self.plan)

def draws_anew(self, entry):
    return Keyed(os.urandom(32))

def publishes_something_else(self, step, data):
    if step is not ROUNDS:
        return publish(self, step, data)
    found = decode_factors(data, self.plan)
    object.__setattr__(found, "factors", found.factors + np.float32(1))
    publish(self, step, encode_factors(found, self.plan, signer=_kill_actors.MADE.signer()))

def warm_and_break(folder):
    usual = warm(folder)
    if sys.argv[2] == "draws without a ledger":
        Entity.release = draws_without_a_ledger
    elif sys.argv[2] == "draws anew":
        Keys.source = draws_anew
        _kills._choose = lambda *_: Kill("touch", 59)  # of an entity: drawn, not yet stored
    else:
        ServerFolder.publish = publishes_something_else
    return usual

warm, _kills._warm = _kills._warm, warm_and_break
publish = ServerFolder.publish
tally = _kills.torture(Path(sys.argv[1]), runs=4, seed=1)
print(tally.changed_messages + tally.unpaid_draws, tally.changed_factors, tally.changed_draws)
"""


def run(folder, runs: int, *more: str) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks._kills", str(folder), f"--runs={runs}", *more]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | SINGLE)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def check(tally: dict[str, object], runs: int) -> None:
    assert {name: tally[name] for name in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0)
    assert tally["runs_with_a_kill"] == runs
    assert tally["releases"] == 3 * tally["runs"]
    # Wherever it was killed, everybody paid exactly once.
    assert tally["paid_once"] == tally["releases"]


def test_forty_killed_federations(fast_disk):
    tally = run(fast_disk, 40, "--seed=7")
    check(tally, 40)
    # The runs must have met the hard cases, or they show nothing.
    assert min(tally[f"kills_of_{who}"] for who in ("entities", "server", "carrier")) > 5
    assert min(tally["resumed"], tally["drawn_again"]) > 0
    hard = {"entity: write: inside a write", "carrier: write: inside a write", "entity: touch: fsync"}
    assert hard <= set(tally["where"])


def test_programs_killed_by_the_system(fast_disk):
    tally = run(fast_disk, 1, "--spawn")
    check(tally, 1)


@pytest.mark.parametrize("fault", ["draws without a ledger", "publishes something else", "draws anew"])
def test_the_check_finds_a_federation_that_gets_it_wrong(fast_disk, fault):
    command = [sys.executable, "-c", BROKEN, str(fast_disk), fault]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | SINGLE)
    assert done.returncode == 0, done.stderr
    messages, factors, draws = map(int, done.stdout.split())
    assert {"draws without a ledger": messages, "publishes something else": factors, "draws anew": draws}[fault] >= 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_thousand_killed_federations(fast_disk, seed):
    tally = run(fast_disk, 500, f"--seed={seed}")
    check(tally, 500)
    assert min(tally["recovered"], tally["torn_lines"], tally["resumed"], tally["drawn_again"]) > 0


@pytest.mark.slow
def test_more_programs_killed_by_the_system(fast_disk):
    check(run(fast_disk, 5, "--spawn", "--seed=3"), 5)
