"""Reserve, then draw, then commit: the only road from a draw to bytes that may be sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from twofold.errors import LedgerBroken, PrivacyError
from twofold.privacy.ledger import disk
from twofold.privacy.ledger.files import guarded
from twofold.privacy.ledger.record import digest
from twofold.privacy.ledger.request import Request, check
from twofold.privacy.ledger.state import Entry
from twofold.privacy.ledger.writer import Writer

SPENT = "the cost is spent: commit the same bytes again if they are still at hand; room=BYTES claims space beforehand"

__all__ = ["Reservation", "reserving"]


class Reservation:
    """A cost that is already in the ledger, waiting for the bytes it paid for."""

    def __init__(self, writer: Writer, entry: Entry) -> None:
        self._writer = writer
        self.entry = entry
        self.committed = False
        self._fingerprint: str | None = None  # of the first bytes that were tried: no others may follow them
        self._lock = threading.Lock()

    def commit(self, content: bytes) -> bytes:
        """Store the release and record its digest; only the bytes returned here may be sent.

        After a full disk, free some room and call it again with the same bytes: the cost is paid already.
        """
        self._writer.check_holder()  # before the lock below, which a forked child may find taken for ever
        if not isinstance(content, bytes):
            raise PrivacyError("a release is bytes.", found=type(content).__name__, expected="bytes")
        with self._lock:
            self._claim(digest(content))
            disk.step("drawn")
            with guarded(self._writer.files, SPENT):
                fingerprint = self._writer.files.store(self.entry, content)
                self._writer.commit(self.entry, fingerprint, len(content))
            self.committed = True
        return content

    def _claim(self, fingerprint: str) -> None:
        """Bind the reservation to the first bytes that were tried, whether or not the disk took them."""
        if self.committed:
            raise PrivacyError("a reservation pays for one release.", fix="reserve again for another one")
        if self._fingerprint not in (None, fingerprint):
            raise LedgerBroken(
                "a reservation pays for one release, and other bytes were tried before; these may not be sent.",
                expected="the same bytes as at the first commit",
                fix="commit those again, or reserve again for another release",
            )
        self._fingerprint = fingerprint

    def give_up(self, reason: str) -> None:
        """Close the reservation without a release; it stays spent. If the disk refuses, the next opening does it."""
        with suppress(OSError, LedgerBroken):
            self._writer.settle(reason=reason)


@contextmanager
def reserving(writer: Writer, request: Request, *, room: int) -> Iterator[Reservation]:
    """Check, claim disk space, write the reservation, and hand it over for the draw."""
    files = writer.files
    check(request, writer.state, name=files.book.name)
    with guarded(files, "nothing was drawn"):
        files.claim_room(room)
        record = writer.append(request.body())
    reservation = Reservation(writer, next(one for one in writer.state.open if one.number == record.number))
    disk.step("reserved")
    try:
        yield reservation
    except BaseException:
        if not reservation.committed:
            reservation.give_up("the draw failed")
        raise
    if not reservation.committed:
        reservation.give_up("nothing was committed")
