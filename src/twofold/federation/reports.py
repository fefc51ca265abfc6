"""An entity's message of a sum with two operators: its numbers in two sealed shares, one upload, one file.

A report may be cut in half: each operator needs its own box and the hash of the other one, which the signature covers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from twofold.errors import BadMessage, NotForRealUse, PlanMismatch
from twofold.federation.messages import (
    BUNDLE,
    REPORT,
    check_entity,
    check_header,
    message_limit,
    modulus_bits,
    roster_of,
)
from twofold.federation.plan import Plan
from twofold.html import ShownMessage
from twofold.release.content import BilinearSums
from twofold.secure_sum.operators import REPORT_BYTES, ReportHeader, box_bytes, split
from twofold.storage.container import (
    LARGEST_HEADER,
    Container,
    Layout,
    as_bytes,
    canonical_json,
    check_seal,
    open_container,
    pack_sealed,
    receipt,
    unpack,
)
from twofold.storage.container import field as taken
from twofold.storage.files import write_whole
from twofold.storage.signing import KEY_BYTES, SIGNATURE_BYTES, Purpose, verify

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twofold.storage.signing import SigningKey

__all__ = [
    "Report",
    "bundle_limit",
    "check_voucher",
    "decode_bundle",
    "decode_report",
    "encode_bundle",
    "encode_report",
    "half",
    "person_name",
    "report_limit",
    "seals_of",
    "voucher_text",
]

#: Arrays of a report: the box of the first operator, and that of the second.
_BOXES: Final = ("first", "second")
#: Bytes of a report without its longer box: its fields, in hexadecimal, take as many at least.
_LEAST_REPORT: Final = 512
#: Bytes of a file of several reports.
_LARGEST_BUNDLE: Final = 64 * 1024 * 1024
_ADDED: Final = ("checksum", "signed")


def seals_of(plan: Plan) -> tuple[bytes, bytes]:
    """Sealing keys of the first and the second operator; by name, the first gets the long share."""
    first, second = (one.sum.seal for one in roster_of(plan).operators.values())
    return first, second


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Report(ShownMessage):
    """An entity's one message, or the half of it that one operator needs.

    Parameters
    ----------
    entity : str
        Who sent it; for a person, the SHA-256 of the key that signed it.
    header : ReportHeader
        What its boxes are bound to.
    boxes : pair of bytes or None
        The sealed shares; None for one that is not here.
    digest : bytes
        SHA-256 of everything that is signed, the hashes of both boxes included: the same for either half.
    seeded : bool
        Whether the entity's share of the noise came from a seed.
    record : mapping
        Every field, as it was read.
    data : bytes
        What leaves, to the last byte.
    """

    entity: str
    header: ReportHeader
    boxes: tuple[bytes | None, bytes | None]
    digest: bytes
    seeded: bool
    record: Mapping[str, Any]
    data: bytes

    @cached_property
    def receipt(self) -> str:
        """SHA-256 of the bytes."""
        return receipt(self.data)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the bytes, completely or not at all."""
        write_whole(path, self.data)


def encode_report(
    content: BilinearSums,
    plan: Plan,
    *,
    entity: str,
    signer: SigningKey,
    voucher: Mapping[str, str] | None = None,
) -> bytes:
    """Split an entity's numbers between the operators, and sign; every call makes other bytes.

    Parameters
    ----------
    content : BilinearSums
        The entity's sums, without noise if operators add it all. Private.
    plan : Plan
        With two operators.
    entity : str
        Who sends it.
    signer : SigningKey
        The entity's, or a person's key for this one report.
    voucher : mapping, optional
        For a person: who vouches, and the signature of `voucher_text`.

    Privacy
    -------
    The numbers leave in two sealed shares, each of them uniform. Nothing else depends on them: neither the length nor
    any field. A second call over other numbers would cost again: the ledger stores the bytes before they leave.
    """
    _check_kind(plan)
    bits, stated = modulus_bits(plan), plan.spec.sum
    assert stated is not None
    header = ReportHeader(
        plan=bytes.fromhex(plan.hash),
        entity=entity,
        report=os.urandom(REPORT_BYTES),
        bits=bits,
        length=stated.length,
        seals=seals_of(plan),
    )
    boxes = split(content.numbers, header)
    record: dict[str, Any] = {
        "schema": REPORT,
        "plan_hash": plan.hash,
        "catalog_hash": plan.catalog.hash,
        "entity": entity,
        "report": header.report.hex(),
        "bits": bits,
        "length": stated.length,
        "seeded": content.seeded,
        "boxes": [hashlib.sha256(box).hexdigest() for box in boxes],
    }
    if plan.people:
        record |= {"by": signer.public.hex(), "voucher": dict(voucher or {})}
    record["signed"] = signer.sign(Purpose.REPORT, _signed(record)).hex()
    data = pack_sealed(record, {name: _array(box) for name, box in zip(_BOXES, boxes, strict=True)})
    decode_report(data, plan)
    return data


