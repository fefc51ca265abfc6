"""Round 2: the server's item factors as bytes and back."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from twofold.errors import BadMessage, NotForRealUse, PlanMismatch
from twofold.protocol.codec import LARGEST_HEADER, Container, Layout, as_bytes, field, finite, open_container, unpack
from twofold.protocol.expected import expected
from twofold.protocol.factors import ItemFactors
from twofold.protocol.files import read_limited, write_whole
from twofold.protocol.header import FACTORS, check_header, common_record, note_of
from twofold.protocol.plan import Plan
from twofold.protocol.seal import check_seal, pack_sealed

__all__ = [
    "MOST_PATTERNS",
    "MOST_USERS",
    "decode_factors",
    "encode_factors",
    "factors_limit",
    "load_factors",
    "save_factors",
]

#: Patterns of second moments; of a thousand items at ε = 1 some hundred rise above the noise.
MOST_PATTERNS: Final = 256
#: Of users, and of the weight behind an item: what messages of 10,000 entities can add up to.
MOST_USERS: Final = 1e15
# Times the largest value of the plan. Noise takes honest means far outside the bounds, never so far; and squares, sums
# and products of numbers below it stay finite.
_FARTHEST: Final = 1e9
_MOST_ENTITIES: Final = 10_000_000
# Of the largest moment: what summation in another order leaves between the two halves of a symmetric matrix.
_ROUNDING: Final = 1e-6


def encode_factors(factors: ItemFactors, plan: Plan) -> bytes:
    """Write the item factors; equal content gives equal bytes.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> key = CatalogKey(hash="0" * 64, n_items=3)
    >>> plan = Plan(catalog=key, feedback="counts", bound=5, max_items=2, rank=2, mechanism="popularity")
    >>> ones = np.ones(3)
    >>> made = ItemFactors(
    ...     plan=plan.hash, catalog=plan.catalog.hash, factors=np.ones((3, 2), dtype=np.float32), moments=np.eye(2),
    ...     means=ones, support=ones, users=9.0, entities=1, private=True,
    ... )
    >>> decode_factors(encode_factors(made, plan), plan).hash == made.hash
    True
    """
    if (factors.plan, factors.catalog) != (plan.hash, plan.catalog.hash):
        raise PlanMismatch(
            "the item factors belong to another plan or catalog.",
            found=f"plan {factors.plan[:12]}, catalog {factors.catalog[:12]}",
            expected=f"plan {plan.hash[:12]}, catalog {plan.catalog.hash[:12]}",
        )
    record = common_record(FACTORS, plan) | {
        "users": float(factors.users),
        "entities": int(factors.entities),
        "private": bool(factors.private),
        "note": factors.note,
    }
    arrays: dict[str, NDArray[Any]] = {
        "factors": np.asarray(factors.factors, dtype=np.float32),
        "moments": np.asarray(factors.moments, dtype=np.float64),
        "means": np.asarray(factors.means, dtype=np.float64),
        "support": np.asarray(factors.support, dtype=np.float64),
    }
    if factors.patterns is not None and factors.strengths is not None and factors.squares is not None:
        arrays |= {"patterns": factors.patterns, "strengths": factors.strengths, "squares": factors.squares}
    data = pack_sealed(record, arrays)
    decode_factors(data, plan)
    return data


def decode_factors(data: bytes, plan: Plan) -> ItemFactors:
    """Read the item factors, if they are whole and sound and belong to this plan.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> decode_factors(bytes(1000), plan)
    Traceback (most recent call last):
    twofold.errors.BadMessage: this is not a message of twofold...
    """
    data = as_bytes(data, factors_limit(plan))
    container = open_container(data)
    record = container.record
    check_header(record, plan, schema=FACTORS)
    private, note = _check_private(field(record, "private", bool), plan), note_of(record)
    users, entities = _counts(record)
    arrays = unpack(data, container, _layouts(container, plan))
    check_seal(data, record)
    _check_values(arrays, plan)
    return ItemFactors(
        plan=plan.hash,
        catalog=plan.catalog.hash,
        **arrays,
        users=users,
        entities=entities,
        private=private,
        note=note,
    )


def save_factors(factors: ItemFactors, path: str | PathLike[str], plan: Plan) -> None:
    """Write the item factors to a file, whole or not at all."""
    write_whole(path, encode_factors(factors, plan))


def load_factors(path: str | PathLike[str], plan: Plan) -> ItemFactors:
    """Read the item factors from a file; one larger than the plan allows is not read at all."""
    return decode_factors(read_limited(path, factors_limit(plan)), plan)


def factors_limit(plan: Plan) -> int:
    """Most bytes a round-2 message of a plan can have.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> factors_limit(Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60))
    112616
    """
    second = plan.n_items * (4 * MOST_PATTERNS + 8) + 8 * MOST_PATTERNS if expected(plan).length else 0
    return 8 + LARGEST_HEADER + plan.n_items * (4 * plan.rank + 16) + 8 * plan.rank**2 + second


def _check_private(private: bool, plan: Plan) -> bool:
    if private and plan.simulation:
        raise BadMessage("the item factors of a simulation call themselves private.", fix="twofold factorize again")
    if not private and not plan.simulation:
        raise NotForRealUse(
            "the item factors say that they are not private.",
            expected="factors made from private messages only",
            fix="ask the server why; non-private factors are for plans with simulation = true",
        )
    return private


def _counts(record: Mapping[str, Any]) -> tuple[float, int]:
    users, entities = finite(record, "users"), int(field(record, "entities", int))
    if not 0 <= users <= MOST_USERS or not 0 <= entities <= _MOST_ENTITIES:
        raise BadMessage("the item factors speak for an impossible number of users or entities.")
    return users, entities


def _layouts(container: Container, plan: Plan) -> dict[str, Layout]:
    shape = container.layouts["factors"].shape if "factors" in container.layouts else ()
    rank = shape[1] if len(shape) == 2 else 0
    if not 1 <= rank <= plan.rank:
        raise BadMessage("the rank of the item factors does not fit the plan.", expected=f"1 to {plan.rank}")
    per_item = Layout(dtype="F64", shape=(plan.n_items,))
    second = _second_layouts(container, plan) if expected(plan).length else {}
    return second | {
        "factors": Layout(dtype="F32", shape=(plan.n_items, rank)),
        "moments": Layout(dtype="F64", shape=(rank, rank)),
        "means": per_item,
        "support": per_item,
    }


def _second_layouts(container: Container, plan: Plan) -> dict[str, Layout]:
    """Of the second moments, where the plan's messages hold any; there may be no pattern at all."""
    shape = container.layouts["patterns"].shape if "patterns" in container.layouts else ()
    width = shape[1] if len(shape) == 2 else -1
    if not 0 <= width <= MOST_PATTERNS:
        raise BadMessage("the number of patterns is out of range.", expected=f"0 to {MOST_PATTERNS}")
    return {
        "patterns": Layout(dtype="F32", shape=(plan.n_items, width)),
        "strengths": Layout(dtype="F64", shape=(width,)),
        "squares": Layout(dtype="F64", shape=(plan.n_items,)),
    }


