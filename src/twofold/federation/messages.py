"""Messages of a federation: their common header, and an entity's release.

A message that decodes fits the plan: its shapes, its units, its noise, its sender. Any other raises `BadMessage`,
`PlanMismatch` or, where noise was seeded or a proof is missing in a real federation, `NotForRealUse`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from twofold import __version__
from twofold.checks import check_entity_name, is_hash
from twofold.errors import BadMessage, BadPlan, NotForRealUse, PlanMismatch
from twofold.federation.plan import LARGEST_NUMBER, Plan
from twofold.html import ShownMessage
from twofold.release.choose import NOT_PRIVATE
from twofold.release.clamp import ROOM
from twofold.release.content import BilinearSums, Integers, Masked, Noise, Prototypes, Units
from twofold.release.contract import ReleaseSpec
from twofold.storage.container import (
    COSIGNATURE,
    LARGEST_HEADER,
    Container,
    Layout,
    as_bytes,
    check_seal,
    check_signature,
    field,
    finite,
    is_cut,
    open_container,
    pack_sealed,
    printable,
    receipt,
    unpack,
)
from twofold.storage.files import write_whole

if TYPE_CHECKING:
    from twofold.identity.roster import Roster
    from twofold.storage.signing import SigningKey

__all__ = [
    "AGREED",
    "AGREEMENT",
    "ANSWER",
    "BUNDLE",
    "DRAFT",
    "FACTORS",
    "FREEZE",
    "LIST",
    "RELEASE",
    "REPORT",
    "REVEAL",
    "ROLL",
    "SHARES",
    "SURVIVORS",
    "Content",
    "Header",
    "ReleaseMessage",
    "array_bytes",
    "check_header",
    "check_signed",
    "common_record",
    "decode_release",
    "encode_release",
    "is_cut",
    "message_limit",
    "modulus_bits",
    "note_of",
    "read_header",
    "receipt",
    "roster_of",
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
#: Signatures of the plan's hash, and the list of all of them.
AGREEMENT: Final = "twofold.agreement/1"
AGREED: Final = "twofold.agreed/1"
#: A sum with two operators: what an entity sends, several of these in one file, and what operators send each other.
REPORT: Final = "twofold.report/1"
BUNDLE: Final = "twofold.bundle/1"
LIST: Final = "twofold.list/1"
FREEZE: Final = "twofold.freeze/1"
REVEAL: Final = "twofold.reveal/1"
DRAFT: Final = "twofold.draft/1"
_ROUNDS: Final = {
    "twofold.agreement": "an entity's agreement to the plan",
    "twofold.agreed": "everybody's agreements to the plan",
    "twofold.prototypes": "an entity's release",
    "twofold.factors": "item factors",
    "twofold.shares": "an entity's key shares",
    "twofold.roll": "the list of those who shared keys",
    "twofold.survivors": "the list of messages in the sum",
    "twofold.answer": "an entity's answer that takes masks off",
    "twofold.report": "an entity's numbers, sealed in two shares",
    "twofold.bundle": "sealed reports of several entities",
    "twofold.list": "an operator's list of reports",
    "twofold.freeze": "an operator's final list, and its sum under a commitment",
    "twofold.reveal": "an operator's sum of shares, with its noise",
    "twofold.draft": "item factors for the second operator to sign",
}
#: Kinds that an entity sends.
SENT: Final = (RELEASE, SHARES, ANSWER, AGREEMENT, REPORT)
#: Kinds that an operator sends to the other one.
EXCHANGED: Final = (LIST, FREEZE, REVEAL, DRAFT)
_KINDS: Final = (*SENT, *EXCHANGED, FACTORS, ROLL, SURVIVORS, AGREED, BUNDLE)
_LONGEST_NOTE: Final = 2_000
_HASH = re.compile("[0-9a-f]{64}")
_SCHEMA = re.compile(r"(twofold\.[a-z]{1,20})/([0-9]{1,6})")


@dataclass(frozen=True, kw_only=True)
class Header:
    """The header of a message, not checked against a plan.

    Parameters
    ----------
    schema : str
        Kind and version.
    entity : str or None
        Who sent it; None in round 2.
    plan_hash, catalog_hash : str
        The plan and catalog that it claims to belong to.
    size : int
        Bytes the whole message must have: fewer means that it is still being copied, or truncated.
    """

    schema: str
    entity: str | None
    plan_hash: str
    catalog_hash: str
    size: int


def read_header(data: bytes) -> Header:
    """Read the header of a message; cheap and bounded, and the beginning of the message is enough.

    Examples
    --------
    >>> read_header(b"not one of ours")
    Traceback (most recent call last):
    twofold.errors.BadMessage: this is not a twofold message...
    """
    container = open_container(data)
    record = container.record
    schema = field(record, "schema", str)
    if schema not in _KINDS:
        raise _other_schema(schema, None)
    return Header(
        schema=schema,
        entity=_entity(record) if schema in (*SENT, *EXCHANGED) else None,
        plan_hash=_hash(record, "plan_hash"),
        catalog_hash=_hash(record, "catalog_hash"),
        size=container.size,
    )


def common_record(schema: str, plan: Plan) -> dict[str, Any]:
    """Fields of both rounds; they include the whole plan, so that an error can name what differs."""
    return {
        "schema": schema,
        "plan": plan.as_dict(),
        "plan_hash": plan.hash,
        "catalog_hash": plan.catalog.hash,
        "software": f"twofold {__version__}",
    }


def check_header(record: Mapping[str, Any], plan: Plan, *, schema: str) -> None:
    """Refuse a record of another kind, version, catalog or plan, and name the difference."""
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
            parameter="catalog",
        )
    if differing := plan.differences(theirs):
        raise PlanMismatch(
            "the message was made with another plan.",
            found="; ".join(_difference(name, theirs, plan.as_dict()) for name in differing[:5]),
            expected=f"the plan with hash {plan.hash[:12]}",
            fix="give every side the same plan file; twofold plan show prints its hash",
            parameter="plan",
        )
    if _hash(record, "plan_hash") != plan.hash:
        raise BadMessage("the plan in the message does not match the hash beside it.")


def check_entity(record: Mapping[str, Any], plan: Plan) -> str:
    """Refuse a sender without a valid name, or one that the plan does not name."""
    name = _entity(record)
    if plan.entities and name not in plan.entities:
        raise PlanMismatch(
            "the message comes from an entity that the plan does not name.",
            found=name,
            expected="a name in the plan",
            parameter="entity",
        )
    return name


def roster_of(plan: Plan) -> Roster:
    """Give the roster of a plan.

    Raises
    ------
    PlanMismatch
        The plan has none, or only its hash is known here.
    """
    if plan.members is None:
        raise PlanMismatch(
            "the list of everybody's public keys is missing.",
            expected="a roster" if plan.roster is None else f"the roster with hash {plan.roster.hash[:12]}",
            fix="put the roster where the plan file expects it; twofold plan new --public-key makes one",
            parameter="roster",
        )
    return plan.members


def check_signed(
    data: bytes, record: Mapping[str, Any], plan: Plan, *, entity: str | None = None, draft: bool = False
) -> None:
    """Refuse a message with a changed byte or, if the plan has a roster, without its maker's signature.

    Parameters
    ----------
    data, record
        The message, and its record.
    plan : Plan
        Its roster holds the keys.
    entity : str, optional
        Who made it; the operator by default, or both operators.
    draft : bool
        Whether the second operator's signature may still be missing.

    Privacy
    -------
    The signature covers every byte, the hash of the plan and the kind of message among them: a message of another
    plan, another step or another entity does not pass, whichever way it came.
    """
    check_seal(data, record)
    if plan.roster is None:
        return
    members = roster_of(plan)
    if entity is None and plan.operators is not None:
        first, second = members.operators.values()
        if not draft:
            check_signature(record, second.sign, maker=second.name, name=COSIGNATURE)
        check_signature(record, first.sign, maker=first.name)
        return
    maker = members.operator if entity is None else members[entity]
    check_signature(record, maker.sign, maker=maker.name)


def note_of(record: Mapping[str, Any]) -> str:
    """Give the note, if it is printable and short."""
    note = str(field(record, "note", str))
    if len(note) > _LONGEST_NOTE or not all(sign.isprintable() or sign == "\n" for sign in note):
        raise BadMessage("the note is not printable.", expected=f"at most {_LONGEST_NOTE:,} printable characters")
    return note


def _entity(record: Mapping[str, Any]) -> str:
    try:
        return check_entity_name(record.get("entity"))
    except BadPlan as error:
        raise BadMessage(error.summary, expected=error.expected) from None


def _hash(record: Mapping[str, Any], name: str) -> str:
    found = str(field(record, name, str))
    if not _HASH.fullmatch(found):
        raise BadMessage("a hash in the message is not a SHA-256.", found=name, expected="64 hexadecimal digits")
    return found


def _difference(name: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    found, expected = (printable(side.get(name, "missing"), 30) for side in (theirs, ours))
    return f"{printable(name, 30)} is {found}, here {expected}"


def _other_schema(found: str, wanted: str | None) -> BadMessage:
    parts, ours = _SCHEMA.fullmatch(found), (wanted or RELEASE).partition("/")[0]
    if not parts or parts[1] not in _ROUNDS:
        return BadMessage(
            "the message is of an unknown kind.",
            found=printable(found, 40),
            expected=wanted or "ours",
            parameter="schema",
        )
    if wanted and parts[1] != ours:
        return BadMessage(
            "the message belongs to another step.", found=_ROUNDS[parts[1]], expected=_ROUNDS[ours], parameter="schema"
        )
    return BadMessage(
        "the message has another version.",
        found=f"version {parts[2]} of {parts[1]}",
        expected=f"version 1, which twofold {__version__} reads",
        fix="update twofold: pip install --upgrade twofold",
        parameter="schema",
    )


_PARTS: Final = ("values", "observed", "counts")
# Units and noise are computed in floating point by both sides, perhaps with another library of logarithms.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReleaseMessage(ShownMessage):
    """One entity's message of round 1, as bytes and decoded.

    Parameters
    ----------
    entity : str
        Who sent it.
    plan_hash, catalog_hash : str
        What it belongs to.
    content : Prototypes, BilinearSums or Masked
        The noisy sums and counts, plain or under masks; views of `data`.
    data : bytes
        What leaves, to the last byte.
    """

    entity: str
    plan_hash: str
    catalog_hash: str
    content: Content
    data: bytes

    @property
    def receipt(self) -> str:
        """SHA-256 of the bytes."""
        return receipt(self.data)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the bytes, completely or not at all."""
        write_whole(path, self.data)


