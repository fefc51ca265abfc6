"""The two messages of a federation: an entity's release to the server, item factors back.

A message that decodes fits the plan: its shapes, its units, its noise, its sender. Any other raises `BadMessage`,
`PlanMismatch` or, where noise was seeded or a proof is missing in a real federation, `NotForRealUse`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, Final

from numpy.typing import NDArray

from twofold.checks import is_hash
from twofold.errors import BadMessage, NotForRealUse
from twofold.federation.factors import decode_factors, encode_factors, factors_limit, load_factors, save_factors
from twofold.federation.header import (
    FACTORS,
    RELEASE,
    Header,
    check_entity,
    check_header,
    common_record,
    note_of,
    read_header,
)
from twofold.federation.plan import LARGEST_NUMBER, Plan
from twofold.release.choose import NOT_PRIVATE
from twofold.release.content import BilinearSums, Integers, Masked, Noise, Prototypes, Units
from twofold.release.contract import ReleaseSpec
from twofold.storage.container import (
    LARGEST_HEADER,
    Container,
    Layout,
    as_bytes,
    check_seal,
    field,
    finite,
    is_cut,
    open_container,
    pack_sealed,
    receipt,
    unpack,
)
from twofold.storage.files import write_whole

__all__ = [
    "FACTORS",
    "RELEASE",
    "Content",
    "Header",
    "ReleaseMessage",
    "array_bytes",
    "decode_factors",
    "decode_release",
    "encode_factors",
    "encode_release",
    "factors_limit",
    "is_cut",
    "load_factors",
    "message_limit",
    "read_header",
    "receipt",
    "save_factors",
]

_PARTS: Final = ("values", "observed", "counts")
# Units and noise are computed in floating point by both sides, perhaps with another library of logarithms.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseMessage:
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


def encode_release(content: Content, *, entity: str, plan: Plan) -> bytes:
    """Write an entity's message; equal content gives equal bytes.

    Privacy
    -------
    Only what the mechanism released and public numbers are in it. The bytes are decoded once before they are handed
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
    data = pack_sealed(record, dict(content.arrays()))
    decode_release(data, plan)
    return data


def decode_release(data: bytes, plan: Plan) -> ReleaseMessage:
    """Read an entity's message, if it is whole and sound and was made by this plan.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> decode_release(b"hello", plan)
    Traceback (most recent call last):
    twofold.errors.BadMessage: the message is cut off...
    """
    data = as_bytes(data, message_limit(plan))
    container = open_container(data)
    record = container.record
    check_header(record, plan, schema=RELEASE)
    entity = check_entity(record, plan)
    _check_real(record, plan)
    units, noise = _units(record), _noise(record)
    _check_public(record, units, noise, plan.spec)
    arrays = unpack(data, container, _layouts(container, plan))
    check_seal(data, record)
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
    69208
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
        )
    if field(record, "mechanism", str) in NOT_PRIVATE:
        raise NotForRealUse(
            "the message was made without noise, so it is not private.",
            found=f"mechanism {record['mechanism']}",
            expected="a mechanism with a proof",
        )


def _check_public(record: Mapping[str, Any], units: Units, noise: Noise, spec: ReleaseSpec) -> None:
    """Refuse units and noise other than those the plan's public numbers imply."""
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
    """Most bytes that the arrays of a message have; in a secure sum numbers take as many as the modulus does."""
    if plan.secure is not None:
        return (_summed(plan) + CHECKS) * (_bits(plan) // 8)
    return 8 * plan.spec.most_numbers


def _summed(plan: Plan) -> int:
    assert plan.spec.sum is not None  # the plan has checked it
    return plan.spec.sum.length


def _layouts(container: Container, plan: Plan) -> dict[str, Layout]:
    """Arrays a message must hold; where private data decide the number of rows, as many as it says, within bounds."""
    if plan.secure is not None:
        return {"masked": Layout(dtype="U8", shape=(_summed(plan) + CHECKS, _bits(plan) // 8))}
    spec, rows = plan.spec, plan.spec.rows
    if rows is None:
        rows = container.layouts["counts"].shape[0] if "counts" in container.layouts else 0
        if not 1 <= rows <= spec.most_rows:
            raise BadMessage("the number of prototypes is out of range.", expected=f"1 to {spec.most_rows:,}")
    return {one.name: Layout(dtype="I64", shape=one.sized(rows)) for one in spec.arrays}


def _content(
    arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any], plan: Plan, *, units: Units, noise: Noise
) -> Content:
    """Give what the arrays of a message mean."""
    spec = plan.spec
    made: dict[str, Any] = {
        "mechanism": spec.mechanism,
        "seeded": field(record, "seeded", bool),
        "note": note_of(record),
    }
    if plan.secure is not None:
        present = field(record, "present", str)
        if not is_hash(present) or field(record, "bits", int) != _bits(plan):
            raise BadMessage(
                "the masks of the message were made with another list or another modulus.",
                expected=f"numbers modulo 2^{_bits(plan)}, masked for the entities that shared keys",
            )
        return Masked(present=present, bits=_bits(plan), packed=arrays["masked"], **made)
    for array in arrays.values():
        _check_size(array)
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


def _bits(plan: Plan) -> int:
    from twofold.federation.key_messages import (
        modulus_bits,  # loads the library of ciphers, which other plans do without
    )

    return modulus_bits(plan)


def _check_size(array: Integers) -> None:
    # Not np.abs: that of the smallest 64-bit number is negative.
    if int(array.max(initial=0)) > LARGEST_NUMBER or int(array.min(initial=0)) < -LARGEST_NUMBER:
        raise BadMessage(
            "a number in the message is so large that sums over all entities could overflow.",
            expected=f"whole numbers within {LARGEST_NUMBER:.1e}",
        )
