"""Item factors, as arrays and as bytes: the server sends them back once, and nothing changes them afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from twofold.errors import BadMessage, BadNumber, BadShape, FactorsChanged, NotForRealUse, PlanMismatch
from twofold.federation.messages import FACTORS, check_header, check_signed, common_record, note_of
from twofold.federation.plan import Plan
from twofold.html import block, facts_of
from twofold.release.content import Moments, symmetric, upper_triangle
from twofold.storage.container import (
    LARGEST_HEADER,
    Container,
    Layout,
    as_bytes,
    field,
    finite,
    open_container,
    pack_sealed,
    unpack,
)
from twofold.storage.files import read_limited, write_whole

if TYPE_CHECKING:
    from twofold.storage.signing import SigningKey

__all__ = [
    "MOST_PATTERNS",
    "MOST_RANK",
    "MOST_USERS",
    "ItemFactors",
    "decode_factors",
    "encode_factors",
    "factors_limit",
    "load_factors",
    "save_factors",
]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ItemFactors:
    """The shared item factors and the few public numbers an entity needs to pull its own model towards them.

    Parameters
    ----------
    plan, catalog : str
        Hashes of the plan and of the catalog they belong to.
    factors : float32 array (items, rank)
        V of the paper, at least 0.
    moments : float64 array (rank, rank)
        Mean of u uᵀ over the users the prototypes stand for: ``factors @ moments @ factors.T`` is what the federation
        knows about items that go together, per user.
    means : float64 array (items,)
        Mean value of each item over all messages: for counts per user, for ratings per observation.
    support : float64 array (items,)
        How much each mean can be trusted: users (counts) or observations (ratings) less what the noise takes away.
    users : float
        Number of users behind the messages, less what the noise takes away.
    entities : int
        Number of entities that answered; their names are not included.
    private : bool
        False when any message came from a simulation, from seeded noise, or from a mechanism without a proof.
    note : str
        What the server decided from public numbers, in words.
    patterns : float32 array (items, patterns), optional
        Directions of the users' common second moments that rose above the noise; signed, columns of unit length. None
        where the messages held no second moments (prototypes).
    strengths : float64 array (patterns,), optional
        Mean square along each pattern, per user: ``patterns @ diag(strengths) @ patterns.T`` is the denoised mean of
        x xᵀ, x a user's row as the mechanism measures it (`twofold.release.bilinear`).
    squares : float64 array (items,), optional
        Diagonal of that mean before anything was left out: mean square of each item, at least 0.
    totals : Moments, optional
        Counts with mechanism "gram": the noisy totals of all entities as they were released, so that an entity can
        take its own part out before it denoises them. Pairs are kept in single precision. None otherwise.

    Privacy
    -------
    Post-processing of released messages: costs nothing more.

    Paper
    -----
    V̂ of Algorithm 2, line 4.
    """

    plan: str
    catalog: str
    factors: NDArray[np.float32]
    moments: NDArray[np.float64]
    means: NDArray[np.float64]
    support: NDArray[np.float64]
    users: float
    entities: int
    private: bool
    note: str = ""
    patterns: NDArray[np.float32] | None = None
    strengths: NDArray[np.float64] | None = None
    squares: NDArray[np.float64] | None = None
    totals: Moments | None = None

    def __post_init__(self) -> None:
        items, rank = self.factors.shape if self.factors.ndim == 2 else (-1, -1)
        shapes = (self.moments.shape, self.means.shape, self.support.shape)
        if shapes != ((rank, rank), (items,), (items,)):
            raise BadShape("the parts of the item factors do not match.", found=f"factors of {self.factors.shape}")
        arrays: tuple[NDArray[Any], ...] = (self.factors, self.moments, self.means, self.support, *self._second(items))
        if not all(np.isfinite(part).all() for part in arrays) or not np.isfinite(self.users):
            raise BadNumber("the item factors hold NaN or infinity.", expected="finite numbers")
        if self.totals is not None:
            object.__setattr__(self, "totals", _held_totals(self.totals, items))
        for part in arrays:
            part.flags.writeable = False

    def __repr__(self) -> str:
        kept = "private" if self.private else "NOT PRIVATE"
        return f"ItemFactors({self.n_items:,} items, rank {self.rank}, {self.entities:,} entities, {kept})"

    def _repr_html_(self) -> str:
        told = "every message behind them had a proof and real noise" if self.private else "NOT PRIVATE"
        facts = {"items": f"{self.n_items:,}", "rank": self.rank, "entities": f"{self.entities:,}"}
        facts |= {"plan": self.plan[:12], "hash": self.hash[:12], "promise": told}
        return block("Item factors (message 2)", [self.note] if self.note else [], facts_of(facts))

    def _second(self, items: int) -> tuple[NDArray[Any], ...]:
        """The parts of the second moments: all or none of them."""
        given = (self.patterns, self.strengths, self.squares)
        if all(part is None for part in given):
            return ()
        parts = tuple(np.asarray(part) for part in given if part is not None)
        width = parts[0].shape[1] if len(parts) == 3 and parts[0].ndim == 2 else -1
        if [part.shape for part in parts] != [(items, width), (width,), (items,)]:
            raise BadShape("the second moments of the item factors do not match.")
        return parts

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        return int(self.factors.shape[0])

    @property
    def rank(self) -> int:
        """Number of factors."""
        return int(self.factors.shape[1])

    @property
    def hash(self) -> str:
        """SHA-256 of every number, to show that a local fit did not change them."""
        state = hashlib.sha256(f"twofold factors 1 {self.plan} {self.catalog}\n".encode())
        for part, kind in (
            (self.factors, "<f4"),
            (self.moments, "<f8"),
            (self.means, "<f8"),
            (self.support, "<f8"),
            (np.array([self.users, self.entities]), "<f8"),
        ):
            state.update(np.ascontiguousarray(part, dtype=kind).tobytes())
        for second in self._second(self.n_items):
            state.update(np.ascontiguousarray(second, dtype=second.dtype.newbyteorder("<")).tobytes())
        if self.totals is not None:
            given = (
                _numbers(self.totals),
                self.totals.sums.astype("<f8"),
                upper_triangle(self.totals.pairs).astype("<f4"),
            )
            state.update(b"".join(part.tobytes() for part in given))
        return state.hexdigest()

    def check_unchanged(self, before: str) -> None:
        """Refuse numbers that differ from those of `before`, an earlier `hash`."""
        if self.hash != before:
            raise FactorsChanged(
                "the shared item factors were changed by a local fit.",
                found=f"hash {self.hash[:12]}",
                expected=f"hash {before[:12]}",
                fix="copy them before changing them; personalize and adapt never write to them",
            )


def _held_totals(totals: Moments, items: int) -> Moments:
    """Give totals as a message carries them, frozen: pairs in single precision, both halves alike."""
    if totals.kind != "gram" or totals.observed is not None or totals.sums.shape != (items,):
        raise BadShape("the totals of the item factors are not those of counts with a gram.", found=totals.kind)
    with np.errstate(over="ignore"):  # an overflow is infinite, and is refused
        upper = upper_triangle(totals.pairs).astype(np.float32)
    if not all(np.isfinite(part).all() for part in (_numbers(totals), totals.sums, upper)):
        raise BadNumber("the totals of the item factors hold NaN or infinity.", expected="finite numbers")
    if min(totals.users_noise, totals.sums_noise, totals.pairs_noise, totals.weight_per_user) < 0:
        raise BadNumber("a noise or a weight of the totals is below 0.", parameter="totals")
    held = replace(totals, sums=np.array(totals.sums, dtype=np.float64), pairs=symmetric(upper, items))
    held.sums.flags.writeable = held.pairs.flags.writeable = False
    return held


def _numbers(totals: Moments) -> NDArray[np.float64]:
    return np.array([getattr(totals, name) for name in _SAID], dtype="<f8")


_SAID: Final = ("users", "users_noise", "sums_noise", "pairs_noise", "weight_per_user", "entities", "seeded")
#: Patterns of second moments; of a thousand items at ε = 1 some hundred rise above the noise.
MOST_PATTERNS: Final = 256
#: Factors, whatever a plan says: the time to check their moments grows with its third power.
MOST_RANK: Final = 4_096
#: Bytes of a message, whatever a plan says.
_LARGEST: Final = 1024**3
#: Of users, and of the weight behind an item: what messages of 10,000 entities can add up to.
MOST_USERS: Final = 1e15
# Times the largest value of the plan. Noise takes honest means far outside the bounds, never so far; and squares, sums
# and products of numbers below it stay finite.
_FARTHEST: Final = 1e9
# Of a total and of its noise: far above what users and noise add up to, and squares stay finite.
_LARGEST_TOTAL: Final = _FARTHEST * MOST_USERS
_MOST_ENTITIES: Final = 10_000_000
# Of the largest moment: what summation in another order leaves between the two halves of a symmetric matrix.
_ROUNDING: Final = 1e-6


def encode_factors(factors: ItemFactors, plan: Plan, *, signer: SigningKey | None = None) -> bytes:
    """Write the item factors; equal content gives equal bytes.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
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
            parameter="plan",
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
    if (totals := factors.totals) is not None:
        said = {name: float(getattr(totals, name)) for name in _SAID[:-2]}
        record["totals"] = said | {"entities": int(totals.entities), "seeded": bool(totals.seeded)}
        arrays |= {"total_sums": totals.sums, "total_pairs": upper_triangle(totals.pairs).astype(np.float32)}
    data = pack_sealed(record, arrays, signer=signer, cosigned=plan.operators is not None)
    decode_factors(data, plan, draft=True)
    return data


