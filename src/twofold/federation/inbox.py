"""Check a folder that strangers fill: which files are complete messages, and why the others are rejected.

Only the bytes of a file are trusted. It may have any name (people rename), it may be a copy of another, half copied, a
link out of the folder, a pipe that never ends, or a foreign file. A file that was seen once is remembered by its
identity, size and times, so that checking again costs a `stat` per file and not a hash. One check is bounded, however
many files there are.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path
from random import randrange, shuffle
from typing import Final

from twofold.errors import BadMessage, TransportError, TwofoldError
from twofold.federation.mailbox import Rejected
from twofold.federation.messages import Header, is_cut, read_header, receipt
from twofold.storage.container import LARGEST_HEADER, printable
from twofold.storage.files import open_plain, unreadable

__all__ = ["Found", "Scanner", "read_again", "walk"]

_PROMISE: Final = re.compile(
    r".+\.([0-9a-f]{16})\.(?:round[12]|shares|roll|survivors|answer|agreement|agreed|"
    r"report|bundle|list|freeze|reveal|draft)"
)
#: Seconds within which a disk with a coarse clock may not show a second write.
TICK: Final = 2.0
WAITING: Final = "not whole yet; waiting for the rest"
CHANGING: Final = "changed while it was read; waiting until it rests"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A complete message in a file: its place, its header, the SHA-256 of its bytes, and where else it was found."""

    path: Path
    header: Header
    receipt: str
    copies: tuple[Path, ...] = ()


