"""One federation of a service: takes messages into its store, and lets the coordinator or the operator work on them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from twofold import __version__
from twofold.errors import LogBroken, PlanMismatch, TransportError, TwofoldError
from twofold.federation.folder import ServerFolder
from twofold.federation.mailbox import (
    BUNDLES,
    DRAFTS,
    FREEZES,
    LISTS,
    REVEALS,
    OperatorMailbox,
    Step,
    check_sender,
    steps_of,
)
from twofold.federation.messages import read_header, roster_of
from twofold.federation.plan import Plan
from twofold.federation.wire import DOCUMENTS
from twofold.identity.keystore import KeyStore
from twofold.identity.log import Event, SecurityLog
from twofold.server.coordinate import CoordinationStatus, coordinate, server_for, standing
from twofold.server.service.mailbox import JoinedMailbox, ServiceMailbox, now_text
from twofold.server.service.store import Incoming, Outcome, Store
from twofold.server.state import FolderState

if TYPE_CHECKING:
    from twofold.federation.agreement import Agreements

__all__ = ["Federation", "Hosted", "Peer"]

#: What one operator sends to the other.
_PARTS: Final = (LISTS, FREEZES, REVEALS, DRAFTS, BUNDLES)
#: Seconds after which a failed look is tried again.
_AGAIN: Final = 10.0
_logger = logging.getLogger("twofold.service")


class Peer(Protocol):
    """The way to the other operator's service."""

    def deliver(self, step: Step, data: bytes) -> None:
        """Hand over a message; the same bytes again change nothing."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(frozen=True, kw_only=True)
class Hosted:
    """What a service needs to run one federation.

    Parameters
    ----------
    plan : Plan
        With its roster: nobody else can send anything.
    keys : KeyStore
        The operator's secret keys.
    agreements : Agreements, optional
        Everybody's agreements, if they came with the plan.
    documents : mapping of str to bytes
        Files to hand out besides plan, roster and agreements: ``catalog`` and ``features``, as they are.
    folders : pair of Path, optional
        An inbox and an outbox for those who send files, besides requests.
    peer : Peer, optional
        The other operator, of a plan with two.
    """

    plan: Plan
    keys: KeyStore = field(repr=False)
    agreements: Agreements | None = None
    documents: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    folders: tuple[Path, Path] | None = None
    peer: Peer | None = field(default=None, repr=False)


class Federation:
    """A federation that a service runs, in a thread of its own.

    Parameters
    ----------
    hosted : Hosted
        What to run.
    folder : Path
        For its state.
    poll : float
        Seconds between two looks if nothing arrives: deadlines, folders, the other operator.
    """

    def __init__(self, hosted: Hosted, folder: Path, *, poll: float = 2.0, checks: int = 2) -> None:
        self.plan, self.hosted = hosted.plan, hosted
        self.roster = roster_of(self.plan)
        name = hosted.keys.identity.name
        if self.roster.operators.get(name) != hosted.keys.identity:
            raise PlanMismatch(
                "the keys are not those of an operator of the plan.",
                found=f"keys of {name}",
                expected=f"those of {' or '.join(self.roster.operators)}",
                fix="use the right key file",
                parameter="keys",
            )
        self.operator = name
        self.store = Store(folder, self.plan)
        self.log = SecurityLog(folder / "audit.log", hosted.keys.signer, entity=name)
        self.steps = {step.id.value: step for step in steps_of(self.plan)}
        self.between = {step.id.value: step for step in _PARTS} if self.plan.operators is not None else {}
        self.documents = self._documents()
        self.status: CoordinationStatus | None = None
        self.problem: TwofoldError | None = None
        self.looks = 0
        self._poll, self._checks = poll, threading.BoundedSemaphore(checks)
        self._wake, self._stop = threading.Event(), threading.Event()
        self._working = threading.Lock()
        self._logging = threading.Lock()  # the log's own lock is between processes, and unfair: threads would starve
        self._thread: threading.Thread | None = None
        self._box: OperatorMailbox = ServiceMailbox(self.store, published=self._published)
        if hosted.folders is not None:
            self._box = JoinedMailbox(self._box, ServerFolder(*hosted.folders, self.plan))
        self._look, self._standing = self._worker(folder)
        self.log.add(Event.STARTED, plan=self.plan.hash)
        for one in self.store.unlogged():
            self._log_accepted(one.step, one.entity, one.receipt, one.carrier)

    def _documents(self) -> dict[str, bytes]:
        made = {"plan": self.plan.canonical().encode(), "roster": self.roster.text.encode()}
        if self.hosted.agreements is not None:
            made["agreements"] = self.hosted.agreements.text.encode()
        return {kind: data for kind, data in {**self.hosted.documents, **made}.items() if kind in DOCUMENTS}

    def _worker(self, folder: Path) -> tuple[Callable[..., CoordinationStatus], Callable[[], CoordinationStatus]]:
        """Give what one look does, the same as over folders, and what tells how far it has come."""
        keys = self.hosted.keys
        if self.plan.operators is not None:
            from twofold.server.operate import operate, progress_of  # these load the library of ciphers
            from twofold.server.operator import Operator

            one = Operator(self.plan, keys, state=folder / "operator")
            return partial(operate, one, self._box, forward=True), partial(progress_of, one)
        server = server_for(self.plan, signer=keys.signer)
        state = FolderState(folder / "coordinator", self.plan)
        look = partial(coordinate, server, self._box, state=state, agreements=self.hosted.agreements)
        return look, partial(standing, server, self._box, state=state)

    # Requests.

    def take(self, step: Step, entity: str, one: Incoming, *, carrier: str) -> Outcome:
        """Check a message that has arrived completely, and store it; its own signature says who made it.

        Raises
        ------
        ProtocolError, PrivacyError
            It is not this entity's message for this plan and step.
        TransportError
            It could not be stored.
        """
        with self._checks:
            data = self.store.content(one)
            check_sender(data, entity)
            step.up.decode(data, self.plan)
            del data
        if self.store.receipt_of(step, entity) is None and self.store.is_closed(step):
            return Outcome.CLOSED
        if self.store.has_evidence(step, entity, one.digest):  # one more would only fill the disk
            return Outcome.CONFLICT
        size, mark = one.size, self.store.keep(one)
        outcome = self.store.add(step, entity, mark, size=size, at=now_text(), carrier=carrier)
        if outcome is Outcome.CONFLICT:
            fields = {"step": step.id.value, "entity": entity, "digest": mark, "carrier": carrier}
            with self._logging:
                self.log.add_once(Event.CONFLICT, plan=self.plan.hash, **fields)
        elif outcome is not Outcome.CLOSED:
            with self._logging:
                for late in self.store.unlogged():  # this one, or one whose line could not be written
                    self._log_accepted(late.step, late.entity, late.receipt, late.carrier)
            self.wake()
        return outcome

    def take_part(self, step: Step, one: Incoming, *, carrier: str) -> Outcome:
        """Check and store a message of the other operator; it is in the log before it is acknowledged."""
        with self._checks:
            data = self.store.content(one)
            step.up.decode(data, self.plan)
            entity = read_header(data).entity or ""
            del data
        if self.store.has_parts(step, one.digest):  # one more would only fill the disk
            return Outcome.CLOSED
        mark = self.store.keep(one)
        outcome = self.store.add_part(step, mark, entity, at=now_text())
        if outcome is not Outcome.CLOSED:  # after a kill the other one sends it again, and the line is written then
            fields = {"step": step.id.value, "entity": carrier, "digest": mark, "carrier": carrier}
            with self._logging:
                self.log.add_once(Event.ACCEPTED, plan=self.plan.hash, **fields)
        if outcome is Outcome.NEW:
            self.wake()
        return outcome

    def refusals(self, entity: str) -> list[str]:
        """Say why the coordinator did not take an entity's message, if it did not."""
        status = self.status
        return [] if status is None else [one.reason for one in status.refused if one.name == entity][:3]

    def close_step(self, step: Step) -> None:
        """Stop waiting in a step, at the next look; a kill before that does not lose it."""
        with self._logging:
            self.log.add(Event.CLOSED, plan=self.plan.hash, step=step.id.value)
        self.store.ask_to_close(step.id.value)
        self.wake()

    def describe(self) -> dict[str, Any]:
        """Give the progress, for members and for the status page: public numbers and names of the roster."""
        status, plan, problem = self.status, self.plan, self.problem
        record: dict[str, Any] = {
            "plan": plan.hash,
            "name": plan.name,
            "sharing": plan.sharing,
            "operator": self.operator,
            "operators": [*self.roster.operators],
            "entities": len(plan.entities) or plan.expected_entities,
            "epsilon": str(plan.epsilon),
            "delta": str(plan.delta),
            "mechanism": plan.spec.mechanism,
            "deadline": plan.deadline,
            "quorum": plan.quorum,
            "simulation": plan.simulation,
            "version": __version__,
            "documents": sorted(self.documents),
            "steps": [self._step_record(step) for step in self.steps.values()],
            # What was found may name files and addresses of the operator.
            "problem": None if problem is None else {"error": type(problem).__name__, "summary": problem.summary},
            "now": None,
        }
        if status is not None:
            record["now"] = {
                "step": status.step.value,
                "arrived": status.arrived,
                "expected": status.expected,
                "quorum": status.quorum,
                "deadline": status.deadline,
                "missing": None if status.missing is None else list(status.missing),
                "can_close": status.can_close,
                "published": status.published,
                "refused": [{"name": one.name, "reason": one.reason} for one in status.refused[:100]],
            }
        return record

    def _step_record(self, step: Step) -> dict[str, Any]:
        came = self.store.messages(step)
        names = [] if self.plan.people else sorted(entity for entity, _ in came)
        return {"step": step.id.value, "here": len(came), "names": names, "published": self.is_published(step)}

    def is_published(self, step: Step) -> bool:
        """Whether something was published in a step."""
        return self.store.published_receipt(step) is not None

    # The coordinator's thread.

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._run, name=f"federation {self.plan.hash[:12]}", daemon=True)
        self._thread.start()

    def stop(self, patience: float = 10.0) -> None:
        """Stop looking. Work that takes longer is left, and done again by the next process: it is never lost."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(patience)
        if self._thread is None or not self._thread.is_alive():
            self.store.close()
            if self.hosted.peer is not None:
                self.hosted.peer.close()

    def wake(self) -> None:
        """Look soon."""
        self._wake.set()

    def look(self) -> CoordinationStatus | None:
        """Look once, and deliver what the other operator is to get; for tests, and by the thread."""
        with self._working:
            close = self.store.asked_to_close()
            try:
                now = next((name for name, step in self.steps.items() if not self.is_published(step)), None)
                self.status = self._look(close=close is not None and close[0] == now)
                self.problem = None
            except TwofoldError as error:  # too few messages at the deadline, or a folder that is away
                self.problem = error
                with suppress(TwofoldError):  # what has arrived is told all the same
                    self.status = self._standing()
            if close is not None:
                self.store.saw_to_close(*close)  # it was done, or refused; a kill before this asks again
            if self.hosted.peer is not None:
                self._deliver(self.hosted.peer)
            self.looks += 1
            return self.status

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            pause = self._poll
            try:
                self.look()
            except Exception:  # a fault of ours must not end the service; it is told where operators look
                _logger.exception("federation %s: a look failed", self.plan.hash[:12])
                self.problem = TransportError("the last look failed; the service's own log says why.")
                pause = _AGAIN
            self._wake.wait(pause)
            if not self._stop.is_set():
                time.sleep(min(0.05, self._poll))  # several uploads, one look

    def _deliver(self, peer: Peer) -> None:
        for name, mark in self.store.undelivered():
            step = self.between[name]
            try:
                peer.deliver(step, self.store.read(mark, step.up.limit(self.plan)))
            except TwofoldError as error:  # it is not there now; tried again at the next look
                self.problem = self.problem or error
                return
            self.store.delivered(name, mark)

    def _published(self, step: Step, mark: str) -> None:
        with suppress(LogBroken), self._logging:  # it is out; the next start cannot take it back
            self.log.add_once(Event.PUBLISHED, plan=self.plan.hash, step=step.id.value, digest=mark)

    def _log_accepted(self, step: str, entity: str, mark: str, carrier: str) -> None:
        fields = {"step": step, "entity": entity, "digest": mark, "carrier": carrier}
        self.log.add_once(Event.ACCEPTED, plan=self.plan.hash, **fields)
        self.store.logged(step, entity)
