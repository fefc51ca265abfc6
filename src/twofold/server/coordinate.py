"""The server's part of a federation, from the first message to publication; it resumes after any kill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from twofold.errors import (
    BadMessage,
    ConflictingMessage,
    Fix,
    PlanMismatch,
    PrivacyError,
    ProtocolError,
    RoundClosed,
    TooFewMessages,
    TransportError,
    TwofoldError,
)
from twofold.federation.factors import encode_factors
from twofold.federation.mailbox import AGREE, Rejected, ServerMailbox, Step, StepId, Submission, steps_of
from twofold.federation.messages import roster_of
from twofold.federation.plan import Plan
from twofold.release.combine import MOST_MESSAGES
from twofold.server.factorize import Server, checked, conflict
from twofold.server.state import State, StepState
from twofold.storage.container import receipt
from twofold.storage.files import step as announce

if TYPE_CHECKING:
    from twofold.federation.agreement import Agreements
    from twofold.server.secure import SecureServer
    from twofold.storage.signing import SigningKey

__all__ = ["CoordinationStatus", "Finished", "StepRules", "check_signer", "coordinate", "server_for", "standing"]

Clock = Callable[[], datetime]


@dataclass(frozen=True, kw_only=True)
class CoordinationStatus:
    """Progress of a federation: the figures of its current step.

    Parameters
    ----------
    step : StepId
        The step.
    arrived, expected : int
        Number of entities whose message was accepted, and number expected.
    quorum : int
        Fewest messages with which the step continues.
    deadline : str or None
        Until when the server waits for the others.
    missing : tuple of str or None
        Public names of those who had not answered at the last check; None if the plan names nobody.
    can_close : bool
        Whether the step would continue without the missing entities if it were closed by hand now.
    closed, published : bool
        Whether the list of messages is final in the last step, and whether the item factors are out.
    refused : tuple of Rejected
        What was rejected so far, with the reason in public words: first what is refused for good, then conflicts at the
        last check, then what the mailbox refused.
    open_to_anybody : bool
        Whether the plan names no entities, so that any made-up name counts.
    """

    step: StepId
    arrived: int
    expected: int
    quorum: int
    deadline: str | None = None
    missing: tuple[str, ...] | None = None
    can_close: bool = False
    closed: bool = False
    published: bool = False
    refused: tuple[Rejected, ...] = ()
    open_to_anybody: bool = False


@dataclass(frozen=True, kw_only=True)
class StepRules:
    """Rules by which a server accepts messages, closes and finishes one step.

    Parameters
    ----------
    names : tuple of str
        Public names of the expected entities; empty if the plan names nobody.
    expected, quorum : int
        How many are expected, and the fewest with which the step continues.
    floor : str
        The parameter of the plan that says how few.
    deadline : str or None
        Until when the server waits for the others.
    accept : callable
        Takes a decoded message and what reads its bytes again, unchecked, or None where the message stays in memory;
        refuses what does not belong here, and gives what `compute` needs of it.
    compute : callable
        Makes what is published from what `accept` gave, in the order of the receipts.
    by_itself : bool
        Whether the step closes as soon as `compute` succeeds with a quorum, and not by hand.
    advice : str, Set, Run or tuple of these
        What to do when too few came.
    """

    names: tuple[str, ...]
    expected: int
    quorum: int
    floor: str
    deadline: str | None
    accept: Callable[[Any, Callable[[], bytes] | None], Any]
    compute: Callable[[Sequence[Any]], bytes]
    by_itself: bool = False
    advice: Fix = "wait for more messages"


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished step: what was published, and the result of `StepRules.accept` for every message that counts."""

    data: bytes = field(repr=False)
    taken: Callable[[], Sequence[Any]] = field(repr=False)


def server_for(plan: Plan, *, threads: int | None = None, signer: SigningKey | None = None) -> Server | SecureServer:
    """Give the server of a plan, with its operator's key: for two rounds, or for the three steps of a secure sum."""
    if plan.secure is None:
        return Server(plan, threads=threads, signer=signer)
    from twofold.server.secure import SecureServer  # loads the library of ciphers, which other plans do without

    return SecureServer(plan, signer=signer)


