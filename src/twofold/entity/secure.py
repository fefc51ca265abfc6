"""An entity's part of a secure sum: share keys, mask the one message, answer one list of survivors."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np

from twofold.errors import NotForRealUse, NotReady, PlanMismatch, Run
from twofold.federation.bodies import body_limit
from twofold.federation.key_messages import (
    Participants,
    Survivors,
    decode_answer,
    decode_participants,
    decode_survivors,
    encode_answer,
    encode_shares,
    secure_terms,
)
from twofold.federation.messages import ReleaseMessage
from twofold.federation.plan import Plan
from twofold.identity.keystore import KeyStore
from twofold.release.content import BilinearSums, Masked
from twofold.secure_sum import Keys, Terms, answer, mask, share_secrets
from twofold.secure_sum.messages import pack
from twofold.storage.files import read_limited

__all__ = ["Masks", "SecurePart"]

Given = bytes | str | PathLike[str]


@dataclass(frozen=True, kw_only=True)
class Masks:
    """Masks for one list of participants."""

    name: str
    keys: Keys = field(repr=False)
    terms: Terms = field(repr=False)
    participants: Participants = field(repr=False)

    def hide(self, content: BilinearSums) -> Masked:
        """Mask noisy numbers; the same noise under the same masks gives the same bytes."""
        hidden = mask(content.numbers, self.keys, self.name, self.terms, self.participants.present)
        packed = np.frombuffer(pack(hidden.numbers, hidden.bits), dtype=np.uint8)
        return Masked(
            mechanism=content.mechanism,
            present=hidden.present.hex(),
            bits=hidden.bits,
            packed=packed.reshape(hidden.numbers.size, hidden.bits // 8),
            seeded=content.seeded,
            note=content.note,
        )

    def check(self, message: ReleaseMessage) -> None:
        """Refuse a stored message that was masked for other participants."""
        content = message.content
        if (
            not isinstance(content, Masked)
            or content.present != self.terms.present_digest(self.participants.present).hex()
        ):
            raise PlanMismatch(
                "the ledger's message for this plan was masked for another list of entities.",
                expected="the list it was masked for",
                fix="ask the server why it published two lists; a second list needs a new plan",
            )


class SecurePart:
    """Keys and terms of one entity.

    Parameters
    ----------
    name : str
        As enrolled.
    plan : Plan
        With a secure sum.
    store : KeyStore
        The entity's secret keys; in memory for simulations only.
    version : str
        Public name of the state of the data; the keys serve one.

    Privacy
    -------
    What was masked and answered must be remembered longer than a process lives, so keys of a real plan are in a file.
    """

    def __init__(self, name: str, plan: Plan, store: KeyStore, *, version: str = "1") -> None:
        self.name, self.plan, self.terms, self.version, self.store = name, plan, secure_terms(plan), version, store
        if store.in_memory and not plan.simulation:
            raise NotForRealUse(
                "keys in memory do not remember which list they answered; nothing was shared.",
                expected="the file of secret keys",
                fix=f'new_keys("{name}.keys", "{name}"), the plan with these, then Entity(..., keys="{name}.keys")',
                parameter="keys",
            )
        self.terms.own(self.store.keys, name)
        self._list: tuple[bytes, Participants] | None = None
        self._survivors: tuple[bytes, Survivors] | None = None

    def shares(self) -> bytes:
        """Give the sealed shares; the same bytes every time."""
        if not self.plan.simulation and not self.store.confirmed(self.plan.hash):
            raise NotReady(
                "nobody here has confirmed the plan's fingerprint; nothing but the agreement was sent.",
                expected="its twelve words, compared with people you know at other entities: a plan's writer who"
                " invents the other participants reads your message",
                fix=Run("join --confirm"),
                parameter="confirm",
            )
        self.store.bind(self.plan.hash, self.version)
        shares = share_secrets(self.store.keys, self.name, self.terms)
        return encode_shares(shares, self.plan, signer=self.store.signer)

    def masks(self, participants: Given | None) -> Masks:
        """Get masks for the participants."""
        if participants is None:
            raise NotReady(
                "the list of those who shared keys is missing; nothing was drawn.",
                fix="share() first; then release(participants) with what the server published",
                parameter="participants",
            )
        self.store.bind(self.plan.hash, self.version)
        listed = self._participants(participants)
        if self.name not in listed.shares or listed.shares[self.name] != share_secrets(
            self.store.keys, self.name, self.terms
        ):
            raise PlanMismatch(
                "the server's list does not hold this entity's own shares; nothing was drawn.",
                fix="send the shares again, and ask the server why they are not in its list",
                parameter="participants",
            )
        self.store.keep_participants(self.terms.present_digest(listed.present).hex())
        return Masks(name=self.name, keys=self.store.keys, terms=self.terms, participants=listed)

    def listed(self, participants: Given, survivors: Given | None = None) -> bool:
        """Whether this entity shared keys in time and, once that list is published, is in the sum."""
        names = self._participants(participants).shares if survivors is None else self._survived(survivors).survivors
        return self.name in names

    def answer(self, survivors: Given, participants: Given) -> bytes:
        """Answer a list of survivors, once: stored before it is sent."""
        self.store.bind(self.plan.hash, self.version)
        lists, listed = self._survived(survivors), self._participants(participants)
        if lists.present != listed.present:
            raise PlanMismatch("the two lists from the server do not belong together.", parameter="survivors")
        self.store.keep_participants(self.terms.present_digest(listed.present).hex())
        before = self.store.answered()
        made = answer(
            self.store.keys,
            self.name,
            self.terms,
            listed.shares,
            lists.present,
            lists.survivors,
            already=None if before is None else decode_answer(before, self.plan).content,
        )
        return self.store.keep_answer(encode_answer(made, self.plan, signer=self.store.signer))

    def _participants(self, given: Given) -> Participants:
        """Read the list of those who shared keys; long lists are slow, so it is read once."""
        data = _bytes(given, body_limit(self.plan, everybody=True))
        if self._list is None or self._list[0] != data:
            self._list = (data, decode_participants(data, self.plan))
        return self._list[1]

    def _survived(self, given: Given) -> Survivors:
        data = _bytes(given, body_limit(self.plan))
        if self._survivors is None or self._survivors[0] != data:
            self._survivors = (data, decode_survivors(data, self.plan))
        return self._survivors[1]


def _bytes(given: Given, limit: int) -> bytes:
    return given if isinstance(given, bytes) else read_limited(Path(given), limit)
