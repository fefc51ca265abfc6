"""Read a ledger without a lock; with a lock, repair what a crash left, then append."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from twofold.errors import BadPrivacyParameter, LedgerBroken
from twofold.privacy.ledger.files import Files, guarded, read_book, refuse_unknown_releases
from twofold.privacy.ledger.head import (
    Head,
    Standing,
    check_signature,
    head_of,
    raise_statement,
    read_head,
    signed,
    signer_of,
    standing,
)
from twofold.privacy.ledger.keys import Keys
from twofold.privacy.ledger.record import (
    LARGEST,
    LONGEST,
    RESTORE,
    Chain,
    Record,
    decode,
    digest,
    encode,
    new_nonce,
    read_chain,
    seal,
)
from twofold.privacy.ledger.state import Entry, LedgerState, fold
from twofold.storage import files as disk
from twofold.storage.files import Busy, locked

if TYPE_CHECKING:
    from twofold.storage.signing import SigningKey

__all__ = ["Reader", "Writer", "now", "writing"]

CRASHED = "the process ended before the release was stored"
#: Room in the file that only ends of reservations may use, so that what was reserved can always be settled.
_RESERVE = 1 << 20


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
        line = encode(record)
        _check_room(chain, record, line)
        self._write(chain, record, line)
        return record

    def sign(self, *, signer: SigningKey, reason: str) -> None:
        """Name the key that signs every head from here on, and sign with it."""
        self._loaded()
        self._reader.signer = signer
        self.append({"kind": "signer", "public": signer.public.hex(), "reason": reason})

    def hand_over(self, signer: SigningKey, *, old: SigningKey | None, reason: str) -> None:
        """Name another key, also without the old one; what a crash left behind the head only the old key can settle."""
        self._chain, how = self._reader.load()
        if how is Standing.CLEAN:
            disk.sync_folder(self.files.head.parent)  # as in `_mend`
        else:
            self._reader.signer = old
            self._mend()
        self.sign(signer=signer, reason=reason)

    def raise_to(self, allowed: Mapping[str, str], reason: str) -> None:
        """Record a higher ceiling, signed if the ledger is."""
        chain, signer = self._loaded(), self._reader.signer
        body: dict[str, Any] = {**allowed, "reason": reason}
        if self.state.signer and signer is not None:
            from twofold.storage.signing import Purpose

            said = raise_statement(self.state.dataset, chain.hash, body)
            body["signature"] = signer.sign(Purpose.LEDGER, said).hex()
        self.append({"kind": "raise", **body})

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
                self.commit(entry, *found, recovered=True)
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
            chain = read_chain(read_book(self.files.book) + b"\n")
        self._reader.check_writer(chain, left=how in (Standing.AHEAD, Standing.UNENDED))
        if how is Standing.UNENDED:
            disk.add_to_end(self.files.book, b"\n")
        if how in (Standing.AHEAD, Standing.UNENDED):
            # The record is in the file, but perhaps not yet on the disk: the writer may have died before its sync.
            disk.add_to_end(self.files.book, b"")
            disk.replace(self.files.head, self._head(chain).encode())
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
        disk.replace(self.files.head, self._head(grown).encode())
        self._chain = grown
        return grown

    def _head(self, chain: Chain) -> Head:
        head, signer = head_of(chain), self._reader.signer
        if signer is None or not signer_of(chain.records):
            return head
        return signed(head, chain.records[0].body["dataset"], signer)


def _check_room(chain: Chain, record: Record, line: bytes) -> None:
    """Refuse a record that no reader would accept, before it is written."""
    if len(line) > LONGEST:
        raise BadPrivacyParameter(
            "a record of the ledger is too long.",
            found=f"{len(line):,} bytes",
            expected=f"at most {LONGEST:,}",
            fix="say less in about, or compose fewer events",
            parameter="about",
        )
    try:
        decode(line.rstrip(b"\n"))
    except ValueError:
        raise BadPrivacyParameter(
            "a record of the ledger could not be read again.",
            expected="text of whole characters, and lists and dicts that are not deeply nested",
            parameter="about",
        ) from None
    kept = _RESERVE if record.kind in ("reserve", "raise", "signer") else 0
    if chain.size + len(line) > LARGEST - kept:
        raise LedgerBroken(
            "the ledger is full; nothing was drawn.",
            found=f"{chain.size:,} bytes",
            expected=f"at most {LARGEST - kept:,}",
            fix="nothing more can be released about these people; a second ledger would spend their budget twice",
            parameter="ledger",
        )


@dataclass(frozen=True)
class _Checked:
    """Checked bytes, with their content."""

    content: bytes
    chain: Chain
    state: LedgerState | None = None


class Reader:
    """Reads the whole file every time and checks only what it has not seen byte for byte before.

    Parameters
    ----------
    files : Files
        Where.
    signer : SigningKey, optional
        Signs the heads that are written; a ledger that another key signs is refused.
    key : str, optional
        The public key, in hexadecimal, that must have signed the head.
    """

    def __init__(self, files: Files, *, signer: SigningKey | None = None, key: str | None = None) -> None:
        self.files = files
        self.signer = signer
        self.key = key
        #: The head that was read last.
        self.head = Head(length=0, size=0, hash="")
        self._seen = _Checked(b"", Chain(records=(), ends=()))

    def load(self) -> tuple[Chain, Standing]:
        """Read file and head without a lock, again if a writer moved the head in between."""
        try:
            names = self.files.listed()  # before the ledger is read, which by then knows them all
            head = read_head(self.files.head)
            while True:
                chain = self._chain()
                after = read_head(self.files.head)
                if after == head:
                    break
                head = after
        except OSError as error:
            found = f"{self.files.book.name}: {error.strerror or error}"
            raise LedgerBroken(
                "the ledger could not be read.", found=found, expected="a plain, readable file", parameter="ledger"
            ) from error
        how = standing(chain, head)
        self.head = head
        state = self.state(chain)
        self._check_signature(chain, head, state, _last_signer(chain, how))
        refuse_unknown_releases(names, state.entries, book=self.files.book.name)
        return chain, how

    def _check_signature(self, chain: Chain, head: Head, state: LedgerState, last: str) -> None:
        due = signer_of(chain.records[: head.length]) if state.signer else ""
        own = self.signer.public.hex() if self.signer is not None and due else ""
        if own == last:  # also if the record that names it stands behind a head of the signer before, after a crash
            own = ""
        expected = self.key or own or due or head.signer
        if expected:
            check_signature(head, state.dataset, expected)
        if expected != due:  # the right signature, and no record that asks for it: not the chain it was made for
            raise LedgerBroken(
                "the head of this ledger is signed by a key that its records do not name.",
                found=f"key {expected[:16]}...",
                expected=f"key {due[:16]}..." if due else "a record that names the signer",
                fix=RESTORE,
                parameter="signature",
            )

    def check_writer(self, chain: Chain, *, left: bool) -> None:
        """Refuse to write without the key that signs this ledger, or behind a raise that the key did not sign."""
        due = signer_of(chain.records)
        if not due:
            return
        if self.signer is None or self.signer.public.hex() != due:
            raise LedgerBroken(
                "the head of this ledger is signed, and only its signer may write to it; nothing was drawn.",
                found="no signing key" if self.signer is None else "another signing key",
                expected=f"the key {due[:16]}...",
                fix="give the keys of this entity; a key that was lost is replaced with Ledger.change_signer",
                parameter="signer",
            )
        last = chain.records[-1]
        if left and last.kind == "raise":
            from twofold.storage.signing import Purpose, verify

            said = raise_statement(chain.records[0].body["dataset"], last.previous, last.body)
            if not verify(self.signer.public, Purpose.LEDGER, said, _bytes(last.body.get("signature"))):
                raise LedgerBroken(
                    "a raise of the ceiling stands behind the head without the signature of this ledger.",
                    found=f"record {last.number}",
                    fix=RESTORE,
                    parameter="signature",
                )

    def state(self, chain: Chain) -> LedgerState:
        """Replay a chain that was just loaded, starting from the last account."""
        seen = self._seen
        state = fold(chain.records, known=seen.state)
        self._seen = _Checked(seen.content, seen.chain, state)
        return state

    def _chain(self) -> Chain:
        try:
            content = read_book(self.files.book)
        except FileNotFoundError:
            raise LedgerBroken(
                "the ledger file is missing.", expected=self.files.book.name, fix=RESTORE, parameter="ledger"
            ) from None
        seen = self._seen
        chain = read_chain(content, known=seen.chain if content.startswith(seen.content) else None)
        self._seen = _Checked(content[: chain.size], Chain(records=chain.records, ends=chain.ends), seen.state)
        return chain


def _bytes(value: object) -> bytes:
    try:
        return bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        return b""


def _last_signer(chain: Chain, how: Standing) -> str:
    """Give the key that the last record leaves in charge, also if that record lacks its line end."""
    if how is not Standing.UNENDED:
        return signer_of(chain.records)
    return signer_of((*chain.records, decode(chain.tail.rpartition(b"\n")[2])))  # a torn piece may stand before it