def coordinate(
    server: Server | SecureServer,
    mailbox: ServerMailbox,
    *,
    state: State,
    clock: Clock = lambda: datetime.now(UTC),
    close: bool = False,
    agreements: Agreements | None = None,
) -> CoordinationStatus:
    """Check once: in every open step, accept what is new, and finish the step if possible.

    Parameters
    ----------
    server : Server or SecureServer
        Its plan says who is expected, quorum and deadlines.
    mailbox : ServerMailbox
        The source of messages and the place of publication.
    state : FolderState or MemoryState
        What this coordinator, and no other, remembers.
    clock : callable
        Gives the time, for tests.
    close : bool
        Stop waiting in the current step, as if its deadline had passed: it continues with those who answered, if they
        are enough.
    agreements : Agreements, optional
        Everybody's agreements to the plan, if they came with it: nobody is waited for in the first step then.

    Raises
    ------
    TooFewMessages
        The deadline has passed, or the step is to be closed, below the quorum. Nothing is published. A later
        check may find more.
    TransportError
        The folder or the mailbox cannot be used, or another coordinator is running. Nothing is lost.

    Notes
    -----
    The two rounds close when all expected entities have answered, or at the deadline with a quorum. In a secure sum,
    key shares close when all have shared, or at ``secure.share_deadline`` with enough of them; masked messages when
    all who shared have sent one, or at the deadline with enough survivors; answers as soon as they remove the masks.
    A late message still counts while its step is open: its sender has paid for it.

    Of two different messages from one entity, the one that was stored first counts, and the other is refused. Of two
    found in one check, neither is accepted: nothing in them shows which is the entity's, and a forger who tries long
    enough could satisfy any rule. Both are reported, and the step waits until a person removes one.

    A plan that is not a simulation has a roster: messages that their makers did not sign are refused, and everything
    published is signed by the operator. It starts when everybody has agreed to the plan. In a simulation without a
    roster anyone who can write into the mailbox can pose as an entity.

    Each step is stored before the next, so a restarted coordinator continues from there and publishes the same bytes.
    Once a list of survivors is published, it never changes: entities answer one list only.

    Paper
    -----
    Algorithm 2, lines 3 to 5.

    Examples
    --------
    >>> import numpy as np
    >>> from twofold.federation.mailbox import InProcess
    >>> from twofold.federation.messages import encode_release
    >>> from twofold.federation.plan import CatalogKey
    >>> from twofold.federation.mailbox import ROUNDS
    >>> from twofold.server.state import MemoryState
    >>> key = CatalogKey(hash="0" * 64, n_items=3)
    >>> plan = Plan(catalog=key, feedback="counts", bound=5, max_items=3, simulation=True)
    >>> box = InProcess()
    >>> released = plan.release_mechanism.release(np.ones((9, 3)), plan.parameters)
    >>> _ = box.submit(ROUNDS, encode_release(released.value, entity="st-anna", plan=plan), entity="st-anna")
    >>> seen = coordinate(Server(plan), box, state=MemoryState())
    >>> seen.arrived, seen.expected, seen.published, seen.open_to_anybody
    (1, 1, True, True)
    """
    check_signer(server)
    present = next((step for step in steps_of(server.plan) if state.of(step).result() is None), None)
    before: dict[StepId, Finished] = {}
    for step in steps_of(server.plan):
        gathering = _Gathering(step, server, before, mailbox, state.of(step), agreements)
        if (finished := gathering.look(clock, close=close and step is present)) is None:
            break
        before[step.id] = finished
    return standing(server, mailbox, state=state)


def standing(server: Server | SecureServer, mailbox: ServerMailbox, *, state: State) -> CoordinationStatus:
    """Give the progress of a federation as of the last check; as for `coordinate`."""
    every, before, refused = steps_of(server.plan), dict[StepId, Finished](), list[Rejected]()
    for step in every:
        present = _Gathering(step, server, before, mailbox, state.of(step))
        refused += present.refused()
        if (finished := present.finished()) is None:
            break
        before[step.id] = finished
    rules, came = present.rules, present.state.messages()
    is_open, last = present.state.closed() is None, every[-1]
    return CoordinationStatus(
        step=step.id,
        arrived=len(came),
        expected=rules.expected,
        quorum=rules.quorum,
        deadline=rules.deadline,
        missing=tuple(name for name in rules.names if name not in came) if rules.names else None,
        can_close=is_open and not rules.by_itself and len(came) >= rules.quorum,
        closed=step is last and not is_open,
        published=last.id in before and mailbox.published(last) == before[last.id].data,
        refused=tuple(dict.fromkeys(refused) if every[1:] else refused),  # steps share what a folder refuses
        open_to_anybody=not server.plan.entities,
    )


