"""Where a ledger keeps what: one file to read, and beside it the head, the lock and the stored releases."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from twofold.errors import LedgerBroken
from twofold.privacy.ledger.record import RESTORE, digest
from twofold.privacy.ledger.state import Entry
from twofold.storage import files as disk

__all__ = ["Files", "guarded"]

#: Claimed beside the release itself: half of it is given back just before the reservation is written, half just before
#: the commit, so that both records find room on a disk that fills up meanwhile.
MARGIN = 1 << 16


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
            raise LedgerBroken("a ledger is a file.", found="a folder", expected="a path such as st-anna.ledger")

    def owns(self, path: Path) -> bool:
        """Whether a path is one of the ledger's own files, which nothing else may write."""
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

    def claim_room(self, size: int) -> None:
        """Take the disk space for the next release before anything is spent."""
        disk.make_folder(self.releases)
        room = self._room
        disk.remove(room)
        try:
            disk.reserve_room(room, size + MARGIN)
            os.truncate(room, size + MARGIN // 2)
        except OSError:
            disk.remove(room)
            raise

    def store(self, entry: Entry, content: bytes) -> str:
        """Keep the bytes of a release, durable and whole, in the room claimed for them."""
        fingerprint = digest(content)
        path = self.release(entry, fingerprint)
        room = path.with_name(path.name + ".new")
        if self._room.exists():
            disk.step("take room")
            self._room.replace(room)
        disk.replace(path, content)
        return fingerprint

    def find(self, entry: Entry) -> bytes | None:
        """Look for whole bytes that a crash left between storing and committing."""
        pattern = f"{entry.number:06d}-{entry.hash[:16]}-*.release"
        for path in sorted(self.releases.glob(pattern)):
            content = path.read_bytes()
            if path == self.release(entry, digest(content)):
                return content
        return None

    def fetch(self, entry: Entry) -> bytes:
        """Read a committed release back, byte for byte."""
        path = self.release(entry, entry.digest)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise LedgerBroken(
                "a stored release is missing.", expected=path.name, fix=RESTORE, parameter="release"
            ) from None
        if digest(content) != entry.digest:
            raise LedgerBroken("a stored release was changed.", found=path.name, fix=RESTORE, parameter="digest")
        return content

    def tried(self, entry: Entry) -> str | None:
        """Give the digest of the bytes that a crash kept from being stored whole, if storing them had begun."""
        found = sorted(self.releases.glob(f"{entry.number:06d}-{entry.hash[:16]}-*.release.new"))
        return found[0].name.removesuffix(".release.new").rpartition("-")[2] if found else None

    def sweep(self, waiting: Sequence[Entry] = ()) -> None:
        """Remove temporary files that a crash left; of a reservation that waits to be drawn again, keep the name."""
        kept = tuple(f"{entry.number:06d}-{entry.hash[:16]}-" for entry in waiting)
        for left in [*self.releases.glob("*.new"), self._room]:
            if left.name.startswith(kept):
                os.truncate(left, 0)
            elif left.exists():
                disk.remove(left)

    @property
    def _room(self) -> Path:
        return self.releases / "room"


@contextmanager
def guarded(files: Files, doing: str) -> Iterator[None]:
    """Turn what a disk can answer into one clear refusal."""
    try:
        yield
    except OSError as error:
        raise LedgerBroken(
            f"the ledger could not be written: {_reason(error)}.",
            found=f"{files.book.name}: {error.strerror or error}",
            expected="a folder on a local disk that this user may write to, with room left",
            fix=f"free the disk or correct its permissions, then ask again; {doing}",
            parameter="disk",
        ) from error


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "the disk is full"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "the disk or folder is read-only"
    return "the disk refused"
