"""The same uploads through Flower: a real SuperLink with TLS, keys of nodes, a database, and the adapter's own run."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from studies.network.load import SENDERS, Load, Size
from studies.network.place import peak_megabytes
from tests.certificates import Authority
from tests.processes import Processes, free_port, listens

__all__ = ["measured"]

_ROOT: Final = Path(__file__).parents[2]
PROGRAMS: Final = Path(os.environ.get("TWOFOLD_FLOWER", _ROOT / ".venv-flower")) / "bin"
#: Seconds for Flower's programs to start, for all nodes to connect, and for all uploads.
START, CONNECT, UPLOAD = 120.0, 900.0, 1800.0


def measured(folder: Path, size: Size, messages: Path) -> Load:
    """Let one node for each entity answer the adapter's run with its message.

    Parameters
    ----------
    folder : Path
        An empty folder.
    size : Size
        How many entities.
    messages : Path
        Folder with their messages.
    """
    length = next(messages.iterdir()).stat().st_size
    found = Load(engine="Flower", size=size, bytes=length, limited=False)
    if not (PROGRAMS / "twofold-flower").exists():
        return replace(found, missing="not installed: make flower")
    try:
        with Processes(folder) as processes:
            return _Run(folder, processes, messages).measured(found)
    except (AssertionError, TimeoutError) as error:  # of a program that ended or did not get ready
        return replace(found, missing=f"not measured: {' '.join(str(error).replace('|', '/').split())[:200]}")


class _Run:
    """The coordinator's programs, and the nodes."""

    def __init__(self, folder: Path, processes: Processes, messages: Path) -> None:
        self.folder, self.processes, self.messages = folder, processes, messages
        self.authority, self.port = Authority(folder), free_port()

    def measured(self, found: Load) -> Load:
        """Start everything, wait for the uploads, and until all files are in the coordinator's inbox."""
        count = found.size.entities
        self._link()
        with self._nodes() as nodes, _Memory(self.processes.running["link"].pid) as memory:
            try:
                self._said(nodes, "connected", CONNECT)
                self._carry(count)
                told = self._said(nodes, "seconds", UPLOAD)
                peak, end = memory.first, time.monotonic()
                inbox = self.folder / "in"
                self.processes.wait_for(lambda: len(list(inbox.glob("[!.]*"))) >= count, UPLOAD, "carry")
                after, whole = time.monotonic() - end, memory.whole
            finally:
                nodes.kill()
        each = tuple(told["each"])
        return replace(
            found,
            accepted=len(each),
            seconds=told["seconds"],
            each=each,
            peak=peak,
            peak_in_all=whole,
            published=after,
        )

    def _words(self, verb: str, *more: object) -> list[object]:
        common = ("--state", self.folder / "state", "--root-certificates", self.authority.certificate)
        return [PROGRAMS / "twofold-flower", verb, *common, *more, "--port", self.port]

    def _link(self) -> None:
        certificate, key = self.authority.issue("server")
        self.processes.start("link", self._words("link", "--certificate", certificate, "--key", key))
        self.processes.wait_for(lambda: listens(self.port), START, "link")

    def _carry(self, count: int) -> None:
        """One exchange with every node: `--wait 0` ends after the first."""
        for name in ("in", "out"):
            (self.folder / name).mkdir()
        boxes = ("--inbox", self.folder / "in", "--outbox", self.folder / "out")
        self.processes.start("carry", self._words("carry", *boxes, "--sites", count, "--wait", 0, "--timeout", UPLOAD))

    def _nodes(self) -> subprocess.Popen[str]:
        script = _ROOT / "adapters" / "flower" / "many_nodes.py"
        command: list[object] = [PROGRAMS / "python", script, f"127.0.0.1:{self.port}"]
        command += [self.authority.certificate, self.messages, "--senders", SENDERS, "--patience", START]
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_HOME": str(self.folder)}
        with (self.folder / "nodes.out").open("wb") as log:
            return subprocess.Popen(
                [str(word) for word in command],
                env=os.environ | quiet,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def _said(self, nodes: subprocess.Popen[str], what: str, patience: float) -> dict[str, Any]:
        """Wait for a line of the nodes; a process that takes too long is ended, which ends the wait."""
        assert nodes.stdout is not None
        timer = threading.Timer(patience, nodes.kill)
        timer.start()
        try:
            for line in nodes.stdout:
                with suppress(ValueError):
                    record = json.loads(line)
                    if what in record:
                        return dict(record)
        finally:
            timer.cancel()
        raise TimeoutError(f"the nodes ended: {(self.folder / 'nodes.out').read_text()[-300:]}")


class _Memory:
    """The most memory of a process and of all that it started, looked at often: those that end are not forgotten."""

    def __init__(self, pid: int) -> None:
        self._pid, self._peaks, self._over = pid, dict[int, float](), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def first(self) -> float:
        """Peak of the first process, in megabytes."""
        return peak_megabytes(self._pid)

    @property
    def whole(self) -> float:
        """Sum of the peaks of all processes."""
        return sum(self._peaks.values())

    def _run(self) -> None:
        while not self._over.wait(0.2):
            for pid in _family(self._pid):
                with suppress(OSError, IndexError):  # it has just ended
                    self._peaks[pid] = peak_megabytes(pid)


def _family(pid: int) -> set[int]:
    """Give a process and all that it started, and these started, as Linux tells it."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found, added = {pid}, True
    while added:
        more = {child for child, parent in parents.items() if parent in found} - found
        found, added = found | more, bool(more)
    return found
