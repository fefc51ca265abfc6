"""The server's part of a secure sum: it learns who took part and what the sum is, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from twofold.errors import BadMessage, ConflictingMessage
from twofold.federation.factors import ItemFactors
from twofold.federation.key_messages import (
    Roll,
    decode_answer,
    decode_roll,
    decode_shares,
    decode_survivors,
    encode_roll,
    encode_survivors,
    secure_terms,
)
from twofold.federation.messages import ReleaseMessage, decode_release
from twofold.federation.plan import Plan
from twofold.release.content import BilinearSums, Masked
from twofold.secure_sum import MaskedMessage, UnmaskMessage, add_masked, unmask
from twofold.secure_sum.messages import unpack
from twofold.server.factorize import factorize_moments, signed

__all__ = ["SecureServer", "masked_message"]


class SecureServer:
    """Turns shares into a roll, masked messages into a list of survivors, and answers into item factors.

    Parameters
    ----------
    plan : Plan
        With a secure sum and the list of keys.

    Privacy
    -------
    Sees sealed shares, masked numbers and, for each entity, one of the two secrets behind its masks: enough for the
    sum of the survivors and for nothing else. A server that lies about the lists gains no more than
    `twofold.secure_sum.honest_in_any_sum` counts, and the noise is shared among that many.

    Paper
    -----
    Algorithm 2, line 4, after the server's part of Bonawitz et al. 2017.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.terms = secure_terms(plan)

    def roll(self, shares: Iterable[bytes]) -> bytes:
        """Put everybody's shares into one message for all.

        Raises
        ------
        ConflictingMessage
            Two different shares of one entity.
        TooFewMessages
            Fewer than the plan asks for.
        """
        found: dict[str, bytes] = {}
        for data in shares:
            entity = decode_shares(data, self.plan).entity
            if found.setdefault(entity, data) != data:
                raise ConflictingMessage("an entity sent two different sets of shares.", found=entity)
        made = encode_roll({name: decode_shares(data, self.plan).content for name, data in found.items()}, self.plan)
        decode_roll(made, self.plan)
        return made

    def survivors(self, messages: Iterable[bytes], roll: bytes) -> bytes:
        """Say whose masked messages came.

        Raises
        ------
        TooFewMessages
            Fewer than the plan's survivors: nothing will be unmasked.
        """
        listed = decode_roll(roll, self.plan)
        decoded = [self.checked(decode_release(data, self.plan), listed) for data in messages]
        return self.survivors_of(listed, [one.entity for one in decoded])

    def survivors_of(self, roll: Roll, names: Sequence[str]) -> bytes:
        """Say the same of messages that were checked."""
        made = encode_survivors(roll.present, sorted(set(names)), self.plan)
        decode_survivors(made, self.plan)
        return made

    def checked(self, message: ReleaseMessage, roll: Roll) -> ReleaseMessage:
        """Refuse a masked message whose masks are for another list, or whose sender shared no keys."""
        bound = self.terms.present_digest(roll.present).hex()
        content = message.content
        if not isinstance(content, Masked) or content.present != bound or message.entity not in roll.shares:
            raise BadMessage(
                "the masks of the message are for another list of entities.",
                found=f"the message of {message.entity}",
                expected="masks for those in the published list",
                fix=f"let {message.entity} mask for the list that was published; its ledger holds one message a plan",
            )
        return message

    def total(
        self, messages: Iterable[bytes], answers: Iterable[bytes], *, roll: bytes, survivors: bytes
    ) -> BilinearSums:
        """Add up and take the masks off.

        Raises
        ------
        TooFewMessages
            Too few answers. Nothing was unmasked.
        BadMessage
            Something does not fit: a message that was not masked for this list, or wrong shares.
        """
        listed, named = decode_roll(roll, self.plan), decode_survivors(survivors, self.plan)
        seeded = False

        def each() -> Iterable[MaskedMessage]:
            nonlocal seeded
            for data in messages:
                message = self.checked(decode_release(data, self.plan), listed)
                if message.entity in named.survivors:
                    seeded = seeded or message.content.seeded
                    yield masked_message(message)

        total, senders = add_masked(each(), self.terms, listed.present)
        if senders != named.survivors:
            raise BadMessage("the messages are not those of the published list of survivors.")
        opened = unmask(
            total,
            _answers(answers, self.plan),
            self.terms,
            listed.shares,
            listed.present,
            named.survivors,
        )
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
        self, messages: Iterable[bytes], answers: Iterable[bytes], *, roll: bytes, survivors: bytes
    ) -> ItemFactors:
        """Take the masks off and factorize the sum."""
        total = self.total(messages, answers, roll=roll, survivors=survivors)
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


def _answers(answers: Iterable[bytes], plan: Plan) -> Mapping[str, UnmaskMessage]:
    found: dict[str, UnmaskMessage] = {}
    for data in answers:
        one = decode_answer(data, plan)
        if found.setdefault(one.entity, one.content) != one.content:
            raise ConflictingMessage("an entity gave two different answers.", found=one.entity)
    return found


def _doubts(doubtful: Sequence[tuple[str, str]]) -> str:
    if not doubtful:
        return ""
    pairs = ", ".join(f"{answerer} for {owner}" for answerer, owner in doubtful[:5])
    return f"wrong shares were left out (from {pairs}); the sum is right all the same"
