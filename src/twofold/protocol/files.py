"""Whole files or none, and never more than was expected."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from os import PathLike
from pathlib import Path

from twofold.errors import BadMessage, TransportError
from twofold.privacy.ledger.disk import step, sync_folder, write_all

__all__ = ["read_limited", "write_whole"]


def write_whole(path: str | PathLike[str], data: bytes, *, mode: int = 0o666) -> None:
    """Put a file in place at once: a reader sees the old bytes or the new ones, also after a crash or on a full disk.

    Parameters
    ----------
    path : path
        Where; the folder must exist.
    data : bytes
        What.
    mode : int
        Rights of the file before the umask; ``0o600`` for what is private.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "one", b"abc")
    ...     read_limited(Path(folder) / "one", 10)
    b'abc'
    """
    target = Path(path)
    # A name of its own: two processes that write the same file do not meet in the temporary one.
    temporary = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}.part")
    try:
        _write_new(temporary, data, mode)
        step("file: rename")
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _cannot("written", target, error) from None


def _write_new(path: Path, data: bytes, mode: int) -> None:
    step("file: open")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        step("file: write")
        write_all(descriptor, data)
        step("file: sync")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_limited(path: str | PathLike[str], limit: int) -> bytes:
    """Read a file that may have at most `limit` bytes; a larger one is refused before it is read.

    Examples
    --------
    >>> read_limited("no-such-file", 10)
    Traceback (most recent call last):
    twofold.errors.TransportError: the file could not be read...
    """
    source = Path(path)
    try:
        # Opening a pipe that lies in a shared folder would wait for ever.
        if not stat.S_ISREG(source.stat().st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        with source.open("rb") as file:
            # A file that grows while it is read still ends at the limit.
            found = os.fstat(file.fileno()).st_size
            data = b"" if found > limit else file.read(limit + 1)
    except OSError as error:
        raise _cannot("read", source, error) from None
    if found > limit or len(data) > limit:
        raise BadMessage(
            "the file is larger than any message of this plan.",
            found=f"{source.name}: {max(found, len(data)):,} bytes",
            expected=f"at most {limit:,}",
        )
    return data


def _cannot(done: str, path: Path, error: OSError) -> TransportError:
    reason = error.strerror or type(error).__name__
    return TransportError(
        f"the file could not be {done}.",
        found=f"{path.name}: {reason}",
        fix="check the folder, its rights and its free space, then run the same command again",
    )
