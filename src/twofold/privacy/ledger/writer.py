"""The ledger while this process holds its lock: mend what a crash left, then append."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from twofold.errors import LedgerBroken
from twofold.privacy.ledger import disk
from twofold.privacy.ledger.chain import Chain, read_chain
from twofold.privacy.ledger.files import Files, guarded
from twofold.privacy.ledger.head import RESTORE, Head, Standing, head_of, read_head, standing
from twofold.privacy.ledger.lock import locked
from twofold.privacy.ledger.record import Record, digest, encode, seal
from twofold.privacy.ledger.state import Entry, LedgerState, fold

__all__ = ["Writer", "load", "now", "writing"]

CRASHED = "the process ended before the release was stored"


def now() -> str:
    """Give the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def writing(files: Files, *, wait: float) -> Iterator[Writer]:
    """Lock the ledger, check it from the first byte, settle what a crash left, and hand over the pen."""
    with guarded(files, "nothing was drawn and nothing was spent"):
        if not files.book.parent.is_dir():
            raise LedgerBroken("the folder of the ledger does not exist.", found=str(files.book.parent))
    lock = locked(files.lock, wait=wait)
    with guarded(files, "nothing was drawn and nothing was spent"):
        lock.__enter__()
    try:
        yield Writer(files)
    finally:
        lock.__exit__(None, None, None)


def load(files: Files) -> tuple[Chain, Head, Standing]:
    """Read file and head without a lock, again if a writer moved the head meanwhile."""
    head = read_head(files.head)
    while True:
        try:
            chain = read_chain(files.book.read_bytes())
        except FileNotFoundError:
            raise LedgerBroken("the ledger file is missing.", expected=files.book.name, fix=RESTORE) from None
        after = read_head(files.head)
        if after == head:
            return chain, head, standing(chain, head)
        head = after


class Writer:
    """Appends records. Made by `writing`, valid while the lock is held."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._chain: Chain | None = None

    @property
    def state(self) -> LedgerState:
        """The account as of the last record."""
        return fold(self._loaded().records)

    def append(self, body: Mapping[str, Any]) -> Record:
        """Write one record; it counts once this returns, and only then."""
        chain = self._loaded()
        record = seal(number=len(chain.records), previous=chain.hash, body={"at": now(), **body})
        self._write(chain, record, encode(record))
        return record

    def settle(self) -> None:
        """Decide every reservation that a dead process left open.

        Whole bytes on disk are adopted and committed: that release was drawn and paid for, and is not lost.
        Without them the reservation is closed as lost. It stays spent, because what the dead process did with its
        draw is not known.
        """
        for entry in self.state.open:
            found = self.files.find(entry)
            if found is None:
                self.append({"kind": "lost", "reserve": entry.number, "reason": CRASHED})
            else:
                self.commit(entry, digest(found), len(found), recovered=True)
        self.files.sweep()

    def commit(self, entry: Entry, fingerprint: str, size: int, *, recovered: bool = False) -> None:
        """Record the digest of what was stored; a second call for the same reservation changes nothing."""
        if any(entry.number == one.number for one in self.state.open):
            body = {"reserve": entry.number, "digest": fingerprint, "bytes": size, "recovered": recovered}
            self.append({"kind": "commit", **body})

    def _loaded(self) -> Chain:
        """Give the chain in memory, or read it again when the file is not as long as it should be."""
        chain = self._chain
        if chain is None or self.files.book.stat().st_size != chain.size:
            chain = self._mend()
        return chain

    def _mend(self) -> Chain:
        """Read everything and bring file and head back together after an interrupted write."""
        self._chain = None
        chain, _, how = load(self.files)
        if how is Standing.UNENDED:
            disk.add_to_end(self.files.book, b"\n")
            chain = read_chain(self.files.book.read_bytes())
        if how in (Standing.AHEAD, Standing.UNENDED):
            # The record is in the file, but perhaps not yet on the disk: the writer may have died before its sync.
            disk.add_to_end(self.files.book, b"")
            disk.replace(self.files.head, head_of(chain).encode())
        elif how is Standing.TORN:
            return self._repair(chain)
        self._chain = chain
        return chain

    def _repair(self, chain: Chain) -> Chain:
        """Keep the torn bytes where they are and append a record that names them."""
        torn = chain.tail + b"\n"
        body = {"kind": "repair", "at": now(), "bytes": len(torn), "digest": digest(torn)}
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
