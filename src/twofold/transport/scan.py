"""Look through a folder that strangers fill: which files are whole messages, and why the others are not taken.

Nothing about a file is believed but its bytes. Its name may be any (people rename), it may be a copy of another, half
copied, a link out of the folder, a pipe that never ends, or not ours at all. What was seen once is remembered by the
file's identity, size and times, so that looking again costs a `stat` per file and not a hash.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twofold.errors import BadMessage, TransportError, TwofoldError
from twofold.protocol.codec import LARGEST_HEADER
from twofold.protocol.messages import Header, is_cut, read_header
from twofold.protocol.strict_json import printable
from twofold.transport.base import Rejected

__all__ = ["Found", "Scanner", "read_again"]

#: Folders inside folders are looked into, as SFTP gives every sender one; not without end.
DEPTH: Final = 4
#: Most files looked at in one pass.
MOST_FILES: Final = 100_000
_TEMPORARY: Final = re.compile(
    r"[.~].*|.*(?:~|\.(?:part|partial|filepart|tmp|temp|crdownload|download|swp|new))", re.I | re.S
)
_PROMISE: Final = re.compile(r".+\.([0-9a-f]{16})\.round[12]")
#: Seconds within which a disk with a coarse clock may not show a second write.
TICK: Final = 2.0
_CHUNK: Final = 1 << 20
WAITING: Final = "not whole yet; waiting for the rest"
CHANGING: Final = "changed while it was read; waiting until it rests"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A whole message in a file: where, what its header says, and the SHA-256 of its bytes."""

    path: Path
    header: Header
    receipt: str


class Scanner:
    """Looks through one folder again and again.

    Parameters
    ----------
    folder : Path
        Where to look.
    limit : int
        Larger files are not read.
    refuse : callable
        Says why a message with this header, read from this file, is not taken; None takes it. Asked before the file
        is hashed.
    """

    def __init__(self, folder: Path, *, limit: int, refuse: Callable[[Header, Path], str | None]) -> None:
        self.folder = folder
        self.rejected: list[Rejected] = []
        self._limit = limit
        self._refuse = refuse
        self._known: dict[Path, tuple[tuple[int, ...], Found | str]] = {}

    def messages(self) -> list[Found]:
        """Give the whole messages, copies once, in the order of their names; `rejected` then says what else was there.

        Raises
        ------
        TransportError
            The folder itself cannot be read.
        """
        taken: dict[str, Found] = {}
        self.rejected, known = [], {}
        for path in self._files(self.folder, DEPTH):
            mark, seen = self._look(path)
            if mark:
                known[path] = (mark, seen)
            if isinstance(seen, Found):
                taken.setdefault(seen.receipt, seen)
            else:
                self._reject(path, seen)
        self._known = known
        return list(taken.values())

    def _files(self, folder: Path, depth: int) -> Iterator[Path]:
        """Walk in the order of names; links are never followed."""
        for number, entry in enumerate(self._entries(folder)):
            path = Path(entry.path)
            if number >= MOST_FILES:
                self._reject(folder, f"more than {MOST_FILES:,} files; the rest is not looked at")
                return
            if _TEMPORARY.fullmatch(entry.name):
                self._reject(path, "a temporary name; looked at once it has its own")
            elif not _is_folder(entry):
                yield path
            elif depth:
                yield from self._files(path, depth - 1)
            else:
                self._reject(path, "a folder too deep to look into")

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if folder == self.folder:
                raise unreadable(folder, error) from None
            self._reject(folder, f"a folder that cannot be read: {error.strerror}")
            return []

    def _look(self, path: Path) -> tuple[tuple[int, ...], Found | str]:
        """Judge a file; also give what tells whether it is still the same, empty when that cannot be told."""
        try:
            before = _mark(path.lstat())
            known = self._known.get(path)
            if known is not None and known[0] == before:
                return known
            found = self._read(path)
            return (before if _rests(path, before) else ()), found
        except OSError as error:
            return (), f"cannot be read: {error.strerror or type(error).__name__}"

    def _read(self, path: Path) -> Found | str:
        kind = path.lstat()
        if stat.S_ISLNK(kind.st_mode):
            return "a link; links are not followed"
        if not stat.S_ISREG(kind.st_mode):
            return "not a file"
        if kind.st_size > self._limit:
            return f"larger than any message of this plan ({self._limit:,} bytes); not read"
        with os.fdopen(_open(path), "rb") as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                return "not a file"
            head = file.read(LARGEST_HEADER + 8)
            header = _header(head, before.st_size)
            if isinstance(header, str):
                return header
            if (reason := self._refuse(header, path)) is not None:
                return reason
            found = _hash(head, file, header.size)
            if _mark(os.fstat(file.fileno())) != _mark(before):
                return CHANGING
        return _promised(path, header, found)

    def _reject(self, path: Path, reason: str) -> None:
        self.rejected.append(Rejected(printable(path.relative_to(self.folder)), reason))


def read_again(found: Found, limit: int) -> bytes:
    """Read the bytes of a message that was found, and none other.

    Parameters
    ----------
    found : Found
        What a scanner gave.
    limit : int
        Most bytes to read.
    """
    try:
        with os.fdopen(_open(found.path), "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise unreadable(found.path, error) from None
    if hashlib.sha256(data).hexdigest() != found.receipt:
        raise TransportError(
            "a message changed after it was found.",
            found=printable(found.path.name),
            fix="look again; a file is taken once it rests",
        )
    return data


def unreadable(path: Path, error: OSError) -> TransportError:
    """Say what the disk said."""
    return TransportError(
        "a folder or file of the transport cannot be used.",
        found=f"{printable(path.name)}: {error.strerror or type(error).__name__}",
        fix="check that the drive is there, its rights and its free space, then run the same again",
    )


def _header(head: bytes, size: int) -> Header | str:
    """Read the header of a file of this size, or say what is wrong with it."""
    try:
        header = read_header(head)
    except BadMessage as error:
        return WAITING if size <= len(head) and is_cut(head) else f"not a message: {error.summary}"
    except TwofoldError as error:
        return error.summary
    if size < header.size:
        return WAITING
    return header if size == header.size else "a message with bytes after its end"


def _promised(path: Path, header: Header, found: str) -> Found | str:
    """Hold a file to the digest in its name, if it still has the name we gave it.

    Some programs claim the whole size first and fill it later: such a copy has its full length, and zeros in it.
    """
    promise = _PROMISE.fullmatch(path.name)
    if promise is not None and not found.startswith(promise[1]):
        return "not yet the bytes its name promises: still being copied, or damaged"
    return Found(path=path, header=header, receipt=found)


def _hash(head: bytes, rest: object, size: int) -> str:
    state, left = hashlib.sha256(head), size - len(head)
    while left > 0 and (chunk := rest.read(min(_CHUNK, left))):  # type: ignore[attr-defined]
        state.update(chunk)
        left -= len(chunk)
    return state.hexdigest()


def _open(path: Path) -> int:
    """Open without following a link that took the file's place, and without waiting for a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    return os.open(path, flags)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _rests(path: Path, before: tuple[int, ...]) -> bool:
    """Whether a file is as it was and old enough that another write would show in its times."""
    now = path.lstat()
    return _mark(now) == before and time.time() - max(now.st_mtime, now.st_ctime) > TICK


def _mark(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