class Scanner:
    """Checks one folder repeatedly.

    Parameters
    ----------
    folder : Path
        Where to look.
    limit : int
        Larger files are not read.
    refuse : callable
        Gives the reason to reject a message with this header, or None. Called before the rest of the file is read.
    ignore : callable
        Whether to ignore a message with this header: neither accepted nor rejected.
    check : callable
        Gives the reason to reject a message with this header and these bytes, or None.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limit: int,
        refuse: Callable[[Header], str | None],
        check: Callable[[Header, bytes], str | None],
        ignore: Callable[[Header], bool] = lambda _: False,
    ) -> None:
        self.folder = folder
        self.rejected: list[Rejected] = []
        self._limit = limit
        self._refuse = refuse
        self._check = check
        self._ignore = ignore
        self._known: dict[Path, tuple[tuple[int, ...], Found | str | None]] = {}

    def messages(self) -> list[Found]:
        """Give the complete messages, each once, by name, a folder's files first; `rejected` lists the rest.

        Raises
        ------
        TransportError
            The folder itself cannot be read.
        """
        taken: dict[str, tuple[Found, list[Path]]] = {}
        self.rejected, known = [], {}
        for path in self._files():
            mark, seen = self._look(path)
            if mark:
                known[path] = (mark, seen)
            if isinstance(seen, Found):
                taken.setdefault(seen.receipt, (seen, []))[1].append(path)
            elif seen is not None:
                self._reject(path, seen)
        self._known = known
        return [replace(first, copies=tuple(paths[1:])) for first, paths in taken.values()]

    def _files(self) -> list[Path]:
        try:
            return walk(self.folder, self._reject)
        except OSError as error:
            raise unreadable(self.folder, error) from None

    def _look(self, path: Path) -> tuple[tuple[int, ...], Found | str | None]:
        """Judge a file; also give a mark that shows whether it is unchanged, empty if that is unknown."""
        try:
            before = _mark(path.lstat())
            known = self._known.get(path)
            if known is not None and known[0] == before:
                return known
            found = self._read(path)
            return (before if _rests(path, before) else ()), found
        except OSError as error:
            return (), f"cannot be read: {error.strerror or type(error).__name__}"

    def _read(self, path: Path) -> Found | str | None:
        """Judge a file by its bytes; None if it is to be ignored."""
        if (reason := self._unfit(path.lstat())) is not None:
            return reason
        with os.fdopen(open_plain(path), "rb") as file:
            before = os.fstat(file.fileno())
            if (reason := self._unfit(before)) is not None:
                return reason
            header = _header(file.read(LARGEST_HEADER + 8), before.st_size)
            if isinstance(header, str):
                return header
            if self._ignore(header):
                return None
            if (reason := self._refuse(header)) is not None:
                return reason
            file.seek(0)
            data = file.read(header.size)
            if _mark(os.fstat(file.fileno())) != _mark(before):
                return CHANGING
        return self._judge(path, header, data)

    def _unfit(self, found: os.stat_result) -> str | None:
        """Say why a file need not be read."""
        if stat.S_ISLNK(found.st_mode):
            return "a link; links are not followed"
        if not stat.S_ISREG(found.st_mode):
            return "not a file"
        if found.st_size > self._limit:
            return f"larger than any message of this plan ({self._limit:,} bytes); not read"
        return None

    def _judge(self, path: Path, header: Header, data: bytes) -> Found | str:
        """Check exactly the bytes that the receipt covers."""
        mark = receipt(data)
        reason = _broken_promise(path, mark) or self._check(header, data)
        return Found(path=path, header=header, receipt=mark) if reason is None else reason

    def _reject(self, path: Path, reason: str) -> None:
        self.rejected.append(Rejected(printable(path.relative_to(self.folder)), reason))


def read_again(found: Found, limit: int) -> bytes:
    """Read exactly the bytes of a message that was found, from the first of its copies that still holds them.

    Parameters
    ----------
    found : Found
        What a scanner gave.
    limit : int
        Most bytes to read.
    """
    for path in (found.path, *found.copies):  # a stranger's copy may come first by name, and change at once
        with suppress(OSError):
            if receipt(data := _bytes(path, limit)) == found.receipt:
                return data
    try:
        _bytes(found.path, limit)
    except OSError as error:
        raise unreadable(found.path, error) from None
    raise TransportError(
        "a message changed after it was found.",
        found=printable(found.path.name),
        fix="check again; a file is read once it stops changing",
        parameter="receipt",
    )


def _bytes(path: Path, limit: int) -> bytes:
    with os.fdopen(open_plain(path), "rb") as file:
        return file.read(limit + 1)


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


def _broken_promise(path: Path, mark: str) -> str | None:
    """Check a file against the digest in its name, if it still has its original name.

    Some programs claim the whole size first and fill it later: such a copy has its full length, and zeros in it.
    """
    promise = _PROMISE.fullmatch(path.name)
    if promise is not None and not mark.startswith(promise[1]):
        return "not yet the bytes its name promises: still being copied, or damaged"
    return None


def _rests(path: Path, before: tuple[int, ...]) -> bool:
    """Whether a file is unchanged and old enough for another write to show in its times."""
    now = path.lstat()
    return _mark(now) == before and time.time() - max(now.st_mtime, now.st_ctime) > TICK


def _mark(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


#: Folders inside folders are looked into, as SFTP gives every sender one; not without end.
DEPTH: Final = 4
#: Most files and folders, of all folders together, that one look goes through: a random part of what is there, so that
#: nobody can hide a message behind more files than that for long.
MOST_FILES: Final = 100_000
_TEMPORARY: Final = re.compile(
    r"[.~].*|.*(?:~|\.(?:part|partial|filepart|tmp|temp|crdownload|download|swp|new))", re.I | re.S
)
_Reject = Callable[[Path, str], None]


def walk(folder: Path, reject: Callable[[Path, str], None]) -> list[Path]:
    """List what may be messages, the files of a folder before those of the folders in it, each by name.

    Links are never followed. At most `MOST_FILES` entries are listed in one look. What a folder itself leaves of them
    is shared evenly among the folders in it, so that a sender who fills theirs does not keep the others from being
    seen. Of a folder with more entries, a random part is listed, and half is left for the folders in it.

    Parameters
    ----------
    folder : Path
        Where to look.
    reject : callable
        Told what is left out, and why.

    Raises
    ------
    OSError
        The folder itself cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b", "a", "c.part"):
    ...         _ = Path(folder, name).write_bytes(b"")
    ...     [path.name for path in walk(Path(folder), lambda path, reason: print(path.name, "is", reason))]
    c.part is a temporary name; looked at once it has its own
    ['a', 'b']
    """
    found: list[Path] = []
    _list(folder, found, reject, DEPTH, MOST_FILES)
    return found


def _list(folder: Path, found: list[Path], reject: _Reject, depth: int, most: int) -> int:
    """Add the files of a folder and of those in it; give how many of the `most` entries are left."""
    entries, inner = _entries(folder, reject, most), []
    for entry in sorted(entries, key=attrgetter("name")):
        path = Path(entry.path)
        if _TEMPORARY.fullmatch(entry.name):
            reject(path, "a temporary name; looked at once it has its own")
        elif _is_folder(entry):
            inner.append(path)
        else:
            found.append(path)
    left = most - len(entries)
    for number, path in enumerate(inner):
        share = left // (len(inner) - number)
        left += _list_inner(path, found, reject, depth - 1, share) - share
    return left


def _list_inner(folder: Path, found: list[Path], reject: _Reject, depth: int, most: int) -> int:
    if depth < 0:
        reject(folder, "a folder too deep to look into")
        return most
    try:
        return _list(folder, found, reject, depth, most)
    except OSError as error:
        reject(folder, f"a folder that cannot be read: {error.strerror}")
        return most


def _entries(folder: Path, reject: _Reject, most: int) -> list[os.DirEntry[str]]:
    """List a folder; of a listing that is too long, a random part, drawn while reading it."""
    with os.scandir(folder) as listing:
        entries = list(islice(listing, most))
        longer = False
        for number, entry in enumerate(listing, start=most + 1):
            longer = True
            if (place := randrange(number)) < most:
                entries[place] = entry
    if longer:
        reject(folder, f"more files than the {MOST_FILES:,} of one look; a random part is looked at each time")
        shuffle(entries)
    return entries[: -(-most // 2)] if longer else entries


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
