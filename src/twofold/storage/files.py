"""All access to disks: complete files or none, durable before a call returns, never more than expected.

Every step announces itself to `step` first. In production nobody listens; the kill tests replace the listener and end
the process at the n-th announcement (`python -m studies torture`).

`locked` admits one writer at a time, by a lock that the operating system releases when its holder ends in any way.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Final

from twofold.errors import BadMessage, TransportError
from twofold.storage.container import printable

__all__ = [
    "Busy",
    "add_to_end",
    "destroy",
    "empty",
    "locked",
    "make_folder",
    "open_plain",
    "put_once",
    "read_limited",
    "remove",
    "replace",
    "reserve_room",
    "step",
    "sync_folder",
    "unreadable",
    "write_all",
    "write_whole",
]

#: Seconds after which a temporary file belongs to nobody who is alive.
OLD: Final = 3_600.0
#: Most bytes of a secret; a file that is larger was put there by somebody else.
_SECRET: Final = 1 << 16
_listener: Callable[[str], None] | None = None


def step(name: str) -> None:
    """Announce that `name` is about to happen."""
    if _listener is not None:
        _listener(name)


def write_whole(path: str | PathLike[str], data: bytes, *, mode: int = 0o666) -> None:
    """Replace a file atomically: a reader sees the old or the new bytes, even after a crash or on a full disk.

    Parameters
    ----------
    path : path
        Where; the folder must exist.
    data : bytes
        What.
    mode : int
        Rights of the file before the umask; ``0o600`` for what is private. Set when the file is created, never by its
        name afterwards: in a shared folder another file could have that name by then.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "one", b"abc")
    ...     read_limited(Path(folder) / "one", 10)
    b'abc'
    """
    target = Path(path)
    # A unique name: two processes that write the same file do not share the temporary one.
    temporary = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}.part")
    try:
        _write_new(temporary, data, mode)
        step("file: rename")
        temporary.replace(target)
        sync_folder(target.parent)
    except BaseException as error:  # Ctrl-C, too, leaves no part behind
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _cannot("written", target, error) from None
        raise


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
    """Remove unrequested permissions: shares with inherited rights give new files more than their mode."""
    if not hasattr(os, "fchmod"):
        return
    given = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if given & ~mode:
        with suppress(OSError):  # a stick without rights of files has none to take away
            os.fchmod(descriptor, given & mode)


def replace(path: Path, content: bytes) -> None:
    """Replace a whole file: readers see the old bytes or the new ones, never a mixture.

    A temporary file of one's own is overwritten in place and not truncated first, so that room taken beforehand with
    `reserve_room` is used. Anything else under its name, such as a link somebody planted, is removed, never followed.
    """
    temporary = path.with_name(path.name + ".new")
    step("replace: open")
    descriptor = _open_own(temporary)
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


#: For writing: never through a link, never waiting for the reader of a pipe.
_WRITE: Final = os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def _open_own(path: Path) -> int:
    """Open a temporary file that only this user can have made, or a new one in the place of anything else."""
    try:
        if _is_own(path.lstat()):
            descriptor = os.open(path, _WRITE)
            if _is_own(os.fstat(descriptor)):  # else it was exchanged after the look
                return descriptor
            os.close(descriptor)
        path.unlink()
    except FileNotFoundError:
        pass
    return os.open(path, _WRITE | os.O_CREAT | os.O_EXCL, 0o600)


def _is_own(found: os.stat_result) -> bool:
    """Whether it is a plain file of this user with one name, that nobody else may write to."""
    user = getattr(os, "geteuid", lambda: found.st_uid)()
    open_to_others = os.name != "nt" and found.st_mode & 0o022
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == user and not open_to_others


def add_to_end(path: Path, content: bytes) -> None:
    """Append to a plain file that exists, and wait until the disk has it."""
    step("append: open")
    _check_plain(path.lstat())
    descriptor = os.open(path, _WRITE | os.O_APPEND)
    try:
        _check_plain(os.fstat(descriptor))
        step("append: write")
        write_all(descriptor, content)
        step("append: sync")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_once(path: Path, data: bytes, *, mode: int | None = None) -> bool:
    """Write a file if none exists; True if it then holds these bytes, False if it already held others.

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
        if same:  # the process that put it there may have been killed before its name was durable
            sync_folder(path.parent)
        return same
    except OSError as error:
        raise unreadable(path, error) from None


def _place(path: Path, data: bytes, mode: int | None) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        # As readable as its folder, within the umask: those who carry files out of it may be another user of the
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
    """Remove what killed writers of this file left long ago."""
    for left in path.parent.glob(f".*{path.name}.*.part"):
        with suppress(OSError):
            if time.time() - left.lstat().st_mtime > OLD:
                left.unlink()