class _Gathering:
    """One check of one step."""

    def __init__(
        self,
        step: Step,
        server: Server | SecureServer,
        before: Mapping[StepId, Finished],
        mailbox: ServerMailbox,
        state: StepState,
        agreements: Agreements | None = None,
    ) -> None:
        self.step, self.plan, self.mailbox, self.state = step, server.plan, mailbox, state
        if step is AGREE:
            self.rules = _agreeing(server, agreements)
        else:
            self.rules = _rounds(server) if isinstance(server, Server) else server.rules(step, before)

    def look(self, clock: Clock, *, close: bool) -> Finished | None:
        """Accept what is new, and finish the step if possible."""
        with self.state.opened():
            self._collect()
            if self.state.closed() is None and not self._close(clock, by_hand=close):
                return None
            self._publish()
        return self.finished()

    def finished(self) -> Finished | None:
        """The result of the step, if it is finished."""
        data = self.state.result()
        closed = self.state.closed() or []
        return None if data is None else Finished(data=data, taken=lambda: self._taken(closed))

    def refused(self) -> list[Rejected]:
        """Rejected messages; see `CoordinationStatus`."""
        kept = [Rejected(name, reason) for name, reason in self.state.refused().values()]
        return [*kept, *self.state.conflicts, *self.mailbox.rejected(self.step)]

    def _collect(self) -> None:
        """Store every new valid message, and remember why the others were refused."""
        taken, refused = self.state.messages(), self.state.refused()
        before, found = len(refused), self._found(taken, refused)
        self.state.conflicts = [
            _undecided(one, entity) for entity, several in found.items() if several[1:] for one, _ in several
        ]
        for entity, ((one, note), *others) in found.items():
            if others:
                continue
            if len(taken) >= MOST_MESSAGES:
                refused[one.receipt] = (one.entity, _reason(_full()))
                continue
            try:
                data = _unchanged(one)
            except TransportError:  # it could not be read again this time
                continue
            self.state.store(entity, one.receipt, data)
            self.state.notes[one.receipt] = note
            taken[entity] = one.receipt
        if len(refused) != before:
            self.state.refuse(refused)

    def _found(
        self, taken: Mapping[str, str], refused: dict[str, tuple[str, str]]
    ) -> dict[str, list[tuple[Submission, Any]]]:
        """New valid messages by entity; the others are added to the refused ones."""
        known, final = set(taken.values()) | set(refused), self.state.closed() is not None
        found: dict[str, list[tuple[Submission, Any]]] = {}
        for one in sorted(self.mailbox.submissions(self.step), key=lambda one: one.receipt):
            if one.receipt in known:
                continue
            known.add(one.receipt)
            if final and self.step is AGREE:  # the agreements are complete without this one
                continue
            try:
                if final:
                    raise RoundClosed("the round is closed; this message arrived too late.")
                message = self.step.up.decode(_unchanged(one), self.plan)
                if message.entity in taken:
                    raise conflict(message.entity)
                note = self.rules.accept(message, self.state.reader(one.receipt))
                found.setdefault(str(message.entity), []).append((one, note))
            except (ProtocolError, PrivacyError, RoundClosed) as error:
                refused[one.receipt] = (one.entity, _reason(error))
            except TransportError:  # it could not be read this time
                continue
        return found

    def _close(self, clock: Clock, *, by_hand: bool) -> bool:
        """Record which messages count, if it is time; return whether it was."""
        receipts, rules = sorted(self.state.messages().values()), self.rules
        if rules.by_itself and len(receipts) >= rules.quorum:
            return self._close_by_itself(receipts)
        if len(receipts) >= max(rules.expected, rules.quorum):
            self.state.close(receipts, "all answered")
            return True
        over = rules.deadline is not None and clock() >= datetime.fromisoformat(rules.deadline)
        if not over and not by_hand:
            return False
        if len(receipts) < rules.quorum:
            raise TooFewMessages(
                "fewer messages arrived in time than {parameter} requires; nothing is published.",
                found=f"{len(receipts)}",
                expected=f"at least {rules.quorum} of {rules.expected}",
                fix=rules.advice,
                parameter=rules.floor,
            )
        self.state.close(receipts, "deadline" if over else "by hand")
        return True

    def _close_by_itself(self, receipts: list[str]) -> bool:
        """Close as soon as the answers remove the masks; more answers outvote wrong ones."""
        try:
            data = self.rules.compute(self._taken(receipts))
        except (BadMessage, TooFewMessages):
            if len(receipts) >= self.rules.expected:
                raise
            return False
        self.state.close(receipts, "the masks are off")
        self.state.store_result(data)
        return True

    def _publish(self) -> None:
        """Compute and publish the result, unless that is already done."""
        kept = self.state.result()
        data = self.rules.compute(self._taken(self.state.closed() or [])) if kept is None else kept
        if kept is None:
            self.state.store_result(data)
        if self.mailbox.published(self.step) != data:
            if kept is not None:  # a disk may have lost a bit since
                self.step.down.decode(kept, self.plan)
            announce("coordinator: publish")
            self.mailbox.publish(self.step, data)

    def _taken(self, receipts: Sequence[str]) -> list[Any]:
        """Results of `accept` in the order of the receipts; a process without them reads the messages again."""
        notes = self.state.notes
        for one in set(receipts) - set(notes):
            message = self.step.up.decode(self.state.message(one), self.plan)
            notes[one] = self.rules.accept(message, self.state.reader(one))
        return [notes[one] for one in sorted(receipts)]


