"""Bytes, visits, CPU seconds and memory of both secure sums, beside messages in the clear.

The first table has whole messages of a plan, as entities make them and servers read them, each row in a process of its
own. The second lets single people take part; ``--people N`` shortens it. The third goes through the sum among the
entities step by step: its peer is the plain message, the same numbers packed into the same bytes per number and added
up; 10% of the entities are gone after sharing their secrets.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import Table, versions
from twofold.secure_sum import (
    Keys,
    MaskedMessage,
    SharesMessage,
    Terms,
    UnmaskMessage,
    add_masked,
    answer,
    mask,
    share_secrets,
    unmask,
)
from twofold.secure_sum.messages import pack, unpack

BITS = 48
#: What is summed, by name: a Gram matrix of 457 items and a sketch of 3,706 items of width 18, each with item sums,
#: item counts and a count.
LENGTHS = {"m=457 Gram": 457 * 458 // 2 + 2 * 457 + 1, "m=3,706 sketch": 3706 * 18 + 2 * 3706 + 1}
COLUMNS = (
    *("numbers", "length", "entities", "gone", "sends, kB", "of it keys, kB", "receives, kB", "x plain bytes"),
    *("share, s", "mask, s", "answer, s", "server, s", "x plain entity s", "x plain server s", "exact"),
)
Result = TypeVar("Result")


@dataclass
class Clock:
    """CPU seconds by step."""

    share: float = 0.0
    mask: float = 0.0
    answer: float = 0.0
    server: float = 0.0
    plain_entity: float = 0.0
    plain_server: float = 0.0

    def run(self, step: str, job: Callable[..., Result], *arguments: object) -> Result:
        """Run a job and book its CPU seconds under a step."""
        start = time.process_time()
        result = job(*arguments)
        setattr(self, step, getattr(self, step) + time.process_time() - start)
        return result


def run(*, quick: bool, people: int | None = None) -> Iterator[Table]:
    """Run whole sums of every kind for 10, 205 and 2,000 entities, of single people, and the peers' sum by step."""
    yield _kinds(quick)
    yield _people(people or (200 if quick else PEOPLE))
    yield _steps(quick)


KINDS = ("plain", "peers", "operators")
#: Single people, and items whose Gram matrix has about 2,000 numbers.
PEOPLE, PEOPLE_ITEMS = 100_000, 62
#: CPU minutes and megabytes of one operator.
PEOPLE_TARGET = (5.0, 500.0)
#: Most bytes and work of an entity with operators, in those of the plain message.
ENTITY_TARGETS = (1.2, 1.6)


