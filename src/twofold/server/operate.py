"""An operator's work over a transport: one look does whatever is due, and never does it twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from twofold.errors import NotReady, ProtocolError, TooFewMessages, TransportError
from twofold.federation.mailbox import (
    BUNDLES,
    DRAFTS,
    FREEZES,
    LISTS,
    REPORTS,
    REVEALS,
    OperatorMailbox,
    Rejected,
    Step,
    StepId,
)
from twofold.federation.messages import receipt
from twofold.federation.reports import decode_bundle, encode_bundle
from twofold.server.coordinate import Clock, CoordinationStatus
from twofold.server.operator import Operator
from twofold.storage.files import step as announce

__all__ = ["operate", "progress_of"]

#: Bytes of one file of halves for the other operator.
_BUNDLE: Final = 16 * 1024 * 1024


def operate(
    operator: Operator,
    mailbox: OperatorMailbox,
    *,
    clock: Clock = lambda: datetime.now(UTC),
    close: bool = False,
    forward: bool = False,
) -> CoordinationStatus:
    """Check once: take what is new, and do every step towards publication that is due.

    Parameters
    ----------
    operator : Operator
        With its plan, keys and state.
    mailbox : OperatorMailbox
        Where reports arrive, where the other operator's messages arrive, and where its own go.
    clock : callable
        Gives the time, for tests.
    close : bool
        Stop waiting for reports, as if the deadline had passed.
    forward : bool
        Hand on the other operator's half of every report, for entities that sent theirs to this one only.

    Raises
    ------
    TooFewMessages
        The deadline has passed, or the list is to be closed, below the plan's floor. Nothing is published and
        nothing is lost: a later check may find more.
    ConflictingMessage
        The other operator sent two different messages where there must be one. Nothing more is sent.

    Notes
    -----
    The own list is made when all expected entities are here, when the other operator's list names no report that is
    missing here, or at the deadline. Reports that arrive in time at one operator only are not in the sum.
    """
    looking = _Look(operator, mailbox)
    looking.collect()
    if forward:
        looking.forward()
    looking.hear()
    looking.advance(clock, close=close)
    return progress_of(operator, looking.problems)


class _Look:
    def __init__(self, operator: Operator, mailbox: OperatorMailbox) -> None:
        self.operator, self.mailbox, self.plan = operator, mailbox, operator.plan
        self.problems: list[Rejected] = []
        self.bundles: list[str] = []

    def collect(self) -> None:
        """Take every new report."""
        if self.operator.final is None:
            self.operator.take_all(self._reports())
            # Only now is the last of their reports stored: a kill in between must find the files unread.
            self.operator.book.mark([(mark, None, None) for mark in self.bundles])

    def _reports(self) -> Iterator[tuple[str, bytes]]:
        book = self.operator.book
        for one in self.mailbox.submissions(REPORTS):
            if not book.seen(one.receipt):
                try:
                    yield one.entity, one.read()
                except TransportError:  # it could not be read this time
                    continue
        for one in self.mailbox.submissions(BUNDLES):
            if book.seen(one.receipt):
                continue
            try:
                yield from (("a report in a bundle", data) for data in decode_bundle(one.read(), self.plan))
                self.bundles.append(one.receipt)
            except TransportError:
                continue
            except ProtocolError as error:
                book.mark([(one.receipt, "a bundle", error.summary)])

    def forward(self) -> None:
        """Hand on halves, some megabytes in a file."""
        while found := self.operator.book.halves(_BUNDLE):
            self.mailbox.post(BUNDLES, encode_bundle((data for _, data in found), self.plan))
            self.operator.book.handed_on(name for name, _ in found)

    def hear(self) -> None:
        """Take the other operator's messages, in the order in which they are made."""
        operator = self.operator
        kinds: tuple[tuple[Step, Callable[[bytes], object]], ...] = (
            (LISTS, operator.hear_list),
            (FREEZES, operator.hear_freeze),
            (REVEALS, operator.hear_reveal),
            (DRAFTS, operator.hear_draft),
        )
        for step, take in kinds:
            for one in self.mailbox.submissions(step):
                if one.entity != operator.peer:
                    continue
                try:
                    take(one.read())
                except TransportError:
                    continue
                except (ProtocolError, NotReady) as error:
                    if error.parameter == "operators":  # two different messages: evidence, and the end
                        raise
                    self.problems.append(Rejected(one.entity, error.summary))

    def advance(self, clock: Clock, *, close: bool) -> None:
        """Do every step that is due; what was stored before is sent again, which changes nothing."""
        operator, book = self.operator, self.operator.book
        if operator.final is None:
            self._list(clock, close=close)
            self._freeze()
            if operator.freeze is not None and operator.peer_freeze is not None:
                self._post(REVEALS, operator.make_reveal())
                self.hear()
            if book.get("peer reveal") is not None and book.get("reveal") is not None:
                if operator.place == 0:
                    operator.make_draft()
                elif book.get("peer draft") is not None:
                    operator.sign_draft()
                if (draft := book.get("draft")) is not None:
                    self._post(DRAFTS, draft)
        final = operator.final
        if final is not None:
            if self.mailbox.published(REPORTS) != final:
                announce("operator: publish")
                self.mailbox.publish(REPORTS, final)
            operator.erase()

    def _list(self, clock: Clock, *, close: bool) -> None:
        operator = self.operator
        own, peer = operator.own_lists, operator.peer_lists
        if not operator.frozen and self._due(clock, close=close):
            own = [*own, *operator.own_lists[len(own) :]]
        if own and not operator.frozen and peer:
            pair = operator.agreed_pair()
            short = pair is not None and len(pair.digests) < operator.terms.floor
            if short and operator.book.count > len(own[-1].digests):
                operator.make_list()
        for one in operator.own_lists:
            self._post(LISTS, one.data)

    def _due(self, clock: Clock, *, close: bool) -> bool:
        """Make the first list if it is time; refuse below the floor."""
        operator = self.operator
        if operator.own_lists:
            return False
        here, plan = operator.book.count, self.plan
        if here < plan.expected_entities:
            over = plan.deadline is not None and clock() >= datetime.fromisoformat(plan.deadline)
            followed = any(
                {one.tobytes() for one in lists.digests} <= {one.tobytes() for one in operator.book.listed()[0]}
                for lists in operator.peer_lists
            )
            if not over and not close and not followed:
                return False
            if here < operator.terms.floor:
                if followed and not over and not close:
                    return False
                raise TooFewMessages(
                    "fewer reports arrived than {parameter} requires; nothing is published.",
                    found=f"{here}",
                    expected=f"at least {operator.terms.floor} of {plan.expected_entities}",
                    fix="wait: late reports still count, and nothing is lost",
                    parameter="secure.floor",
                )
        operator.make_list()
        return True

    def _freeze(self) -> None:
        operator = self.operator
        if not operator.frozen:
            if operator.place == 1 and operator.peer_freeze is None:
                return  # the first one chooses: two who choose at the same time may choose two lists, for good
            pair = operator.agreed_pair()
            if pair is None or len(pair.digests) < operator.terms.floor:
                return
            operator.make_freeze(pair)
        frozen = operator.freeze
        assert frozen is not None
        operator.keys.keep_freeze(receipt(frozen.data))
        self._post(FREEZES, frozen.data)

    def _post(self, step: Step, data: bytes) -> None:
        announce(f"operator: send {step.id}")
        self.mailbox.post(step, data)


