"""Where a ledger is on disk: the file itself, and beside it the head, the lock and the stored releases.

Why a stored release that no record names proves a rollback
-----------------------------------------------------------
`Files.store` is called with an entry of the account, and its file is named after that entry's number and hash. The
entry exists once its reservation is appended and synced, and the new head is synced, renamed and its folder synced
(`Writer.append`). Only then does the draw begin, and the file is stored after the draw. So at every moment, also after
a kill or a power cut, a file in `.releases` with the name of a release implies that its reservation is on disk, up to
the head; and the ledger only ever grows. The other order does not occur: bytes without a commit are those of an open
reservation, which the next writer commits, and a reservation without bytes has no file.

If no record has that number and hash, the ledger on disk is therefore not the one that made the release: an older
copy was put back, or another ledger. A reader without the lock lists the folder first and reads the ledger afterwards:
what was listed was reserved before.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from twofold.errors import LedgerBroken
from twofold.privacy.ledger.record import LARGEST, RESTORE, digest
from twofold.storage import files as disk

if TYPE_CHECKING:
    from twofold.privacy.ledger.state import Entry

__all__ = ["Files", "guarded", "read_book", "read_small", "refuse_unknown_releases"]

#: Claimed beside the release itself: half of it is given back just before the reservation is written, half just before
#: the commit, so that both records fit on a disk that fills up in between.
MARGIN = 1 << 16
#: Files of this size and above are hashed piece by piece before they are read whole.
_PIECE: Final = 1 << 24
#: No head and no key is as large.
_SMALL: Final = 1 << 12
#: Bytes left by a crash that are larger than this were not made by a release.
_MOST_LEFT: Final = 1 << 32
_RELEASE: Final = re.compile(r"([0-9]{6,18})-([0-9a-f]{16})-([0-9a-f]{64})\.release(\.new)?")


@dataclass(frozen=True, kw_only=True)
class Files:
    """The paths of one ledger.

    Examples
    --------
    >>> Files(book=Path("st-anna.ledger")).head.name
    'st-anna.ledger.head'
    """

    book: Path

    def __post_init__(self) -> None:
        if not self.book.name or self.book.is_dir():
            raise LedgerBroken("a ledger must be a file.", found="a folder", expected="a path such as st-anna.ledger")

    def owns(self, path: Path) -> bool:
        """Whether a path is one of the ledger's files, which nothing else may write."""
        own, asked = (self.book, self.head, self.lock), path.resolve()
        return any(asked == one.resolve() for one in own) or self.releases.resolve() in asked.parents

    @property
    def head(self) -> Path:
        """The sidecar with length and hash."""
        return self.book.with_name(self.book.name + ".head")

    @property
    def lock(self) -> Path:
        """The file that a writer locks; its content means nothing."""
        return self.book.with_name(self.book.name + ".lock")

    @property
    def releases(self) -> Path:
        """The folder of stored releases."""
        return self.book.with_name(self.book.name + ".releases")

    def release(self, entry: Entry, fingerprint: str) -> Path:
        """Name the file of a release after its reservation and its own digest.

        The name alone then tells, after a crash, that these bytes belong to that reservation and are whole.
        """
        return self.releases / f"{entry.number:06d}-{entry.hash[:16]}-{fingerprint}.release"

    def listed(self) -> tuple[str, ...]:
        """Give the names of all stored releases, finished or begun, in no order."""
        try:
            if self.releases.is_symlink():
                raise OSError(errno.ELOOP, "its .releases is a link; links are not followed here")
            return tuple(name for name in os.listdir(self.releases) if _RELEASE.fullmatch(name))  # noqa: PTH208
        except FileNotFoundError:
            return ()

    def claim_room(self, size: int) -> None:
        """Take the disk space for the next release before anything is spent."""
        disk.make_folder(self.releases)
        room = self._room
        disk.remove(room)
        try:
            disk.reserve_room(room, size + MARGIN, kept=size + MARGIN // 2)
        except OSError:
            disk.remove(room)
            raise

    def store(self, entry: Entry, content: bytes) -> str:
        """Store the complete bytes of a release in the space claimed for them."""
        fingerprint = digest(content)
        path = self.release(entry, fingerprint)
        room = path.with_name(path.name + ".new")
        if self._room.exists():
            disk.step("take room")
            self._room.replace(room)
        disk.replace(path, content)
        return fingerprint

    def find(self, entry: Entry) -> tuple[str, int] | None:
        """Look for complete bytes that a crash left between storing and committing; give their digest and size."""
        pattern = f"{entry.number:06d}-{entry.hash[:16]}-*.release"
        for path in sorted(self.releases.glob(pattern)):
            try:
                fingerprint, size = _hashed(path, most=_MOST_LEFT)
            except (FileNotFoundError, ValueError):
                continue
            if path == self.release(entry, fingerprint):
                return fingerprint, size
        return None

    def check(self, entry: Entry) -> Path:
        """Check that a committed release is stored, byte for byte; give its path."""
        path = self.release(entry, entry.digest)
        try:
            fits = _hashed(path, most=entry.size) == (entry.digest, entry.size)
        except FileNotFoundError:
            raise LedgerBroken(
                "a stored release is missing.", expected=path.name, fix=RESTORE, parameter="release"
            ) from None
        except ValueError:  # longer
            fits = False
        except OSError as error:
            raise LedgerBroken(
                "a stored release cannot be read.",
                found=f"{path.name}: {error.strerror or error}",
                expected="a plain, readable file",
                parameter="release",
            ) from error
        if not fits:
            raise LedgerBroken("a stored release was changed.", found=path.name, fix=RESTORE, parameter="digest")
        return path

    def fetch(self, entry: Entry) -> bytes:
        """Read a committed release back, byte for byte."""
        path = self.check(entry)  # before its size is believed
        with os.fdopen(disk.open_plain(path), "rb") as file:
            content = file.read(entry.size + 1)
        if digest(content) != entry.digest:
            raise LedgerBroken("a stored release was changed.", found=path.name, fix=RESTORE, parameter="digest")
        return content

    def tried(self, entry: Entry) -> str | None:
        """Give the digest of bytes whose storing a crash interrupted, if storing had begun."""
        found = sorted(self.releases.glob(f"{entry.number:06d}-{entry.hash[:16]}-*.release.new"))
        plain = [path for path in found if path.is_file() and not path.is_symlink()]
        return plain[0].name.removesuffix(".release.new").rpartition("-")[2] if plain else None

    def sweep(self, waiting: Sequence[Entry] = ()) -> None:
        """Remove temporary files that a crash left, except the name of a reservation that waits to be drawn again."""
        kept = tuple(f"{entry.number:06d}-{entry.hash[:16]}-" for entry in waiting)
        for left in [*self.releases.glob("*.new"), self._room]:
            if left.name.startswith(kept):
                disk.empty(left)
            elif os.path.lexists(left):
                disk.remove(left)

    @property
    def _room(self) -> Path:
        return self.releases / "room"


def refuse_unknown_releases(names: Iterable[str], entries: Iterable[Entry], *, book: str) -> None:
    """Refuse a ledger that does not know a release stored beside it; the proof is at the top of this file."""
    known = {(entry.number, entry.hash[:16]): entry for entry in entries} if names else {}
    unknown = []
    for name in names:
        number, mark, fingerprint, unfinished = _RELEASE.fullmatch(name).groups()  # type: ignore[union-attr]
        entry = known.get((int(number), mark))
        # A released entry has one byte string: another one under its name was stored by another ledger.
        other = entry is not None and entry.status == "released" and not unfinished and entry.digest != fingerprint
        if entry is None or other:
            unknown.append(name)
    if unknown:
        raise LedgerBroken(
            "this ledger is older than the releases stored beside it: an earlier copy was put back, or another ledger. "
            "What was spent since is not in it. Nothing was drawn.",
            found=f"{len(unknown)} release(s) that {book} does not know, such as {min(unknown)[:23]}...",
            expected="every stored release under a record of this ledger",
            fix=f"keep the .releases as they are, they are the proof; {RESTORE}",
            parameter="releases",
        )


def read_book(path: Path) -> bytes:
    """Read the file of a ledger: plain, and no larger than a ledger gets."""
    try:
        return _read(path, LARGEST)
    except ValueError:
        raise LedgerBroken(
            "the file is larger than a ledger.",
            found=path.name,
            expected=f"at most {LARGEST:,} bytes",
            fix=RESTORE,
            parameter="ledger",
        ) from None


def read_small(path: Path) -> bytes:
    """Read a head or a key: plain and small, else `OSError` or `ValueError`."""
    return _read(path, _SMALL)


def _read(path: Path, most: int) -> bytes:
    with os.fdopen(disk.open_plain(path), "rb") as file:
        if os.fstat(file.fileno()).st_size > most:
            raise ValueError("too large")
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError("too large")
    return content


def _hashed(path: Path, *, most: int) -> tuple[str, int]:
    """Give digest and size of a plain file; `ValueError` if it has more bytes than that."""
    hashing, size = hashlib.sha256(), 0
    with os.fdopen(disk.open_plain(path), "rb") as file:
        if os.fstat(file.fileno()).st_size > most:
            raise ValueError("too large")
        while piece := file.read(_PIECE):
            hashing.update(piece)
            size += len(piece)
    return hashing.hexdigest(), size


@contextmanager
def guarded(files: Files, doing: str) -> Iterator[None]:
    """Turn disk errors into one clear refusal."""
    try:
        yield
    except OSError as error:
        raise LedgerBroken(
            f"the ledger could not be written: {_reason(error)}.",
            found=f"{files.book.name}: {error.strerror or error}",
            expected="a folder on a local disk that this user may write to, with room left",
            fix=f"free space or correct the permissions, then ask again; {doing}",
            parameter="disk",
        ) from error


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "the disk is full"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "the disk or folder is read-only"
    if error.errno == errno.ELOOP:
        return "a link is in the place of one of its files"
    return "the disk refused"
