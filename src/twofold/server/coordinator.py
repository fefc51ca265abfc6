"""One round, from the first message to publication, however often the process is killed on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Final

from twofold.errors import (
    BadMessage,
    ConflictingMessage,
    NotReady,
    PrivacyError,
    ProtocolError,
    RoundClosed,
    TransportError,
    TwofoldError,
)
from twofold.privacy.ledger.disk import step as announce
from twofold.protocol.files import read_limited
from twofold.protocol.messages import decode_factors, decode_prototypes, encode_factors, message_limit, receipt
from twofold.protocol.plan import Plan
from twofold.prototypes.combine import MOST_MESSAGES
from twofold.server.factorize import MEMORY_LIMIT, Server
from twofold.server.sources import Arrived, check_quorum, checked, conflict
from twofold.server.state import State
from twofold.transport.base import Rejected, ServerMailbox, Submission

__all__ = ["ANYBODY", "Coordinator", "Progress"]

#: Said of a plan whose list of entities is empty.
ANYBODY: Final = (
    "The plan names no entities: any sender's made-up name counts, and can complete the round. "
    "Messages are not signed, so whoever can write into the folder can pose as an entity. "
    "A real federation should list its entities in the plan."
)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a round is.

    Parameters
    ----------
    arrived, expected : int
        Entities whose message was taken, and how many the plan expects.
    rejected : int
        What came and was not taken.
    closed, published : bool
        Whether the list of messages is final, and whether the item factors are out.
    """

    arrived: int
    expected: int
    rejected: int
    closed: bool
    published: bool