def _child(kind: str, entities: int, items: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks._sum_child", kind, str(entities), str(items)]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def _kinds(quick: bool) -> Table:
    sizes, items = ((10, 20), 40) if quick else ((10, 205, 2_000), 457)
    rows: list[list[object]] = []
    for entities in sizes:
        found = {kind: _child(kind, entities, items) for kind in KINDS}
        plain = found["plain"]
        for kind, one in found.items():
            servers = " + ".join(f"{seconds:,.3g}" for seconds in one["servers"].values())
            memory = "not run" if one["megabytes"] is None else f"{one['megabytes']:,.0f} ({one['before']:,.0f})"
            exact = {True: "yes", False: "NO", None: "estimated"}[one["exact"]]
            ratios = (one["bytes"] / plain["bytes"], one["entity"] / plain["entity"])
            work = sum(one["servers"].values()) / entities * 1000
            figures = [one["visits"], one["bytes"] / 1000, ratios[0], one["entity"] * 1000, ratios[1]]
            rows.append(
                [kind, f"{entities:,}", *figures, servers, work, memory, exact, _verdict(kind, entities, ratios)]
            )
    columns = (
        *("kind", "entities", "visits", "sends, kB", "x plain bytes", "entity, CPU ms", "x plain work"),
        *("servers, CPU s", "servers, ms per entity", "MB (before)", "right sum", "target"),
    )
    note = (
        f"{versions('numpy', 'cryptography')}. Gram matrix of {items} items, 900 users in an entity. Visits: how often "
        "an entity acts until the sum is known. An entity's work: exact sums, noise if entities add it, "
        "the message, its signature. Plain: one server reads and adds. Peers: contents without containers; a tenth is "
        "gone after sharing. Operators: whole reports arrive at the first, which hands halves on; each checks, stores, "
        "opens, lists, sums and draws its noise; the servers are first + second, both in one process. MB: peak of the "
        "process (before the first message). Right sum: equal, with operators up to ten deviations of the noise. "
        "Estimated: sharing and masking are measured for two of 2,000 entities; answers (with entities) and the server "
        "(with streams to take off) are scaled from 150 entities."
    )
    return Table(title="Three ways to one sum", columns=columns, rows=rows, note=note)


def _verdict(kind: str, entities: int, ratios: tuple[float, float]) -> str:
    if kind != "operators" or entities != 205:
        return ""
    met = all(found <= most for found, most in zip(ratios, ENTITY_TARGETS, strict=True))
    return f"{'met' if met else 'MISSED'}: within {ENTITY_TARGETS[0]} and {ENTITY_TARGETS[1]} times"


def _people(entities: int) -> Table:
    found = _child("people", entities, PEOPLE_ITEMS)
    rows = []
    for place, seconds in found["servers"].items():
        minutes = seconds / 60
        met = minutes < PEOPLE_TARGET[0] and found["megabytes"] < PEOPLE_TARGET[1]
        target = f"{'met' if met else 'MISSED'}: under {PEOPLE_TARGET[0]:g} min and {PEOPLE_TARGET[1]:g} MB"
        rows.append(
            [
                *(f"people, {place} operator", f"{entities:,}", f"{found['length']:,}", found["bytes"] / 1000),
                *(found["sealing"] * 1000, minutes, seconds / entities * 1000),
                *(f"{found['megabytes']:,.0f} ({found['before']:,.0f})", "yes" if found["exact"] else "NO"),
                target if entities >= PEOPLE else "",
            ]
        )
    columns = (
        *("row", "people", "numbers", "report, kB", "sealing, ms each", "CPU min", "ms each", "MB (before)"),
        *("right sum", "target"),
    )
    note = (
        "Every person has a key and a voucher of an institution. Both operators run in one process, whose peak is "
        "given for both; states are files. Making keys, vouchers and reports happens elsewhere and is not counted; "
        "sealing is the device's part. The first operator gets whole reports and hands halves on in bundles."
    )
    return Table(title="People as entities", columns=columns, rows=rows, note=note)


def _steps(quick: bool) -> Table:
    """The peers' sum at both lengths for 10, 50 and 205 entities (small ones when quick)."""
    lengths = {"short": 1000} if quick else LENGTHS
    rows = [_row(name, length, entities) for name, length in lengths.items() for entities in _sizes(quick)]
    note = (
        f"{versions('numpy', 'cryptography')}. {BITS} bits per number; threshold = least_survivors = 9 of 10 entities, "
        "all share, every tenth is gone before masking. Seconds are CPU seconds, one thread, mean over entities for "
        "share, mask and answer. Bytes are the contents of the messages without their container (names counted): an "
        "entity sends shares, masked numbers and an answer, and receives the roster, its sealed shares and the two "
        "lists. The plain message has the same numbers in the same bytes: an entity packs, the server unpacks and adds."
    )
    return Table(title=f"Secure sum modulo 2^{BITS}, step by step", columns=COLUMNS, rows=rows, note=note)


def _sizes(quick: bool) -> tuple[int, ...]:
    return (5, 10) if quick else (10, 50, 205)


def _row(name: str, length: int, entities: int) -> list[object]:
    clock, gone = Clock(), max(1, entities // 10)
    keys = {f"entity-{place:03}": Keys.new() for place in range(entities)}
    survivors = entities - gone
    roster = {entity: pair.public for entity, pair in keys.items()}
    terms = Terms(
        context=b"benchmark",
        roster=roster,
        threshold=survivors,
        least_survivors=survivors,
        least_present=entities,
        bits=BITS,
    )
    present = terms.names
    stay = [entity for place, entity in enumerate(present) if place % 10 or place // 10 >= gone]
    shares = {e: clock.run("share", share_secrets, keys[e], e, terms) for e in present}
    rng = np.random.default_rng(0)
    wanted = np.zeros(length, dtype=np.int64)
    plain = np.zeros(length, dtype=np.uint64)
    masked = []
    for entity in stay:
        values = rng.integers(-terms.limit, terms.limit, size=length)
        wanted += values
        masked.append(clock.run("mask", mask, values, keys[entity], entity, terms, present))
        clock.run("server", unpack, clock.run("mask", pack, masked[-1].numbers, BITS), BITS)
        _plain(clock, values, plain)
    total, survivors = clock.run("server", add_masked, masked, terms, present)
    answers = {e: clock.run("answer", answer, keys[e], e, terms, shares, present, survivors) for e in stay}
    opened = clock.run("server", unmask, total, answers, terms, shares, present, survivors)
    exact = bool(np.array_equal(opened.values, wanted))
    size = _bytes(shares[stay[0]], masked[0], answers[stay[0]], terms, survivors)
    seconds = (clock.share / entities, clock.mask / len(stay), clock.answer / len(stay), clock.server)
    ratios = (sum(seconds[:3]) / (clock.plain_entity / len(stay)), clock.server / clock.plain_server)
    return [name, f"{length:,}", entities, gone, *size, *seconds, *ratios, "yes" if exact else "NO"]


def _plain(clock: Clock, values: NDArray[np.int64], total: NDArray[np.uint64]) -> None:
    packed = clock.run("plain_entity", lambda: pack(values.view(np.uint64) & np.uint64(2**BITS - 1), BITS))
    clock.run("plain_server", lambda: np.add(total, unpack(packed, BITS), out=total))


def _bytes(
    shared: SharesMessage, masked: MaskedMessage, answered: UnmaskMessage, terms: Terms, survivors: tuple[str, ...]
) -> list[object]:
    """Kilobytes sent, those of them that are keys, kilobytes received, and all of it over the plain message."""
    width = BITS // 8
    numbers = masked.numbers.size * width + len(masked.present)
    keys = len(shared.terms) + len(shared.commitment) + _table(shared.boxes)
    keys += len(answered.lists) + _table(answered.seeds) + _table(answered.keys)
    box = next(iter(shared.boxes.values()))
    received = sum(len(name) + 64 for name in terms.names)
    received += sum(len(name) + len(shared.terms) + len(shared.commitment) + len(box) for name in terms.names[1:])
    received += sum(map(len, terms.names)) + sum(map(len, survivors))
    plain = (masked.numbers.size - 2) * width
    return [(numbers + keys) / 1000, keys / 1000, received / 1000, (numbers + keys + received) / plain]


def _table(table: Mapping[str, bytes]) -> int:
    return sum(len(name) + len(value) for name, value in table.items())
