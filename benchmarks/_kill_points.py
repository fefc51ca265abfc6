"""Die at a chosen moment: before the n-th touch of the disk, inside the n-th write, or when the clock says."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

#: What changes a disk, or waits for it. Reading is left out: dying before it is dying after the touch before it.
TOUCHES = ("open", "write", "fsync", "replace", "rename", "link", "unlink", "mkdir", "ftruncate", "truncate", "chmod")


@dataclass(frozen=True)
class Kill:
    """How a process dies; `share` is how much of a write is done, or of the usual run time."""

    kind: Literal["touch", "write", "time", "none"]
    number: int = 0
    share: float = 0.0


NEVER = Kill("none")


def arm(kill: Kill, die: Callable[[str], None]) -> None:
    """Replace the functions of `os` in this process, which is about to end anyway."""
    if kill.kind == "touch":
        _arm_touches(kill.number, die)
    elif kill.kind == "write":
        _arm_writes(kill, die)


def end_at_once(name: str, tell: Callable[[str], None]) -> None:
    """Say where, and end as `kill -9` does: nothing is flushed, closed or unlocked by us."""
    tell(f"died {name}")
    os.kill(os.getpid(), signal.SIGKILL)


def _arm_touches(number: int, die: Callable[[str], None]) -> None:
    left, inside = [number], [False]

    def count(name: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            die(name)

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def touch(*given: Any, **named: Any) -> Any:
            if name != "open" or given[1] & (os.O_WRONLY | os.O_RDWR):
                count(name)
            inside[0] = True
            try:
                return real(*given, **named)
            finally:
                inside[0] = False

        return touch

    for name in TOUCHES:
        setattr(os, name, counted(name, getattr(os, name)))

    def opened(event: str, given: tuple[Any, ...]) -> None:
        """Files opened for writing by `open`, which does not go through `os.open`."""
        if event == "open" and not inside[0] and isinstance(given[1], str) and set(given[1]) & set("wax+"):
            count("open")

    sys.addaudithook(opened)


def _arm_writes(kill: Kill, die: Callable[[str], None]) -> None:
    left, real = [kill.number], os.write

    def write(descriptor: int, content: Any) -> int:
        left[0] -= 1
        if left[0] == 0:
            real(descriptor, bytes(content)[: int(kill.share * (len(content) + 1))])
            die("inside a write")
        return real(descriptor, content)

    os.write = write