def encode_release(content: Content, *, entity: str, plan: Plan, signer: SigningKey | None = None) -> bytes:
    """Write an entity's message, signed if the plan has a roster; equal content gives equal bytes.

    Privacy
    -------
    It holds only what the mechanism released, and public numbers. The bytes are decoded once before they are handed
    out, so that no message leaves that the server would refuse.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> import numpy as np
    >>> released = plan.release_mechanism.release(np.ones((4, 3)), plan.parameters)
    >>> data = encode_release(released.value, entity="st-anna", plan=plan)
    >>> decode_release(data, plan).entity, read_header(data).size == len(data)
    ('st-anna', True)
    """
    own = content if isinstance(content, Prototypes) else plan.spec  # of one row of numbers both follow from the plan
    record = common_record(RELEASE, plan) | {
        "entity": entity,
        "mechanism": content.mechanism,
        "units": asdict(own.units),
        "noise": asdict(own.noise),
        "seeded": content.seeded,
        "note": content.note,
    }
    if isinstance(content, Masked):
        record |= {"present": content.present, "bits": content.bits}
    data = pack_sealed(record, dict(content.arrays()), signer=signer)
    decode_release(data, plan)
    return data


def decode_release(data: bytes, plan: Plan, *, known: bool = False) -> ReleaseMessage:
    """Read an entity's message, if it is complete, valid and of this plan.

    `known`: bytes that passed before, as their receipt shows; seal, signature and numbers are not checked again.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> decode_release(b"hello", plan)
    Traceback (most recent call last):
    twofold.errors.BadMessage: the message is truncated...
    """
    data = as_bytes(data, message_limit(plan))
    container = open_container(data)
    record = container.record
    check_header(record, plan, schema=RELEASE)
    if plan.operators is not None:
        raise BadMessage(
            "the message is not in shares, and this plan has two operators.",
            expected=_ROUNDS["twofold.report"],
            parameter="schema",
        )
    entity = check_entity(record, plan)
    _check_real(record, plan)
    units, noise = _units(record), _noise(record)
    _check_public(record, units, noise, plan.spec)
    arrays = unpack(data, container, _layouts(container, plan))
    if not known:
        check_signed(data, record, plan, entity=entity)
        for array in arrays.values():
            _check_size(array)
    content = _content(arrays, record, plan, units=units, noise=noise)
    return ReleaseMessage(
        entity=entity, plan_hash=plan.hash, catalog_hash=plan.catalog.hash, content=content, data=data
    )


