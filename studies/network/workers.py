"""Kills in processes of their own, as a process that forks must have no threads; they tell their counts as they go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

from benchmarks._kill_points import SINGLE
from studies.network.crash import crash
from studies.network.tally import Tally, joined

__all__ = ["be_worker", "run_workers"]

#: Seconds between two lines that tell how far it is.
TOLD: Final = 30.0
_ENDS: Final = (signal.SIGINT, signal.SIGTERM)


def be_worker(folder: Path, **given: Any) -> None:
    """Kill until all is done, somebody asks for the end, or the parent is gone; a line of counts per federation."""
    parent, asked = os.getppid(), threading.Event()
    with _heard(lambda: asked.set()):
        tally = crash(folder, told=_tell, stop=lambda: asked.is_set() or os.getppid() != parent, **given)
    _tell(tally)


def _tell(tally: Tally) -> None:
    print(json.dumps(tally.as_dict()), flush=True)


def run_workers(commands: Sequence[Sequence[str]]) -> tuple[Tally, bool]:
    """Run the commands side by side; give the sum of their counts, and whether a signal ended them early.

    A signal is passed on, and the counts are those of the federations that ended by then.
    """
    started = [
        # In sessions of their own: Ctrl-C reaches this process only, and the processes to be killed are left in peace.
        subprocess.Popen(one, stdout=subprocess.PIPE, text=True, env=os.environ | SINGLE, start_new_session=True)
        for one in commands
    ]
    last: dict[int, dict[str, object]] = {}
    asked = threading.Event()

    def listen(one: subprocess.Popen[str]) -> None:
        assert one.stdout is not None
        for line in one.stdout:
            with suppress(ValueError):  # a line that was cut off by a kill
                last[one.pid] = json.loads(line)

    def end() -> None:
        asked.set()
        for one in started:
            with suppress(ProcessLookupError):
                one.terminate()

    listening = [threading.Thread(target=listen, args=(one,), daemon=True) for one in started]
    with _heard(end):
        for thread in listening:
            thread.start()
        due = time.monotonic() + TOLD
        while any(thread.is_alive() for thread in listening):
            time.sleep(0.2)
            if time.monotonic() > due:
                due += TOLD
                print(joined(list(last.values())).line, file=sys.stderr, flush=True)
    codes = [one.wait() for one in started]
    tally = joined(list(last.values()))
    early = {-signal.SIGTERM} if asked.is_set() else set()  # of a worker that was not ready to hear it
    tally.errors += sum(code not in {0, *early} for code in codes)
    return tally, asked.is_set()


@contextmanager
def _heard(end: Callable[[], None]) -> Iterator[None]:
    """Call a function when a signal asks this process to end."""

    def hear(_: int, __: FrameType | None) -> None:
        end()

    before = {one: signal.signal(one, hear) for one in _ENDS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
