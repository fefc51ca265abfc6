r"""One step, from the first message to publication, however often the process is killed on the way.

One round, from the first message to publication, however often the process is killed on the way.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, Final

from twofold.errors import (
    BadMessage,
    ConflictingMessage,
    NotReady,
    PlanMismatch,
    PrivacyError,
    ProtocolError,
    RoundClosed,
    TransportError,
    TwofoldError,
)
from twofold.federation.mailbox import Rejected, ServerMailbox, Submission
from twofold.federation.messages import decode_release, encode_factors
from twofold.federation.plan import Plan
from twofold.federation.steps import ROUNDS, Phase
from twofold.release.combine import MOST_MESSAGES
from twofold.server.factorize import MEMORY_LIMIT, Server, check_number, checked, conflict
from twofold.server.state import State
from twofold.storage.container import receipt
from twofold.storage.files import read_limited
from twofold.storage.files import step as announce

__all__ = ["ANYBODY", "Collector", "Coordinator", "Progress", "Stored"]


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


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A message that counts, on the coordinator's disk."""

    receipt: str
    read: Callable[[], bytes] = field(repr=False, compare=False)

    def data(self) -> bytes:
        """Give the bytes; other ones than those that were taken are refused."""
        found = self.read()
        if receipt(found) != self.receipt:
            raise BadMessage(
                "a stored message is not the one that was taken.",
                found=self.receipt[:12],
                expected="the bytes whose receipt is its name",
                fix="restore the folder from a copy",
            )
        return found