def message_limit(plan: Plan) -> int:
    """Most bytes a round-1 message of a plan can have.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60)
    >>> message_limit(plan)
    906432
    """
    return 8 + LARGEST_HEADER + array_bytes(plan)


def _check_real(record: Mapping[str, Any], plan: Plan) -> None:
    if plan.simulation:
        return
    if field(record, "seeded", bool):
        raise NotForRealUse(
            "the noise of the message can be repeated from a seed, so it is not private.",
            expected="noise from the operating system",
            fix="let the entity release without a seed; seeds are for plans with simulation = true",
            parameter="seeded",
        )
    if field(record, "mechanism", str) in NOT_PRIVATE:
        raise NotForRealUse(
            "the message was made without noise, so it is not private.",
            found=f"mechanism {record['mechanism']}",
            expected="a mechanism with a proof",
            parameter="mechanism",
        )


def _check_public(record: Mapping[str, Any], units: Units, noise: Noise, spec: ReleaseSpec) -> None:
    """Refuse units and noise that differ from those the plan's public numbers imply."""
    made_by = field(record, "mechanism", str)
    if made_by != spec.mechanism or noise.law != spec.noise.law:
        raise BadMessage("the message was made by another mechanism.", expected=f"{spec.mechanism}")
    pairs = ((units, spec.units, "units"), (noise, spec.noise, "noise"))
    for found, due, name in pairs:
        if not all(math.isclose(getattr(found, part), getattr(due, part), rel_tol=_ROUNDING) for part in _PARTS):
            raise BadMessage(
                f"the {name} of the message is not what the plan's public numbers give.",
                expected=", ".join(f"{part} {getattr(due, part):.6g}" for part in _PARTS),
                fix="let every side run the same version of twofold",
            )