def decode_factors(data: bytes, plan: Plan, *, draft: bool = False) -> ItemFactors:
    """Read the item factors, if they are complete, valid and of this plan.

    A `draft` lacks the signature of the second operator.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> decode_factors(bytes(1000), plan)
    Traceback (most recent call last):
    twofold.errors.BadMessage: this is not a twofold message...
    """
    data = as_bytes(data, factors_limit(plan))
    container = open_container(data)
    record = container.record
    check_header(record, plan, schema=FACTORS)
    private, note = _check_private(field(record, "private", bool), plan), note_of(record)
    users, entities = _counts(record, plan)
    arrays = unpack(data, container, _layouts(container, plan))
    check_signed(data, record, plan, draft=draft)
    _check_values(arrays, plan)
    totals = _totals(record, arrays, private=private) if _has_totals(plan) else None
    return ItemFactors(
        plan=plan.hash,
        catalog=plan.catalog.hash,
        **arrays,
        users=users,
        entities=entities,
        private=private,
        note=note,
        totals=totals,
    )


def save_factors(
    factors: ItemFactors, path: str | PathLike[str], plan: Plan, *, signer: SigningKey | None = None
) -> None:
    """Write the item factors to a file, completely or not at all."""
    write_whole(path, encode_factors(factors, plan, signer=signer))