def check_signer(server: Server | SecureServer) -> None:
    """Refuse to publish for a real plan, or for any with a roster, without the operator's key."""
    plan = server.plan
    if plan.simulation and plan.roster is None:
        return
    due = roster_of(plan).operator
    if server.signer is None or server.signer.public != due.sign:
        raise PlanMismatch(
            "the server has not the key of the plan's operator; nothing is published.",
            found="no key" if server.signer is None else "another key",
            expected=f"the secret keys of {due.name}",
            fix=f"--keys {due.name}.keys, or server_for(plan, signer=...)",
            parameter="keys",
        )


def _agreeing(server: Server | SecureServer, agreements: Agreements | None = None) -> StepRules:
    """Rules of the step before all others: everybody must agree to the plan."""
    from twofold.federation.agreement import Agreements, encode_agreed  # loads the library of ciphers

    plan, signer = server.plan, server.signer
    own = roster_of(plan).operator.name
    due = 0 if agreements is not None else len(plan.entities)
    if agreements is not None:
        agreements.check(plan)

    def compute(taken: Sequence[Any]) -> bytes:
        assert signer is not None  # checked before
        every = agreements or Agreements.joined([Agreements.signed(plan, signer, own), *(one.content for one in taken)])
        return encode_agreed(every, plan, signer=signer)

    return StepRules(
        names=plan.entities,
        expected=due,
        quorum=due,
        floor="entities",
        deadline=None,
        accept=lambda message, _: message,
        compute=compute,
        advice=("wait: a plan starts when everybody has agreed", "a new plan without those who do not"),
    )


def _rounds(server: Server) -> StepRules:
    """Rules of a federation without a secure sum, which has one step."""
    plan = server.plan
    return StepRules(
        names=plan.entities,
        expected=plan.expected_entities,
        quorum=plan.quorum,
        floor="quorum",
        deadline=plan.deadline,
        accept=checked,
        compute=lambda taken: encode_factors(server.factorize_arrived(taken), plan, signer=server.signer),
    )


def _unchanged(submission: Submission) -> bytes:
    data = submission.read()
    if receipt(data) != submission.receipt:
        raise TransportError("a message changed after it was found.", found=submission.entity)
    return data


def _undecided(submission: Submission, entity: str) -> Rejected:
    """Report that the server cannot tell which of several messages is the entity's."""
    error = ConflictingMessage(
        "different messages arrived together under one name; none is accepted.",
        found=f"this one of {entity} has receipt {submission.receipt[:12]}.",
    )
    todo = f"Ask {entity} which receipt its ledger holds, and remove the other; the round waits meanwhile."
    return Rejected(submission.entity, f"{_reason(error)} {todo}")


def _full() -> RoundClosed:
    return RoundClosed("the round is full.", found=f"{MOST_MESSAGES:,} messages; more would overflow the sum.")


def _reason(error: TwofoldError) -> str:
    """The reason, in public words."""
    return f"{type(error).__name__}: {error.summary}" + (f" Found: {error.found}" if error.found else "")
