"""The steps of a federation: in each, every entity sends one message up, and the server publishes one down.

A plain federation has one step, the two rounds. A secure sum has three: key shares up and the roll down, masked numbers
up and the survivors down, answers up and the item factors down. Transports and coordinators work on any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from twofold.federation.header import ANSWER, FACTORS, RELEASE, ROLL, SHARES, SURVIVORS
from twofold.federation.messages import decode_factors, decode_release, factors_limit, message_limit
from twofold.federation.plan import Plan

__all__ = ["ANSWERS", "KEYS", "MASKED", "ROUNDS", "Phase", "phases"]

Decoder = Callable[[bytes, Plan], Any]
Limit = Callable[[Plan], int]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One step.

    Parameters
    ----------
    name : str
        Short name, also in file names.
    up, down : str
        Schemas of what entities send and of what the server publishes.
    up_suffix, down_suffix : str
        Endings of their files.
    decode_up, decode_down : callable
        Read and check them; what comes up has an `entity`.
    up_limit, down_limit : callable
        Most bytes of each.
    down_words : str
        What the server publishes, in words.
    """

    name: str
    up: str
    down: str
    up_suffix: str
    down_suffix: str
    decode_up: Decoder
    decode_down: Decoder
    up_limit: Limit
    down_limit: Limit
    down_words: str


def phases(plan: Plan) -> tuple[Phase, ...]:
    """Give the steps of a plan, in order.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> [one.name for one in phases(plan)]
    ['rounds']
    """
    return (ROUNDS,) if plan.secure is None else (KEYS, MASKED, ANSWERS)


def _key_decoder(name: str) -> Decoder:
    """Decode a key message; the library of ciphers is loaded when the first one comes."""

    def decode(data: bytes, plan: Plan) -> Any:
        from twofold.federation import key_messages

        return getattr(key_messages, name)(data, plan)

    return decode


def _key_limit(*, everybody: bool) -> Limit:
    def limit(plan: Plan) -> int:
        from twofold.federation.key_messages import body_limit

        return body_limit(plan, everybody=everybody)

    return limit


ROUNDS: Final = Phase(
    name="rounds",
    up=RELEASE,
    down=FACTORS,
    up_suffix="round1",
    down_suffix="round2",
    decode_up=decode_release,
    decode_down=decode_factors,
    up_limit=message_limit,
    down_limit=factors_limit,
    down_words="item factors",
)
KEYS: Final = Phase(
    name="keys",
    up=SHARES,
    down=ROLL,
    up_suffix="shares",
    down_suffix="roll",
    decode_up=_key_decoder("decode_shares"),
    decode_down=_key_decoder("decode_roll"),
    up_limit=_key_limit(everybody=False),
    down_limit=_key_limit(everybody=True),
    down_words="list of those who shared keys",
)
MASKED: Final = Phase(
    name="masked",
    up=RELEASE,
    down=SURVIVORS,
    up_suffix="round1",
    down_suffix="survivors",
    decode_up=decode_release,
    decode_down=_key_decoder("decode_survivors"),
    up_limit=message_limit,
    down_limit=_key_limit(everybody=False),
    down_words="list of messages in the sum",
)
ANSWERS: Final = Phase(
    name="answers",
    up=ANSWER,
    down=FACTORS,
    up_suffix="answer",
    down_suffix="round2",
    decode_up=_key_decoder("decode_answer"),
    decode_down=decode_factors,
    up_limit=_key_limit(everybody=False),
    down_limit=factors_limit,
    down_words="item factors",
)
