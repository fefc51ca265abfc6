"""Bytes and CPU seconds of a secure sum, per entity and for the server, beside sending the same numbers in the clear.

The peer is the plain message: the same numbers packed into the same bytes per number and added up. Every run is the
whole protocol with 10% of the entities gone after sharing their secrets, and its sum is compared with the plain one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

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


def run(*, quick: bool) -> list[Table]:
    """Run the protocol at both lengths for 10, 50 and 205 entities (small ones when quick)."""
    lengths = {"short": 1000} if quick else LENGTHS
    rows = [_row(name, length, entities) for name, length in lengths.items() for entities in _sizes(quick)]
    note = (
        f"{versions('numpy', 'cryptography')}. {BITS} bits per number; threshold = least_survivors = 9 of 10 entities, "
        "all share, every tenth is gone before masking. Seconds are CPU seconds, one thread, mean over entities for "
        "share, mask and answer. Bytes are the contents of the messages without their container (names counted): an "
        "entity sends shares, masked numbers and an answer, and receives the roster, its sealed shares and the two "
        "lists. The plain message has the same numbers in the same bytes: an entity packs, the server unpacks and adds."
    )
    return [Table(title=f"Secure sum modulo 2^{BITS}", columns=COLUMNS, rows=rows, note=note)]


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
