"""Put a file in place once: whole, durable, and never over another one."""

from __future__ import annotations

import os
import secrets
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from twofold.errors import BadMessage
from twofold.privacy.ledger.disk import sync_folder
from twofold.protocol.files import read_limited, unreadable, write_whole

__all__ = ["put_once"]

#: Seconds after which a temporary file belongs to nobody who is alive.
OLD: Final = 3_600.0


def put_once(path: Path, data: bytes, *, mode: int | None = None) -> bool:
    """Write a file if nothing is there; True when these bytes are there afterwards, False when others were.

    Two processes that try at once agree on one winner. A process killed at any point leaves a whole file or none,
    beside temporary names that begin with a dot and are cleared away later. A link in the file's place is another
    file, wherever it leads. It is as readable as its folder, or as `mode` says.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "x")
    ...     put_once(path, b"one"), put_once(path, b"one"), put_once(path, b"two")
    (True, True, False)
    """
    try:
        if not os.path.lexists(path):
            _clear(path)
            _place(path, data, mode)
        same = _same(path, data)
        if same:  # whoever put it there may have been killed before its name was durable
            sync_folder(path.parent)
        return same
    except OSError as error:
        raise unreadable(path, error) from None


def _place(path: Path, data: bytes, mode: int | None) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        # As readable as its folder, within the umask: whoever carries files out of it may be another user of the
        # machine. Carrying needs no right to write, however open the folder is.
        write_whole(temporary, data, mode=mode or 0o600 | path.parent.stat().st_mode & 0o044)
        _name(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _name(temporary: Path, path: Path) -> None:
    """Give a whole file its name, unless another file has it."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError:  # a stick or share without hard links: the last moment to look is just before
        if not os.path.lexists(path):
            temporary.replace(path)


def _same(path: Path, data: bytes) -> bool:
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    try:
        return read_limited(path, len(data), links=False) == data
    except BadMessage:  # longer
        return False


def _clear(path: Path) -> None:
    """Take away what killed writers of this file left long ago."""
    for left in path.parent.glob(f".*{path.name}.*.part"):
        with suppress(OSError):
            if time.time() - left.lstat().st_mtime > OLD:
                left.unlink()
