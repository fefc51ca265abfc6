"""The record in a message's header: what both rounds have in common, and how a stranger's record is checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from twofold import __version__
from twofold.checks import check_entity_name
from twofold.errors import BadMessage, BadPlan, PlanMismatch
from twofold.federation.plan import Plan
from twofold.storage.container import field, open_container
from twofold.storage.strict_json import printable

__all__ = [
    "ANSWER",
    "FACTORS",
    "RELEASE",
    "ROLL",
    "SHARES",
    "SURVIVORS",
    "Header",
    "check_header",
    "common_record",
    "note_of",
    "read_header",
]

#: Names with a major version: a program that reads version 1 ignores fields it does not know, and refuses version 2.
#: The name is older than the word "release". It stays: stored releases are sent again byte for byte.
RELEASE: Final = "twofold.prototypes/1"
FACTORS: Final = "twofold.factors/1"
#: Key messages of a secure sum; they carry no data.
SHARES: Final = "twofold.shares/1"
ROLL: Final = "twofold.roll/1"
SURVIVORS: Final = "twofold.survivors/1"
ANSWER: Final = "twofold.answer/1"
_ROUNDS: Final = {
    "twofold.prototypes": "an entity's release",
    "twofold.factors": "item factors",
    "twofold.shares": "an entity's key shares",
    "twofold.roll": "the list of those who shared keys",
    "twofold.survivors": "the list of messages in the sum",
    "twofold.answer": "an entity's answer that takes masks off",
}
#: Kinds that an entity sends.
_SENT: Final = (RELEASE, SHARES, ANSWER)
_KINDS: Final = (*_SENT, FACTORS, ROLL, SURVIVORS)
_LONGEST_NOTE: Final = 2_000
_HASH = re.compile("[0-9a-f]{64}")
_SCHEMA = re.compile(r"(twofold\.[a-z]{1,20})/([0-9]{1,6})")


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a message says of itself, unchecked against any plan.

    Parameters
    ----------
    schema : str
        Kind and version.
    entity : str or None
        Who sent it; None in round 2.
    plan_hash, catalog_hash : str
        Which plan and catalog it says it belongs to.
    size : int
        Bytes the whole message must have: fewer means that it is still being copied, or was cut.
    """

    schema: str
    entity: str | None
    plan_hash: str
    catalog_hash: str
    size: int


def read_header(data: bytes) -> Header:
    """Read what a message says of itself; cheap, bounded, and enough of it if only the beginning has arrived.

    Examples
    --------
    >>> read_header(b"not one of ours")
    Traceback (most recent call last):
    twofold.errors.BadMessage: this is not a message of twofold...
    """
    container = open_container(data)
    record = container.record
    schema = field(record, "schema", str)
    if schema not in _KINDS:
        raise _other_schema(schema, None)
    return Header(
        schema=schema,
        entity=_entity(record) if schema in _SENT else None,
        plan_hash=_hash(record, "plan_hash"),
        catalog_hash=_hash(record, "catalog_hash"),
        size=container.size,
    )


def common_record(schema: str, plan: Plan) -> dict[str, Any]:
    """Fields that both rounds have: the whole plan is in it, so that a mismatch can name what differs."""
    return {
        "schema": schema,
        "plan": plan.as_dict(),
        "plan_hash": plan.hash,
        "catalog_hash": plan.catalog.hash,
        "software": f"twofold {__version__}",
    }


def check_header(record: Mapping[str, Any], plan: Plan, *, schema: str) -> None:
    """Refuse a record of another kind, version, catalog or plan, and say which it is."""
    found = field(record, "schema", str)
    if found != schema:
        raise _other_schema(found, schema)
    theirs = field(record, "plan", dict)
    if _hash(record, "catalog_hash") != plan.catalog.hash:
        raise PlanMismatch(
            "the message was made with another catalog.",
            found=f"catalog {record['catalog_hash'][:12]}",
            expected=f"catalog {plan.catalog.hash[:12]}, {plan.n_items:,} items",
            fix="give every side the same item list, in the same order, and the plan made from it",
        )
    if differing := plan.differences(theirs):
        raise PlanMismatch(
            "the message was made with another plan.",
            found="; ".join(_difference(name, theirs, plan.as_dict()) for name in differing[:5]),
            expected=f"the plan with hash {plan.hash[:12]}",
            fix="give every side the same plan file; twofold plan show prints its hash",
        )
    if _hash(record, "plan_hash") != plan.hash:
        raise BadMessage("the plan in the message does not have the hash that stands beside it.")


def check_entity(record: Mapping[str, Any], plan: Plan) -> str:
    """Refuse a sender without a usable name, or who is not among those the plan names."""
    name = _entity(record)
    if plan.entities and name not in plan.entities:
        raise PlanMismatch(
            "the message comes from an entity that the plan does not name.", found=name, expected="a name in the plan"
        )
    return name


def note_of(record: Mapping[str, Any]) -> str:
    """Give the note, if it can be shown to a person: printable, and not long."""
    note = str(field(record, "note", str))
    if len(note) > _LONGEST_NOTE or not all(sign.isprintable() or sign == "\n" for sign in note):
        raise BadMessage("the note cannot be shown.", expected=f"at most {_LONGEST_NOTE:,} printable characters")
    return note


def _entity(record: Mapping[str, Any]) -> str:
    try:
        return check_entity_name(record.get("entity"))
    except BadPlan as error:
        raise BadMessage(error.summary, expected=error.expected) from None


def _hash(record: Mapping[str, Any], name: str) -> str:
    found = str(field(record, name, str))
    if not _HASH.fullmatch(found):
        raise BadMessage("a hash in the message is not one.", found=name, expected="64 hexadecimal digits")
    return found


def _difference(name: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    found, expected = (printable(side.get(name, "missing"), 30) for side in (theirs, ours))
    return f"{printable(name, 30)} is {found}, here {expected}"


def _other_schema(found: str, wanted: str | None) -> BadMessage:
    parts, ours = _SCHEMA.fullmatch(found), (wanted or RELEASE).partition("/")[0]
    if not parts or parts[1] not in _ROUNDS:
        return BadMessage("the message is of an unknown kind.", found=printable(found, 40), expected=wanted or "ours")
    if wanted and parts[1] != ours:
        return BadMessage("the message is of another step.", found=_ROUNDS[parts[1]], expected=_ROUNDS[ours])
    return BadMessage(
        "the message has another version.",
        found=f"version {parts[2]} of {parts[1]}",
        expected=f"version 1, which twofold {__version__} reads",
        fix="update twofold: pip install --upgrade twofold",
    )
