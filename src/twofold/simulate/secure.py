"""A secure sum with every entity in this process: the same messages as over any transport, made one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twofold.entity.keystore import KeyStore, new_keys
from twofold.errors import PlanMismatch
from twofold.protocol.factors import ItemFactors
from twofold.protocol.plan import Plan
from twofold.protocol.roster import Roster
from twofold.secure_sum import Keys, PublicKeys
from twofold.server.secure import SecureServer
from twofold.simulate.tasks import Member

__all__ = ["Summed", "first_part", "keyed_plan", "last_part", "masked_part", "secure_rounds", "with_keys"]

Each = Callable[[str, Callable[..., bytes], Mapping[str, tuple[Any, ...]]], dict[str, bytes]]


@dataclass(frozen=True, kw_only=True)
class Summed:
    """What a secure sum gave, and how many bytes each entity sent and got for it."""

    factors: ItemFactors
    sent: Mapping[str, int]
    received: int


def keyed_plan(plan: Plan, ledgers: Mapping[str, Path | None]) -> tuple[Plan, dict[str, Path | bytes]]:
    """Enrol every entity: keys in files beside the ledgers, or in memory where there are none.

    Keys serve one plan, so their files carry the beginning of its hash: another plan in the same folder has others.

    Parameters
    ----------
    plan : Plan
        With a secure sum. One that has a list of keys already is kept; its secret keys must lie beside the ledgers, as
        NAME.keys.
    ledgers : mapping
        Name of each entity to its ledger, or None.

    Returns
    -------
    plan, keys
        The plan with everybody's public keys, and where each entity's secret ones are.
    """
    assert plan.secure is not None
    public: dict[str, PublicKeys] = {}
    secret: dict[str, Path | bytes] = {}
    for name, ledger in ledgers.items():
        if ledger is None:
            made = Keys.new()
            public[name], secret[name] = made.public, made.to_bytes()
        elif plan.secure.roster:
            place = ledger.with_suffix(".keys")
            public[name], secret[name] = KeyStore(place).keys.public, place
        else:
            place = ledger.with_suffix(f".{plan.hash[:16]}.keys")
            ledger.parent.mkdir(parents=True, exist_ok=True)
            public[name], secret[name] = new_keys(place, name)[name], place
    roster = Roster(public)
    if plan.secure.roster and plan.secure.roster != roster.hash:
        raise PlanMismatch(
            "the plan's list of keys is not that of these entities.",
            expected="secret keys beside the ledgers, or a plan without a list of keys",
            fix="secure=SecureSum(survivors=...) without roster: keys are then made here",
        )
    secure = plan.secure.with_(roster=roster)
    return plan.with_(entities=tuple(roster), n_entities=len(roster), secure=secure), secret


def secure_rounds(
    members: Mapping[str, Member],
    plan: Plan,
    each: Each,
    serving: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Summed:
    """Run the three steps of a secure sum.

    Parameters
    ----------
    members : mapping
        Everybody, with keys.
    plan : Plan
        With everybody's public keys.
    each : callable
        Runs a task for everybody, with progress: name of the step, task, arguments by entity.
    serving : callable
        Gives a context in which the server takes the masks off and factorizes, to measure it.
    """
    server = SecureServer(plan)
    shares = each("keys", first_part, {name: (member,) for name, member in members.items()})
    roll = server.roll(shares.values())
    masked = each("round 1", masked_part, {name: (member, roll) for name, member in members.items()})
    survivors = server.survivors(masked.values(), roll)
    answers = each("answers", last_part, {name: (member, survivors, roll) for name, member in members.items()})
    with serving():
        factors = server.factorize(masked.values(), answers.values(), roll=roll, survivors=survivors)
    sent = {name: len(shares[name]) + len(masked[name]) + len(answers[name]) for name in members}
    return Summed(factors=factors, sent=sent, received=len(roll) + len(survivors))


def first_part(member: Member) -> bytes:
    """Give an entity's key shares."""
    return member.entity().share()


def masked_part(member: Member, roll: bytes) -> bytes:
    """Give an entity's masked message; with a ledger the stored one if there is any."""
    with member.working():
        return bytes(member.entity().prototypes(roll).data)


def last_part(member: Member, survivors: bytes, roll: bytes) -> bytes:
    """Give an entity's answer."""
    return member.entity().answer(survivors, roll)


def with_keys(members: Mapping[str, Member], plan: Plan, keys: Mapping[str, Path | bytes]) -> dict[str, Member]:
    """Give every member the plan with all keys, and its own."""
    return {name: replace(member, plan=plan, keys=keys[name]) for name, member in members.items()}
