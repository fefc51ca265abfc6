"""Programs that a test starts, waits for and ends, each with all its children."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType


class Processes:
    """Starts programs with a log file each; leaving the block ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, words: Sequence[object], *, environment: Mapping[str, str] | None = None) -> None:
        with self.log(name).open("wb") as log:
            self.running[name] = subprocess.Popen(
                [str(word) for word in words], stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.out"

    def wait_for(self, what: Callable[[], object], seconds: float, name: str) -> None:
        """Wait until something holds; show what the program printed if it does not."""
        until = time.monotonic() + seconds
        while not what():
            ended = self.running[name].poll() is not None
            if ended or time.monotonic() > until:
                why = "ended" if ended else f"not ready after {seconds:g} s"
                raise AssertionError(f"{name}: {why}\n{self.log(name).read_text(errors='replace')[-4000:]}")
            time.sleep(0.2)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for one in self.running.values():
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGTERM)
        until = time.monotonic() + 5
        for one in self.running.values():
            with suppress(subprocess.TimeoutExpired):
                one.wait(max(0.1, until - time.monotonic()))
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
