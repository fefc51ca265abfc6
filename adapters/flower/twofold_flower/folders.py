"""The two folders of each end: which files may leave, and how those that arrive are stored.

Only plain files with the suffix of a message leave, so a table that somebody put into the outbox by mistake stays
where it is; links are not followed. A file that arrives gets a name made of its own hash: what the other end calls it
is never part of a path. The same file may arrive any number of times.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["DOWN", "LAST", "UP", "Limits", "Parcel", "digests", "outgoing", "store"]

#: Suffixes of what an entity sends and of what the coordinator publishes (docs/reference/messages.md).
UP: Final = frozenset({"agreement", "round1", "shares", "answer", "report"})
DOWN: Final = frozenset({"agreed", "roll", "survivors", "round2"})
#: The suffix of the last message of a federation.
LAST: Final = "round2"
_NAME: Final = re.compile(r"(?P<digest>[0-9a-f]{64})\.(?P<kind>[a-z0-9]{1,12})")
_PLAIN: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one end takes from the other.

    Parameters
    ----------
    size : int
        Most bytes of one file.
    batch : int
        Most bytes of one exchange; the rest follows in the next one.
    files : int
        Most files that one sender may store.
    total : int
        Most bytes of all messages in the folder in which they arrive.
    """

    size: int = 256 << 20
    batch: int = 512 << 20
    files: int = 32
    total: int = 64 << 30


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """One file on its way: its kind (the suffix), its bytes and their SHA-256.

    Examples
    --------
    >>> one = Parcel.of("round1", b"abc")
    >>> one.label
    'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.round1'
    >>> Parcel.read(one.label, b"abc") == one, Parcel.read(one.label, b"abd"), Parcel.read("../../x.round1", b"abc")
    (True, None, None)
    """

    kind: str
    data: bytes
    digest: str

    @classmethod
    def of(cls, kind: str, data: bytes) -> Parcel:
        """Make a parcel of bytes."""
        return cls(kind=kind, data=data, digest=hashlib.sha256(data).hexdigest())

    @classmethod
    def read(cls, label: str, data: bytes) -> Parcel | None:
        """Give what arrived under a label, or None if the label is not that of these bytes."""
        found = _NAME.fullmatch(label)
        if found is None:
            return None
        made = cls.of(found["kind"], data)
        return made if made.digest == found["digest"] else None

    @property
    def label(self) -> str:
        """Its name on the way."""
        return f"{self.digest}.{self.kind}"

    @property
    def file(self) -> str:
        """Its name in a folder; the scanner of twofold compares the sixteen digits with the content."""
        return f"flower-{self.digest[16:32]}.{self.digest[:16]}.{self.kind}"


def outgoing(folder: Path, kinds: frozenset[str], known: Iterable[str], limits: Limits) -> list[Parcel]:
    """Give the messages of these kinds that the other end does not have yet, up to the limits.

    Parameters
    ----------
    folder : Path
        The outbox; one that does not exist is empty.
    kinds : frozenset of str
        Suffixes that may leave.
    known : iterable of str
        Digests that the other end has.
    limits : Limits
        Bounds of this exchange.
    """
    there, room = set(known), limits.batch
    taken: list[Parcel] = []
    for kind, data in _messages(folder, kinds, limits.size):
        one = Parcel.of(kind, data)
        if one.digest in there or len(taken) >= limits.files:
            continue
        if len(data) > room:  # the next exchange takes it
            continue
        there.add(one.digest)
        taken.append(one)
        room -= len(data)
    return taken


def digests(folder: Path, kinds: frozenset[str], limits: Limits) -> list[str]:
    """Give the SHA-256 of every message of these kinds in a folder, in order."""
    return sorted({hashlib.sha256(data).hexdigest() for _, data in _messages(folder, kinds, limits.size)})


def store(folder: Path, parcels: Iterable[Parcel], kinds: frozenset[str], limits: Limits) -> list[str]:
    """Write what arrived, each file once and whole; give the digests of those that are now there.

    What is of another kind, too large or too much is left out; nothing that is there is ever changed.
    """
    folder.mkdir(exist_ok=True)
    used = sum(path.lstat().st_size for path in _named(folder, kinds))
    kept: list[str] = []
    for one in parcels:
        if one.kind not in kinds or len(one.data) > limits.size or len(kept) >= limits.files:
            continue
        target = folder / one.file
        if not os.path.lexists(target):
            if used + len(one.data) > limits.total:
                continue
            _place(target, one.data)
            used += len(one.data)
        if _read(target, limits.size) == one.data:  # else a stranger has the name
            kept.append(one.digest)
    return kept


def _named(folder: Path, kinds: frozenset[str]) -> list[Path]:
    """Give the plain files of these kinds, by name; names with a dot in front are unfinished."""
    try:
        every = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    fit = (path for path in every if path.suffix[1:] in kinds and not path.name.startswith("."))
    return [path for path in fit if stat.S_ISREG(path.lstat().st_mode)]


def _messages(folder: Path, kinds: frozenset[str], size: int) -> Iterator[tuple[str, bytes]]:
    for path in _named(folder, kinds):
        data = _read(path, size)
        if data:
            yield path.suffix[1:], data


def _read(path: Path, size: int) -> bytes | None:
    """Give the bytes of a plain file of at most `size` bytes, or None."""
    try:
        descriptor = os.open(path, _PLAIN)
    except OSError:  # gone, or a link in its place by now
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = file.read(size + 1)
    return data if len(data) <= size else None


def _place(target: Path, data: bytes) -> None:
    """Write a file that does not exist yet: whole and durable before it has its name."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another run was faster
            os.link(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
