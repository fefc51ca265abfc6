"""One sum in a process of its own, for its memory: `python -m benchmarks._sum_child KIND ENTITIES ITEMS`.

KIND is plain, peers, operators or people. Every entity works with one content, so that thousands of them are at hand
quickly; names, keys, noise, seeds and signatures are their own.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.table import peak_megabytes
from tests.enrolled import fixed_secrets
from twofold.federation.messages import decode_release, encode_release
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.reports import decode_bundle, encode_bundle, encode_report, person_name, voucher_text
from twofold.federation.secure import OperatorSum, SecureSum
from twofold.identity.keys import Secrets
from twofold.identity.keystore import KeyStore
from twofold.identity.roster import Roster
from twofold.release.content import BilinearSums
from twofold.server.operator import Operator
from twofold.storage.signing import Purpose, SigningKey

OPERATORS = ("operator-a", "operator-b")
#: Runs of the mechanism, of which the fastest counts.
SAMPLE = 5
#: Bytes of reports that are handed on in one file.
BUNDLE = 16 * 1024 * 1024


class Clock(dict[str, float]):
    """CPU seconds by step; time spent inside an inner step is not counted for the outer one."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[float] = []

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        """Book what happens inside the block."""
        start = time.process_time()
        self._open.append(0.0)
        try:
            yield
        finally:
            spent = time.process_time() - start
            self[step] = self.get(step, 0.0) + spent - self._open.pop()
            if self._open:
                self._open[-1] += spent


def names(entities: int) -> list[str]:
    """Names of entities."""
    return [f"site-{place:04}" for place in range(entities)]


def secrets(entities: int, operators: tuple[str, ...] = OPERATORS) -> dict[str, Secrets]:
    """Keys of everybody, from their names."""
    return fixed_secrets(*names(entities), operators=operators)


