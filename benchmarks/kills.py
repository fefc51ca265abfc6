"""Both rounds under fire: processes killed anywhere and started again; what was released, changed and charged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from benchmarks._kill_points import SINGLE, fast_folder
from benchmarks.table import Table, versions

MUST_BE_ZERO = 11


def run(*, quick: bool) -> list[Table]:
    """Kill forks of one process in many federations, and real programs in a few."""
    return [_table(40 if quick else 1_000, spawn=False), _table(1 if quick else 5, spawn=True)]


def _table(runs: int, *, spawn: bool) -> Table:
    tally, seconds = torture(runs, spawn=spawn)
    places = tally.pop("where")
    rows = [(name.replace("_", " "), f"{count:,}") for name, count in tally.items()]
    rows += [(f"killed at: {place}", f"{count:,}") for place, count in places.items()]
    how = "programs started anew" if spawn else "forks"
    note = (
        f"Three entities, a server and a carrier as {how}, by folders; SIGKILL before a touch of the disk, inside a "
        "write, or at any time, then started again until all have their model. Every run has at least one kill. "
        f"The first {MUST_BE_ZERO} lines must be 0; every ledger has room for one release and no more. Resumed: killed "
        "between the reservation and the stored bytes, then drawn again from its key, the same. Recovered: stored, not "
        "yet committed. A kill leaves what the system had taken, so this shows nothing about power cuts. "
        f"{seconds:,.0f} s, {versions()}."
    )
    return Table(title=f"{runs:,} killed federations ({how})", columns=("what", "count"), rows=rows, note=note)


def torture(runs: int, *, spawn: bool) -> tuple[dict[str, int], float]:
    """Run the federations in a process of their own, in memory where there is such a disk: it forks."""
    start = time.perf_counter()
    with fast_folder() as folder:
        command = [sys.executable, "-m", "benchmarks._kills", str(folder), f"--runs={runs}", *(["--spawn"] * spawn)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | SINGLE)
    if not done.stdout:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout), time.perf_counter() - start
