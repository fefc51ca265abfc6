"""An entity's part of a federation: do whatever is due, and never do it twice.

`act` decides without a transport, so it runs wherever the entity's data is; `participate` transfers what it decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field

from twofold.entity.agent import Entity
from twofold.errors import BadMessage, RoundClosed
from twofold.federation.mailbox import (
    AGREE,
    ANSWERS,
    KEYS,
    MASKED,
    REPORTS,
    ROUNDS,
    EntityMailbox,
    NothingYet,
    Rejected,
    Step,
    StepId,
    steps_of,
)

__all__ = ["Deed", "Done", "ParticipationStatus", "Send", "Wait", "act", "participate"]


@dataclass(frozen=True, kw_only=True)
class Send:
    """Hand over this message."""

    step: Step
    data: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Wait for what the server publishes in this step; nothing can be done before."""

    step: Step
    dropped: bool = False


@dataclass(frozen=True, kw_only=True)
class Done:
    """The item factors are here; `dropped` when they were made without this entity's message."""

    factors: bytes = field(repr=False)
    dropped: bool = False


Deed = Send | Wait | Done


@dataclass(frozen=True, kw_only=True)
class ParticipationStatus:
    """The progress of an entity.

    Parameters
    ----------
    sent : tuple of StepId
        Steps whose message was handed over so far.
    fresh : tuple of StepId
        Those of them in which a message left just now.
    waits : StepId or None
        Step whose publication is awaited; None once the item factors are here.
    factors : bytes or None
        The item factors, once they are here.
    dropped : bool
        True if the sum continued without this entity's message.
    rejected : tuple of Rejected
        Files found instead of the awaited one, and why they were rejected.
    """

    sent: tuple[StepId, ...]
    fresh: tuple[StepId, ...] = ()
    waits: StepId | None = None
    factors: bytes | None = field(default=None, repr=False)
    dropped: bool = False
    rejected: tuple[Rejected, ...] = ()


def act(entity: Entity, published: Mapping[StepId, bytes | None], submitted: Set[StepId] = frozenset()) -> Deed:
    """Decide what is due.

    Parameters
    ----------
    entity : Entity
        With its ledger and, for a secure sum, its keys.
    published : mapping
        What the server published in each checked step; None if nothing yet.
    submitted : set of StepId
        Steps whose message is on its way. Without a ledger, another call would draw another message.

    Privacy
    -------
    Everything to be sent is stored first (ledger, key store) and given again byte for byte, so a kill between any two
    calls costs nothing. An entity that is too late for a list draws nothing and spends nothing: the list of survivors
    is looked for before anything is drawn. It still gets the item factors. In a real plan nothing but the agreement
    leaves before everybody has agreed.

    Paper
    -----
    Algorithm 2, line 2.
    """
    if steps_of(entity.plan)[0] is AGREE and (due := _begin(entity, published, submitted)) is not None:
        return due
    if entity.plan.operators is not None:
        if StepId.REPORTS not in submitted:
            return Send(step=REPORTS, data=entity.report().data)
        return _finish(REPORTS, published)
    if entity.plan.secure is None:
        if StepId.ROUNDS not in submitted:
            return Send(step=ROUNDS, data=entity.release().data)
        return _finish(ROUNDS, published)
    if StepId.KEYS not in submitted:
        return Send(step=KEYS, data=entity.share())
    participants = published.get(StepId.KEYS)
    if participants is None:
        return Wait(step=KEYS)
    if not entity.listed(participants):
        return _finish(ANSWERS, published, dropped=True)
    if StepId.MASKED not in published:
        return Wait(step=MASKED)
    survivors = published[StepId.MASKED]
    if survivors is not None and not entity.listed(participants, survivors):
        return _finish(ANSWERS, published, dropped=True)
    if StepId.MASKED not in submitted:
        return Send(step=MASKED, data=entity.release(participants).data)
    if survivors is None:
        return Wait(step=MASKED)
    if StepId.ANSWERS not in submitted:
        try:
            return Send(step=ANSWERS, data=entity.answer(survivors, participants))
        except BadMessage:  # somebody's shares do not open; the sum may go on with the answers of others
            if StepId.ANSWERS in published and published[StepId.ANSWERS] is None:
                raise
    return _finish(ANSWERS, published)


def _begin(entity: Entity, published: Mapping[StepId, bytes | None], submitted: Set[StepId]) -> Deed | None:
    """Agree to a real plan, and wait until everybody has; None once the rounds may start."""
    if StepId.AGREE not in submitted:
        return Send(step=AGREE, data=entity.agreement())
    agreed = published.get(StepId.AGREE)
    if not entity.started:
        if agreed is None:
            return Wait(step=AGREE)
        entity.start(agreed)
    return None


def _finish(last: Step, published: Mapping[StepId, bytes | None], *, dropped: bool = False) -> Deed:
    factors = published.get(last.id)
    return Wait(step=last, dropped=dropped) if factors is None else Done(factors=factors, dropped=dropped)


def participate(entity: Entity, mailbox: EntityMailbox) -> ParticipationStatus:
    """Do every step that is due, and say what is awaited. Call it repeatedly, from any process.

    Parameters
    ----------
    entity : Entity
        With its ledger and, for a secure sum, its keys.
    mailbox : EntityMailbox
        The entity's end of the transport.

    Privacy
    -------
    As `act`.
    """
    published: dict[StepId, bytes | None] = {}
    submitted: set[StepId] = set()
    fresh: list[StepId] = []
    nothing = NothingYet()
    while not isinstance(deed := act(entity, published, submitted), Done):
        name = deed.step.id
        if isinstance(deed, Send):
            submitted.add(name)
            # A step that has closed since accepts nothing more; what was published in it says how to continue.
            with suppress(RoundClosed):
                if mailbox.submit(deed.step, deed.data, entity=entity.name).new:
                    fresh.append(name)
                if entity.site is not None:
                    entity.site.sent(entity.plan, deed.data)
        elif name in published:
            break
        else:
            found = mailbox.fetch(deed.step)
            nothing, published[name] = (found, None) if isinstance(found, NothingYet) else (NothingYet(), found)
            if isinstance(found, bytes) and entity.site is not None:
                entity.site.received(entity.plan, found)
    if entity.masked:
        submitted.add(StepId.MASKED)  # perhaps earlier, and too late to count
    return ParticipationStatus(
        sent=tuple(step.id for step in steps_of(entity.plan) if step.id in submitted),
        fresh=tuple(fresh),
        waits=None if isinstance(deed, Done) else deed.step.id,
        factors=deed.factors if isinstance(deed, Done) else None,
        dropped=isinstance(deed, Wait | Done) and deed.dropped,
        rejected=() if isinstance(deed, Done) else nothing.rejected,
    )