def read_limited(path: str | PathLike[str], limit: int, *, links: bool = True) -> bytes:
    """Read a file that may have at most `limit` bytes; a larger one is refused before it is read.

    Parameters
    ----------
    path : path
        Which file.
    limit : int
        Most bytes.
    links : bool
        Whether a link to the file is accepted. False in folders that strangers fill, where a link could lead to
        files that they may not read.

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
    """Open a plain file for reading, and nothing else; return its descriptor.

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


def reserve_room(path: Path, size: int, *, kept: int | None = None) -> None:
    """Claim `size` bytes of disk for a new file, or fail now rather than after a draw; give back all but `kept`."""
    step("room")
    descriptor = os.open(path, _WRITE | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            write_all(descriptor, bytes(size))
            os.fsync(descriptor)
        if kept is not None:
            os.ftruncate(descriptor, kept)
    finally:
        os.close(descriptor)


def empty(path: Path) -> None:
    """Keep the name of a temporary file and drop its content; what is not a file of one's own is removed."""
    with suppress(FileNotFoundError):
        if not _is_own(path.lstat()):
            return remove(path)
        descriptor = os.open(path, _WRITE)
        try:
            if _is_own(os.fstat(descriptor)):
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder, readable by its owner only, if it is not there; its parent must be, so that a typing error
    in a path does not start an empty one somewhere else.
    """
    if not folder.is_dir():
        step("make folder")
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise _no_folder(folder, error) from None
        sync_folder(folder.parent)


def remove(path: Path) -> None:
    """Remove a left-over temporary file, if it exists."""
    step("remove")
    path.unlink(missing_ok=True)


def destroy(path: Path) -> None:
    """Overwrite a small secret, then remove its name; other copies on the disk cannot be reached.

    A link, or a file that also has another name, loses its name only: overwriting it would destroy what it leads to.
    """
    if not os.path.lexists(path):
        return
    step("destroy: open")
    found = path.lstat()
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        _overwrite(path)
    remove(path)
    sync_folder(path.parent)


def _overwrite(path: Path) -> None:
    descriptor = os.open(path, _WRITE)
    try:
        step("destroy: write")
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            write_all(descriptor, bytes(min(found.st_size, _SECRET)))
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make new and renamed names in a folder durable; Windows does so by itself."""
    step("sync folder")
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte; the operating system may take fewer at a time."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def unreadable(path: Path, error: OSError) -> TransportError:
    """Report the disk's error."""
    return TransportError(
        "a folder or file of the transport cannot be used.",
        found=f"{printable(path.name)}: {error.strerror or type(error).__name__}",
        fix="check that the drive is there, its permissions and its free space, then run the same command again",
        parameter="path",
    )


def _no_folder(folder: Path, error: OSError) -> TransportError:
    """Report what blocks the folder."""
    if isinstance(error, FileExistsError):
        found, fix = f"{folder.name}, which is a file", "name a folder, or remove that file"
    elif isinstance(error, NotADirectoryError):
        found, fix = f"{folder.name} under a file", "name a folder that is not in a file"
    else:
        found, fix = f"{folder.name} in a folder that does not exist", f"mkdir -p {folder.parent}, or correct the name"
    expected = "a folder, or a new name in one"
    return TransportError("a folder cannot be used.", found=found, expected=expected, fix=fix, parameter="folder")


def _cannot(done: str, path: Path, error: OSError) -> TransportError:
    reason = error.strerror or type(error).__name__
    return TransportError(
        f"the file could not be {done}.",
        found=f"{path.name}: {reason}",
        fix="check the folder, its permissions and its free space, then run the same command again",
        parameter="path",
    )


PAUSE = 0.01


class Busy(Exception):
    """Another process held the lock throughout; the text names the file and the process."""


class _Held:
    """An open lock file; closing it gives the lock back."""

    def __init__(self, path: Path) -> None:
        # Its holder writes a number into it: never through a link, and never into what is not a plain file.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        self.descriptor: int | None = os.open(path, flags, 0o600)
        try:
            _check_plain(os.fstat(self.descriptor))
        except OSError:
            self.close()
            raise

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
    twofold.storage.files.Busy: x.lock held by process ...
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
    """Whether the locked file is still the one at `path`; a lock on a deleted file protects nothing."""
    try:
        return os.name == "nt" or os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    # Only a courtesy to those who wait: a full disk must not keep the lock from working.
    with suppress(OSError):
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"{os.getpid():<20}\n".encode())


def _busy(path: Path, wait: float) -> Busy:
    try:
        holder = f"process {int(path.read_bytes().split()[0])}"
    except (OSError, ValueError, IndexError):
        holder = "another process"
    return Busy(f"{path.name} held by {holder}, waited {wait:g} s")