def load_factors(path: str | PathLike[str], plan: Plan) -> ItemFactors:
    """Read the item factors from a file; a file larger than the plan allows is not read."""
    return decode_factors(read_limited(path, factors_limit(plan)), plan)


def factors_limit(plan: Plan) -> int:
    """Most bytes a round-2 message of a plan can have.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> factors_limit(Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60))
    1008556
    """
    second = plan.n_items * (4 * MOST_PATTERNS + 8) + 8 * MOST_PATTERNS if plan.spec.sum is not None else 0
    if _has_totals(plan):
        second += 8 * plan.n_items + 2 * plan.n_items * (plan.n_items + 1)
    rank = min(plan.rank, MOST_RANK)
    return min(8 + LARGEST_HEADER + plan.n_items * (4 * rank + 16) + 8 * rank**2 + second, _LARGEST)


def _has_totals(plan: Plan) -> bool:
    """Whether the messages of a plan carry the totals themselves: those of counts with a gram."""
    return plan.feedback == "counts" and plan.spec.mechanism == "gram"


def _check_private(private: bool, plan: Plan) -> bool:
    if private and plan.simulation:
        raise BadMessage(
            "the item factors of a simulation claim to be private.", fix="twofold factorize again", parameter="private"
        )
    if not private and not plan.simulation:
        raise NotForRealUse(
            "the item factors say that they are not private.",
            expected="factors made from private messages only",
            fix="ask the server why; non-private factors are for plans with simulation = true",
        )
    return private


def _counts(record: Mapping[str, Any], plan: Plan) -> tuple[float, int]:
    users, entities = finite(record, "users"), int(field(record, "entities", int))
    if not 0 <= users <= MOST_USERS or not 0 <= entities <= max(_MOST_ENTITIES, plan.expected_entities):
        raise BadMessage("the item factors state an impossible number of users or entities.")
    return users, entities


