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
from twofold.protocol.strict_json import printable

__all__ = ["open_plain", "read_limited", "unreadable", "write_whole"]


def write_whole(path: str | PathLike[str], data: bytes, *, mode: int = 0o666) -> None:
    """Put a file in place at once: a reader sees the old bytes or the new ones, also after a crash or on a full disk.

    Parameters
    ----------
    path : path
        Where; the folder must exist.
    data : bytes
        What.
    mode : int
        Rights of the file before the umask; ``0o600`` for what is private. Set when the file is made, never by its
        name afterwards: in a folder of many users another file could have that name by then.

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
        _narrow(descriptor, mode)
        step("file: write")
        write_all(descriptor, data)
        step("file: sync")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _narrow(descriptor: int, mode: int) -> None:
    """Take rights away that nobody asked for: shares with inherited rights give new files more than their mode."""
    if not hasattr(os, "fchmod"):
        return
    given = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if given & ~mode:
        with suppress(OSError):  # a stick without rights of files has none to take away
            os.fchmod(descriptor, given & mode)


def read_limited(path: str | PathLike[str], limit: int, *, links: bool = True) -> bytes:
    """Read a file that may have at most `limit` bytes; a larger one is refused before it is read.

    Parameters
    ----------
    path : path
        Which file.
    limit : int
        Most bytes.
    links : bool
        Whether a link may stand in for the file. False in folders that strangers fill, where a link could lead to
        what is not theirs to read.

    Examples
    --------
    >>> read_limited("no-such-file", 10)
    Traceback (most recent call last):
    twofold.errors.TransportError: the file could not be read...
    """
    source = Path(path)
    try:
        with os.fdopen(open_plain(source, links=links), "rb") as file:
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


def open_plain(path: Path, *, links: bool = False) -> int:
    """Open a plain file to read, and nothing else; gives its descriptor.

    A pipe is not waited for and a device not touched. With `links` False a link is not followed, also if it takes the
    file's place at the last moment.

    Examples
    --------
    >>> open_plain(Path("."))
    Traceback (most recent call last):
    OSError: [Errno 22] not a plain file
    """
    _check_plain(path.stat() if links else path.lstat())
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags if links else flags | getattr(os, "O_NOFOLLOW", 0))
    try:
        _check_plain(os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_plain(found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "a link; links are not followed here")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a plain file")


def _cannot(done: str, path: Path, error: OSError) -> TransportError:
    reason = error.strerror or type(error).__name__
    return TransportError(
        f"the file could not be {done}.",
        found=f"{path.name}: {reason}",
        fix="check the folder, its rights and its free space, then run the same command again",
    )


def unreadable(path: Path, error: OSError) -> TransportError:
    """Say what the disk said."""
    return TransportError(
        "a folder or file of the transport cannot be used.",
        found=f"{printable(path.name)}: {error.strerror or type(error).__name__}",
        fix="check that the drive is there, its rights and its free space, then run the same again",
    )