def decode_report(data: bytes, plan: Plan) -> Report:
    """Read a report, if it is whole, of this plan and signed by its maker; whether its boxes open is another matter.

    Raises
    ------
    BadMessage, PlanMismatch, NotForRealUse
        It does not belong here. Nothing of this depends on the numbers inside.
    """
    data = as_bytes(data, report_limit(plan))
    container = open_container(data)
    record = container.record
    if taken(record, "schema", str) != REPORT:
        check_header(record, plan, schema=REPORT)
    _check_plan(record, plan)
    _check_kind(plan)
    bits, stated = modulus_bits(plan), plan.spec.sum
    assert stated is not None
    if taken(record, "bits", int) != bits or taken(record, "length", int) != stated.length:
        raise BadMessage(
            "the report has another length or another modulus.",
            expected=f"{stated.length:,} numbers modulo 2^{bits}",
            parameter="bits",
        )
    seeded = taken(record, "seeded", bool)
    if seeded and not plan.simulation:
        raise NotForRealUse(
            "the noise of the report can be repeated from a seed, so it is not private.",
            expected="noise from the operating system",
            parameter="seeded",
        )
    boxes = _boxes(data, container, plan)
    check_seal(data, record)
    digest = _signed(record)
    entity = _check_maker(record, digest, plan)
    header = ReportHeader(
        plan=bytes.fromhex(plan.hash),
        entity=entity,
        report=_hex(record, "report", REPORT_BYTES),
        bits=bits,
        length=stated.length,
        seals=seals_of(plan),
    )
    return Report(entity=entity, header=header, boxes=boxes, digest=digest, seeded=seeded, record=record, data=data)


def half(report: Report, place: int) -> bytes:
    """Cut a report down to what one operator needs; the signature still holds."""
    box = report.boxes[place]
    if box is None:
        raise BadMessage("this half of the report is not here.", parameter="boxes")
    record = {name: value for name, value in report.record.items() if name != "checksum"}
    return pack_sealed(record, {_BOXES[place]: _array(box)})


def report_limit(plan: Plan) -> int:
    """Most bytes of a report."""
    return message_limit(plan)


def voucher_text(plan: Plan, entity: str) -> bytes:
    """Give the bytes by whose signature an institution vouches for a person of its own."""
    return f"{plan.hash} {entity}".encode()


def person_name(public: bytes) -> str:
    """Name a person after the key that signs their one report.

    Examples
    --------
    >>> len(person_name(bytes(32)))
    64
    """
    return hashlib.sha256(b"twofold person 1 " + public).hexdigest()


def _check_kind(plan: Plan) -> None:
    if plan.operators is None:
        raise PlanMismatch("the plan has no two operators, so it has no reports.", parameter="secure")


def _check_plan(record: Mapping[str, Any], plan: Plan) -> None:
    found = taken(record, "plan_hash", str)
    if found != plan.hash or taken(record, "catalog_hash", str) != plan.catalog.hash:
        raise PlanMismatch(
            "the message was made with another plan.",
            found=f"plan {str(found)[:12]!r}",
            expected=f"the plan with hash {plan.hash[:12]}",
            fix="give every side the same plan file; twofold plan show prints its hash",
            parameter="plan",
        )


def _boxes(data: bytes, container: Container, plan: Plan) -> tuple[bytes | None, bytes | None]:
    stated = plan.spec.sum
    assert stated is not None
    here = [name for name in _BOXES if name in container.layouts]
    sizes = {
        name: box_bytes(modulus_bits(plan), stated.length, place) for place, name in enumerate(_BOXES) if name in here
    }
    arrays = unpack(data, container, {name: Layout(dtype="U8", shape=(size,)) for name, size in sizes.items()})
    digests = taken(container.record, "boxes", list)
    if not here or len(digests) != len(_BOXES):
        raise BadMessage("the report holds no shares.", expected="one share for each operator", parameter="boxes")
    found = {name: arrays[name].tobytes() for name in here}
    for name, due in zip(_BOXES, digests, strict=True):
        if name in found and hashlib.sha256(found[name]).hexdigest() != due:
            raise BadMessage("a share is not the one that was signed.", found=name, parameter="boxes")
    return found.get(_BOXES[0]), found.get(_BOXES[1])