def _check_values(arrays: Mapping[str, NDArray[Any]], plan: Plan) -> None:
    for name in ("factors", "support", "strengths", "squares"):
        if name in arrays and (arrays[name] < 0).any():
            raise BadMessage(f"the {name} of the message is negative somewhere.", expected="numbers from 0")
    most = _FARTHEST * max(1.0, abs(plan.bound), abs(plan.lower))
    limits = {"factors": most, "means": most, "moments": most**2, "support": MOST_USERS}
    limits |= {"patterns": 1.001, "strengths": most**2, "squares": most**2}
    for name, limit in limits.items():
        if name in arrays and float(np.abs(arrays[name]).max(initial=0.0)) > limit:
            raise BadMessage(
                f"the {name} of the message is too large somewhere.", expected=f"numbers within {limit:.3g}"
            )
    _check_moments(arrays["moments"])


def _check_moments(moments: NDArray[Any]) -> None:
    """Refuse what is no mean of u uᵀ."""
    largest = float(np.abs(moments).max())
    if not np.allclose(moments, moments.T, rtol=0.0, atol=_ROUNDING * largest):
        raise BadMessage("the moments of the message are not symmetric.")
    # Divided first: eigenvalues of very large or very small numbers are not reliable.
    if largest and float(np.linalg.eigvalsh(moments / largest)[0]) < -_ROUNDING * len(moments):
        raise BadMessage("the moments of the message are not those of any users.", expected="eigenvalues from 0")
