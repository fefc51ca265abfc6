"""What may stand where a file is expected: a pipe, a folder, a device, a loop of links, a huge or an empty file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["PLANTS", "clear"]

_SPARSE: Final = 50 * 10**9


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _linked_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def _loop(path: Path) -> None:
    path.symlink_to("other")
    path.with_name("other").symlink_to(path.name)


def _zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _sparse(path: Path) -> None:
    path.write_bytes(b"")
    os.truncate(path, _SPARSE)


def _huge_text(path: Path) -> None:
    """Begins like a table, and has 50 GB of zeros behind it."""
    path.write_bytes(b"user,item,value\n" + b"1,item-1,2\n" * 100)
    os.truncate(path, _SPARSE)


def _unreadable(path: Path) -> None:
    """For everybody but root, who reads it all the same."""
    path.write_bytes(b"{}")
    path.chmod(0)


PLANTS: Final[Mapping[str, Callable[[Path], None]]] = {
    "a pipe": _pipe,
    "a link to a pipe": _linked_pipe,
    "a folder": Path.mkdir,
    "a loop of links": _loop,
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to /dev/zero": _zeros,
    "50 GB of nothing": _sparse,
    "a beginning and 50 GB of nothing": _huge_text,
    "an empty file": Path.touch,
    "a file without rights": _unreadable,
}


def clear(folder: Path) -> None:
    """Remove a folder and whatever was put into it."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
