"""The ledger of one data set: what was released, what may still be released, and whether the file is intact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twofold import __version__
from twofold.errors import BadPrivacyParameter, LedgerBroken, Set
from twofold.privacy.budget import NotPrivate
from twofold.privacy.events import Event
from twofold.privacy.ledger.keys import Keys
from twofold.privacy.ledger.record import (
    FORMAT,
    RESTORE,
    START,
    Chain,
    Files,
    Record,
    Standing,
    encode,
    guarded,
    head_of,
    read_head,
    seal,
)
from twofold.privacy.ledger.reservation import FIRST, Request, check_names, reserving, takes_source
from twofold.privacy.ledger.state import Entry, Guarantee, LedgerState, cost_of, cost_text, warn_if_stale
from twofold.privacy.ledger.writer import Reader, Writer, now, writing
from twofold.privacy.unit import Unit
from twofold.storage import files as disk

if TYPE_CHECKING:
    from twofold.privacy.rng import Source

__all__ = ["Ledger", "Verdict", "verify"]

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

    def __init__(self, path: str | PathLike[str], *, wait: float = WAIT) -> None:
        self._files = Files(book=Path(path))
        self._reader = Reader(self._files)
        self._wait = wait
        if not self._files.book.exists():
            raise _missing(self._files)

    @property
    def path(self) -> Path:
        """The ledger file."""
        return self._files.book

    def owns(self, path: Path) -> bool:
        """Whether a path is one of the ledger's own files."""
        return self._files.owns(path)

    @classmethod
    def create(
        cls, path: str | PathLike[str], *, dataset: str, ceiling: Guarantee, unit: Unit, wait: float = WAIT
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
        """
        files = Files(book=Path(path))
        _check_ceiling(ceiling)
        body = {
            "kind": "open",
            "format": FORMAT,
            "at": now(),
            "dataset": dataset,
            "unit": unit.as_dict(),
            **cost_of(ceiling).as_dict(),
            "software": f"twofold {__version__}",
        }
        with writing(Reader(files), wait=wait), guarded(files, "no ledger was created"):
            _start(files, body)
        return cls(path, wait=wait)

    @classmethod
    def open_or_create(
        cls, path: str | PathLike[str], *, dataset: str, ceiling: Guarantee | None, unit: Unit
    ) -> tuple[Ledger, bool]:
        """Open a ledger, or create it if missing; also return whether this call created it.

        For callers who were told that these people may have no ledger yet: a second one would double their budget.

        Parameters
        ----------
        path, dataset, unit
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
        if Path(path).exists():
            return cls(path), False
        try:
            return cls.create(
                path, dataset=dataset, ceiling=ceiling or NotPrivate(reason="a simulation"), unit=unit
            ), True
        except LedgerBroken:
            if not Path(path).exists():  # else another process was faster
                raise
            return cls(path), False

    def state(self) -> LedgerState:
        """Read the account; needs no lock and writes nothing."""
        return self._reader.state(self._reader.load()[0])

    def verify(self, *, head: str | None = None) -> Verdict:
        """Check every byte: chain, head, stored releases and, if given, a hash kept elsewhere."""
        return verify(self._files, head=head)

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
                writer.append({"kind": "raise", **allowed.as_dict(), "reason": reason.strip()})
            return writer.state

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
                writer.settle()
            yield writer


def _start(files: Files, body: Mapping[str, Any]) -> None:
    """Write the head, then the ledger: a ledger without its head was tampered with, whatever its length."""
    if files.book.exists():
        raise LedgerBroken(
            "the ledger already exists.", found=files.book.name, fix="open it, or choose another name", parameter="path"
        )
    if files.head.exists() and read_head(files.head).length > 1:
        raise LedgerBroken(
            "only the head of this ledger is left.", expected=files.book.name, fix=RESTORE, parameter="ledger"
        )
    record = seal(number=0, previous=START, body=body)
    line = encode(record)
    disk.replace(files.head, head_of(Chain(records=(record,), ends=(len(line),))).encode())
    disk.replace(files.book, line)


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


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a check found. There is no verdict on a broken ledger: `LedgerBroken` is raised instead."""

    records: int
    releases: int
    head: str
    notes: tuple[str, ...] = ()


def verify(files: Files, *, head: str | None = None) -> Verdict:
    """Check chain, head and stored releases, and that a hash kept elsewhere is still in the chain.

    Two files put back together from an older backup fit each other. Only a hash kept elsewhere, as on a privacy
    card, shows that: give it as `head`.
    """
    reader = Reader(files)  # a new one, which remembers nothing
    chain, how = reader.load()
    _check_order(chain.records)
    state = reader.state(chain)
    released = [entry for entry in state.entries if entry.status == "released"]
    for entry in released:
        files.fetch(entry)
    if head is not None and not any(_named(record, head) for record in chain.records):
        raise LedgerBroken(
            "the given hash is not in this ledger: records were replaced or an older copy was restored.",
            expected=f"a record with hash {head}",
            fix=RESTORE,
            parameter="head",
        )
    notes = tuple(_notes(how, state, Keys(files)))
    return Verdict(records=len(chain.records), releases=len(released), head=chain.hash, notes=notes)


def _named(record: Record, head: str) -> bool:
    return len(head) >= 16 and record.hash.startswith(head)


def _check_order(records: tuple[Record, ...]) -> None:
    """Refuse a chain with valid hashes and impossible content."""
    waiting: set[int] = set()
    for record in records:
        if (record.kind == "open") != (record.number == 0):
            raise _impossible(record)
        if record.kind == "reserve":
            waiting.add(record.number)
        elif record.kind in ("commit", "lost"):
            if record.body.get("reserve") not in waiting:
                raise _impossible(record)
            waiting.remove(record.body["reserve"])


def _impossible(record: Record) -> LedgerBroken:
    return LedgerBroken(
        "the records do not follow the rules of a ledger.",
        found=f"record {record.number} of kind {record.kind!r} out of turn",
        fix=RESTORE,
        parameter="records",
    )


def _notes(how: Standing, state: LedgerState, keys: Keys) -> Iterator[str]:
    if how is not Standing.CLEAN:
        yield f"{how.value}; the next write repairs it and records any torn bytes"
    for entry in state.open:
        yield (
            f"record {entry.number} is reserved and not committed: a process is drawing or has died; it counts as spent"
            + ("; asking for the same release with the same data resumes it" if keys.whole(entry) else "")
        )
    lost = sum(entry.status == "lost" for entry in state.entries)
    if lost:
        yield f"{lost} reservation(s) spent without a release"
    if state.repaired:
        yield f"{state.repaired} torn line(s) recorded"
