"""Plans with two operators, the keys of everybody in them, reports, and messages changed by an insider."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tests.enrolled import _fixed
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.reports import encode_report, person_name, voucher_text
from twofold.federation.secure import OperatorSum
from twofold.identity.keys import Role, Secrets
from twofold.identity.roster import Roster
from twofold.release.content import BilinearSums
from twofold.storage.container import open_container, unpack
from twofold.storage.signing import Purpose, SigningKey

SITES = ("anna", "bern", "carl")
OPERATORS = ("clinic", "uni")


@cache
def secrets(name: str, role: Role = Role.ENTITY) -> Secrets:
    """Keys that follow from a name."""
    return _fixed(name, Role.OPERATOR if name in OPERATORS else role)


def make_plan(*, people: bool = False, items: int = 4, **changes: Any) -> Plan:
    """A Gram matrix of a few items under two operators."""
    given: dict[str, Any] = {
        "catalog": CatalogKey(hash="0" * 64, n_items=items),
        "feedback": "counts",
        "bound": 5,
        "max_items": 2,
        "rank": 2,
        "mechanism": "gram",
        "n_users": 1 if people else 50,
        "secure": OperatorSum(floor=2, people=people),
        "roster": Roster(secrets(name).identity for name in (*SITES, *OPERATORS)),
    }
    if people:
        given["n_entities"] = 6
    return Plan(**(given | changes))


@cache
def plan(*, people: bool = False) -> Plan:
    """The plan of most tests."""
    return make_plan(people=people)


def content(of: Plan, numbers: np.ndarray | None = None, **changes: Any) -> BilinearSums:
    """An entity's sums, or any numbers in their place."""
    stated = of.spec.sum
    assert stated is not None
    given: dict[str, Any] = {
        "mechanism": "gram",
        "numbers": np.arange(stated.length, dtype=np.int64) if numbers is None else numbers,
        "deviation": 1.0,
        "law": of.spec.noise.law,
        "seeded": False,
    }
    return BilinearSums(**(given | changes))


def report(name: str = "anna", of: Plan | None = None, numbers: np.ndarray | None = None, **changes: Any) -> bytes:
    """A report of an entity, signed with its key."""
    under = of or plan()
    return encode_report(content(under, numbers, **changes), under, entity=name, signer=secrets(name).sign)


def person(number: int = 0) -> SigningKey:
    """The key of a person."""
    return SigningKey(bytes([number + 1]) * 32)


def voucher(key: SigningKey, of: Plan, by: str = "anna") -> dict[str, str]:
    """What an institution says of a person's key."""
    signature = secrets(by).sign.sign(Purpose.VOUCHER, voucher_text(of, person_name(key.public)))
    return {"institution": by, "signature": signature.hex()}


def person_report(number: int = 0, of: Plan | None = None, vouched: dict[str, str] | None = None) -> bytes:
    """A person's report, with a voucher of an institution unless another is given."""
    under, key = of or plan(people=True), person(number)
    said = voucher(key, under) if vouched is None else vouched
    return encode_report(content(under), under, entity=person_name(key.public), signer=key, voucher=said)


def parts(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Record and arrays of a message."""
    container = open_container(data)
    record = {name: value for name, value in container.record.items() if name not in ("checksum", "signature")}
    return record, {name: one.copy() for name, one in unpack(data, container, container.layouts).items()}
