r"""The key messages of a secure sum: they carry shares of masks and lists of names, and no data.

::

    entity: shares ──> server: participants  who shared, and everybody's sealed shares
    entity: round 1 (masked) ──> server: survivors    whose messages are in the sum
    entity: answer ──> server: round 2       the item factors, once the masks are off

The terms of a plan's secure sum (keys, numbers and the modulus) follow from public numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from twofold.errors import BadMessage, PlanMismatch
from twofold.federation.bodies import decode_body, encode_body
from twofold.federation.messages import ANSWER, ROLL, SHARES, SURVIVORS, check_entity, modulus_bits, roster_of
from twofold.federation.plan import Plan
from twofold.secure_sum import SharesMessage, UnmaskMessage, check_shares
from twofold.secure_sum.terms import Terms

if TYPE_CHECKING:
    from twofold.storage.signing import SigningKey

__all__ = [
    "Answer",
    "Participants",
    "Shares",
    "Survivors",
    "decode_answer",
    "decode_participants",
    "decode_shares",
    "decode_survivors",
    "encode_answer",
    "encode_participants",
    "encode_shares",
    "encode_survivors",
    "secure_terms",
]


@dataclass(frozen=True, kw_only=True)
class Shares:
    """An entity's sealed shares, decoded."""

    entity: str
    content: SharesMessage = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Participants:
    """Who shared keys, in order, with everybody's sealed shares."""

    shares: Mapping[str, SharesMessage] = field(repr=False)

    @property
    def present(self) -> tuple[str, ...]:
        """Names, sorted."""
        return tuple(sorted(self.shares))


@dataclass(frozen=True, kw_only=True)
class Survivors:
    """Who shared keys, and whose messages are in the sum."""

    present: tuple[str, ...]
    survivors: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An entity's shares for removing the masks, decoded."""

    entity: str
    content: UnmaskMessage = field(repr=False)


def encode_shares(content: SharesMessage, plan: Plan, *, signer: SigningKey | None = None) -> bytes:
    """Write an entity's shares."""
    return encode_body(SHARES, plan, content.to_record(), entity=content.sender, signer=signer)


def decode_shares(data: bytes, plan: Plan) -> Shares:
    """Read an entity's shares, if they are complete and for this plan."""
    record, body = decode_body(data, plan, SHARES)
    content = SharesMessage.from_record(body)
    check_shares(content, secure_terms(plan))
    return Shares(entity=_same(check_entity(record, plan), content.sender), content=content)


def encode_participants(shares: Mapping[str, SharesMessage], plan: Plan, *, signer: SigningKey | None = None) -> bytes:
    """Write who shared, with the sealed shares of each."""
    return encode_body(ROLL, plan, {"shares": [shares[name].to_record() for name in sorted(shares)]}, signer=signer)


def decode_participants(data: bytes, plan: Plan) -> Participants:
    """Read who shared; too few, or a name that the plan does not know, is refused."""
    body, terms = decode_body(data, plan, ROLL)[1], secure_terms(plan)
    every = [SharesMessage.from_record(one) for one in _listed(body, "shares")]
    for one in every:
        check_shares(one, terms)
    terms.check_present([one.sender for one in every])
    return Participants(shares={one.sender: one for one in every})


def encode_survivors(
    present: Sequence[str], survivors: Sequence[str], plan: Plan, *, signer: SigningKey | None = None
) -> bytes:
    """Write whose messages are in the sum."""
    return encode_body(SURVIVORS, plan, {"present": sorted(present), "survivors": sorted(survivors)}, signer=signer)


def decode_survivors(data: bytes, plan: Plan) -> Survivors:
    """Read whose messages are in the sum; a list below the plan's floor is refused."""
    body = decode_body(data, plan, SURVIVORS)[1]
    present, survivors = (tuple(_listed(body, name)) for name in ("present", "survivors"))
    secure_terms(plan).check_survivors(present, survivors)
    return Survivors(present=present, survivors=survivors)


def encode_answer(content: UnmaskMessage, plan: Plan, *, signer: SigningKey | None = None) -> bytes:
    """Write an entity's answer."""
    return encode_body(ANSWER, plan, content.to_record(), entity=content.sender, signer=signer)


def decode_answer(data: bytes, plan: Plan) -> Answer:
    """Read an entity's answer; its shares are checked when the masks are removed."""
    record, body = decode_body(data, plan, ANSWER)
    content = UnmaskMessage.from_record(body)
    return Answer(entity=_same(check_entity(record, plan), content.sender), content=content)


def _listed(body: Mapping[str, Any], name: str) -> list[Any]:
    found = body.get(name)
    fields = {"shares"} if name == "shares" else {"present", "survivors"}
    if set(body) != fields or not isinstance(found, list):
        raise BadMessage("the body of the message has the wrong form.", expected=f"a list of {name}", parameter=name)
    return found


def _same(entity: str, sender: str) -> str:
    if entity != sender:
        raise BadMessage(
            "the message has two different names.",
            found=f"{entity} and {sender}",
            expected="one sender",
            parameter="entity",
        )
    return entity


@lru_cache(maxsize=16)
def secure_terms(plan: Plan) -> Terms:
    """Give the terms, which all sides of a plan compute in the same way.

    Raises
    ------
    PlanMismatch
        The plan has no secure sum, or the list of keys is not at hand.
    """
    peers = plan.peers
    if peers is None:
        raise PlanMismatch(
            "the plan has no secure sum among its entities.",
            fix="Plan(..., secure=SecureSum(survivors=...))",
            parameter="secure",
        )
    members = roster_of(plan)
    return Terms(
        context=bytes.fromhex(plan.hash),
        roster=members.sums,
        threshold=peers.answers,
        least_survivors=peers.survivors,
        least_present=peers.least_present(len(members.entities)),
        colluders=peers.colluders,
        bits=modulus_bits(plan),
    )
