"""Read a ledger without a lock; with a lock, repair what a crash left, then append."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from twofold.errors import LedgerBroken
from twofold.privacy.ledger.keys import Keys
from twofold.privacy.ledger.record import (
    RESTORE,
    Chain,
    Files,
    Record,
    Standing,
    digest,
    encode,
    guarded,
    head_of,
    new_nonce,
    read_chain,
    read_head,
    seal,
    standing,
)
from twofold.privacy.ledger.state import Entry, LedgerState, fold
from twofold.storage import files as disk
from twofold.storage.files import Busy, locked

__all__ = ["Reader", "Writer", "now", "writing"]

CRASHED = "the process ended before the release was stored"


def now() -> str:
    """Give the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def writing(reader: Reader, *, wait: float) -> Iterator[Writer]:
    """Lock the ledger and give a writer."""
    files = reader.files
    with guarded(files, "nothing was drawn and nothing was spent"):
        if not files.book.parent.is_dir():
            raise LedgerBroken(
                "the folder of the ledger does not exist.", found=str(files.book.parent), parameter="folder"
            )
    lock = locked(files.lock, wait=wait)
    with guarded(files, "nothing was drawn and nothing was spent"):
        try:
            lock.__enter__()
        except Busy as error:
            raise LedgerBroken(
                "another process is writing to this ledger; nothing was drawn.",
                found=str(error),
                fix="wait for it to finish, or end it; the lock is released when its holder ends",
                parameter="lock",
            ) from None
    writer = Writer(reader)
    try:
        yield writer
    finally:
        writer.close()
        lock.__exit__(None, None, None)


class Writer:
    """Appends records. Made by `writing`, valid while the lock is held."""

    def __init__(self, reader: Reader) -> None:
        self.files = reader.files
        self.keys = Keys(reader.files)
        self._reader = reader
        self._chain: Chain | None = None
        self._holder: int | None = os.getpid()

    def close(self) -> None:
        """End writing; the writer cannot be used any more."""
        self._holder = None

    def check_holder(self) -> None:
        """Refuse a process that does not hold the lock: a forked child shares this memory but not the lock."""
        if self._holder != os.getpid():
            raise LedgerBroken(
                "this reservation belongs to another process, or to a block that has ended; nothing may be sent.",
                expected="a commit inside the block that reserved, by the process that reserved",
                fix="ask the ledger again: ledger.release(...)",
                parameter="reservation",
            )

    @property
    def state(self) -> LedgerState:
        """The account as of the last record."""
        return self._reader.state(self._loaded())

    def append(self, body: Mapping[str, Any]) -> Record:
        """Write one record; it counts once this returns, and only then."""
        chain = self._loaded()
        record = seal(number=len(chain.records), previous=chain.hash, body={"at": now(), **body})
        self._write(chain, record, encode(record))
        return record

    def settle(self, *, reason: str = CRASHED, given_up: Entry | None = None) -> None:
        """Decide every reservation that is still open: left by a dead process, or given up by this one.

        Complete bytes on disk are adopted and committed: that release was drawn and paid for, and is not lost.
        Without them, a reservation with an intact key stays open: its draw can be repeated exactly. Without a key, or
        given up, it is closed as lost. It stays spent, because the result of the draw is unknown.
        """
        for entry in self.state.open:
            found = self.files.find(entry)
            if found is not None:
                disk.sync_folder(self.files.releases)  # its name may have been new when the writer died
                self.commit(entry, digest(found), len(found), recovered=True)
            elif entry == given_up or not self.keys.whole(entry):
                self.lose(entry, reason)
        waiting = self.state.open
        self.files.sweep(waiting)
        self.keys.sweep(waiting)

    def lose(self, entry: Entry, reason: str) -> None:
        """Close a reservation without a release, its key first: from here on nothing can be drawn from it."""
        self.check_holder()  # a forked child must not take the key away from its parent
        self.keys.destroy(entry)
        self.append({"kind": "lost", "reserve": entry.number, "reason": reason})

    def commit(
        self, entry: Entry, fingerprint: str, size: int, *, recovered: bool = False, resumed: bool = False
    ) -> None:
        """Record the digest of the stored bytes; repeating it changes nothing, and other bytes are refused."""
        (known,) = (one for one in self.state.entries if one.number == entry.number)
        if known.status == "open":
            body = {"reserve": entry.number, "digest": fingerprint, "bytes": size, "recovered": recovered}
            self.append({"kind": "commit", **body, **({"resumed": True} if resumed else {})})
        elif known.digest != fingerprint:
            raise LedgerBroken(
                "this reservation was settled with another result; these bytes may not be sent.",
                found=f"record {entry.number}: {known.status}",
                expected="the bytes that the ledger recorded for it",
                parameter="digest",
            )

    def _loaded(self) -> Chain:
        """Give the chain in memory, or read it again if the file does not have the expected length."""
        self.check_holder()
        chain = self._chain
        if chain is None or self.files.book.stat().st_size != chain.size:
            chain = self._mend()
        return chain

    def _mend(self) -> Chain:
        """Read everything and bring file and head back together after an interrupted write."""
        self._chain = None
        chain, how = self._reader.load()
        if how is Standing.UNENDED:
            disk.add_to_end(self.files.book, b"\n")
            chain = read_chain(self.files.book.read_bytes())
        if how in (Standing.AHEAD, Standing.UNENDED):
            # The record is in the file, but perhaps not yet on the disk: the writer may have died before its sync.
            disk.add_to_end(self.files.book, b"")
            disk.replace(self.files.head, head_of(chain).encode())
        elif how is Standing.TORN:
            return self._repair(chain)
        else:
            # Its writer may have died between renaming the head and syncing that name. A power cut after our next
            # record would then bring back a head two records old, which looks like tampering.
            disk.sync_folder(self.files.head.parent)
        self._chain = chain
        return chain

    def _repair(self, chain: Chain) -> Chain:
        """Keep the torn bytes where they are and append a record that names them."""
        torn = chain.tail + b"\n"
        # The piece may hold the digest of the data and have lost the nonce behind it.
        body = {"kind": "repair", "at": now(), "bytes": len(torn), "digest": digest(torn), "nonce": new_nonce()}
        record = seal(number=len(chain.records), previous=chain.hash, body=body)
        return self._write(chain, record, b"\n" + encode(record), skipped=len(chain.tail))

    def _write(self, chain: Chain, record: Record, line: bytes, *, skipped: int = 0) -> Chain:
        self._chain = None  # until the head names the record, memory is not to be believed
        disk.add_to_end(self.files.book, line)
        end = chain.size + skipped + len(line)
        grown = Chain(records=(*chain.records, record), ends=(*chain.ends, end))
        disk.replace(self.files.head, head_of(grown).encode())
        self._chain = grown
        return grown


