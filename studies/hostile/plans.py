"""Valid plans and messages of every kind, signed by their makers: what the hostile files are made from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from studies.hostile.insider import NAMES, both_operators, members
from tests.enrolled import OPERATOR, enrolled
from tests.totals import totals_of
from twofold.data.catalog import Catalog
from twofold.features import Features
from twofold.federation.agreement import Agreements, encode_agreed, encode_agreement
from twofold.federation.factors import ItemFactors, encode_factors
from twofold.federation.key_messages import (
    encode_answer,
    encode_participants,
    encode_shares,
    encode_survivors,
    secure_terms,
)
from twofold.federation.messages import CHECKS, encode_release, modulus_bits
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import OperatorSum, SecureSum
from twofold.release.content import Masked
from twofold.secure_sum import answer, share_secrets
from twofold.storage.signing import SigningKey

__all__ = ["COUNTS", "FEATURES", "KINDS", "MESSAGES", "agreements", "catalog", "factors", "plan", "release"]

COUNTS: Final = np.random.default_rng(5).poisson(1.0, (12, 9)).astype(np.float32)
FEATURES: Final = Features(matrix=np.arange(18).reshape(9, 2) % 3, names=("a", "b"))
#: Plans: two without a roster, a simulation of ratings, one with a table, and four whose members sign.
KINDS: Final = ("plain", "ratings", "gram", "features", "signed", "secure", "operators", "people")


@cache
def catalog() -> Catalog:
    """Nine items."""
    return Catalog(tuple(f"item-{at}" for at in range(9)))


@cache
def plan(kind: str = "plain") -> Plan:
    """One of `KINDS`."""
    given: dict[str, Any] = {"catalog": CatalogKey.of(catalog()), "bound": 5, "max_items": 3, "rank": 3}
    more: dict[str, dict[str, Any]] = {
        "plain": {"mechanism": "popularity", "entities": ("st-anna", "st-bern"), "n_entities": 2},
        "ratings": {"mechanism": "popularity", "feedback": "ratings", "lower": 1.0, "simulation": True},
        "gram": {"mechanism": "gram", "feedback": "counts", "n_entities": 2, "delta": 0},
        "features": {"mechanism": "features", "features": FEATURES, "n_users": 100},
        "signed": {"mechanism": "gram", "n_entities": 5},
        "secure": {"mechanism": "gram", "n_entities": 5, "secure": SecureSum(survivors=4)},
        "operators": {"mechanism": "gram", "n_entities": 5, "secure": OperatorSum(floor=3, noise="both")},
        "people": {"mechanism": "gram", "n_users": 1, "n_entities": 9, "secure": OperatorSum(floor=3, people=True)},
    }
    made = Plan(**(given | more[kind]))
    if kind in ("operators", "people"):
        return enrolled(made, secrets=both_operators()).plan
    return enrolled(made, secrets=members()).plan if kind in ("signed", "secure") else made


def release(kind: str, entity: str = "st-anna") -> bytes:
    """Round-1 message of an entity."""
    chosen = plan(kind)
    made = chosen.release_mechanism.release(COUNTS, chosen.parameters).value
    return encode_release(made, entity=entity, plan=chosen, signer=_signer(kind, entity))


def factors(kind: str, seed: int) -> bytes:
    """Round-2 message of the server."""
    chosen, rng = plan(kind), np.random.default_rng(seed)
    second: dict[str, Any] = {}
    if chosen.spec.sum is not None:
        second = {"patterns": np.eye(9, 2, dtype=np.float32), "strengths": np.ones(2), "squares": np.ones(9)}
    if chosen.feedback == "counts" and chosen.mechanism == "gram":
        second["totals"] = totals_of(9, seed)
    made = ItemFactors(
        plan=chosen.hash,
        catalog=chosen.catalog.hash,
        factors=rng.random((9, 3), dtype=np.float32),
        moments=np.eye(3),
        means=rng.normal(size=9),
        support=rng.random(9),
        users=40.0,
        entities=chosen.n_entities or 2,
        private=True,
        note="ε is public",
        **second,
    )
    return encode_factors(made, chosen, signer=_signer(kind, OPERATOR))


def _signer(kind: str, name: str) -> SigningKey | None:
    return members()[name].sign if plan(kind).roster is not None else None


@cache
def agreements() -> Agreements:
    """Everybody's agreement to the signed plan."""
    chosen = plan("signed")
    return Agreements.joined(Agreements.signed(chosen, one.sign, name) for name, one in members().items())


def _agreement(name: str) -> bytes:
    return encode_agreement(agreements()[name], plan("signed"), entity=name, signer=members()[name].sign)


def _masked(name: str) -> bytes:
    chosen = plan("secure")
    bits, length = modulus_bits(chosen), 0 if chosen.spec.sum is None else chosen.spec.sum.length
    packed = np.random.default_rng(1).integers(0, 256, (length + CHECKS, bits // 8)).astype(np.uint8)
    present = secure_terms(chosen).present_digest(NAMES).hex()
    content = Masked(mechanism="gram", present=present, bits=bits, packed=packed, seeded=False)
    return encode_release(content, entity=name, plan=chosen, signer=members()[name].sign)


@cache
def _sent() -> dict[str, Any]:
    return {name: share_secrets(members()[name].sum, name, secure_terms(plan("secure"))) for name in NAMES}


def _answer(name: str) -> bytes:
    made = answer(members()[name].sum, name, secure_terms(plan("secure")), _sent(), NAMES, NAMES[:4])
    return encode_answer(made, plan("secure"), signer=members()[name].sign)


def _by_operator(make: Callable[..., bytes], *content: Any, kind: str = "secure") -> bytes:
    return make(*content, plan(kind), signer=members()[OPERATOR].sign)


#: Kind of message to its plan, and to what makes valid ones.
MESSAGES: Final[dict[str, tuple[str, Callable[[], list[bytes]]]]] = {
    "agreement": ("signed", lambda: [_agreement(name) for name in NAMES[:2]]),
    "agreed": ("signed", lambda: [_by_operator(encode_agreed, agreements(), kind="signed")]),
    "shares": (
        "secure",
        lambda: [encode_shares(_sent()[name], plan("secure"), signer=members()[name].sign) for name in NAMES[:2]],
    ),
    "participants": ("secure", lambda: [_by_operator(encode_participants, _sent())]),
    "masked release": ("secure", lambda: [_masked(name) for name in NAMES[:2]]),
    "survivors": ("secure", lambda: [_by_operator(encode_survivors, NAMES, NAMES[:4])]),
    "answer": ("secure", lambda: [_answer(name) for name in NAMES[:2]]),
}
