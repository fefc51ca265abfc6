"""An operator's work over a transport: one look does whatever is due, and never does it twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
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
from twofold.progress import tell
from twofold.server.coordinate import Clock, CoordinationStatus
from twofold.server.operator import Operator
from twofold.server.operator_terms import Pair
from twofold.storage.files import step as announce

__all__ = ["operate", "progress_of"]

#: Bytes of one file of halves for the other operator.
_BUNDLE: Final = 16 * 1024 * 1024
#: What an operator sends besides lists, by the name under which it is stored.
_OWN: Final = ((FREEZES, "freeze"), (REVEALS, "reveal"), (DRAFTS, "draft"))


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
    looking.recall()
    looking.collect(forward=forward)
    if forward:
        looking.forward()
    looking.hear()
    looking.advance(clock, close=close)
    return progress_of(operator, looking.problems)


class _Look:
    def __init__(self, operator: Operator, mailbox: OperatorMailbox) -> None:
        self.operator, self.mailbox, self.plan = operator, mailbox, operator.plan
        self.problems: list[Rejected] = []
        self._sent: set[str] = set()

    def collect(self, *, forward: bool) -> None:
        """Take every new report; a bundle counts as seen once all of it is stored."""
        if self.operator.final is None:
            bundles: list[str] = []
            self.operator.take_all(self._reports(bundles), forward=forward)
            self.operator.book.mark((one, None, None) for one in bundles)
        self.problems += self.mailbox.rejected(REPORTS)

    def _reports(self, bundles: list[str]) -> Iterator[tuple[str, bytes]]:
        book = self.operator.book
        for number, one in enumerate(self.mailbox.submissions(REPORTS)):
            tell("reports looked at", number, max(number + 1, self.plan.expected_entities))
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
                bundles.append(one.receipt)
            except TransportError:
                continue
            except ProtocolError as error:
                book.mark([(one.receipt, "a bundle", error.summary)])

    def recall(self) -> None:
        """Refuse to go on if this operator has sent a final list or a sum that its folder does not know.

        An older copy of the folder, or another folder, would draw a second noise.
        """
        operator, mailbox = self.operator, self.mailbox
        for step in (FREEZES, REVEALS):
            for one in (*mailbox.submissions(step), *mailbox.sent(step)):
                if one.entity != operator.name or one.receipt in operator.heard:
                    continue
                try:
                    operator.recall(step.up.decode(one.read(), self.plan))
                except (TransportError, ProtocolError):  # not this operator's: it would be signed
                    continue
                operator.heard.add(one.receipt)

    def forward(self) -> None:
        """Hand on halves, some megabytes in a file."""
        while found := self.operator.book.halves(_BUNDLE):
            self._post(BUNDLES, encode_bundle((data for _, data in found), self.plan))
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
                if one.entity != operator.peer or one.receipt in operator.heard:
                    continue
                try:
                    take(one.read())
                    operator.heard.add(one.receipt)
                except TransportError:
                    continue
                except NotReady:  # an earlier message is still on its way
                    continue
                except ProtocolError as error:
                    if error.parameter == "operators" and operator.final is None:  # signed evidence, and the end
                        raise
                    self.problems.append(Rejected(one.entity, error.summary))

    def advance(self, clock: Clock, *, close: bool) -> None:
        """Do every step that is due; what was stored before is sent again, which changes nothing."""
        operator = self.operator
        operator.check_peer()
        for work in (partial(self._list, clock, close=close), self._freeze, self._reveal, self._draft):
            if operator.final is None:
                work()
            self._send()
        final = operator.final
        if final is not None:
            if self.mailbox.published(REPORTS) != final:
                announce("operator: publish")
                self.mailbox.publish(REPORTS, final)
            operator.erase()

    def _send(self) -> None:
        """Send everything that is stored: the other operator may have lost it, or this one was killed before."""
        book = self.operator.book
        frozen = book.get("freeze")
        if frozen is not None:
            self.operator.keys.keep_freeze(receipt(frozen))
        stored: list[tuple[Step, bytes | None]] = [(LISTS, data) for data in book.every("list ")]
        stored += [(step, book.get(name)) for step, name in _OWN]
        for step, data in stored:
            if data is not None and receipt(data) not in self._sent:
                self._post(step, data)
                self._sent.add(receipt(data))

    def _list(self, clock: Clock, *, close: bool) -> None:
        """Make the first list when it is due, and another if too few reports are common and more are here."""
        operator = self.operator
        if operator.frozen:
            return
        self._due(clock, close=close)
        if (pair := self._short()) is None:
            return
        if operator.book.count > len(operator.own_lists[-1].digests):
            operator.make_list()
            pair = self._short()
        if pair is not None and (close or self._over(clock)):
            self._send()
            raise self._too_few(len(pair.digests))

    def _short(self) -> Pair | None:
        """Give the newest pair of lists if it is below the floor."""
        pair = self.operator.newest_pair()
        return pair if pair is not None and len(pair.digests) < self.operator.terms.floor else None

    def _over(self, clock: Clock) -> bool:
        return self.plan.deadline is not None and clock() >= datetime.fromisoformat(self.plan.deadline)

    def _due(self, clock: Clock, *, close: bool) -> None:
        """Make the first list if it is time; refuse below the floor."""
        operator = self.operator
        if operator.own_lists:
            return
        here = operator.book.count
        if here < self.plan.expected_entities:
            over = close or self._over(clock)
            if not over and not self._followed():
                return
            if here < operator.terms.floor:
                if over:
                    raise self._too_few(here)
                return
        operator.make_list()

    def _followed(self) -> bool:
        """Whether the other operator has made a list, and all its reports are here as well."""
        here = {one.tobytes() for one in self.operator.book.listed()[0]}
        return any({one.tobytes() for one in lists.digests} <= here for lists in self.operator.peer_lists)

    def _too_few(self, here: int) -> TooFewMessages:
        return TooFewMessages(
            "fewer reports arrived at both operators than {parameter} requires; nothing is published.",
            found=f"{here}",
            expected=f"at least {self.operator.terms.floor} of {self.plan.expected_entities}",
            fix="wait: late reports still count, and nothing is lost",
            parameter="secure.floor",
        )

    def _freeze(self) -> None:
        operator = self.operator
        if not operator.frozen:
            pair = operator.agreed_pair()
            if pair is not None and len(pair.digests) >= operator.terms.floor:
                operator.make_freeze(pair)

    def _reveal(self) -> None:
        operator = self.operator
        if operator.freeze is not None and operator.peer_freeze is not None:
            operator.make_reveal()

    def _draft(self) -> None:
        operator, book = self.operator, self.operator.book
        if book.get("peer reveal") is None or book.get("reveal") is None:
            return
        if operator.place == 0:
            operator.make_draft()
        elif book.get("peer draft") is not None:
            operator.sign_draft()

    def _post(self, step: Step, data: bytes) -> None:
        announce(f"operator: send {step.id}")
        self.mailbox.post(step, data)


def progress_of(operator: Operator, problems: Sequence[Rejected] = ()) -> CoordinationStatus:
    """Give the progress of an operator; while it waits for the other one, that one's name is what is missing."""
    plan, published, step = operator.plan, operator.final is not None, _waits(operator)
    refused = tuple(dict.fromkeys([*operator.book.refused(), *problems]))
    if not published and step is not StepId.REPORTS:
        return CoordinationStatus(
            step=step,
            arrived=0,
            expected=1,
            quorum=1,
            missing=(operator.peer,),
            closed=operator.frozen,
            refused=refused,
        )
    pair = operator.newest_pair()
    frozen = operator.freeze
    common = None if pair is None else operator.book.entities(pair.digests)
    names = operator.book.entities() if common is None else common
    here = operator.book.count if common is None else len(common)
    return CoordinationStatus(
        step=StepId.REPORTS,
        arrived=here if frozen is None else frozen.count,
        expected=plan.expected_entities,
        quorum=operator.terms.floor,
        deadline=plan.deadline,
        missing=None if plan.people or published else tuple(name for name in plan.entities if name not in names),
        can_close=not operator.own_lists and here >= operator.terms.floor,
        closed=operator.frozen,
        published=published,
        refused=refused,
    )


def _waits(operator: Operator) -> StepId:
    """Give the step whose messages are missing: with too few reports in common, reports again."""
    if not operator.own_lists:
        return StepId.REPORTS
    if operator.frozen:
        if operator.peer_freeze is None:
            return StepId.FREEZES
        return StepId.REVEALS if operator.book.get("peer reveal") is None else StepId.DRAFTS
    pair = operator.newest_pair()
    if pair is None:
        return StepId.LISTS
    return StepId.REPORTS if len(pair.digests) < operator.terms.floor else StepId.FREEZES