def _layouts(container: Container, plan: Plan) -> dict[str, Layout]:
    shape = container.layouts["factors"].shape if "factors" in container.layouts else ()
    rank = shape[1] if len(shape) == 2 else 0
    most = min(plan.rank, MOST_RANK)
    if not 1 <= rank <= most:
        raise BadMessage("the rank of the item factors does not match the plan.", expected=f"1 to {most}")
    per_item = Layout(dtype="F64", shape=(plan.n_items,))
    second = _second_layouts(container, plan) if plan.spec.sum is not None else {}
    if _has_totals(plan):
        pairs = Layout(dtype="F32", shape=(plan.n_items * (plan.n_items + 1) // 2,))
        second |= {"total_sums": per_item, "total_pairs": pairs}
    return second | {
        "factors": Layout(dtype="F32", shape=(plan.n_items, rank)),
        "moments": Layout(dtype="F64", shape=(rank, rank)),
        "means": per_item,
        "support": per_item,
    }


def _second_layouts(container: Container, plan: Plan) -> dict[str, Layout]:
    """Of the second moments, if the plan's messages hold any; there may be no pattern at all."""
    shape = container.layouts["patterns"].shape if "patterns" in container.layouts else ()
    width = shape[1] if len(shape) == 2 else -1
    if not 0 <= width <= MOST_PATTERNS:
        raise BadMessage("the number of patterns is out of range.", expected=f"0 to {MOST_PATTERNS}")
    return {
        "patterns": Layout(dtype="F32", shape=(plan.n_items, width)),
        "strengths": Layout(dtype="F64", shape=(width,)),
        "squares": Layout(dtype="F64", shape=(plan.n_items,)),
    }


def _totals(record: Mapping[str, Any], arrays: dict[str, NDArray[Any]], *, private: bool) -> Moments:
    """Take the totals out of a message, if they can be sums of people with noise."""
    said, sums, upper = field(record, "totals", dict), arrays.pop("total_sums"), arrays.pop("total_pairs")
    numbers = {name: finite(said, name) for name in _SAID[:-2]}
    users, *noises, weight = numbers.values()
    if not all(0 < noise <= _LARGEST_TOTAL for noise in noises):
        raise BadMessage("the totals of the message have no possible noise.", expected="above 0", parameter="totals")
    entities, seeded = int(field(said, "entities", int)), bool(field(said, "seeded", bool))
    possible = abs(users) <= _LARGEST_TOTAL and 0 <= weight <= MOST_USERS and 1 <= entities <= _MOST_ENTITIES
    if not possible or (private and seeded):
        raise BadMessage("the totals of the message contradict the rest of it.", parameter="totals")
    made: dict[str, Any] = numbers | {"sums": sums, "pairs": symmetric(upper, len(sums))}
    return Moments(kind="gram", cap=1.0, entities=entities, seeded=seeded, **made)


def _check_values(arrays: Mapping[str, NDArray[Any]], plan: Plan) -> None:
    for name in ("factors", "support", "strengths", "squares"):
        if name in arrays and (arrays[name] < 0).any():
            raise BadMessage(f"the {name} of the message is negative somewhere.", expected="numbers from 0")
    most = _FARTHEST * max(1.0, abs(plan.bound), abs(plan.lower))
    limits = {"factors": most, "means": most, "moments": most**2, "support": MOST_USERS}
    limits |= {"patterns": 1.001, "strengths": most**2, "squares": most**2}
    limits |= {"total_sums": _LARGEST_TOTAL, "total_pairs": _LARGEST_TOTAL}
    for name, limit in limits.items():
        if name in arrays and float(np.abs(arrays[name]).max(initial=0.0)) > limit:
            raise BadMessage(
                f"the {name} of the message is too large somewhere.",
                expected=f"numbers within {limit:.3g}",
                parameter=name,
            )
    _check_moments(arrays["moments"])


def _check_moments(moments: NDArray[Any]) -> None:
    """Refuse moments that are not a mean of u uᵀ."""
    largest = float(np.abs(moments).max())
    if not np.allclose(moments, moments.T, rtol=0.0, atol=_ROUNDING * largest):
        raise BadMessage("the moments of the message are not symmetric.")
    # Divided first: eigenvalues of very large or very small numbers are not reliable.
    if largest and float(np.linalg.eigvalsh(moments / largest)[0]) < -_ROUNDING * len(moments):
        raise BadMessage("no users have the moments of this message.", expected="eigenvalues of at least 0")
