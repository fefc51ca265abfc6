"""Children that die at a chosen moment: before the n-th touch of the disk, inside the n-th write, when the clock says.

A child is forked, says what it does through a pipe, one line each, and ends itself as ``kill -9`` would. A rehearsal
(`COUNT`) says every place that it passes instead, so that kills can be chosen from places that exist.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from twofold.storage import files as disk

__all__ = [
    "COUNT",
    "NEVER",
    "SINGLE",
    "Child",
    "Counts",
    "Job",
    "Kill",
    "Kind",
    "Places",
    "Tell",
    "Witness",
    "be",
    "fast_folder",
    "forked",
    "was_killed",
]

#: What changes a disk, or waits for it. Reading is left out: dying before it is dying after the touch before it.
TOUCHES = ("open", "write", "fsync", "replace", "rename", "link", "unlink", "mkdir", "ftruncate", "truncate", "chmod")
#: Seconds after which a process that hangs ends itself.
PATIENCE: Final = 60
#: Variables of a process that forks. Few threads: a fork does not copy them, and a child must not wait for one.
SINGLE: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
Kind = Literal["touch", "write", "step", "request", "time", "count", "never"]
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Kill:
    """How a process dies; `share` is how much of a write is done, or of the usual run time."""

    kind: Kind
    number: int = 0
    share: float = 0.0


NEVER: Final = Kill("never")
COUNT: Final = Kill("count")


class Places:
    """Counts the places that this process passes, and ends it at the one that was chosen.

    Parameters
    ----------
    kill : Kill
        Where to end.
    tell : callable
        Gets ``died KIND: NAME`` before the end, and ``passed KIND`` at every place of a rehearsal.

    Examples
    --------
    >>> said = []
    >>> places = Places(COUNT, said.append)
    >>> places.passed("request", "before GET")
    >>> said
    ['passed request']
    """

    def __init__(self, kill: Kill, tell: Tell) -> None:
        self.kill, self.tell = kill, tell
        self._left = kill.number

    def passed(self, kind: Kind, name: str) -> None:
        """Note a place that is about to be passed; does not come back from the chosen one."""
        if self.due(kind):
            self.die(kind, name)

    def due(self, kind: Kind) -> bool:
        """Count a place; True at the chosen one."""
        if self.kill.kind == "count":
            self.tell(f"passed {kind}")
        if self.kill.kind != kind:
            return False
        self._left -= 1
        return self._left == 0

    def die(self, kind: Kind, name: str) -> None:
        """Say where, and end as `kill -9` does: nothing is flushed, closed or unlocked by us."""
        self.tell(f"died {kind}: {name}")
        os.kill(os.getpid(), signal.SIGKILL)

    def arm(self) -> None:
        """Replace functions of `os` in this process, which is about to end anyway."""
        if self.kill.kind in ("touch", "count"):
            _arm_touches(self)
        if self.kill.kind in ("write", "count"):
            _arm_writes(self)
        if self.kill.kind in ("step", "count"):
            disk._listener = functools.partial(self.passed, "step")


def _arm_touches(places: Places) -> None:
    inside = [False]

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def touch(*given: Any, **named: Any) -> Any:
            if name != "open" or given[1] & (os.O_WRONLY | os.O_RDWR):
                places.passed("touch", name)
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
            places.passed("touch", "open")

    sys.addaudithook(opened)


def _arm_writes(places: Places) -> None:
    real = os.write

    def write(descriptor: int, content: Any) -> int:
        if places.due("write"):
            real(descriptor, bytes(content)[: int(places.kill.share * (len(content) + 1))])
            places.die("write", "inside a write")
        return real(descriptor, content)

    os.write = write


@contextmanager
def fast_folder() -> Iterator[Path]:
    """Give a temporary folder, in memory where there is one: every step waits for the disk, and a busy one is slow.

    Examples
    --------
    >>> with fast_folder() as folder:
    ...     list(folder.iterdir())
    []
    """
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


class Child(NamedTuple):
    """A process that was forked, and the end of the pipe through which it speaks."""

    pid: int
    pipe: int


Job = Callable[[Tell, Places], bool]


def forked(job: Job, kill: Kill) -> Child:
    """Fork a process that does a job, and dies as it is told."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        be(job, kill, writer)
    os.close(writer)
    return Child(pid, reader)


def be(job: Job, kill: Kill, pipe: int) -> None:
    """Be the process; never comes back. The exit code is 0 if the job is done, 2 if it has to be started again."""
    code, write = 3, os.write
    gc.disable()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, signal.SIG_DFL)
    signal.alarm(PATIENCE)

    def tell(line: str) -> None:
        write(pipe, f"{line}\n".encode())

    try:
        places = Places(kill, tell)
        places.arm()
        code = 0 if job(tell, places) else 2
    except BaseException as error:
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = "" if place is None else f"{Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}"
        tell(f"error {type(error).__name__}: {str(error).splitlines()[:1]} at {where}")
    finally:
        os._exit(code)


class Counts(Protocol):
    """Counts of what the processes of all runs said."""

    unpaid_draws: int
    errors: int
    where: Counter[str]


@dataclass
class Witness:
    """What the processes of one federation said that they drew, got and died of."""

    factors: set[str] = field(default_factory=set)
    draws: Counter[str] = field(default_factory=Counter)
    drawn: dict[str, set[str]] = field(default_factory=dict)

    def hear(self, actor: str, line: str, tally: Counts) -> None:
        """Note what a process said; words that are not known here are left to others."""
        word, _, content = line.partition(" ")
        if word == "factors":
            self.factors.add(content)
        elif word == "draw":
            self.draws[actor] += 1
            tally.unpaid_draws += content != "paid"
        elif word == "drawn":
            self.drawn.setdefault(actor, set()).add(content)
        elif word == "died":
            tally.where[f"{actor}: {content}"] += 1
        elif word == "error":
            tally.errors += 1
            print(f"{actor}: {content}", file=sys.stderr)


def was_killed(status: int) -> bool:
    """Whether what `os.waitpid` told is a death by SIGKILL."""
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
