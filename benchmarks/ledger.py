"""The ledger: releases a second beside SQLite, and what thousands of kills leave behind."""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from benchmarks._kill_points import fast_folder
from benchmarks.table import Table, measure, versions
from twofold.privacy.accountant import spent
from twofold.privacy.budget import PureDP
from twofold.privacy.events import ThresholdEvent
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.unit import Unit
from twofold.storage import files as disk

EVENT = ThresholdEvent(unit=Unit.person(), scale=Fraction(10), threshold=5)
RELEASE = 36_640  # ten prototypes over 457 items, eight bytes a number
PLAN = digest(b"plan")


def run(*, quick: bool) -> list[Table]:
    """Speed of releases, then the kills."""
    return [_speed(quick), _kills(200 if quick else 10_000)]


def _speed(quick: bool) -> Table:
    rows = []
    for length in (0, 10) if quick else (0, 100, 1000):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = _rates(
                [_ledger(Path(folder, "x.ledger"), length), _sqlite(Path(folder, "x.sqlite"), length)], length, quick
            )
            ledger = Ledger(Path(folder, "x.ledger"))
            checked = measure(ledger.verify, repeat=1 if quick else 3).wall
        rows.append((length, ours, theirs, ours / theirs, checked * 1000))
    columns = ("releases before", "ours, releases/s", "SQLite, releases/s", "ratio", "verify, ms")
    note = (
        f"A release: reserve, draw {RELEASE:,} random bytes, store, commit. Ours waits for the disk {_syncs()} times. "
        "SQLite does the same in two transactions (synchronous=FULL, rollback journal), without a hash chain and "
        "without reading its past. Wall time, median of batches in turns; the disk sets the pace. "
        f"{versions()}, SQLite {sqlite3.sqlite_version}."
    )
    return Table(title="Releases through the ledger", columns=columns, rows=rows, note=note)


def _syncs() -> int:
    """Count the waits for the disk in one release."""
    seen: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        release = _ledger(Path(folder, "x.ledger"), 1)
        disk._listener = seen.append
        release(1)
        disk._listener = None
    return sum("sync" in name for name in seen)


def _rates(releases: list[Callable[[int], object]], first: int, quick: bool) -> list[float]:
    """Median rate of each over batches taken in turns: the disk is shared, and a lucky batch would decide the ratio."""
    size, batches = (5, 3) if quick else (10, 15)
    rates: list[list[float]] = [[] for _ in releases]
    for batch in range(batches):
        for index, release in enumerate(releases):
            start = time.perf_counter()
            for number in range(size):
                release(first + batch * size + number)
            rates[index].append(size / (time.perf_counter() - start))
    return [statistics.median(one) for one in rates]


def _ledger(path: Path, length: int) -> Callable[[int], object]:
    spent(EVENT)
    ledger = Ledger.create(path, dataset="speed", ceiling=PureDP(epsilon=10**6), unit=Unit.person())

    def release(number: int) -> bytes:
        asked = {
            "plan": PLAN,
            "data": PLAN,
            "version": str(number),
            "events": [EVENT],
            "unit": Unit.person(),
            "room": RELEASE,
        }
        return ledger.release(**asked, draw=lambda: os.urandom(RELEASE))  # type: ignore[arg-type]

    for number in range(length):
        release(number)
    return release


def _sqlite(path: Path, length: int) -> Callable[[int], object]:
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("pragma synchronous=full")
    base.execute("create table releases (number integer primary key, record text, digest text, content blob)")
    record = json.dumps(EVENT.as_dict())

    def release(number: int) -> None:
        base.execute("insert into releases (number, record) values (?, ?)", (number, record))
        content = os.urandom(RELEASE)
        base.execute("update releases set digest=?, content=? where number=?", (digest(content), content, number))

    for number in range(length):
        release(number)
    return release


def _kills(kills: int) -> Table:
    """Run the torture in its own small process: it forks."""
    start = time.perf_counter()
    with fast_folder() as folder:
        command = [sys.executable, "-m", "studies", "torture", str(folder), f"--kills={kills}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr)
    tally = json.loads(done.stdout)
    seconds, places = time.perf_counter() - start, tally.pop("where")
    rows = [(name.replace("_", " "), f"{count:,}") for name, count in tally.items()]
    rows += [(f"killed at: {place}", f"{count:,}") for place, count in places.items()]
    note = (
        "SIGKILL before a step on the disk, inside a write, or at a random time (the kills without a place); after "
        "each one the ledger is reopened and compared with what the world has seen. The first five lines must be 0. "
        "Draws lost were spent and never sent; recovered were stored but not yet committed. A kill leaves what the "
        "system had taken, so this shows nothing about power cuts (a test simulates those), and runs in memory where "
        f"it can. {seconds:,.0f} s."
    )
    return Table(title=f"{kills:,} kills", columns=("what", "count"), rows=rows, note=note)
