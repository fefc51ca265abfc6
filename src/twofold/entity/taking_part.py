"""All steps of a federation at one entity, over any transport: whatever is due is done, and what is done stays done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twofold.entity.agent import Entity
from twofold.errors import NotReady
from twofold.protocol.phases import ANSWERS, KEYS, MASKED, ROUNDS, Phase
from twofold.transport.base import EntityMailbox

__all__ = ["Standing", "take_part"]

Mailboxes = Callable[[Phase], EntityMailbox]


@dataclass(frozen=True, kw_only=True)
class Standing:
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
    """

    sent: tuple[str, ...]
    waits: str
    factors: bytes | None = None
    dropped: bool = False


def take_part(entity: Entity, mailboxes: Mailboxes) -> Standing:
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
    costs nothing.
    """
    if entity.plan.secure is None:
        box = mailboxes(ROUNDS)
        box.submit(entity.prototypes().data, entity=entity.name)
        return _fetched(box, ("the message",))
    return _secure(entity, mailboxes)


def _secure(entity: Entity, mailboxes: Mailboxes) -> Standing:
    name = entity.name
    keys, masked, answers = mailboxes(KEYS), mailboxes(MASKED), mailboxes(ANSWERS)
    keys.submit(entity.share(), entity=name)
    try:
        roll = keys.fetch()
    except NotReady:
        return Standing(sent=("key shares",), waits="the list of those who shared keys")
    masked.submit(entity.prototypes(roll).data, entity=name)
    try:
        survivors = masked.fetch()
    except NotReady:
        return Standing(sent=("key shares", "the masked message"), waits="the list of messages in the sum")
    if not _survived(entity, survivors):
        done = _fetched(answers, ("key shares", "the masked message"))
        return Standing(sent=done.sent, waits=done.waits, factors=done.factors, dropped=True)
    answers.submit(entity.answer(survivors, roll), entity=name)
    return _fetched(answers, ("key shares", "the masked message", "the answer"))


def _survived(entity: Entity, survivors: bytes) -> bool:
    from twofold.protocol.key_messages import decode_survivors

    return entity.name in decode_survivors(survivors, entity.plan).survivors


def _fetched(box: EntityMailbox, sent: tuple[str, ...]) -> Standing:
    try:
        return Standing(sent=sent, waits="", factors=box.fetch())
    except NotReady:
        return Standing(sent=sent, waits="the item factors")
