"""The terms of a plan's secure sum: keys, numbers and the modulus, all from public numbers."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from twofold.errors import BadPlan, PlanMismatch
from twofold.protocol.expected import cannot_be_summed, chosen_mechanism
from twofold.protocol.plan import Plan
from twofold.prototypes.base import Public
from twofold.prototypes.bilinear.layout import BilinearLayout
from twofold.prototypes.bilinear.mechanism import Bilinear
from twofold.prototypes.bilinear.moments import Kind
from twofold.prototypes.bilinear.noise import noise_deviation
from twofold.secure_sum.terms import Terms

__all__ = ["modulus_bits", "secure_terms"]

#: An entity may have so many times the promised users before its numbers could leave the modulus; it is refused then.
ROOM: Final = 1_000
#: Standard deviations of noise that fit beside; a Gaussian passes them once in 10^80 draws.
_FAR: Final = 20
#: The same for a share of a Laplace, in deviations of the whole noise: the tail of a share is as long as that of all of
#: it (by symmetry P(|share| > t) is at most 2 P(|sum| > t)), however small its own deviation is.
_FAR_LAPLACE: Final = 150


@lru_cache(maxsize=16)
def modulus_bits(plan: Plan) -> int:
    """Bits of the modulus: the fewest whole bytes in which no sum of the plan can wrap around.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> from twofold.protocol.secure import SecureSum
    >>> key = CatalogKey(hash="0" * 64, n_items=457)
    >>> plan = Plan(catalog=key, feedback="counts", bound=5, max_items=60, mechanism="gram", n_entities=205,
    ...             secure=SecureSum(survivors=185))
    >>> modulus_bits(plan)
    56
    """
    mechanism, public = chosen_mechanism(plan)[0], plan.public
    if not isinstance(mechanism, Bilinear):
        raise cannot_be_summed(mechanism)
    layout = BilinearLayout.of(public, mechanism.kind)
    one = max(layout.norm * (layout.norm if layout.gram else layout.profile_norm), layout.count_weight)
    one = max(one, layout.base_weight * layout.norm, layout.base_weight * layout.mark)
    entities = len(plan.entities) or plan.n_entities
    most = (ROOM * plan.n_users * one + _farthest_noise(public, mechanism.kind)) * entities
    bits = max(16, -(-(most.bit_length() + 1) // 8) * 8)
    if bits > 64:
        raise BadPlan(
            "the sums of this plan do not fit into 64 bits.",
            found=f"{bits} bits",
            fix="lower n_users or max_items, or raise epsilon",
        )
    return bits


def _farthest_noise(public: Public, kind: Kind) -> int:
    deviation = noise_deviation(public, kind)
    if public.law == "laplace":
        return math.ceil(_FAR_LAPLACE * deviation * math.sqrt(max(1, public.honest))) + 1
    return math.ceil(_FAR * deviation) + 1


@lru_cache(maxsize=16)
def secure_terms(plan: Plan) -> Terms:
    """Give the terms that all sides of a plan compute alike.

    Raises
    ------
    PlanMismatch
        The plan has no secure sum, or the list of keys is not at hand.
    """
    if plan.secure is None:
        raise PlanMismatch("the plan has no secure sum.", fix="Plan(..., secure=SecureSum(survivors=...))")
    if plan.secure.keys is None:
        raise PlanMismatch(
            "the list of public keys is missing.",
            expected=f"the list with hash {plan.secure.roster[:12]}" if plan.secure.roster else "enrolled keys",
            fix="put the list of keys where the plan file names it; twofold plan new --public-key makes one",
        )
    return Terms(
        context=bytes.fromhex(plan.hash),
        roster=plan.secure.keys,
        threshold=plan.secure.answers,
        floor=plan.secure.survivors,
        least_present=plan.secure.least_present(len(plan.secure.keys)),
        colluders=plan.secure.colluders,
        bits=modulus_bits(plan),
    )
