"""The ledger of one data set: what was released, what may still be released, and whether the file is intact."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twofold import __version__
from twofold.errors import BadPrivacyParameter, LedgerBroken, Set
from twofold.privacy.budget import NotPrivate
from twofold.privacy.events import Event
from twofold.privacy.ledger.audit import Verdict, verify
from twofold.privacy.ledger.files import Files, guarded
from twofold.privacy.ledger.head import head_of, read_head, signed
from twofold.privacy.ledger.keys import Keys
from twofold.privacy.ledger.record import FORMAT, RESTORE, START, Chain, encode, seal
from twofold.privacy.ledger.reservation import FIRST, Request, check_names, reserving, takes_source
from twofold.privacy.ledger.state import (
    LONGEST_NAME,
    Entry,
    Guarantee,
    LedgerState,
    cost_of,
    cost_text,
    warn_if_stale,
)
from twofold.privacy.ledger.statement import refuse_statement, write_statement
from twofold.privacy.ledger.writer import Reader, Writer, now, writing
from twofold.privacy.unit import Unit
from twofold.storage import files as disk

if TYPE_CHECKING:
    from twofold.privacy.rng import Source
    from twofold.storage.signing import SigningKey

__all__ = ["Ledger"]

#: Seconds to wait for another process before giving up.
WAIT = 30.0
#: Useful ceilings in ε: below, nothing could be released; above, nothing would be hidden.
LEAST, MOST = 1e-9, 1e9


class Ledger:
    """An append-only, hash-chained account of one data set, on disk at the entity.

    Parameters
    ----------
    path : path-like
        The ledger file; ``.head``, ``.lock`` and ``.releases`` are kept beside it.
    signer : SigningKey, optional
        Signs the head after every record. A ledger without a signer has one from the next record on; a ledger that has
        one is written to with that key only.
    key : bytes, optional
        The public key that must have signed the head, for those who know it from elsewhere: a ledger that was hashed
        again, or replaced by one without a signature, is then refused.
    wait : float
        Seconds to wait for another process that is writing.

    Privacy
    -------
    A release is written in this order, each step durable before the next: the reservation, the draw, the bytes,
    their digest. Bytes are handed out only after the last step. A crash anywhere counts as spent, and a draw with
    noise from the ledger is repeated from the same key, byte for byte, if the request did not change
    (`twofold.privacy.ledger.keys` says why that is sound); then the key is destroyed. For the same plan and version of
    the data, the ledger returns the stored bytes and spends nothing, even if the data have changed since: different
    bytes, or a cost, would reveal the change (docs/decisions/0007).

    Examples
    --------
    >>> import tempfile
    >>> from twofold.privacy.budget import PureDP
    >>> from twofold.privacy.events import DiscreteLaplaceEvent
    >>> from twofold.privacy.ledger import digest
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.create(
    ...     Path(folder.name, "st-anna.ledger"), dataset="visits", ceiling=PureDP(epsilon=1), unit=Unit.person()
    ... )
    >>> event = DiscreteLaplaceEvent(unit=Unit.person(), sensitivity=60, scale=120, coordinates=457)
    >>> asked = dict(plan=digest(b"plan"), data=digest(b"data"), events=[event], unit=Unit.person())
    >>> ledger.release(**asked, draw=lambda: b"noisy sums")
    b'noisy sums'
    >>> ledger.release(**asked, draw=lambda: b"never called")
    b'noisy sums'
    >>> ledger.state().remaining.epsilon
    Fraction(1, 2)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        signer: SigningKey | None = None,
        key: bytes | None = None,
        wait: float = WAIT,
    ) -> None:
        self._files = Files(book=Path(path))
        self._reader = Reader(self._files, signer=signer, key=None if key is None else key.hex())
        self._wait = wait
        if not os.path.lexists(self._files.book):
            raise _missing(self._files)
        refuse_statement(self._files.book)

    @property
    def path(self) -> Path:
        """The ledger file."""
        return self._files.book

    def owns(self, path: Path) -> bool:
        """Whether a path is one of the ledger's own files."""
        return self._files.owns(path)

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        *,
        dataset: str,
        ceiling: Guarantee,
        unit: Unit,
        signer: SigningKey | None = None,
        wait: float = WAIT,
    ) -> Ledger:
        """Create the ledger of a data set; an existing one is never changed.

        Parameters
        ----------
        path : path-like
            Where; the folder must exist and should be on a local disk that is backed up.
        dataset : str
            A public name, printed on the card.
        ceiling : PureDP, ApproxDP or NotPrivate
            What all releases together may cost. `NotPrivate` means no ceiling, for simulations.
        unit : Unit
            Whose presence is hidden.
        signer : SigningKey, optional
            Signs the head from the first record on.
        """
        files = Files(book=Path(path))
        _check_ceiling(ceiling)
        if not isinstance(dataset, str) or len(dataset) > LONGEST_NAME or not _is_whole(dataset):
            raise BadPrivacyParameter(
                "the name of a data set must be a short text.",
                expected=f"at most {LONGEST_NAME} characters",
                parameter="dataset",
            )
        body = {
            "kind": "open",
            "format": FORMAT,
            "at": now(),
            "dataset": dataset,
            "unit": unit.as_dict(),
            **cost_of(ceiling).as_dict(),
            "software": f"twofold {__version__}",
            **({"signer": signer.public.hex()} if signer is not None else {}),
        }
        with writing(Reader(files), wait=wait), guarded(files, "no ledger was created"):
            _start(files, body, signer)
        return cls(path, signer=signer, wait=wait)

    @classmethod
    def open_or_create(
        cls,
        path: str | PathLike[str],
        *,
        dataset: str,
        ceiling: Guarantee | None,
        unit: Unit,
        signer: SigningKey | None = None,
    ) -> tuple[Ledger, bool]:
        """Open a ledger, or create it if missing; also return whether this call created it.

        For callers who were told that these people may have no ledger yet: a second one would double their budget.

        Parameters
        ----------
        path, dataset, unit, signer
            As for `create`.
        ceiling : PureDP, ApproxDP or NotPrivate, optional
            As for `create`; without one there is no limit, for simulations.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asked = dict(dataset="visits", ceiling=None, unit=Unit.person())
        ...     [Ledger.open_or_create(Path(folder, "x.ledger"), **asked)[1] for _ in range(2)]
        [True, False]
        """
        if os.path.lexists(path):
            return cls(path, signer=signer), False
        limit = ceiling or NotPrivate(reason="a simulation")
        try:
            return cls.create(path, dataset=dataset, ceiling=limit, unit=unit, signer=signer), True
        except LedgerBroken:
            if not os.path.lexists(path):  # else another process was faster
                raise
            return cls(path, signer=signer), False

    def state(self) -> LedgerState:
        """Read the account; needs no lock and writes nothing."""
        return self._reader.state(self._reader.load()[0])

    def verify(self, *, head: str | None = None, key: bytes | None = None) -> Verdict:
        """Check every byte and price every event again; if given, look for a hash kept elsewhere, or a signature.

        Parameters
        ----------
        head : str, optional
            A hash kept elsewhere, as on a card: it must still be in the chain.
        key : bytes, optional
            A public key that must have signed the head; that of this ledger by default.
        """
        due = key.hex() if key is not None else self._reader.key
        # A new reader, which remembers nothing.
        return verify(Reader(self._files, signer=self._reader.signer, key=due), head=head)

    def statement(self) -> bytes:
        """Give a statement for auditors and archives: every record without its secrets, and the head.

        Signed if the ledger was opened with its signer. Nothing can be spent from it, and no ledger restored.
        """
        chain = self._reader.load()[0]
        head = self._reader.head
        return write_statement(chain.records[: head.length], head, signer=self._reader.signer)

    def stored(self, *, plan: str, version: str = FIRST) -> bytes | None:
        """Give the release already made for this plan and version of the data, or None; costs nothing."""
        entry = self.state().released(plan, version)
        return None if entry is None else self._files.fetch(entry)

    def release(
        self,
        *,
        plan: str,
        data: str,
        events: Sequence[Event],
        unit: Unit,
        draw: Callable[[], bytes] | Callable[[Source], bytes],
        version: str = FIRST,
        cost: Guarantee | None = None,
        about: Mapping[str, Any] | None = None,
        room: int = 0,
    ) -> bytes:
        """Give the stored release for this plan and version, or reserve, draw, store and commit a new one.

        Parameters
        ----------
        plan, data, events, unit, version, cost, about
            See `Request`.
        draw : callable
            Runs the mechanisms and gives the bytes to send, after the cost is on disk. ``draw(source)`` takes all its
            noise from the source and uses no other randomness: if the process is killed before the bytes are
            stored, the next call with the same request draws the same bytes and pays nothing. ``draw()`` brings its
            own noise and runs at most once: if the process dies before its bytes are stored, the budget stays spent.
        room : int
            Public size of the release in bytes; that much disk is claimed before anything is spent.

        Warns
        -----
        StaleRelease
            The stored release was drawn from other data; for the entity only.
        """
        check_names(plan=plan, data=data, version=version)
        if not callable(draw):
            raise BadPrivacyParameter(
                "{parameter} is not a function.",
                found=f"a {type(draw).__name__}",
                fix="draw=lambda: ... , which returns bytes",
                parameter="draw",
            )
        keyed = takes_source(draw)
        if (entry := self.state().released(plan, version)) is not None:
            return self._again(entry, data)
        request = Request(plan=plan, data=data, events=events, unit=unit, version=version, cost=cost, about=about or {})
        with self._writing() as writer:
            entry = writer.state.released(plan, version)
            if entry is not None:  # another process was faster, or a crash had left it
                return self._again(entry, data)
            with reserving(writer, request, room=room, keyed=keyed) as reservation:
                return reservation.commit(reservation.drawn(draw) if keyed else draw())  # type: ignore[call-arg]

    def raise_ceiling(self, ceiling: Guarantee, *, reason: str) -> LedgerState:
        """Raise the ceiling, for a reason that stays in the ledger."""
        if not reason.strip():
            raise BadPrivacyParameter(
                "raising a ceiling needs a reason.", fix=Set("reason", "approved by ..."), parameter="reason"
            )
        _check_ceiling(ceiling)
        allowed = cost_of(ceiling)
        with self._writing() as writer:
            before = writer.state.ceiling
            if not before.fits(allowed) or before == allowed:
                raise BadPrivacyParameter(
                    "a ceiling can only be raised.",
                    found=cost_text(allowed),
                    expected=f"more than {cost_text(before)}",
                    parameter="ceiling",
                )
            with guarded(self._files, "the ceiling is unchanged"):
                writer.raise_to(allowed.as_dict(), reason.strip())
            return writer.state

    def change_signer(self, signer: SigningKey, *, reason: str) -> None:
        """Have another key sign the head from here on, for a reason that stays in the ledger.

        The old key is needed only if a crash left an unfinished record. Those who know the old key see the change when
        they verify with it; tell them the new one.
        """
        if not reason.strip():
            raise BadPrivacyParameter(
                "a new signer needs a reason.", fix=Set("reason", "the old key was lost on ..."), parameter="reason"
            )
        reader = Reader(self._files)
        with writing(reader, wait=self._wait) as writer, guarded(self._files, "the signer is unchanged"):
            writer.hand_over(signer, old=self._reader.signer, reason=reason.strip())
        self._reader = reader

    def _again(self, entry: Entry, data: str) -> bytes:
        warn_if_stale(entry, data)
        content = self._files.fetch(entry)
        if Keys(self._files).left(entry):  # the process that released it was killed before it destroyed the key
            with suppress(LedgerBroken), self._writing(wait=0.0):
                pass
        return content

    @contextmanager
    def _writing(self, *, wait: float | None = None) -> Iterator[Writer]:
        with writing(self._reader, wait=self._wait if wait is None else wait) as writer:
            with guarded(self._files, "nothing was drawn and nothing was spent"):
                signer = self._reader.signer
                if signer is not None and not writer.state.signer:
                    writer.sign(signer=signer, reason="the first signature")
                writer.settle()
            yield writer


