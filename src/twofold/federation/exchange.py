"""What the two operators of a sum send each other.

::

    operator: list <──> list         whose shares arrived here
    operator: freeze <──> freeze     one list for good, and a commitment to the noisy sum of shares
    operator: reveal <──> reveal     that sum
    first: draft ──> second          the item factors, which the second signs as well and both publish
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from twofold.checks import is_hash
from twofold.errors import BadMessage, PlanMismatch
from twofold.federation.factors import factors_limit
from twofold.federation.messages import (
    DRAFT,
    FREEZE,
    LIST,
    REVEAL,
    check_header,
    check_signed,
    common_record,
    modulus_bits,
    roster_of,
)
from twofold.federation.plan import Plan
from twofold.secure_sum.derive import SECRET_BYTES
from twofold.storage.container import LARGEST_HEADER, Layout, as_bytes, open_container, pack_sealed, unpack
from twofold.storage.container import field as taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twofold.storage.signing import SigningKey

__all__ = [
    "Draft",
    "Freeze",
    "ListMessage",
    "Reveal",
    "decode_draft",
    "decode_freeze",
    "decode_list",
    "decode_reveal",
    "draft_limit",
    "encode_draft",
    "encode_freeze",
    "encode_list",
    "encode_reveal",
    "freeze_limit",
    "list_limit",
    "reveal_limit",
]


#: Names of lists in an operator's memory are in the order of their numbers up to here.
_MOST_LISTS: Final = 999_999


@dataclass(frozen=True, kw_only=True, eq=False)
class ListMessage:
    """Which reports an operator could open: their digests, sorted, and its shares of their check words.

    Parameters
    ----------
    entity : str
        The operator.
    number : int
        1, and one more for every list that replaces an earlier one.
    digests : uint8 array (reports, 32)
    words : uint8 array (reports, 8)
    data : bytes
    """

    entity: str
    number: int
    digests: NDArray[np.uint8] = field(repr=False)
    words: NDArray[np.uint8] = field(repr=False)
    data: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Freeze:
    """The list that an operator will sum for good, and a commitment to its noisy sum of shares.

    Parameters
    ----------
    entity : str
        The operator.
    lists : pair of str
        Receipts of the two lists that it was made from, the first operator's first.
    reports : str
        Hash of the reports in both.
    count : int
        How many they are.
    commitment : str
    data : bytes
    """

    entity: str
    lists: tuple[str, str]
    reports: str
    count: int
    commitment: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reveal:
    """An operator's sum of shares with its whole noise, and the nonce of its commitment."""

    entity: str
    share: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    data: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Draft:
    """The item factors, signed by the first operator only."""

    entity: str
    factors: bytes = field(repr=False)
    data: bytes = field(repr=False)


def encode_list(
    digests: NDArray[np.uint8], words: NDArray[np.uint8], plan: Plan, *, operator: str, number: int, signer: SigningKey
) -> bytes:
    """Write an operator's list."""
    record = common_record(LIST, plan) | {"entity": operator, "number": number}
    return pack_sealed(record, {"digests": digests, "words": words}, signer=signer)


def decode_list(data: bytes, plan: Plan) -> ListMessage:
    """Read an operator's list; one that is not sorted, or names a report twice, is refused."""
    data = as_bytes(data, list_limit(plan))
    container = open_container(data)
    shape = container.layouts["digests"].shape if "digests" in container.layouts else ()
    count = shape[0] if len(shape) == 2 else 0
    layouts = {"digests": Layout(dtype="U8", shape=(count, 32)), "words": Layout(dtype="U8", shape=(count, 8))}
    record, arrays = _exchanged(data, plan, LIST, layouts)
    found = arrays["digests"]
    texts = [one.tobytes() for one in found]
    number = taken(record, "number", int)
    if not 1 <= number <= _MOST_LISTS or count > plan.expected_entities:
        raise BadMessage(
            "the list has an impossible number, or more reports than the plan has entities.",
            found=f"number {number}, {count:,} reports"[:80],
            expected=f"number 1 to {_MOST_LISTS:,}, at most {plan.expected_entities:,} reports",
            parameter="number",
        )
    if any(before >= after for before, after in pairwise(texts)):
        raise BadMessage("the list is not in order, or names a report twice.", parameter="digests")
    return ListMessage(entity=record["entity"], number=number, digests=found, words=arrays["words"], data=data)


def encode_freeze(
    plan: Plan,
    *,
    operator: str,
    lists: tuple[str, str],
    reports: str,
    count: int,
    commitment: str,
    signer: SigningKey,
) -> bytes:
    """Write which reports an operator sums for good."""
    record = common_record(FREEZE, plan) | {"entity": operator, "lists": list(lists), "reports": reports}
    return pack_sealed(record | {"count": count, "commitment": commitment}, {}, signer=signer)


