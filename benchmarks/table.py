"""A table of measurements that prints the same in a terminal, a file and the docs."""

from __future__ import annotations

import platform
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of one comparison, with a note that says how to read it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""

    def markdown(self) -> str:
        """Render as GitHub Markdown, columns padded so that it reads in a terminal too."""
        cells = [[_text(cell) for cell in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.columns, *cells, strict=True)]
        lines = [f"### {self.title}", ""]
        lines.append(_line(self.columns, widths))
        lines.append("|" + "|".join("-" * (w + 2) for w in widths) + "|")
        lines += [_line(row, widths) for row in cells]
        if self.note:
            lines += ["", self.note]
        return "\n".join(lines) + "\n"


@dataclass
class Measured:
    """Best times of several runs, and what the last run returned."""

    wall: float
    cpu: float
    result: object = field(repr=False)


def measure(job: Callable[[], object], *, repeat: int = 3) -> Measured:
    """Run `job` several times; keep the smallest wall and CPU seconds (noise only ever adds)."""
    walls, cpus, result = [], [], None
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        result = job()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Measured(min(walls), min(cpus), result)


def peak_megabytes() -> float:
    """Largest resident size of this process so far, in MB.

    Linux hands the parent's peak on through exec in `getrusage`, so its own book is read where there is one.
    """
    book = Path("/proc/self/status")
    if book.exists():
        line = next(line for line in book.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def versions(*packages: str) -> str:
    """Name Python and each package with its version; a missing one is said to be missing."""
    found = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def _text(cell: object) -> str:
    return f"{cell:,.3g}" if isinstance(cell, float) else str(cell)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"