def _start(files: Files, body: Mapping[str, Any], signer: SigningKey | None) -> None:
    """Write the head, then the ledger: a ledger without its head was tampered with, whatever its length."""
    if os.path.lexists(files.book):
        raise LedgerBroken(
            "the ledger already exists.",
            found=files.book.name,
            fix="open it; another name is for other people only, a second ledger for the same people would double "
            "their budget",
            parameter="path",
        )
    if os.path.lexists(files.head) and read_head(files.head).length > 1:
        raise LedgerBroken(
            "only the head of this ledger is left.", expected=files.book.name, fix=RESTORE, parameter="ledger"
        )
    if files.listed():  # stored by a ledger of this name that was removed
        raise LedgerBroken(
            "only the releases of this ledger are left.", expected=files.book.name, fix=RESTORE, parameter="releases"
        )
    record = seal(number=0, previous=START, body=body)
    line = encode(record)
    head = head_of(Chain(records=(record,), ends=(len(line),)))
    disk.replace(files.head, (head if signer is None else signed(head, body["dataset"], signer)).encode())
    disk.replace(files.book, line)


def _is_whole(text: str) -> bool:
    """Whether a text has no half characters, as an argument of a shell in another encoding may have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _missing(files: Files) -> LedgerBroken:
    return LedgerBroken(
        "the ledger does not exist.",
        found=f"no file {files.book.name}",
        fix="check the name first: a second ledger for the same people would double their budget. For a data set that "
        f"has none: twofold ledger new {files.book.name} --dataset NAME --epsilon E --unit person",
        parameter="path",
    )


def _check_ceiling(ceiling: Guarantee) -> None:
    """Refuse a ceiling that no float can show: it could be written but not printed."""
    if isinstance(ceiling, NotPrivate):
        return
    if not LEAST <= ceiling.epsilon <= MOST:
        raise BadPrivacyParameter(
            "the ceiling is out of range.", expected=f"ε from {LEAST:g} to {MOST:g}", parameter="ceiling"
        )
    if not cost_of(ceiling).is_short:
        raise BadPrivacyParameter("the ceiling has too many digits.", parameter="ceiling")
