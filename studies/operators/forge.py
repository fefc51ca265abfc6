"""Reports as faulty or dishonest entities make them: every one is signed by a key of the plan."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from twofold.federation.messages import REPORT, modulus_bits
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.reports import decode_report, half, seals_of
from twofold.federation.secure import OperatorSum
from twofold.identity.keys import Secrets
from twofold.identity.roster import Roster
from twofold.secure_sum.keys import Keys
from twofold.secure_sum.operators import REPORT_BYTES, ReportHeader, split
from twofold.storage.container import canonical_json, open_container, pack_sealed
from twofold.storage.signing import Purpose

__all__ = ["OPERATORS", "World", "halves_of", "report", "resealed", "world"]

OPERATORS: Final = ("operator-a", "operator-b")
_STRANGER: Final = Keys.new().public.seal


class World:
    """A plan with its keys, made once: what changes from run to run is kept elsewhere."""

    def __init__(self, entities: int, floor: int, items: int, deadline: str | None = None) -> None:
        self.floor = floor
        self.names = tuple(f"site-{number}" for number in range(entities))
        roster, self.secrets = Roster.new(self.names, OPERATORS)
        self.plan = Plan(
            catalog=CatalogKey(hash="a" * 64, n_items=items),
            feedback="counts",
            bound=5,
            max_items=items,
            mechanism="gram",
            rank=1,
            epsilon=20,
            n_users=40,
            n_entities=entities,
            entities=self.names,
            deadline=deadline,
            simulation=True,
            secure=OperatorSum(floor=floor),
            roster=roster,
        )
        self.other = self.plan.with_(name="another")
        stated = self.plan.spec.sum
        assert stated is not None
        self.length = stated.length

    def operator(self, place: int) -> Secrets:
        """Give the secrets of an operator."""
        return self.secrets[OPERATORS[place]]


@cache
def world(entities: int, floor: int, items: int, deadline: str | None = None) -> World:
    """Make a plan and its keys, once for every size."""
    return World(entities, floor, items, deadline)


def report(
    made: World,
    entity: str,
    numbers: NDArray[np.int64],
    *,
    plan: Plan | None = None,
    seals: tuple[bytes, bytes] | None = None,
    bound_to: str | None = None,
    longer: int = 0,
    bits: int = 0,
    mixed: bool = False,
) -> bytes:
    """Make a report and sign it with the entity's own key.

    Parameters
    ----------
    made : World
        Plan and keys.
    entity : str
        Who signs it.
    numbers : array of int64
        What it holds.
    plan : Plan, optional
        Another plan.
    seals : pair of bytes, optional
        Other keys than the operators'.
    bound_to : str, optional
        Another entity, to whom the boxes are bound: a stolen report.
    longer, bits : int
        Numbers and bits of the modulus that are too many.
    mixed : bool
        Two boxes of different seeds.
    """
    plan = plan or made.plan
    width, length = modulus_bits(plan) + bits, made.length + longer
    header = ReportHeader(
        plan=bytes.fromhex(plan.hash),
        entity=bound_to or entity,
        report=os.urandom(REPORT_BYTES),
        bits=width,
        length=length,
        seals=seals or seals_of(plan),
    )
    values = np.concatenate([numbers, np.zeros(longer, dtype=np.int64)])
    boxes = split(values, header)
    if mixed:
        boxes = boxes[0], split(values, header)[1]
    record: dict[str, Any] = {
        "schema": REPORT,
        "plan_hash": plan.hash,
        "catalog_hash": plan.catalog.hash,
        "entity": entity,
        "report": header.report.hex(),
        "bits": width,
        "length": length,
        "seeded": False,
        "boxes": [hashlib.sha256(box).hexdigest() for box in boxes],
    }
    text = hashlib.sha256(canonical_json(record).encode()).digest()
    record["signed"] = made.secrets[entity].sign.sign(Purpose.REPORT, text).hex()
    return _packed(record, boxes)


def stranger_seals(made: World, place: int) -> tuple[bytes, bytes]:
    """Sealing keys of the plan, one of them exchanged for a stranger's."""
    first, second = seals_of(made.plan)
    return (_STRANGER, second) if place == 0 else (first, _STRANGER)


def resealed(data: bytes, place: int) -> bytes:
    """Change a byte of one box, and seal the message again, as anyone can: only the signature tells."""
    container = open_container(data)
    boxes = [_box(data, name) for name in ("first", "second")]
    boxes[place] = bytes([boxes[place][0] ^ 1]) + boxes[place][1:]
    return _packed({name: value for name, value in container.record.items() if name != "checksum"}, boxes)


def halves_of(data: bytes, plan: Plan) -> tuple[bytes, bytes]:
    """Cut a report into what each operator needs."""
    whole = decode_report(data, plan)
    return half(whole, 0), half(whole, 1)


def _box(data: bytes, name: str) -> bytes:
    container = open_container(data)
    start = container.places[name]
    return data[start : start + container.layouts[name].size]


def _packed(record: dict[str, Any], boxes: Sequence[bytes]) -> bytes:
    arrays = {name: np.frombuffer(box, dtype=np.uint8) for name, box in zip(("first", "second"), boxes, strict=True)}
    return pack_sealed(record, arrays)
