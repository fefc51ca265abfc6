"""The two messages of a federation: prototypes to the server, item factors back.

Whatever decodes fits the plan: its shapes, its units, its noise, its sender. Whatever does not raises `BadMessage`,
`PlanMismatch` or, where noise was seeded or a proof is missing in a real federation, `NotForRealUse`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, Final

from twofold.errors import BadMessage, NotForRealUse
from twofold.protocol.codec import (
    LARGEST_HEADER,
    as_bytes,
    field,
    finite,
    is_cut,
    open_container,
    receipt,
    unpack,
)
from twofold.protocol.contents import Content, arrays_of, content_of, layouts_of, numbers_of
from twofold.protocol.expected import Expected, expected
from twofold.protocol.factor_messages import decode_factors, encode_factors, factors_limit, load_factors, save_factors
from twofold.protocol.files import read_limited, write_whole
from twofold.protocol.header import (
    FACTORS,
    PROTOTYPES,
    Header,
    check_entity,
    check_header,
    common_record,
    read_header,
)
from twofold.protocol.masked import Masked
from twofold.protocol.plan import Plan
from twofold.protocol.seal import check_seal, pack_sealed
from twofold.prototypes.message import Noise, Prototypes, Units
from twofold.prototypes.registry import NOT_PRIVATE

__all__ = [
    "FACTORS",
    "PROTOTYPES",
    "Header",
    "PrototypesMessage",
    "decode_factors",
    "decode_prototypes",
    "encode_factors",
    "encode_prototypes",
    "factors_limit",
    "is_cut",
    "load_factors",
    "load_prototypes",
    "message_limit",
    "read_header",
    "receipt",
    "save_factors",
]

_PARTS: Final = ("values", "observed", "counts")
# Units and noise are computed in floating point by both sides, perhaps with another library of logarithms.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class PrototypesMessage:
    """One entity's message of round 1, as bytes and as what they say.

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
        """Write the bytes, whole or not at all."""
        write_whole(path, self.data)


def encode_prototypes(content: Content, *, entity: str, plan: Plan) -> bytes:
    """Write an entity's message; equal content gives equal bytes.

    Privacy
    -------
    Only what the mechanism released and public numbers are in it. The bytes are decoded once before they are handed
    out, so that no message leaves that the server would refuse.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> import numpy as np
    >>> released = plan.release_mechanism.release(np.ones((4, 3)), plan.public)
    >>> data = encode_prototypes(released.value, entity="st-anna", plan=plan)
    >>> decode_prototypes(data, plan).entity, read_header(data).size == len(data)
    ('st-anna', True)
    """
    wanted = expected(plan)
    own = content if isinstance(content, Prototypes) else wanted  # of a vector both follow from the plan
    record = common_record(PROTOTYPES, plan) | {
        "entity": entity,
        "mechanism": content.mechanism,
        "units": asdict(own.units),
        "noise": asdict(own.noise),
        "seeded": content.seeded,
        "note": content.note,
    }
    if isinstance(content, Masked):
        record |= {"present": content.present, "bits": content.bits}
    data = pack_sealed(record, arrays_of(content))
    decode_prototypes(data, plan)
    return data


def decode_prototypes(data: bytes, plan: Plan) -> PrototypesMessage:
    """Read an entity's message, if it is whole and sound and was made by this plan.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> decode_prototypes(b"hello", plan)
    Traceback (most recent call last):
    twofold.errors.BadMessage: the message is cut off...
    """
    data, wanted = as_bytes(data, message_limit(plan)), expected(plan)
    container = open_container(data)
    record = container.record
    check_header(record, plan, schema=PROTOTYPES)
    entity = check_entity(record, plan)
    _check_real(record, plan)
    units, noise = _units(record), _noise(record)
    _check_public(record, units, noise, wanted)
    arrays = unpack(data, container, layouts_of(container, plan, wanted))
    check_seal(data, record)
    content = content_of(arrays, record, wanted, plan, units=units, noise=noise)
    return PrototypesMessage(
        entity=entity, plan_hash=plan.hash, catalog_hash=plan.catalog.hash, content=content, data=data
    )


def load_prototypes(path: str | PathLike[str], plan: Plan) -> PrototypesMessage:
    """Read an entity's message from a file; one larger than the plan allows is not read at all."""
    return decode_prototypes(read_limited(path, message_limit(plan)), plan)


def message_limit(plan: Plan) -> int:
    """Most bytes a round-1 message of a plan can have.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60)
    >>> message_limit(plan)
    69208
    """
    return 8 + LARGEST_HEADER + numbers_of(plan, expected(plan))


def _check_real(record: Mapping[str, Any], plan: Plan) -> None:
    if plan.simulation:
        return
    if field(record, "seeded", bool):
        raise NotForRealUse(
            "the noise of the message can be repeated from a seed, so it is not private.",
            expected="noise from the operating system",
            fix="let the entity release without a seed; seeds are for plans with simulation = true",
        )
    if field(record, "mechanism", str) in NOT_PRIVATE:
        raise NotForRealUse(
            "the message was made without noise, so it is not private.",
            found=f"mechanism {record['mechanism']}",
            expected="a mechanism with a proof",
        )


def _check_public(record: Mapping[str, Any], units: Units, noise: Noise, wanted: Expected) -> None:
    """Refuse units and noise other than those the plan's public numbers imply."""
    made_by = field(record, "mechanism", str)
    if made_by != wanted.mechanism or noise.law != wanted.noise.law:
        raise BadMessage("the message was made by another mechanism.", expected=f"{wanted.mechanism}")
    pairs = ((units, wanted.units, "units"), (noise, wanted.noise, "noise"))
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
