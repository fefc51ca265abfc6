"""Reserve, then draw, then commit: the only road from a draw to bytes that may be sent."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from twofold.errors import BadPrivacyParameter, LedgerBroken, PrivacyError
from twofold.privacy.ledger.files import guarded
from twofold.privacy.ledger.keys import resumes
from twofold.privacy.ledger.record import digest
from twofold.privacy.ledger.request import Request, check
from twofold.privacy.ledger.state import Entry
from twofold.privacy.ledger.writer import Writer
from twofold.storage import files as disk

__all__ = ["Reservation", "reserving", "takes_source"]

SPENT = "the cost is spent, and a draw from the ledger's own noise can be finished; room=BYTES claims space beforehand"
OTHERWISE = "asked for again with other data, events or software"


class Reservation:
    """A cost that is already in the ledger, waiting for the bytes it paid for."""

    def __init__(self, writer: Writer, entry: Entry, *, resumed: bool = False) -> None:
        self._writer = writer
        self.entry = entry
        self.resumed = resumed
        self.committed = False
        # Of the first bytes that were tried, by this process or the one before: no others may follow them.
        self._fingerprint = writer.files.tried(entry)
        self._lock = threading.Lock()

    def drawn(self, draw: Callable[..., bytes]) -> bytes:
        """Draw from the key of this reservation and check what came.

        An error of the draw closes the reservation as lost: the same key would meet it again, or, once somebody has
        mended the program, meet another program. What ends the process instead (an interrupt, too little memory)
        leaves the reservation open, as a kill does, and asking again gives the same bytes.
        """
        source = self._writer.keys.source(self.entry)
        try:
            if source is None:
                raise LedgerBroken("the key of this draw did not reach the disk.", fix="try another disk")
            content = _bytes(draw(source))
            self._claim(digest(content))
        except MemoryError:
            raise
        except Exception:
            self.give_up("the draw failed")
            raise
        finally:
            if source is not None:
                source.close()
        return content

    def commit(self, content: bytes) -> bytes:
        """Store the release and record its digest; only the bytes returned here may be sent.

        After a full disk it takes the same bytes again, and no others: the cost is paid already.
        """
        self._writer.check_holder()  # before the lock below, which a forked child may find taken for ever
        _bytes(content)
        with self._lock:
            self._claim(digest(content))
            disk.step("drawn")
            with guarded(self._writer.files, SPENT):
                fingerprint = self._writer.files.store(self.entry, content)
                self._writer.commit(self.entry, fingerprint, len(content), resumed=self.resumed)
            self.committed = True
            with suppress(OSError):  # what is left of it is swept by the next writer, and by whoever asks again
                self._writer.keys.destroy(self.entry)
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
        """Close the reservation without a release; it stays spent. If the disk refuses, it is as after a kill."""
        with suppress(OSError, LedgerBroken):
            self._writer.settle(reason=reason, given_up=self.entry)

    def leave(self, reason: str) -> None:
        """Give up, unless the draw can be made again from its key or its bytes are stored already."""
        with suppress(OSError, LedgerBroken):
            self._writer.settle(reason=reason)


@contextmanager
def reserving(writer: Writer, request: Request, *, room: int, keyed: bool = False) -> Iterator[Reservation]:
    """Check, claim disk space, write the reservation or find the one to resume, and hand it over for the draw."""
    reservation = _reserved(writer, request, room=room, keyed=keyed)
    disk.step("reserved")
    try:
        yield reservation
    except BaseException:
        if not reservation.committed:
            reservation.leave("the draw failed")
        raise
    if not reservation.committed:
        reservation.give_up("nothing was committed")


def _reserved(writer: Writer, request: Request, *, room: int, keyed: bool) -> Reservation:
    """Find the reservation of this very request, or close what is open under its name and pay for a new one.

    A request that is refused leaves what is open as it is: nothing is drawn for it.
    """
    files, body = writer.files, request.body()
    waiting = [one for one in writer.state.open if one.key == (request.plan, request.version)]
    same = next((one for one in waiting if keyed and resumes(one, body)), None)
    if same is None:
        check(request, writer.state, name=files.book.name)
    with guarded(files, "nothing was drawn"):
        files.claim_room(room)
        for other in waiting:
            if other is not same:
                writer.lose(other, OTHERWISE)
        if same is not None:
            return Reservation(writer, same, resumed=True)
        record = writer.append(body | ({"draw": writer.keys.make(body["nonce"])} if keyed else {}))
    return Reservation(writer, next(one for one in writer.state.open if one.number == record.number))


def takes_source(draw: Callable[..., Any]) -> bool:
    """Whether a draw wants the noise to be handed to it: it does if it cannot be called without an argument.

    Examples
    --------
    >>> takes_source(lambda source: b""), takes_source(lambda: b""), takes_source(lambda rows=1: b"")
    (True, False, False)
    """
    try:
        signature = inspect.signature(draw)
    except ValueError:  # some functions written in C do not say
        return False
    for given in ((), (None,)):
        with suppress(TypeError):
            signature.bind(*given)
            return bool(given)
    raise BadPrivacyParameter(
        "draw takes nothing, or the noise to draw from.", fix="draw=lambda source: ...", parameter="draw"
    )


def _bytes(content: object) -> bytes:
    if not isinstance(content, bytes):
        raise PrivacyError("a release is bytes.", found=type(content).__name__, expected="bytes")
    return content
