"""All steps of a federation at one entity, over any transport: whatever is due is done, and what is done stays done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from twofold.entity.agent import Entity
from twofold.errors import NotReady, RoundClosed
from twofold.federation.mailbox import EMPTY, EntityMailbox
from twofold.federation.steps import ANSWERS, KEYS, MASKED, ROUNDS, Phase

__all__ = ["ParticipationStatus", "participate"]

Mailboxes = Callable[[Phase], EntityMailbox]


@dataclass(frozen=True, kw_only=True)
class ParticipationStatus:
    """How far an entity is.

    Parameters
    ----------
    sent : tuple of str
        What it has sent by now, in words.
    waits : str
        What it waits for; empty when the item factors are here.
    factors : bytes or None
        The item factors, when they are here.
    dropped : bool
        True when the sum went on without this entity's message.
    note : str
        What lies where the awaited file should be and is not taken, with the reason; empty when nothing does.
    """

    sent: tuple[str, ...]
    waits: str
    factors: bytes | None = None
    dropped: bool = False
    note: str = ""


def participate(entity: Entity, mailboxes: Mailboxes) -> ParticipationStatus:
    """Do every step that is due, and say what is waited for. To be called again and again, from any process.

    Parameters
    ----------
    entity : Entity
        With its ledger and, for a secure sum, its keys.
    mailboxes : callable
        Gives the entity's end of the transport for each step.

    Privacy
    -------
    Everything sent is stored first (ledger, key store) and sent again byte for byte, so a kill between any two steps
    costs nothing. An entity that is too late for a list draws nothing and spends nothing; it still gets the item
    factors.
    """
    if entity.plan.secure is None:
        box = mailboxes(ROUNDS)
        box.submit(entity.release().data, entity=entity.name)
        return _fetched(box, ("the message",))
    return _secure(entity, mailboxes)


def _secure(entity: Entity, mailboxes: Mailboxes) -> ParticipationStatus:
    keys, masked, answers = mailboxes(KEYS), mailboxes(MASKED), mailboxes(ANSWERS)
    _submit(keys, entity.share(), entity)
    roll, reason = _looked(keys)
    if roll is None:
        return ParticipationStatus(sent=_sent(entity), waits="the list of those who shared keys", note=reason)
    if not _on_roll(entity, roll):
        return _without(entity, answers)
    survivors, reason = _looked(masked)
    if survivors is not None and not _survived(entity, survivors):  # drawing now would be spending for nothing
        return _without(entity, answers)
    _submit(masked, entity.release(roll).data, entity)
    if survivors is None:
        return ParticipationStatus(sent=_sent(entity), waits="the list of messages in the sum", note=reason)
    _submit(answers, entity.answer(survivors, roll), entity)
    return _fetched(answers, (*_sent(entity), "the answer"))


def _submit(box: EntityMailbox, data: bytes, entity: Entity) -> None:
    """Send; a step that has closed meanwhile takes nothing more, and what was published in it says how to go on."""
    with suppress(RoundClosed):
        box.submit(data, entity=entity.name)


def _without(entity: Entity, answers: EntityMailbox) -> ParticipationStatus:
    """Wait for the item factors of a sum that this entity is not in."""
    return replace(_fetched(answers, _sent(entity)), dropped=True)


def _sent(entity: Entity) -> tuple[str, ...]:
    return ("key shares", "the masked message") if entity.masked else ("key shares",)


def _on_roll(entity: Entity, roll: bytes) -> bool:
    from twofold.federation.key_messages import (
        decode_roll,  # loads the library of ciphers, which other plans do without
    )

    return entity.name in decode_roll(roll, entity.plan).shares


def _survived(entity: Entity, survivors: bytes) -> bool:
    from twofold.federation.key_messages import decode_survivors

    return entity.name in decode_survivors(survivors, entity.plan).survivors


def _fetched(box: EntityMailbox, sent: tuple[str, ...]) -> ParticipationStatus:
    factors, reason = _looked(box)
    return ParticipationStatus(
        sent=sent, waits="the item factors" if factors is None else "", factors=factors, note=reason
    )


def _looked(box: EntityMailbox) -> tuple[bytes | None, str]:
    """Give what was published; or None, with what is there instead."""
    try:
        return box.fetch(), ""
    except NotReady as error:
        return None, "" if error.found in (None, EMPTY) else str(error.found)