def decode_freeze(data: bytes, plan: Plan) -> Freeze:
    """Read which reports an operator sums for good; fewer than the floor, or more than expected, are refused."""
    data = as_bytes(data, freeze_limit(plan))
    record, _ = _exchanged(data, plan, FREEZE, {})
    lists = taken(record, "lists", list)
    hashes = [*lists, taken(record, "reports", str), taken(record, "commitment", str)]
    count = taken(record, "count", int)
    assert plan.operators is not None
    if len(lists) != 2 or not all(map(is_hash, hashes)):
        raise BadMessage("a hash in the message is damaged.", parameter="lists")
    if not plan.operators.floor <= count <= plan.expected_entities:
        raise BadMessage(
            "an operator wants to sum fewer or more entities than the plan allows.",
            found=f"{count}"[:20],
            expected=f"{plan.operators.floor:,} to {plan.expected_entities:,}",
            parameter="count",
        )
    return Freeze(
        entity=record["entity"],
        lists=(lists[0], lists[1]),
        reports=record["reports"],
        count=count,
        commitment=record["commitment"],
        data=data,
    )


def encode_reveal(share: bytes, nonce: bytes, plan: Plan, *, operator: str, signer: SigningKey) -> bytes:
    """Write an operator's noisy sum of shares."""
    record = common_record(REVEAL, plan) | {"entity": operator}
    return pack_sealed(record, {"share": _bytes(share), "nonce": _bytes(nonce)}, signer=signer)


def decode_reveal(data: bytes, plan: Plan) -> Reveal:
    """Read an operator's noisy sum of shares."""
    data = as_bytes(data, reveal_limit(plan))
    layouts = {
        "share": Layout(dtype="U8", shape=(_share_bytes(plan),)),
        "nonce": Layout(dtype="U8", shape=(SECRET_BYTES,)),
    }
    record, arrays = _exchanged(data, plan, REVEAL, layouts)
    return Reveal(entity=record["entity"], share=arrays["share"].tobytes(), nonce=arrays["nonce"].tobytes(), data=data)


def encode_draft(factors: bytes, plan: Plan, *, operator: str, signer: SigningKey) -> bytes:
    """Hand the item factors to the second operator."""
    return pack_sealed(common_record(DRAFT, plan) | {"entity": operator}, {"factors": _bytes(factors)}, signer=signer)


def decode_draft(data: bytes, plan: Plan) -> Draft:
    """Read the item factors that the first operator computed; what they hold is checked by their own reader."""
    data = as_bytes(data, draft_limit(plan))
    layouts = {"factors": Layout(dtype="U8", shape=(_length(data, "factors"),))}
    record, arrays = _exchanged(data, plan, DRAFT, layouts)
    return Draft(entity=record["entity"], factors=arrays["factors"].tobytes(), data=data)


def freeze_limit(plan: Plan) -> int:  # noqa: ARG001 - as all limits
    """Most bytes of an operator's final list."""
    return 8 + LARGEST_HEADER


def draft_limit(plan: Plan) -> int:
    """Most bytes of a draft."""
    return 8 + LARGEST_HEADER + factors_limit(plan)


def list_limit(plan: Plan) -> int:
    """Most bytes of an operator's list."""
    return 8 + LARGEST_HEADER + 40 * plan.expected_entities


def reveal_limit(plan: Plan) -> int:
    """Most bytes of an operator's noisy sum of shares."""
    return 8 + LARGEST_HEADER + _share_bytes(plan) + SECRET_BYTES


def _share_bytes(plan: Plan) -> int:
    stated = plan.spec.sum
    assert stated is not None
    return stated.length * modulus_bits(plan) // 8


def _exchanged(
    data: bytes, plan: Plan, schema: str, layouts: Mapping[str, Layout]
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Read a message of one operator to the other, if it is whole, of this plan and signed by its maker."""
    if plan.operators is None:
        raise PlanMismatch("the plan has no two operators.", parameter="secure")
    container = open_container(data)
    record = container.record
    check_header(record, plan, schema=schema)
    name = taken(record, "entity", str)
    if name not in roster_of(plan).operators:
        raise PlanMismatch(
            "the message does not come from an operator of the plan.", found=f"{name!r:.80}", parameter="entity"
        )
    arrays = unpack(data, container, layouts)
    check_signed(data, record, plan, entity=name)
    return record, arrays


def _length(data: bytes, name: str) -> int:
    layouts = open_container(data).layouts
    shape = layouts[name].shape if name in layouts else ()
    return shape[0] if len(shape) == 1 else 0


def _bytes(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8)
