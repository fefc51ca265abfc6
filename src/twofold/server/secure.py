"""The server's part of a secure sum: it learns who took part and what the sum is, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from twofold.errors import BadMessage, ConflictingMessage, Set, TwofoldError
from twofold.federation.factors import ItemFactors, encode_factors
from twofold.federation.key_messages import (
    Answer,
    Participants,
    Shares,
    Survivors,
    decode_answer,
    decode_participants,
    decode_shares,
    decode_survivors,
    encode_participants,
    encode_survivors,
    secure_terms,
)
from twofold.federation.mailbox import KEYS, MASKED, Step, StepId
from twofold.federation.messages import ReleaseMessage, decode_release
from twofold.federation.plan import Plan
from twofold.release.content import BilinearSums, Masked
from twofold.secure_sum import MaskedMessage, UnmaskMessage, add_masked, check_answer, unmask
from twofold.secure_sum.messages import unpack
from twofold.server.coordinate import Finished, StepRules
from twofold.server.factorize import Arrived, checked, factorize_moments, signed

if TYPE_CHECKING:
    from twofold.storage.signing import SigningKey

__all__ = ["SecureServer", "masked_message"]

Sent = TypeVar("Sent", Shares, Answer)


class SecureServer:
    """Turn shares into participants, masked messages into survivors, and answers into item factors.

    Parameters
    ----------
    plan : Plan
        With a secure sum and a roster.
    signer : SigningKey, optional
        The operator's, with which everything it publishes is signed.

    Privacy
    -------
    Sees sealed shares, masked numbers and, for each entity, one of the two secrets behind its masks: enough for the
    sum of the survivors and for nothing else. A server that is dishonest about the lists gains no more than
    `twofold.secure_sum.honest_in_any_sum` counts, and the noise is shared among that many.

    Paper
    -----
    Algorithm 2, line 4, after the server's part of Bonawitz et al. 2017.
    """

    def __init__(self, plan: Plan, *, signer: SigningKey | None = None) -> None:
        self.plan, self.signer = plan, signer
        self.terms = secure_terms(plan)
        self._read: tuple[bytes, Participants] | None = None

    def rules(self, step: Step, before: Mapping[StepId, Finished]) -> StepRules:
        """Rules for accepting, closing and finishing each step of a secure sum, given those before it."""
        secure = self.plan.peers
        assert secure is not None
        again: tuple[str | Set, ...] = (
            "wait: late messages still count",
            "start again with a new plan and new keys: nothing was unmasked",
        )
        if step is KEYS:
            return StepRules(
                names=tuple(self.terms.names),
                expected=len(self.terms.names),
                quorum=self.terms.least_present,
                floor="secure.present",
                deadline=secure.share_deadline,
                accept=lambda message, _: message,
                compute=self._participants,
                advice=again + self._fewer(),
            )
        listed = self._listed(before[StepId.KEYS].data)
        if step is MASKED:
            return StepRules(
                names=listed.present,
                expected=len(listed.present),
                quorum=secure.survivors,
                floor="secure.survivors",
                deadline=self.plan.deadline,
                accept=lambda message, read: checked(self.checked(message, listed), read),
                compute=lambda taken: self.survivors_of(listed, [one.entity for one in taken]),
                advice=again,
            )
        masked = before[StepId.MASKED]
        lists = decode_survivors(masked.data, self.plan)

        def answered(message: Answer, _: object) -> Answer:
            check_answer(message.content, message.entity, self.terms, lists.present, lists.survivors)
            return message

        def unmasked(answers: Sequence[Answer]) -> bytes:
            messages: Sequence[Arrived] = masked.taken()
            total = self._total((one.load(self.plan) for one in messages), answers, listed, lists)
            return encode_factors(self._factorize(total), self.plan, signer=self.signer)

        return StepRules(
            names=lists.survivors,
            expected=len(lists.survivors),
            quorum=self.terms.threshold,
            floor="secure.answers",
            deadline=None,
            accept=answered,
            compute=unmasked,
            by_itself=True,
            advice=again,
        )

    def _fewer(self) -> tuple[Set, ...]:
        """If the plan needs all entities to share keys, the safe number that allows one to be missing, if any."""
        secure, number = self.plan.peers, len(self.terms.names)
        assert secure is not None
        if self.terms.least_present < number:
            return ()
        try:
            secure.with_(present=number - 1).check(number)
        except TwofoldError:
            return ()
        return (Set("secure.present", number - 1),)

    def participants(self, shares: Iterable[bytes]) -> bytes:
        """Put everybody's shares into one message for all.

        Raises
        ------
        ConflictingMessage
            Two different shares of one entity.
        TooFewMessages
            Fewer than the plan asks for.
        """
        return self._participants([decode_shares(data, self.plan) for data in shares])

    def _participants(self, shares: Iterable[Shares]) -> bytes:
        found = {name: one.content for name, one in _each("sets of shares", shares).items()}
        made = encode_participants(found, self.plan, signer=self.signer)
        self._listed(made)
        return made

    def _listed(self, participants: bytes) -> Participants:
        """Read the list of those who shared keys; long lists are slow, so it is read once."""
        if self._read is None or self._read[0] != participants:
            self._read = (participants, decode_participants(participants, self.plan))
        return self._read[1]

    def survivors(self, messages: Iterable[bytes], participants: bytes) -> bytes:
        """List whose masked messages arrived.

        Raises
        ------
        TooFewMessages
            Fewer than the plan's survivors: nothing will be unmasked.
        """
        listed = self._listed(participants)
        decoded = [self.checked(decode_release(data, self.plan), listed) for data in messages]
        return self.survivors_of(listed, [one.entity for one in decoded])

    def survivors_of(self, participants: Participants, names: Sequence[str]) -> bytes:
        """List the same for checked messages."""
        made = encode_survivors(participants.present, sorted(set(names)), self.plan, signer=self.signer)
        decode_survivors(made, self.plan)
        return made

    def checked(self, message: ReleaseMessage, participants: Participants) -> ReleaseMessage:
        """Refuse a masked message whose masks are for another list, or whose sender shared no keys."""
        bound = self.terms.present_digest(participants.present).hex()
        content = message.content
        if not isinstance(content, Masked) or content.present != bound or message.entity not in participants.shares:
            raise BadMessage(
                "the masks of the message are for another list of entities.",
                found=f"the message of {message.entity}",
                expected="masks for the published list",
                fix=f"ask {message.entity} to mask for the published list; its ledger holds one message per plan",
                parameter="present",
            )
        return message

    def total(
        self, messages: Iterable[bytes], answers: Iterable[bytes], *, participants: bytes, survivors: bytes
    ) -> BilinearSums:
        """Add up and take the masks off.

        Raises
        ------
        TooFewMessages
            Too few answers. Nothing was unmasked.
        BadMessage
            Something does not fit: a message that was not masked for this list, or wrong shares.
        """
        return self._total(
            (decode_release(data, self.plan) for data in messages),
            [decode_answer(data, self.plan) for data in answers],
            self._listed(participants),
            decode_survivors(survivors, self.plan),
        )

    def _total(
        self, messages: Iterable[ReleaseMessage], answers: Iterable[Answer], listed: Participants, named: Survivors
    ) -> BilinearSums:
        seeded = False

        def each() -> Iterable[MaskedMessage]:
            nonlocal seeded
            for one in messages:
                message = self.checked(one, listed)
                if message.entity in named.survivors:
                    seeded = seeded or message.content.seeded
                    yield masked_message(message)

        total, senders = add_masked(each(), self.terms, listed.present)
        if senders != named.survivors:
            raise BadMessage(
                "the messages are not those of the published list of survivors.",
                parameter="survivors",
            )
        found: Mapping[str, UnmaskMessage] = {name: one.content for name, one in _each("answers", answers).items()}
        opened = unmask(total, found, self.terms, listed.shares, listed.present, named.survivors)
        spec = self.plan.spec
        assert spec.sum is not None  # the plan has checked it
        return BilinearSums(
            mechanism=spec.mechanism,
            numbers=opened.values,
            deviation=spec.sum.deviation * math.sqrt(len(senders)),
            law=spec.noise.law,
            seeded=seeded,
            note=_doubts(opened.doubtful),
            entities=len(senders),
        )

    def factorize(
        self, messages: Iterable[bytes], answers: Iterable[bytes], *, participants: bytes, survivors: bytes
    ) -> ItemFactors:
        """Take the masks off and factorize the sum."""
        return self._factorize(self.total(messages, answers, participants=participants, survivors=survivors))

    def _factorize(self, total: BilinearSums) -> ItemFactors:
        moments = self.plan.release_mechanism.combine([total], self.plan.parameters)
        shared = factorize_moments(moments, self.plan)
        return signed(shared, self.plan, entities=total.entities, sound=not total.seeded)


def masked_message(message: ReleaseMessage) -> MaskedMessage:
    """Give the numbers of a masked message as the secure sum takes them."""
    content = message.content
    assert isinstance(content, Masked)
    return MaskedMessage(
        sender=message.entity,
        present=bytes.fromhex(content.present),
        bits=content.bits,
        numbers=unpack(content.packed.tobytes(), content.bits),
    )


def _each(what: str, messages: Iterable[Sent]) -> dict[str, Sent]:
    """Give one message of each entity; a repeated message counts once."""
    found: dict[str, Sent] = {}
    for one in messages:
        if found.setdefault(one.entity, one) != one:
            raise ConflictingMessage(
                f"an entity sent two different {what}.",
                found=one.entity,
                parameter=what.split()[-1],
            )
    return found


def _doubts(doubtful: Sequence[tuple[str, str]]) -> str:
    if not doubtful:
        return ""
    pairs = ", ".join(f"{answerer} for {owner}" for answerer, owner in doubtful[:5])
    return f"wrong shares were left out (from {pairs}); the sum is right all the same"