class Coordinator:
    """Collects messages, closes the round, factorizes, publishes once.

    Parameters
    ----------
    plan : Plan
        Who is expected, quorum and deadline are in it.
    mailbox : ServerMailbox
        Where messages come from and factors go to.
    state : path
        Folder of this round, of this coordinator alone; see `twofold.server.state`.
    clock : callable
        Gives the time, for tests.
    memory_limit, threads
        As for `Server`.

    Notes
    -----
    The round closes when everybody the plan expects has answered, or when the deadline has passed and the quorum is
    reached. A message that comes late still counts while the round is open: its sender has paid for it. Below the
    quorum nothing is published.

    Of two different messages from one entity the one that was stored first counts, and the other is refused. Of two
    found in one look neither is taken: nothing in them says which is the entity's, and any rule of ours could be met by
    a forger who tries long enough. Both are reported, and the round waits until a person removes one.

    Messages are not signed. Whoever can write into the mailbox can pose as an entity that has not answered yet, and
    where the plan names no entities, as one that was made up; see `remark`.

    A coordinator that is started again goes on from what is in its folder, and publishes the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from twofold.protocol.messages import encode_prototypes
    >>> from twofold.protocol.plan import CatalogKey
    >>> from twofold.transport.inprocess import InProcess
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=3)
    >>> box = InProcess()
    >>> released = plan.release_mechanism.release(np.ones((9, 3)), plan.public)
    >>> _ = box.submit(encode_prototypes(released.value, entity="st-anna", plan=plan), entity="st-anna")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Coordinator(plan, box, state=folder).step()
    Progress(arrived=1, expected=1, rejected=0, closed=True, published=True)
    """

    def __init__(
        self,
        plan: Plan,
        mailbox: ServerMailbox,
        *,
        state: str | PathLike[str],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        memory_limit: int = MEMORY_LIMIT,
        threads: int | None = None,
    ) -> None:
        self.plan = plan
        self.mailbox = mailbox
        self.clock = clock
        self._state = State(Path(state), plan)
        self._server = Server(plan, memory_limit=memory_limit, scratch=state, threads=threads)
        self._holding = False
        self._conflicts: list[Rejected] = []

    @property
    def remark(self) -> str:
        """What whoever runs the round should know about the plan, in words; empty when there is nothing to say.

        Examples
        --------
        >>> from twofold.protocol.plan import CatalogKey
        >>> from twofold.transport.inprocess import InProcess
        >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=3)
        >>> Coordinator(plan, InProcess(), state="state").remark[:38]
        'The plan names no entities: any sender'
        >>> Coordinator(plan.with_(entities=["st-anna"]), InProcess(), state="state").remark
        ''
        """
        return "" if self.plan.entities else ANYBODY

    @property
    def expected(self) -> int:
        """How many entities the plan expects."""
        return len(self.plan.entities) or self.plan.n_entities

    def refused(self) -> list[Rejected]:
        """What was not taken, with the reason in public words.

        First what is refused for good, then what the last look found in conflict, then what the mailbox refused.
        """
        kept = [Rejected(name, reason) for name, reason in self._state.refused().values()]
        return [*kept, *self._conflicts, *self.mailbox.rejected()]

    def step(self) -> Progress:
        """Look once: take what is new, and finish the round if it can be finished.

        Raises
        ------
        TooFewMessages
            The deadline has passed below the quorum. Another look may find more.
        TransportError
            The folder or the mailbox cannot be used, or another coordinator works here. Nothing is lost.
        """
        with nullcontext() if self._holding else self._state.locked():
            self._state.open()
            self._collect()
            if self._state.closed() is None and not self._close():
                return self._progress()
            self._publish()
            return self._progress()

    def run(
        self,
        *,
        poll: float = 5.0,
        timeout: float | None = None,
        progress: Callable[[Progress], object] | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> Progress:
        """Look again and again until the factors are published.

        Parameters
        ----------
        poll : float
            Seconds between looks.
        timeout : float, optional
            Seconds after which to give up with NotReady; never by default. The folder keeps what came.
        progress : callable, optional
            Told after every look.
        sleep : callable
            Waits, for tests.

        Raises
        ------
        TooFewMessages
            At the deadline, below the quorum.
        """
        began = time.monotonic()
        with self._state.locked():
            self._holding = True
            try:
                while not (seen := self._told(progress)).published:
                    if timeout is not None and time.monotonic() - began >= timeout:
                        raise NotReady(
                            "the round is not finished.",
                            found=f"{seen.arrived} of {seen.expected} entities answered",
                            fix="run the same again; what arrived is kept",
                        )
                    sleep(poll)
                return seen
            finally:
                self._holding = False

    def _told(self, progress: Callable[[Progress], object] | None) -> Progress:
        seen = self.step()
        if progress is not None:
            progress(seen)
        return seen

    def _collect(self) -> None:
        """Store every new message that is sound, and remember why the others are not."""
        taken, refused = self._state.messages(), self._state.refused()
        before, found = len(refused), self._found(taken, refused)
        self._conflicts = [
            _undecided(one, entity) for entity, several in found.items() if several[1:] for one in several
        ]
        for entity, (one, *others) in found.items():
            if others:
                continue
            if len(taken) >= MOST_MESSAGES:
                refused[one.receipt] = (one.entity, _reason(_full()))
                continue
            try:
                data = _unchanged(one)
            except TransportError:  # it could not be read again this time
                continue
            self._state.store(one.receipt, data)
            taken[entity] = one.receipt
        if len(refused) != before:
            self._state.refuse(refused)

    def _found(self, taken: dict[str, str], refused: dict[str, tuple[str, str]]) -> dict[str, list[Submission]]:
        """New messages that are sound, by entity; adds those that are not to the refused ones."""
        known, final = set(taken.values()) | set(refused), self._state.closed() is not None
        found: dict[str, list[Submission]] = {}
        for submission in sorted(self.mailbox.submissions(), key=lambda one: one.receipt):
            if submission.receipt in known:
                continue
            known.add(submission.receipt)
            try:
                if final:
                    raise RoundClosed("the round is closed; this message came too late.")
                found.setdefault(self._sender(submission, taken), []).append(submission)
            except (ProtocolError, PrivacyError, RoundClosed) as error:
                refused[submission.receipt] = (submission.entity, _reason(error))
            except TransportError:  # it could not be read this time
                continue
        return found

    def _sender(self, submission: Submission, taken: dict[str, str]) -> str:
        """Read and check one message, and let go of it."""
        entity = decode_prototypes(_unchanged(submission), self.plan).entity
        if entity in taken:
            raise conflict(entity)
        return entity

    def _close(self) -> bool:
        """Write down which messages count, if it is time; say whether it was."""
        receipts = list(self._state.messages().values())
        if len(receipts) >= max(self.expected, self.plan.quorum):
            self._state.close(receipts, "all answered")
            return True
        if self.plan.deadline is None or self.clock() < datetime.fromisoformat(self.plan.deadline):
            return False
        check_quorum(len(receipts), self.plan)
        self._state.close(receipts, "deadline")
        return True

    def _publish(self) -> None:
        """Compute the factors if nobody has yet, and publish them if nobody has yet."""
        data = self._state.factors()
        if data is None:
            data = encode_factors(self._server.factorize_arrived(self._counting()), self.plan)
            self._state.store_factors(data)
        decode_factors(data, self.plan)  # a disk may have lost a bit since
        if self.mailbox.published() != data:
            announce("coordinator: publish")
            self.mailbox.publish(data)

    def _counting(self) -> list[Arrived]:
        """The messages that count, checked once more."""
        return [self._stored(one) for one in sorted(self._state.closed() or [])]

    def _stored(self, known: str) -> Arrived:
        path, limit = self._state.path(known), message_limit(self.plan)
        data = read_limited(path, limit)
        if receipt(data) != known:
            raise BadMessage(
                "a stored message is not the one that was taken.",
                found=path.name,
                expected="the bytes whose receipt is its name",
                fix="restore the folder from a copy",
            )
        return checked(decode_prototypes(data, self.plan), lambda: read_limited(path, limit))

    def _progress(self) -> Progress:
        out = self._state.factors()
        return Progress(
            arrived=len(self._state.messages()),
            expected=self.expected,
            rejected=len(self.refused()),
            closed=self._state.closed() is not None,
            published=out is not None and self.mailbox.published() == out,
        )


def _unchanged(submission: Submission) -> bytes:
    data = submission.read()
    if receipt(data) != submission.receipt:
        raise TransportError("a message changed after it was found.", found=submission.entity)
    return data


def _undecided(submission: Submission, entity: str) -> Rejected:
    """Say that nobody here can tell which of several messages is the entity's."""
    error = ConflictingMessage(
        "different messages under one name arrived together, and none is taken.",
        found=f"this one of {entity} has receipt {submission.receipt[:12]}.",
    )
    todo = f"Ask {entity} which receipt its ledger holds, and remove the other; the round waits meanwhile."
    return Rejected(submission.entity, f"{_reason(error)} {todo}")


def _full() -> RoundClosed:
    return RoundClosed(
        "the round is full.", found=f"{MOST_MESSAGES:,} messages; more could not be added up without overflow."
    )


def _reason(error: TwofoldError) -> str:
    """Why, in public words."""
    return f"{type(error).__name__}: {error.summary}" + (f" Found: {error.found}" if error.found else "")
