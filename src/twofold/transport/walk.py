"""Which files lie in a folder that strangers fill; however many there are, one look ends."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Final

__all__ = ["walk"]

#: Folders inside folders are looked into, as SFTP gives every sender one; not without end.
DEPTH: Final = 4
#: Most files and folders, of all folders together, that one look goes through.
MOST_FILES: Final = 100_000
_TEMPORARY: Final = re.compile(
    r"[.~].*|.*(?:~|\.(?:part|partial|filepart|tmp|temp|crdownload|download|swp|new))", re.I | re.S
)
_Reject = Callable[[Path, str], None]


def walk(folder: Path, reject: Callable[[Path, str], None]) -> list[Path]:
    """List what may be messages, the files of a folder before those of the folders in it, each by name.

    Links are never followed. At most `MOST_FILES` entries are listed in one look. What a folder itself leaves of them
    is shared evenly among the folders in it, so that a sender who fills theirs does not keep the others from being
    seen.

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
    """Read no more of a listing than is looked at; which part that is of a longer one, the disk decides."""
    with os.scandir(folder) as listing:
        entries = list(islice(listing, most + 1))
    if len(entries) > most:
        reject(folder, f"more files than the {MOST_FILES:,} of one look; the rest is not looked at")
    return entries[:most]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