def _units(record: Mapping[str, Any]) -> Units:
    given = field(record, "units", dict)
    return Units(**{part: finite(given, part) for part in _PARTS})


def _noise(record: Mapping[str, Any]) -> Noise:
    given = field(record, "noise", dict)
    return Noise(law=field(given, "law", str), **{part: finite(given, part) for part in _PARTS})


Content = Prototypes | BilinearSums | Masked
#: Check numbers behind the masked ones, see `twofold.secure_sum.masking`.
CHECKS: Final = 2


def array_bytes(plan: Plan) -> int:
    """Most bytes of the arrays of a message; in a secure sum, a number takes as many as the modulus."""
    if plan.operators is not None:
        from twofold.secure_sum.operators import box_bytes  # loads the library of ciphers

        return sum(box_bytes(modulus_bits(plan), _summed(plan), place) for place in (0, 1))
    if plan.peers is not None:
        return (_summed(plan) + CHECKS) * (modulus_bits(plan) // 8)
    return 8 * plan.spec.most_numbers


def _summed(plan: Plan) -> int:
    assert plan.spec.sum is not None  # the plan has checked it
    return plan.spec.sum.length


def _layouts(container: Container, plan: Plan) -> dict[str, Layout]:
    """Arrays a message must hold; if private data decide the number of rows, as many as stated, within bounds."""
    if plan.peers is not None:
        return {"masked": Layout(dtype="U8", shape=(_summed(plan) + CHECKS, modulus_bits(plan) // 8))}
    spec, rows = plan.spec, plan.spec.rows
    if rows is None:
        rows = container.layouts["counts"].shape[0] if "counts" in container.layouts else 0
        if not 1 <= rows <= spec.most_rows:
            raise BadMessage(
                "the number of prototypes is out of range.",
                expected=f"1 to {spec.most_rows:,}",
                parameter="counts",
            )
    return {one.name: Layout(dtype="I64", shape=one.sized(rows)) for one in spec.arrays}


def _content(
    arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any], plan: Plan, *, units: Units, noise: Noise
) -> Content:
    """Decode the arrays of a message."""
    spec = plan.spec
    made: dict[str, Any] = {
        "mechanism": spec.mechanism,
        "seeded": field(record, "seeded", bool),
        "note": note_of(record),
    }
    if plan.peers is not None:
        present = field(record, "present", str)
        if not is_hash(present) or field(record, "bits", int) != modulus_bits(plan):
            raise BadMessage(
                "the masks of the message were made with another list or another modulus.",
                expected=f"numbers modulo 2^{modulus_bits(plan)}, masked for the entities that shared keys",
                parameter="bits",
            )
        return Masked(present=present, bits=modulus_bits(plan), packed=arrays["masked"], **made)
    if spec.sum is not None:
        return BilinearSums(deviation=spec.sum.deviation, law=spec.noise.law, numbers=arrays["numbers"], **made)
    return Prototypes(
        sums=arrays["sums"],
        counts=arrays["counts"],
        observed=arrays.get("observed"),
        units=units,
        noise=noise,
        **made,
    )


@lru_cache(maxsize=16)
def modulus_bits(plan: Plan) -> int:
    """Bits of the modulus: the fewest whole bytes in which sums, cut to their limit, and all noise do not wrap around.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> from twofold.federation.secure import SecureSum
    >>> key = CatalogKey(hash="0" * 64, n_items=457)
    >>> plan = Plan(catalog=key, feedback="counts", bound=5, max_items=60, mechanism="gram", n_entities=205,
    ...             secure=SecureSum(survivors=185))
    >>> modulus_bits(plan)
    56
    """
    stated = plan.spec.sum
    assert stated is not None  # the plan has checked it
    most = (ROOM * plan.n_users * stated.largest + stated.farthest_noise) * plan.expected_entities
    most += stated.operators * stated.operator_farthest
    bits = max(16, -(-(most.bit_length() + 1) // 8) * 8)
    if bits > 64:
        raise BadPlan(
            "the sums of this plan do not fit into 64 bits.",
            found=f"{bits} bits",
            fix="lower n_users or max_items, or raise epsilon",
            parameter="n_users",
        )
    return bits


def _check_size(array: Integers) -> None:
    # Not np.abs: that of the smallest 64-bit number is negative.
    if int(array.max(initial=0)) > LARGEST_NUMBER or int(array.min(initial=0)) < -LARGEST_NUMBER:
        raise BadMessage(
            "a number in the message is so large that sums over all entities could overflow.",
            expected=f"whole numbers within {LARGEST_NUMBER:.1e}",
            parameter="numbers",
        )