def plan_of(kind: str, entities: int, items: int, members: dict[str, Secrets]) -> Plan:
    """Plan of a Gram matrix: 900 users in an entity, or one."""
    people = kind == "people"
    secure: SecureSum | OperatorSum | None = None
    if kind == "peers":
        secure = SecureSum(survivors=entities - entities // 10)
    elif kind != "plain":
        secure = OperatorSum(floor=max(2, entities // 2), people=people)
    return Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=items),
        feedback="counts",
        bound=5,
        max_items=min(60, items // 4),
        rank=20,
        mechanism="gram",
        n_users=1 if people else 900,
        n_entities=entities,
        simulation=True,
        secure=secure,
        roster=Roster(one.identity for one in members.values()),
    )


def counts(plan: Plan) -> np.ndarray:
    """Rows of an entity."""
    rng = np.random.default_rng(0)
    return np.minimum(5, rng.poisson(0.1, (plan.n_users, plan.n_items))).astype(np.float32)


def content(plan: Plan, clock: Clock) -> BilinearSums:
    """What an entity's mechanism gives, noise included where the plan asks for it; booked per entity."""
    rows, best = counts(plan), float("inf")
    for _ in range(SAMPLE):  # the first one compiles
        start = time.process_time()
        made = plan.release_mechanism.release(rows, plan.parameters).value
        best = min(best, time.process_time() - start)
    clock["release"] = best
    assert isinstance(made, BilinearSums)
    return made


def plain(entities: int, items: int) -> dict[str, Any]:
    """Whole messages, each with its noise, to one server."""
    clock, members = Clock(), secrets(entities, OPERATORS[:1])
    plan = plan_of("plain", entities, items, members)
    made, before, size = content(plan, clock), peak_megabytes(), 0
    total = np.zeros(made.numbers.size, dtype=np.int64)
    for name in names(entities):
        with clock.of("entity"):
            data = encode_release(made, entity=name, plan=plan, signer=members[name].sign)
        with clock.of("server"):
            found = decode_release(data, plan).content
            assert isinstance(found, BilinearSums)
            total += found.numbers
        size = len(data)
    exact = bool(np.array_equal(total, entities * made.numbers))
    return figures(clock, entities, before, bytes=size, exact=exact, length=made.numbers.size, visits=1)


def operators(entities: int, items: int) -> dict[str, Any]:
    """Reports in two shares; whole ones to the first operator, which hands the second its halves."""
    clock, members = Clock(), secrets(entities)
    plan = plan_of("operators", entities, items, members)
    made, before, sizes = content(plan, clock), peak_megabytes(), [0]

    def reports() -> Iterator[tuple[str, bytes]]:
        for name in names(entities):
            with clock.of("entity"):
                data = encode_report(made, plan, entity=name, signer=members[name].sign)
            sizes[0] = len(data)
            yield name, data

    exact = both(plan, members, reports(), clock, entities * made.numbers)
    return figures(clock, entities, before, bytes=sizes[0], exact=exact, length=made.numbers.size, visits=1)


def people(entities: int, items: int) -> dict[str, Any]:
    """Single people with a key and a voucher each."""
    clock, members = Clock(), secrets(1)
    plan = plan_of("people", entities, items, members)
    made, before, sizes = content(plan, clock), peak_megabytes(), [0]
    (institution,) = names(1)

    def reports() -> Iterator[tuple[str, bytes]]:
        for _ in range(entities):
            key = SigningKey.new()
            name = person_name(key.public)
            signature = members[institution].sign.sign(Purpose.VOUCHER, voucher_text(plan, name))
            voucher = {"institution": institution, "signature": signature.hex()}
            with clock.of("entity"):
                data = encode_report(made, plan, entity=name, signer=key, voucher=voucher)
            sizes[0] = len(data)
            yield "a report", data

    def outside() -> Iterator[tuple[str, bytes]]:
        """Keys and vouchers are made elsewhere, too."""
        every = reports()
        while True:
            with clock.of("elsewhere"):
                one = next(every, None)
            if one is None:
                return
            yield one

    exact = both(plan, members, outside(), clock, entities * made.numbers)
    return figures(clock, entities, before, bytes=sizes[0], exact=exact, length=made.numbers.size, visits=1)


def both(
    plan: Plan,
    members: dict[str, Secrets],
    reports: Iterator[tuple[str, bytes]],
    clock: Clock,
    wanted: np.ndarray,
) -> bool:
    """Run both operators with their files; whether the noisy sum is the exact one, up to the noise."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = (Operator(plan, KeyStore(members[name]), state=f"{folder}/{name}") for name in OPERATORS)
        with clock.of("first"):
            first.take_all(reports)
        while True:
            with clock.of("first"):
                found = first.book.halves(BUNDLE)
                bundle = encode_bundle((data for _, data in found), plan)
                first.book.handed_on(name for name, _ in found)
            if not found:
                break
            with clock.of("second"):
                second.take_all(("a report", data) for data in decode_bundle(bundle, plan))
        _exchange(first, second, clock)
        with clock.of("first"):
            total = first.total()
        assert total is not None
        for one in (first, second):
            one.book.close()
    wrong = np.abs(total.numbers - wanted).max()
    return bool(wrong < 10 * total.deviation)


def _exchange(first: Operator, second: Operator, clock: Clock) -> None:
    def each(make: Callable[[Operator], bytes], hear: Callable[[Operator, bytes], None]) -> None:
        """First the first operator, whose choice of a list the second one follows."""
        for place, one, back, other in (("first", first, "second", second), ("second", second, "first", first)):
            with clock.of(place):
                data = make(one)
            with clock.of(back):
                hear(other, data)

    def freeze(one: Operator) -> bytes:
        pair = one.agreed_pair()
        assert pair is not None
        return one.make_freeze(pair)

    each(Operator.make_list, Operator.hear_list)
    each(freeze, Operator.hear_freeze)
    each(Operator.make_reveal, Operator.hear_reveal)


def figures(clock: Clock, entities: int, before: float, **more: Any) -> dict[str, Any]:
    """What a row needs; an entity's work is the mean."""
    entity = clock.get("release", 0.0) + clock["entity"] / entities
    servers = {name: clock[name] for name in ("server", "first", "second") if name in clock}
    sealing = clock["entity"] / entities
    memory = {"before": before, "megabytes": peak_megabytes()}
    return {"entity": entity, "sealing": sealing, "servers": servers, **memory, **more}


if __name__ == "__main__":
    from benchmarks._sum_peers import peers  # which imports this module

    jobs = {"plain": plain, "peers": peers, "operators": operators, "people": people}
    print(json.dumps(jobs[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))))
