"""One writer at a time, by a lock the operating system drops when its holder dies, however it dies."""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Busy", "locked"]

PAUSE = 0.01


class Busy(Exception):
    """Another process held the lock all the time; the text says which file and which process."""


class _Held:
    """An open lock file; closing it gives the lock back."""

    def __init__(self, path: Path) -> None:
        self.descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


_held: weakref.WeakSet[_Held] = weakref.WeakSet()


def _forget() -> None:
    # A forked child shares the lock with its parent and would keep it alive after the parent is killed.
    for held in list(_held):
        held.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

if sys.platform == "win32":
    import msvcrt

    def _try(descriptor: int) -> bool:
        # Far behind the text, so that the holder's process number stays readable.
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try(descriptor: int) -> bool:
        # flock, not lockf: lockf locks vanish when any other descriptor of the file is closed.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def locked(path: Path, *, wait: float) -> Iterator[None]:
    """Hold the lock file for the block; give up with `Busy` after `wait` seconds.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder, "x.lock"), wait=0):
    ...     with locked(Path(folder, "x.lock"), wait=0):
    ...         pass
    Traceback (most recent call last):
    twofold.storage.locks.Busy: x.lock held by process ...
    """
    held = _acquire(path, wait)
    _held.add(held)
    try:
        yield
    finally:
        held.close()


def _acquire(path: Path, wait: float) -> _Held:
    deadline = time.monotonic() + wait
    while True:
        held = _Held(path)
        if held.descriptor is not None and _try(held.descriptor) and _is_at(held.descriptor, path):
            _sign(held.descriptor)
            return held
        held.close()
        if time.monotonic() >= deadline:
            raise _busy(path, wait)
        time.sleep(PAUSE)


def _is_at(descriptor: int, path: Path) -> bool:
    """Tell whether the locked file is still the one at `path`; a lock on a deleted file protects nothing."""
    try:
        return os.name == "nt" or os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    # Only a courtesy to whoever waits: a full disk must not keep the lock from working.
    with suppress(OSError):
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"{os.getpid():<20}\n".encode())


def _busy(path: Path, wait: float) -> Busy:
    try:
        holder = f"process {int(path.read_bytes().split()[0])}"
    except (OSError, ValueError, IndexError):
        holder = "another process"
    return Busy(f"{path.name} held by {holder}, waited {wait:g} s")
