"""The steps of a federation: in each, every entity sends one message up, and the server publishes one down.

A plain federation has one step, the two rounds. A secure sum has three: key shares up and the participants down, masked
numbers up and the survivors down, answers up and the item factors down. Mailboxes and coordinators work on any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from twofold.federation.header import ANSWER, FACTORS, RELEASE, ROLL, SHARES, SURVIVORS
from twofold.federation.messages import decode_factors, decode_release, factors_limit, message_limit
from twofold.federation.plan import Plan

__all__ = ["ANSWERS", "KEYS", "MASKED", "ROUNDS", "Channel", "Step", "StepId", "steps_of"]


class StepId(StrEnum):
    """Name of a step; also in file names."""

    ROUNDS = "rounds"
    KEYS = "keys"
    MASKED = "masked"
    ANSWERS = "answers"


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One direction of a step.

    Parameters
    ----------
    schema : str
        Kind of its messages, as their headers say.
    suffix : str
        Ending of their files.
    decode : callable
        Reads and checks one; what an entity sends has an `entity`.
    limit : callable
        Most bytes of one under a plan.
    """

    schema: str
    suffix: str
    decode: Callable[[bytes, Plan], Any]
    limit: Callable[[Plan], int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One step: what entities send `up`, and what the server publishes, `down`. There is one object of each."""

    id: StepId
    up: Channel
    down: Channel

    def __repr__(self) -> str:
        return f"Step({self.id})"

    def __reduce__(self) -> tuple[object, ...]:
        """Be the same object in another process."""
        return (_step, (self.id,))


def steps_of(plan: Plan) -> tuple[Step, ...]:
    """Give the steps of a plan, in order.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> steps_of(Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2))
    (Step(rounds),)
    """
    return (ROUNDS,) if plan.secure is None else (KEYS, MASKED, ANSWERS)


def _step(name: StepId) -> Step:
    return next(step for step in (ROUNDS, KEYS, MASKED, ANSWERS) if step.id is name)


def _key_channel(schema: str, suffix: str, decoder: str, *, everybody: bool = False) -> Channel:
    """Carry key messages; the library of ciphers is loaded when the first one comes."""

    def decode(data: bytes, plan: Plan) -> Any:
        from twofold.federation import key_messages

        return getattr(key_messages, decoder)(data, plan)

    def limit(plan: Plan) -> int:
        from twofold.federation.key_messages import body_limit

        return body_limit(plan, everybody=everybody)

    return Channel(schema=schema, suffix=suffix, decode=decode, limit=limit)


_RELEASE: Final = Channel(schema=RELEASE, suffix="round1", decode=decode_release, limit=message_limit)
_FACTORS: Final = Channel(schema=FACTORS, suffix="round2", decode=decode_factors, limit=factors_limit)
ROUNDS: Final = Step(id=StepId.ROUNDS, up=_RELEASE, down=_FACTORS)
KEYS: Final = Step(
    id=StepId.KEYS,
    up=_key_channel(SHARES, "shares", "decode_shares"),
    down=_key_channel(ROLL, "roll", "decode_participants", everybody=True),
)
MASKED: Final = Step(id=StepId.MASKED, up=_RELEASE, down=_key_channel(SURVIVORS, "survivors", "decode_survivors"))
ANSWERS: Final = Step(id=StepId.ANSWERS, up=_key_channel(ANSWER, "answer", "decode_answer"), down=_FACTORS)