@dataclass(frozen=True)
class _Checked:
    """Checked bytes, with their content."""

    content: bytes
    chain: Chain
    state: LedgerState | None = None


class Reader:
    """Reads the whole file every time and checks only what it has not seen byte for byte before."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._seen = _Checked(b"", Chain(records=(), ends=()))

    def load(self) -> tuple[Chain, Standing]:
        """Read file and head without a lock, again if a writer moved the head in between."""
        try:
            head = read_head(self.files.head)
            while True:
                chain = self._chain()
                after = read_head(self.files.head)
                if after == head:
                    return chain, standing(chain, head)
                head = after
        except OSError as error:
            found = f"{self.files.book.name}: {error.strerror or error}"
            raise LedgerBroken(
                "the ledger could not be read.", found=found, expected="a readable file", parameter="ledger"
            ) from error

    def state(self, chain: Chain) -> LedgerState:
        """Replay a chain that was just loaded, starting from the last account."""
        seen = self._seen
        try:
            state = fold(chain.records, known=seen.state)
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise LedgerBroken(
                "a record lacks a field that its kind needs.", found=repr(error), fix=RESTORE, parameter="record"
            ) from None
        self._seen = _Checked(seen.content, seen.chain, state)
        return state

    def _chain(self) -> Chain:
        try:
            content = self.files.book.read_bytes()
        except FileNotFoundError:
            raise LedgerBroken(
                "the ledger file is missing.", expected=self.files.book.name, fix=RESTORE, parameter="ledger"
            ) from None
        seen = self._seen
        chain = read_chain(content, known=seen.chain if content.startswith(seen.content) else None)
        self._seen = _Checked(content[: chain.size], Chain(records=chain.records, ends=chain.ends), seen.state)
        return chain