class Collector(ABC):
    """Collects the messages of one step, closes it, computes, publishes once.

    Parameters
    ----------
    plan : Plan
        Who is expected is in it.
    mailbox : ServerMailbox
        Where messages come from and the result goes to.
    state : path
        Folder of this step, of this coordinator alone; see `twofold.server.state`.
    phase : Phase
        Which step.
    clock : callable
        Gives the time, for tests.
    """

    def __init__(
        self,
        plan: Plan,
        mailbox: ServerMailbox,
        *,
        state: str | PathLike[str],
        phase: Phase,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.plan = plan
        self.mailbox = mailbox
        self.phase = phase
        self.clock = clock
        self._state = State(Path(state), plan, phase)
        self._holding = False
        self._conflicts: list[Rejected] = []

    @property
    @abstractmethod
    def expected(self) -> int:
        """How many entities are waited for."""

    @property
    @abstractmethod
    def quorum(self) -> int:
        """Fewest entities with whose messages the step goes on."""

    @property
    @abstractmethod
    def deadline(self) -> str | None:
        """Until when the others are waited for."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Public names of those who are waited for; empty when the plan names nobody."""

    @property
    def can_close(self) -> bool:
        """Whether the step would go on without those who are missing, if it were closed by hand now."""
        return self._state.closed() is None and len(self._state.messages()) >= self.quorum

    def missing(self) -> tuple[str, ...] | None:
        """Name those who have not come by the last look; None when the plan names nobody."""
        if not self.names:
            return None
        came = self._state.messages()
        return tuple(name for name in self.names if name not in came)

    @abstractmethod
    def compute(self, taken: Sequence[Stored]) -> bytes:
        """Make what is published from the messages that count, in the order of their receipts."""

    @abstractmethod
    def accept(self, message: Any) -> None:
        """Refuse a decoded message that does not belong to this step for another reason than its plan."""

    def refused(self) -> list[Rejected]:
        """What was not taken, with the reason in public words.

        First what is refused for good, then what the last look found in conflict, then what the mailbox refused.
        """
        kept = [Rejected(name, reason) for name, reason in self._state.refused().values()]
        return [*kept, *self._conflicts, *self.mailbox.rejected()]

    def step(self, *, close: bool = False) -> Progress:
        """Look once: take what is new, and finish the round if it can be finished.

        Parameters
        ----------
        close : bool
            Wait for nobody else, as if the deadline had passed: the step goes on with those who answered, if these are
            enough.

        Raises
        ------
        TooFewMessages
            The deadline has passed, or the step is to be closed, below the quorum. Another look may find more.
        TransportError
            The folder or the mailbox cannot be used, or another coordinator works here. Nothing is lost.
        """
        with nullcontext() if self._holding else self._state.locked():
            self._state.open()
            self._collect()
            if self._state.closed() is None and not self._close(close):
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
        """Look again and again until the step is published.

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
        message = self.phase.decode_up(_unchanged(submission), self.plan)
        if message.entity in taken:
            raise conflict(message.entity)
        self.accept(message)
        return str(message.entity)

    def _close(self, by_hand: bool) -> bool:
        """Write down which messages count, if it is time; say whether it was."""
        receipts = list(self._state.messages().values())
        if len(receipts) >= max(self.expected, self.quorum):
            self._state.close(receipts, "all answered")
            return True
        over = self.deadline is not None and self.clock() >= datetime.fromisoformat(self.deadline)
        if not over and not by_hand:
            return False
        check_number(len(receipts), self.quorum, self.expected)
        self._state.close(receipts, "deadline" if over else "by hand")
        return True

    def _publish(self) -> None:
        """Compute the result if nobody has yet, and publish it if nobody has yet."""
        data = self._state.result()
        if data is None:
            data = self.compute([self._stored(one) for one in sorted(self._state.closed() or [])])
            self._state.store_result(data)
        self.phase.decode_down(data, self.plan)  # a disk may have lost a bit since
        if self.mailbox.published() != data:
            announce("coordinator: publish")
            self.mailbox.publish(data)

    def _stored(self, known: str) -> Stored:
        """Give a message that counts; its bytes must be those that were taken."""
        path, limit = self._state.path(known), self.phase.up_limit(self.plan)
        stored = Stored(receipt=known, read=lambda: read_limited(path, limit))
        stored.data()
        return stored

    def _progress(self) -> Progress:
        out = self._state.result()
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


#: Said of a plan whose list of entities is empty.
ANYBODY: Final = (
    "The plan names no entities: any sender's made-up name counts, and can complete the round. "
    "Messages are not signed, so whoever can write into the folder can pose as an entity. "
    "A real federation should list its entities in the plan."
)


class Coordinator(Collector):
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
    >>> from twofold.federation.messages import encode_release
    >>> from twofold.federation.plan import CatalogKey
    >>> from twofold.federation.mailbox import InProcess
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=3)
    >>> box = InProcess()
    >>> released = plan.release_mechanism.release(np.ones((9, 3)), plan.parameters)
    >>> _ = box.submit(encode_release(released.value, entity="st-anna", plan=plan), entity="st-anna")
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
        super().__init__(plan, mailbox, state=state, phase=ROUNDS, clock=clock)
        if plan.secure is not None:
            raise PlanMismatch("the plan asks for a secure sum, which has more steps.", fix="SecureCoordinator")
        self._server = Server(plan, memory_limit=memory_limit, scratch=state, threads=threads)

    @property
    def remark(self) -> str:
        """What whoever runs the round should know about the plan, in words; empty when there is nothing to say.

        Examples
        --------
        >>> from twofold.federation.plan import CatalogKey
        >>> from twofold.federation.mailbox import InProcess
        >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=3)
        >>> Coordinator(plan, InProcess(), state="state").remark[:38]
        'The plan names no entities: any sender'
        >>> Coordinator(plan.with_(entities=["st-anna"]), InProcess(), state="state").remark
        ''
        """
        return "" if self.plan.entities else ANYBODY

    @property
    def step_name(self) -> str:
        """What is waited for, in words."""
        return "messages"

    @property
    def expected(self) -> int:
        """How many entities the plan expects."""
        return len(self.plan.entities) or self.plan.n_entities

    @property
    def quorum(self) -> int:
        """As the plan says."""
        return self.plan.quorum

    @property
    def deadline(self) -> str | None:
        """As the plan says."""
        return self.plan.deadline

    @property
    def names(self) -> tuple[str, ...]:
        """As the plan says."""
        return self.plan.entities

    def accept(self, message: Any) -> None:
        """Take all that the plan takes."""

    def compute(self, taken: Sequence[Stored]) -> bytes:
        """Factorize all messages that count."""
        arrived = [checked(decode_release(one.data(), self.plan), one.read) for one in taken]
        return encode_factors(self._server.factorize_arrived(arrived), self.plan)
