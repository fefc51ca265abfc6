"""The security log of an entity: one line of JSON per event, each with the hash of the line before it.

Lines are only ever added. Each is on the disk before `SecurityLog.add` returns, and signed if the log has a key. A
process that dies while it writes leaves at most one torn line. Its bytes stay where they are, and the next line written
is a "repaired" event that names their length and hash.

What readers can rely on. The chain shows every edit, unless all later lines were written anew; signatures show that,
too. Lines removed from the end show only against a head noted elsewhere (`verify(head=)`), or a copy.
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Final

from twofold.errors import LogBroken, TransportError
from twofold.identity.log_entry import LONGEST, SCHEMA, START, TIME, Entry, Event, check_fields
from twofold.storage import files as disk
from twofold.storage.container import printable
from twofold.storage.files import Busy, locked, open_plain
from twofold.storage.signing import SigningKey

__all__ = ["Entry", "Event", "LogIncomplete", "SecurityLog", "Verdict", "read_log", "verify_log"]

#: Bytes at the end of the file that a writer looks at.
_TAIL: Final = 64 * 1024
#: Seconds to wait for another writer, which holds the lock for one line.
_PATIENCE: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What `verify_log` found in a sound log.

    Parameters
    ----------
    entries : int
        Number of lines.
    head : str
        Hash of the last one: note it elsewhere, and `head=` proves later that nothing was removed.
    entity, opened, last : str
        Whose log it is, and the times of the first and the last line.
    signed : bool
        Whether keys were given and every line is signed by one of them.
    repairs : int
        Torn lines that were repaired.
    clock_back : int
        How often the clock was set back.
    torn : bool
        Whether the file ends in a torn line that is not yet repaired.
    """

    entries: int
    head: str
    entity: str
    opened: str
    last: str
    signed: bool
    repairs: int
    clock_back: int
    torn: bool


class LogIncomplete(UserWarning):
    """Something happened that could not be logged any more before it happened."""


