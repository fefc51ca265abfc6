"""The three steps of a secure sum, one after another, however often the process is killed on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, Final

from twofold.errors import BadMessage, NotReady, TooFewMessages, TwofoldError
from twofold.federation.key_messages import Answer, Roll, Survivors, decode_roll, decode_survivors
from twofold.federation.mailbox import Rejected, ServerMailbox
from twofold.federation.messages import ReleaseMessage, encode_factors
from twofold.federation.plan import Plan
from twofold.federation.steps import ANSWERS, KEYS, MASKED, Phase
from twofold.secure_sum import check_answer
from twofold.server.coordinate import Collector, Progress, Stored
from twofold.server.secure import SecureServer
from twofold.storage.files import make_folder

__all__ = ["SecureCoordinator", "SecureProgress"]

Mailboxes = Callable[[Phase], ServerMailbox]
Clock = Callable[[], datetime]
#: What is waited for in each step, in words.
WAITS: Final = {"keys": "key shares", "masked": "messages", "answers": "answers"}


class SecureProgress(Progress):
    """How far a secure sum is: the figures of the step it is in."""


class SecureCoordinator:
    """Collects shares, publishes the roll; collects masked messages, publishes the survivors; collects answers,
    publishes the item factors.

    Parameters
    ----------
    plan : Plan
        With a secure sum and the list of keys.
    mailboxes : callable
        Gives the server's end of the transport for each step.
    state : path
        Folder of this coordinator alone; each step has a folder in it.
    clock : callable
        Gives the time, for tests.

    Notes
    -----
    Key shares close when everybody has shared, or at the plan's ``secure.share_deadline`` with enough of them. Messages
    close when everybody on the roll has sent one, or at the plan's deadline with enough survivors. Answers close as
    soon as they take the masks off. A step that cannot be finished publishes nothing.

    Once the list of survivors is out it is never changed: entities answer one list only.
    """

    def __init__(
        self,
        plan: Plan,
        mailboxes: Mailboxes,
        *,
        state: str | PathLike[str],
        clock: Clock = lambda: datetime.now(UTC),
    ) -> None:
        self.plan = plan
        folder = Path(state)
        make_folder(folder)
        server = SecureServer(plan)
        self._keys = _Keys(plan, mailboxes(KEYS), folder / KEYS.name, server, clock)
        self._masked = _Masked(plan, mailboxes(MASKED), folder / MASKED.name, server, clock, self._keys)
        self._answers = _Answers(plan, mailboxes(ANSWERS), folder / ANSWERS.name, server, clock, self._masked)

    @property
    def remark(self) -> str:
        """Nothing: a secure sum has a list of keys, so strangers cannot take part."""
        return ""

    @property
    def step_name(self) -> str:
        """What is waited for, in words."""
        return WAITS[self._current.phase.name]

    @property
    def quorum(self) -> int:
        """Fewest entities with which the present step goes on."""
        return self._current.quorum

    @property
    def deadline(self) -> str | None:
        """Until when the others are waited for in the present step."""
        return self._current.deadline

    @property
    def can_close(self) -> bool:
        """Whether the present step would go on without those who are missing, if it were closed by hand now."""
        return self._current.can_close

    def missing(self) -> tuple[str, ...] | None:
        """Name those who have not come in the present step by the last look."""
        return self._current.missing()

    @property
    def _steps(self) -> tuple[_Step, ...]:
        return (self._keys, self._masked, self._answers)

    @property
    def _current(self) -> _Step:
        return next((one for one in self._steps if one.result() is None), self._answers)

    def refused(self) -> list[Rejected]:
        """What was not taken in the steps up to the present one, each once, with the reason in public words."""
        looked = self._steps[: self._steps.index(self._current) + 1]
        return list(dict.fromkeys(refused for one in looked for refused in one.refused()))

    def step(self, *, close: bool = False) -> Progress:
        """Look once in every step that can be looked into; gives the figures of the last of them.

        Parameters
        ----------
        close : bool
            Wait for nobody else in the present step, as if its deadline had passed. Answers close by themselves.

        Raises
        ------
        TooFewMessages
            A deadline has passed, or the step is to be closed, with too few. Nothing is unmasked and nothing is
            published.
        """
        present = self._current
        for one in self._steps:
            seen = one.step(close=close and one is present)
            if not seen.published:
                break
        return Progress(
            arrived=seen.arrived,
            expected=seen.expected,
            rejected=seen.rejected,
            closed=seen.closed and one is self._answers,
            published=seen.published and one is self._answers,
        )

    def run(self, *, poll: float = 5.0, timeout: float | None = None) -> Progress:
        """Look again and again until the item factors are published."""
        began = time.monotonic()
        while not (seen := self.step()).published:
            if timeout is not None and time.monotonic() - began >= timeout:
                raise NotReady(
                    "the secure sum is not finished.",
                    found=f"{seen.arrived} of {seen.expected} {self.step_name}",
                    fix="run the same again; what arrived is kept",
                )
            time.sleep(poll)
        return seen


class _Step(Collector):
    """What the three steps share."""

    def __init__(
        self, plan: Plan, mailbox: ServerMailbox, state: Path, server: SecureServer, clock: Clock, phase: Phase
    ) -> None:
        super().__init__(plan, mailbox, state=state, phase=phase, clock=clock)
        assert plan.secure is not None
        self.server, self.secure = server, plan.secure

    @property
    def expected(self) -> int:
        return len(self.names)

    def result(self) -> bytes | None:
        """What was published in this step, or is about to be."""
        return self._state.result()

    def needed(self) -> bytes:
        """The same, where it must be there."""
        data = self.result()
        assert data is not None, "a step is looked into only when the one before it is published"
        return data

    def _close(self, by_hand: bool) -> bool:
        """As every step; below the quorum nothing goes on, and it says so."""
        try:
            return super()._close(by_hand)
        except TooFewMessages as error:
            raise TooFewMessages(
                f"too few {WAITS[self.phase.name]} came in time; nothing is unmasked, nothing is published.",
                found=error.found,
                expected=error.expected,
                fix="wait: those that come late still count; else start again with a new plan and new keys"
                + self.hint(),
            ) from None

    def hint(self) -> str:
        """What a new plan could do better, in words; empty when there is nothing to say."""
        return ""

    def taken(self) -> list[Stored]:
        """Messages that count, in the order of their receipts."""
        return [self._stored(one) for one in sorted(self._state.closed() or [])]


class _Keys(_Step):
    def __init__(self, plan: Plan, mailbox: ServerMailbox, state: Path, server: SecureServer, clock: Clock) -> None:
        super().__init__(plan, mailbox, state, server, clock, KEYS)
        self._read: tuple[bytes, Roll] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.server.terms.names)

    @property
    def quorum(self) -> int:
        return self.server.terms.least_present

    @property
    def deadline(self) -> str | None:
        return self.secure.share_deadline

    def hint(self) -> str:
        """Where the plan needs all to share keys, say which number would let one be missing, if any safe one would."""
        number = self.expected
        if self.quorum < number:
            return ""
        try:
            self.secure.with_(present=number - 1).check(number)
        except TwofoldError:
            return f". This plan needs all {number} to share keys"
        one = f"twofold plan new --present {number - 1} would allow one to be missing"
        return f". This plan needs all {number} to share keys; {one}"

    def accept(self, message: Any) -> None:
        """Take all that decodes."""

    def compute(self, taken: Sequence[Stored]) -> bytes:
        return self.server.roll(one.data() for one in taken)

    def roll(self) -> Roll:
        """The published list; with two hundred entities reading it takes a while, so it is read once."""
        data = self.needed()
        if self._read is None or self._read[0] != data:
            self._read = (data, decode_roll(data, self.plan))
        return self._read[1]


class _Masked(_Step):
    def __init__(
        self, plan: Plan, mailbox: ServerMailbox, state: Path, server: SecureServer, clock: Clock, keys: _Keys
    ) -> None:
        super().__init__(plan, mailbox, state, server, clock, MASKED)
        self.keys = keys

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.keys.roll().present)

    @property
    def quorum(self) -> int:
        return self.secure.survivors

    @property
    def deadline(self) -> str | None:
        return self.plan.deadline

    def accept(self, message: ReleaseMessage) -> None:
        self.server.checked(message, self.keys.roll())

    def compute(self, taken: Sequence[Stored]) -> bytes:
        return self.server.survivors((one.data() for one in taken), self.keys.needed())

    def survivors(self) -> Survivors:
        """The published list."""
        return decode_survivors(self.needed(), self.plan)


class _Answers(_Step):
    def __init__(
        self, plan: Plan, mailbox: ServerMailbox, state: Path, server: SecureServer, clock: Clock, masked: _Masked
    ) -> None:
        super().__init__(plan, mailbox, state, server, clock, ANSWERS)
        self.masked = masked

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.masked.survivors().survivors)

    @property
    def can_close(self) -> bool:
        """No: answers close by themselves as soon as they are enough."""
        return False

    @property
    def quorum(self) -> int:
        return self.server.terms.threshold

    @property
    def deadline(self) -> str | None:
        return None

    def accept(self, message: Answer) -> None:
        lists = self.masked.survivors()
        check_answer(message.content, message.entity, self.server.terms, lists.present, lists.survivors)

    def compute(self, taken: Sequence[Stored]) -> bytes:
        factors = self.server.factorize(
            (one.data() for one in self.masked.taken()),
            [one.data() for one in taken],
            roll=self.masked.keys.needed(),
            survivors=self.masked.needed(),
        )
        return encode_factors(factors, self.plan)

    def _close(self, by_hand: bool) -> bool:
        """Close as soon as the answers take the masks off; wrong ones among few are outvoted by more of them."""
        receipts = sorted(self._state.messages().values())
        if len(receipts) < self.quorum:
            return super()._close(by_hand) if by_hand else False
        try:
            data = self.compute([self._stored(one) for one in receipts])
        except (BadMessage, TooFewMessages):
            if len(receipts) >= self.expected:
                raise
            return False
        self._state.close(receipts, "the masks are off")
        self._state.store_result(data)
        return True
