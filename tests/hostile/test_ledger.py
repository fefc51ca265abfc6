"""Thousands of hostile ledgers: only our errors, no hang, little memory, and no victim is touched (audit M4, L1)."""

from __future__ import annotations

import os
import resource
import shutil
import time
from pathlib import Path

import pytest

from tests.hostile import ledger as hostile
from tests.hostile.ledger import NAME, cases, explore, template
from twofold.privacy.ledger import Ledger

pytestmark = pytest.mark.long

#: More with `HOSTILE_CASES=10000`.
COUNT = int(os.environ.get("HOSTILE_CASES", "2000"))
#: Seconds that one case may take on a busy machine; usually milliseconds.
PATIENCE = 20.0


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    template(folder / NAME)
    return folder


@pytest.mark.parametrize("part", range(4))
def test_only_our_errors_come_out_of_a_hostile_ledger(original, tmp_path, part, monkeypatch):
    """Audit L1: about twenty kinds of KeyError, TypeError and OverflowError, and one hang, came out of such files."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, (kind, change) in enumerate(cases(seed=part, n=COUNT // 4)):
        folder = tmp_path / str(number)
        shutil.copytree(original, folder)
        change(folder / NAME)
        started = time.monotonic()
        try:
            explore(folder / NAME)
        except BaseException as error:
            raise AssertionError(f"case {number} of seed {part}, {kind}: {type(error).__name__}") from error
        assert time.monotonic() - started < PATIENCE, f"case {number} of seed {part}, {kind}"
        victim = folder / "victim"
        assert not victim.exists() or victim.read_bytes() == b"victim", f"case {number} of seed {part}, {kind}"
        shutil.rmtree(folder)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < 1 << 30


def test_what_an_insider_makes_right_is_right(original, tmp_path):
    """Rewritten without a change, hashes, head and signature fit: the cases above fail for what they change."""
    folder = tmp_path / "copy"
    shutil.copytree(original, folder)
    hostile._write(folder / NAME, hostile._bodies(folder / NAME))
    assert Ledger(folder / NAME).verify(key=hostile.SIGNER.public).releases == 3
    explore(folder / NAME)
    assert Ledger(folder / NAME).verify().releases == 4