class SecurityLog:
    """The log of an entity, for writing.

    Parameters
    ----------
    path : path
        The file; made with the first event, mode 0640. Links are not followed.
    signer : SigningKey, optional
        The entity's key; every line is signed with it. A log has signatures from its first line or none at all.
    entity : str
        The entity's public name, for the first line.
    earlier : sequence of bytes
        Public keys that this entity used before: they may have signed the last line.

    Notes
    -----
    `add` raises `LogBroken` if the line is not safely on disk: call it before what it reports, and nothing happens
    that is not logged. `add_after` is for what has happened already, such as a message sent: it warns instead.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = SecurityLog(f"{folder}/st-anna.log", entity="st-anna")
    ...     made = log.add(Event.RELEASED, plan="ab" * 32, digest="cd" * 32)
    ...     [one.event.value for one in read_log(log.path)], verify_log(log.path, head=made.hash).entries
    (['log opened', 'released'], 2)
    """

    def __init__(
        self,
        path: str | PathLike[str],
        signer: SigningKey | None = None,
        *,
        entity: str = "entity",
        earlier: Sequence[bytes] = (),
    ) -> None:
        self.path = Path(path)
        self._signer = signer
        self._entity = entity
        self._keys = () if signer is None else (signer.public, *earlier)

    @property
    def key(self) -> bytes | None:
        """Public key that signs new lines."""
        return None if self._signer is None else self._signer.public

    def add(self, event: Event, **fields: Any) -> Entry:
        """Write one line and wait for the disk; raise `LogBroken` if that fails."""
        _check_own(event, fields)
        with self._writing():
            return self._append(event, fields)

    def add_once(self, event: Event, **fields: Any) -> Entry:
        """Do as `add`, unless the same line is among the last 64 kB: a step that is tried again is logged once."""
        _check_own(event, fields)
        with self._writing():
            same = [one for one in self._end().entries if (one.event, one.fields) == (event, fields)]
            return same[-1] if same else self._append(event, fields)

    def add_after(self, event: Event, *, once: bool = False, **fields: Any) -> Entry | None:
        """Write one line about something that has happened; warn if that fails."""
        try:
            return self.add_once(event, **fields) if once else self.add(event, **fields)
        except LogBroken as error:
            warnings.warn(LogIncomplete(f"{event.value}, but not in the log: {error.summary}"), stacklevel=2)
            return None

    def _append(self, event: Event, fields: Mapping[str, Any]) -> Entry:
        end = self._end()
        made: list[Entry] = []
        last = end.entries[-1] if end.entries else None
        if last is None:
            opened = {"entity": self._entity, "schema": SCHEMA}
            check_fields(Event.LOG_OPENED, opened)
            made.append(self._after(None, Event.LOG_OPENED, opened))
        elif end.junk:
            torn = {"bytes": len(end.junk), "digest": hashlib.sha256(end.junk).hexdigest()}
            made.append(self._after(last, Event.REPAIRED, torn))
        made.append(self._after(made[-1] if made else last, event, fields))
        self._write(end.lead + b"".join(one.line for one in made))
        return made[-1]

    def _after(self, last: Entry | None, event: Event, fields: Mapping[str, Any]) -> Entry:
        return Entry.after(last, event, fields, at=_now(), signer=self._signer)

    def _write(self, content: bytes) -> None:
        if not os.path.lexists(self.path):  # a first line is never torn
            if not disk.put_once(self.path, content, mode=0o640):
                raise OSError("another file took its name")
            return
        disk.step("log: open")
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self.path, flags | getattr(os, "O_NONBLOCK", 0))
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("not a plain file")
            disk.step("log: write")
            disk.write_all(descriptor, content)
            disk.step("log: sync")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _end(self) -> _End:
        """Read the last lines; refuse to write behind a line that this log's key did not sign."""
        if not os.path.lexists(self.path):
            return _End()
        with os.fdopen(open_plain(self.path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = file.seek(max(0, size - _TAIL))
            found = _last_lines(file.read(_TAIL), whole=start == 0)
        if found.entries and bool(self._keys) != bool(found.entries[-1].signature):
            raise LogBroken(
                "a log is signed from its first line to its last, or not at all.",
                found="a signed log and no key" if not self._keys else "a log without signatures, and a key",
                fix="use the same key as before; for another start, name another file",
                parameter="key",
            )
        if found.entries and self._keys and not found.entries[-1].signed_by(self._keys):
            raise LogBroken(
                "the log was not written with these keys, or it was changed; nothing was added.",
                found=f"{self.path.name}: its last line is not signed with the key of {self._entity}",
                expected="the log of these keys",
                fix="after a lost key, keep this log under another name; otherwise name the log of these keys in the "
                'policy, as log = "{entity}.log"',
                parameter="log",
            )
        return found

    @contextmanager
    def _writing(self) -> Iterator[None]:
        lock = self.path.with_name(self.path.name + ".lock")
        try:
            if lock.is_symlink():
                raise OSError("its lock is a link")
            with locked(lock, wait=_PATIENCE):
                yield
        except TransportError as error:
            raise error.as_(LogBroken, parameter="log") from None
        except Busy as error:
            raise LogBroken("another process is writing to the log.", found=str(error), parameter="log") from None
        except OSError as error:
            raise LogBroken(
                "the security log cannot be written.",
                found=f"{self.path.name}: {error.strerror or error}",
                expected="a regular file in a folder this user can write to",
                fix="check the folder, its permissions and its free space, then run the same command again",
                parameter="log",
            ) from None


def read_log(path: str | PathLike[str]) -> Iterator[Entry]:
    """Give the entries of a log one by one, checked; needs no right but to read the file.

    Raises
    ------
    LogBroken
        At the first line that does not follow from the one before it. A torn last line is not an error.
    """
    with _opened(path) as file:
        yield from _Reading(file)


def verify_log(path: str | PathLike[str], *, keys: Sequence[bytes] = (), head: str | None = None) -> Verdict:
    """Check every line of a log; with keys also its signature.

    Parameters
    ----------
    path : path
        The log.
    keys : sequence of bytes
        Public signing keys of the entity: one of them must have signed each line.
    head : str, optional
        A hash noted earlier; its line must still be there.

    Examples
    --------
    >>> verify_log("no-such-log")
    Traceback (most recent call last):
    twofold.errors.LogBroken: the security log could not be read...
    """
    with _opened(path) as file:
        reading = _Reading(file)
        first = last = next(iter(reading), None)
        entries, repairs, back, known = 0, 0, 0, head is None
        while last is not None:
            entries, repairs, back = entries + 1, repairs + (last.event is Event.REPAIRED), back + last.clock_back
            known = known or last.hash == head
            if keys and not last.signed_by(keys):
                raise _broken(f"entry {last.number}", "it is not signed by the given key")
            following = next(reading, None)
            if following is None:
                break
            last = following
    if first is None or last is None:
        raise _broken("the file", "it has no lines")
    if not known:
        raise _broken("the file", "the line with the given head is not there: lines were removed or written anew")
    return Verdict(
        entries=entries,
        head=last.hash,
        entity=str(first.fields["entity"]),
        opened=first.at,
        last=last.at,
        signed=bool(keys),
        repairs=repairs,
        clock_back=back,
        torn=reading.torn,
    )


@contextmanager
def _opened(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    try:
        with os.fdopen(open_plain(Path(path)), "rb") as file:
            yield file
    except OSError as error:
        raise LogBroken(
            "the security log could not be read.",
            found=f"{printable(Path(path).name)}: {error.strerror or type(error).__name__}",
            expected="a regular file that this user can read",
            parameter="log",
        ) from None


class _Reading(Iterator[Entry]):
    """Reads line by line with little memory, and checks that each follows from the one before."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._last: Entry | None = None
        self._place = 0
        self.torn = False

    def __next__(self) -> Entry:
        junk, start = b"", self._place + 1
        while line := self._file.readline(LONGEST + 1):
            self._place += 1
            entry = Entry.from_line(line)
            if entry is None:  # torn; a repair behind it must say so
                junk += line
                if len(junk) > _TAIL:
                    raise _broken(f"line {start}", "it is not a line of a log")
                continue
            _check_follows(entry, self._last, junk, f"line {self._place}")
            self._last = entry
            return entry
        if junk.endswith(b"\n"):  # a whole line: it was damaged, not torn
            raise _broken(f"line {start}", "it is not a line of a log")
        self.torn = bool(junk)
        raise StopIteration


@dataclass(frozen=True, kw_only=True)
class _End:
    """Last whole lines of a file, what a killed writer left behind them, and what must be written first."""

    entries: tuple[Entry, ...] = ()
    junk: bytes = b""
    lead: bytes = b""


def _last_lines(tail: bytes, *, whole: bool) -> _End:
    *lines, rest = tail.split(b"\n")
    ended = [line + b"\n" for line in lines][0 if whole else 1 :]  # the first may begin in the middle of a line
    entries = [Entry.from_line(line) for line in ended]
    unended = Entry.from_line(rest + b"\n")  # complete but for its end
    while entries and entries[-1] is None:
        entries.pop()
    junk = b"".join(ended[len(entries) :]) + (rest + b"\n" if rest else b"")
    found = tuple(one for one in (*entries, unended) if one is not None)
    if tail and not found:
        raise _broken("the end of the file", "no line of a log is there")
    return _End(entries=found, junk=b"" if unended else junk, lead=b"\n" if rest else b"")


def _check_follows(entry: Entry, last: Entry | None, junk: bytes, place: str) -> None:
    number, previous = (0, START) if last is None else (last.number + 1, last.hash)
    if (entry.number, entry.previous) != (number, previous):
        raise _broken(place, "it does not follow from the line before it")
    if (entry.event is Event.LOG_OPENED) != (last is None):
        raise _broken(place, "a log is opened once, in its first line")
    if entry.clock_back != (last is not None and entry.at < last.at):
        raise _broken(place, "its time does not fit the line before it")
    if (entry.event is Event.REPAIRED) != bool(junk):
        raise _broken(place, "bytes before it that no repair names" if junk else "a repair of nothing")
    if junk and dict(entry.fields) != {"bytes": len(junk), "digest": hashlib.sha256(junk).hexdigest()}:
        raise _broken(place, "a repair that names other bytes")


def _check_own(event: Event, fields: Mapping[str, Any]) -> None:
    check_fields(event, fields)
    if event in (Event.LOG_OPENED, Event.REPAIRED):
        raise LogBroken("the log writes this event by itself.", found=event.value, parameter="event")


def _now() -> str:
    return datetime.now(UTC).strftime(TIME)


def _broken(place: str, found: str) -> LogBroken:
    return LogBroken(
        "the security log is not sound.",
        found=f"{place}: {found}",
        expected="lines as they were written, each with the hash of the one before",
        fix="keep the file and compare it with a copy; a new log needs another name",
        parameter="log",
    )