def progress_of(operator: Operator, problems: Sequence[Rejected] = ()) -> CoordinationStatus:
    """Give the progress of an operator; while it waits for the other one, that one's name is what is missing."""
    plan, here, published = operator.plan, operator.book.count, operator.final is not None
    step = _waits(operator)
    waits_for_peer = step is not StepId.REPORTS and not published
    missing: tuple[str, ...] | None = None
    if waits_for_peer:
        missing = (operator.peer,)
    elif not plan.people and not published:
        names = operator.book.entities()
        missing = tuple(name for name in plan.entities if name not in names)
    return CoordinationStatus(
        step=StepId.REPORTS if published else step,
        arrived=0 if waits_for_peer else here,
        expected=1 if waits_for_peer else plan.expected_entities,
        quorum=1 if waits_for_peer else operator.terms.floor,
        deadline=None if waits_for_peer else plan.deadline,
        missing=missing,
        can_close=step is StepId.REPORTS and here >= operator.terms.floor,
        closed=operator.frozen,
        published=published,
        refused=tuple(dict.fromkeys([*operator.book.refused(), *problems])),
    )


def _waits(operator: Operator) -> StepId:
    if not operator.own_lists:
        return StepId.REPORTS
    if not operator.frozen:
        return StepId.LISTS
    if operator.peer_freeze is None:
        return StepId.FREEZES
    if operator.book.get("peer reveal") is None:
        return StepId.REVEALS
    return StepId.DRAFTS