def _check_maker(record: Mapping[str, Any], digest: bytes, plan: Plan) -> str:
    """Refuse a report that its sender did not sign, or a person for whom nobody vouches."""
    if plan.people:
        public = _hex(record, "by", KEY_BYTES)
        entity = person_name(public)
        if record.get("entity") != entity:
            raise BadMessage("the report has a name that does not belong to its key.", parameter="entity")
        check_voucher(taken(record, "voucher", dict), plan, entity)
    else:
        entity = check_entity(record, plan)
        public = roster_of(plan)[entity].sign
    if not verify(public, Purpose.REPORT, digest, _hex(record, "signed", SIGNATURE_BYTES)):
        raise BadMessage(
            "the message is not signed by its maker.",
            found=entity,
            expected="the signature of the key in the plan's roster",
            parameter="signature",
        )
    return entity


def check_voucher(given: Mapping[str, Any], plan: Plan, entity: str) -> None:
    """Refuse a person for whom none of the plan's entities vouches; a simulation does without.

    Nothing but the name and the signature may be in it: a field more would be one that can tell people apart.
    """
    if not given and plan.simulation:
        return
    institution = roster_of(plan).entities.get(str(given.get("institution")))
    whole = institution is not None and set(given) == {"institution", "signature"}
    signature = _hex(given, "signature", SIGNATURE_BYTES) if whole else b""
    if institution is None or not verify(institution.sign, Purpose.VOUCHER, voucher_text(plan, entity), signature):
        raise BadMessage(
            "nobody whom the plan names vouches for this person.",
            expected="a voucher by one of the plan's entities, for this very key",
            fix="ask the institution for a voucher: twofold keys vouch",
            parameter="voucher",
        )


def _signed(record: Mapping[str, Any]) -> bytes:
    text = canonical_json({name: value for name, value in record.items() if name not in _ADDED})
    return hashlib.sha256(text.encode()).digest()


def _hex(record: Mapping[str, Any], name: str, size: int) -> bytes:
    text = taken(record, name, str)
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != size or found.hex() != text:
        raise BadMessage("a field of the message is damaged.", found=name, parameter=name)
    return found


def _array(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8)


# Several reports in one file.


def encode_bundle(reports: Iterable[bytes], plan: Plan) -> bytes:
    """Put several reports, whole or in halves, into one file; each is signed by its own maker."""
    every = list(reports)
    record = {"schema": BUNDLE, "plan_hash": plan.hash, "catalog_hash": plan.catalog.hash}
    sizes = np.array([len(one) for one in every], dtype=np.int64)
    return pack_sealed(record, {"sizes": sizes, "reports": _array(b"".join(every))})


def decode_bundle(data: bytes, plan: Plan) -> Iterator[bytes]:
    """Give the reports of a file, none of them checked yet, all of a length that a report can have."""
    data = as_bytes(data, bundle_limit(plan))
    container = open_container(data)
    if taken(container.record, "schema", str) != BUNDLE:
        check_header(container.record, plan, schema=BUNDLE)
    _check_plan(container.record, plan)
    _check_kind(plan)
    count = _length(container.layouts, "sizes")
    total = _length(container.layouts, "reports")
    layouts = {"sizes": Layout(dtype="I64", shape=(count,)), "reports": Layout(dtype="U8", shape=(total,))}
    arrays = unpack(data, container, layouts)
    check_seal(data, container.record)
    sizes = arrays["sizes"]
    # Each is looked at, refused and remembered by itself: a file of crumbs would cost more than one of reports.
    if (sizes < _LEAST_REPORT).any() or (sizes > report_limit(plan)).any() or int(sizes.sum()) != total:
        raise BadMessage("the sizes of the reports in a bundle do not add up.", parameter="sizes")
    ends = np.cumsum(sizes)
    return (
        arrays["reports"][end - size : end].tobytes() for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)
    )


def bundle_limit(plan: Plan) -> int:
    """Most bytes of a bundle; at least one report fits."""
    return max(_LARGEST_BUNDLE, 8 + LARGEST_HEADER + report_limit(plan))


def _length(layouts: Mapping[str, Layout], name: str) -> int:
    shape = layouts[name].shape if name in layouts else ()
    return shape[0] if len(shape) == 1 else 0
