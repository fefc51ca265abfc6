"""The sum among the entities, for the benchmark: whole, or from pieces where the whole would take hours."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._sum_child import OPERATORS, Clock, content, names, plan_of, secrets
from benchmarks.table import peak_megabytes
from twofold.federation.key_messages import secure_terms
from twofold.federation.plan import Plan
from twofold.identity.keys import Secrets
from twofold.secure_sum import Terms, add_masked, answer, mask, share_secrets, unmask
from twofold.secure_sum.messages import pack, unpack

#: More entities than this are not run: sharing alone grows with their square for each of them.
MOST = 300
#: Entities that share and mask where the rest is computed from a smaller run.
PIECES = 2


def peers(entities: int, items: int) -> dict[str, Any]:
    """All steps with a tenth of the entities gone after sharing; above `MOST` from pieces."""
    return _whole(entities, items) if entities <= MOST else _pieces(entities, items)


def _ready(entities: int, items: int) -> tuple[dict[str, Secrets], Plan, Terms]:
    members = secrets(entities, OPERATORS[:1])
    plan = plan_of("peers", entities, items, members)
    return members, plan, secure_terms(plan)


def _whole(entities: int, items: int) -> dict[str, Any]:
    clock = Clock()
    members, plan, terms = _ready(entities, items)
    made, before, present = content(plan, clock), peak_megabytes(), names(entities)
    shares = {}
    for name in present:
        with clock.of("share"):
            shares[name] = share_secrets(members[name].sum, name, terms)
    stay = present[entities // 10 :]
    masked = []
    for name in stay:
        with clock.of("mask"):
            one = mask(made.numbers, members[name].sum, name, terms, present)
            data = pack(one.numbers, terms.bits)
        with clock.of("server"):
            unpack(data, terms.bits)
        masked.append(one)
    with clock.of("server"):
        total, survivors = add_masked(masked, terms, present)
    answers = {}
    for name in survivors:
        with clock.of("answer"):
            answers[name] = answer(members[name].sum, name, terms, shares, present, survivors)
    with clock.of("server"):
        opened = unmask(total, answers, terms, shares, present, survivors)
    first = stay[0]
    keys = sum(len(name) + len(box) for name, box in shares[first].boxes.items())
    asked = answers[first]
    keys += sum(len(name) + len(value) for table in (asked.seeds, asked.keys) for name, value in table.items())
    entity = clock["release"] + clock["share"] / entities + (clock["mask"] + clock["answer"]) / len(stay)
    return {
        "entity": entity,
        "servers": {"server": clock["server"]},
        "answer": clock["answer"] / len(stay),
        "before": before,
        "megabytes": peak_megabytes(),
        "bytes": masked[0].numbers.size * terms.bits // 8 + keys,
        "length": made.numbers.size,
        "visits": 3,
        "exact": bool(np.array_equal(opened.values, len(stay) * made.numbers)),
    }


def _pieces(entities: int, items: int) -> dict[str, Any]:
    clock = Clock()
    smaller = _whole(MOST // 2, items)
    members, plan, terms = _ready(entities, items)
    made, present = content(plan, clock), names(entities)
    for name in present[:PIECES]:
        with clock.of("share"):
            shared = share_secrets(members[name].sum, name, terms)
        with clock.of("mask"):
            masked = mask(made.numbers, members[name].sum, name, terms, present)
            pack(masked.numbers, terms.bits)
    answered = smaller["answer"] * entities / (MOST // 2)
    # Streams that the server takes off: one of every survivor, and one of every survivor for everybody who is gone.
    server = smaller["servers"]["server"] * _streams(entities) / _streams(MOST // 2)
    boxes = sum(len(name) + len(box) for name, box in shared.boxes.items())
    return {
        "entity": clock["release"] + (clock["share"] + clock["mask"]) / PIECES + answered,
        "servers": {"server": server},
        "before": smaller["before"],
        "megabytes": None,
        "bytes": masked.numbers.size * terms.bits // 8 + boxes + entities * 42,
        "length": made.numbers.size,
        "visits": 3,
        "exact": None,
    }


def _streams(entities: int) -> int:
    gone = entities // 10
    return (entities - gone) * (gone + 1)
