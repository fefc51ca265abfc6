"""The few ways in which the ledger touches a disk, each durable before it returns.

Every call announces itself to `step` first. In production nobody listens; the kill tests replace the listener and end
the process at the n-th announcement (`twofold.privacy.ledger.torture`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from twofold.errors import TransportError

__all__ = [
    "add_to_end",
    "destroy",
    "make_folder",
    "remove",
    "replace",
    "reserve_room",
    "step",
    "sync_folder",
    "write_all",
]

_listener: Callable[[str], None] | None = None


def step(name: str) -> None:
    """Announce that `name` is about to happen."""
    if _listener is not None:
        _listener(name)


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte; the operating system may take fewer at a time."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Make new and renamed names in a folder durable; Windows keeps them durable by itself and cannot be asked."""
    step("sync folder")
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def add_to_end(path: Path, content: bytes) -> None:
    """Append to a file that exists, and wait until the disk has it."""
    step("append: open")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
    try:
        step("append: write")
        write_all(descriptor, content)
        step("append: sync")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, content: bytes) -> None:
    """Put a whole file in place: readers see the old bytes or the new ones, never a mixture.

    The temporary file is overwritten in place and not truncated first, so that room taken beforehand with
    `reserve_room` is used.
    """
    temporary = path.with_name(path.name + ".new")
    step("replace: open")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    try:
        step("replace: write")
        write_all(descriptor, content)
        os.ftruncate(descriptor, len(content))
        step("replace: sync")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    step("replace: rename")
    temporary.replace(path)
    sync_folder(path.parent)


def reserve_room(path: Path, size: int) -> None:
    """Claim `size` bytes of disk for a file, or fail now rather than after a draw."""
    step("room")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            write_all(descriptor, bytes(size))
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder, readable by its owner only, if it is not there; its parent must be, so that a slip of the pen
    in a path does not start an empty one somewhere else.
    """
    if not folder.is_dir():
        step("make folder")
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise _no_folder(folder, error) from None
        sync_folder(folder.parent)


def _no_folder(folder: Path, error: OSError) -> TransportError:
    """Say what stands in the way."""
    if isinstance(error, FileExistsError):
        found, fix = f"{folder.name}, which is a file", "name a folder, or take that file away"
    elif isinstance(error, NotADirectoryError):
        found, fix = f"{folder.name} under a file", "name a folder that is not in a file"
    else:
        found, fix = f"{folder.name} in a folder that is not there", f"mkdir -p {folder.parent}, or mend the name"
    return TransportError("a folder cannot be used.", found=found, expected="a folder, or a new name in one", fix=fix)


def remove(path: Path) -> None:
    """Take a left-over temporary file away, if it is there."""
    step("remove")
    path.unlink(missing_ok=True)


def destroy(path: Path) -> None:
    """Overwrite a small secret, then take its name away; what a disk keeps besides is beyond us."""
    if not path.exists():
        return
    step("destroy: open")
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_BINARY", 0))
    try:
        step("destroy: write")
        write_all(descriptor, bytes(os.fstat(descriptor).st_size))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    remove(path)
    sync_folder(path.parent)
