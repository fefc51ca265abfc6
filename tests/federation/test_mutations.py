"""Messages changed at random: our errors, or a message that says something else and has another receipt. Never more."""

from __future__ import annotations

import json
import random
import re
import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

import numpy as np
import pytest

from twofold.errors import BadMessage, NotForRealUse, PlanMismatch
from twofold.federation.factors import ItemFactors, decode_factors, encode_factors
from twofold.federation.messages import decode_release, encode_release, is_cut, read_header, receipt
from twofold.federation.plan import CatalogKey, Plan
from twofold.storage.container import canonical_json, seal

OURS = (BadMessage, PlanMismatch, NotForRealUse)
PLAN = Plan(
    catalog=CatalogKey(hash="a" * 64, n_items=7),
    feedback="ratings",
    lower=1.0,
    bound=5,
    max_items=3,
    mechanism="popularity",
    rank=3,
    entities=("st-anna", "st-bern"),
    n_entities=2,
)


@lru_cache
def prototypes(entity: str = "st-anna", plan: Plan = PLAN) -> bytes:
    made = plan.release_mechanism.release(np.ones((4, 7)), plan.parameters).value
    return encode_release(made, entity=entity, plan=plan)


@lru_cache
def factors(seed: int = 0, plan: Plan = PLAN) -> bytes:
    rng = np.random.default_rng(seed)
    made = ItemFactors(
        plan=plan.hash,
        catalog=plan.catalog.hash,
        factors=rng.random((7, 3), dtype=np.float32),
        moments=np.eye(3),
        means=rng.normal(size=7),
        support=rng.random(7),
        users=40.0,
        entities=2,
        private=True,
    )
    return encode_factors(made, plan)


Sources = tuple[bytes, bytes]
Mutation = Callable[[Sources, random.Random], bytes]


def flip(sources: Sources, chance: random.Random) -> bytes:
    data = bytearray(sources[0])
    for _ in range(chance.choice((1, 1, 1, 2, 8, 64))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def flip_in_data(sources: Sources, chance: random.Random) -> bytes:
    data, start = bytearray(sources[0]), 8 + int.from_bytes(sources[0][:8], "little")
    data[chance.randrange(start, len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def truncate(sources: Sources, chance: random.Random) -> bytes:
    return sources[0][: chance.randrange(len(sources[0]))]


def insert(sources: Sources, chance: random.Random) -> bytes:
    place = chance.choice((0, 7, 8, chance.randrange(len(sources[0])), len(sources[0])))
    return sources[0][:place] + chance.randbytes(chance.choice((1, 8, 300))) + sources[0][place:]


def delete(sources: Sources, chance: random.Random) -> bytes:
    place = chance.randrange(len(sources[0]))
    return sources[0][:place] + sources[0][place + chance.choice((1, 4, 8, 100)) :]


def splice(sources: Sources, chance: random.Random) -> bytes:
    one, two = sources
    return one[: chance.randrange(len(one))] + two[chance.randrange(len(two)) :]


def length(sources: Sources, chance: random.Random) -> bytes:
    said = chance.choice((0, 1, 8, 16, 2**16, 2**16 + 8, 2**31, 2**32, 2**63, 2**64 - 1, chance.randrange(5_000)))
    said += said == int.from_bytes(sources[0][:8], "little")  # the true one would change nothing
    return struct.pack("<Q", said) + sources[0][8:]


def noise(_: Sources, chance: random.Random) -> bytes:
    body = chance.randbytes(chance.randrange(3_000))
    return body if chance.random() < 0.5 else struct.pack("<Q", 8 * chance.randrange(1, 300)) + b"{" + body


STRANGE = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        10**19,
        -(10**19),
        1e308,
        5e-324,
        "",
        "\x00",
        "\ud800",
        "I64",
        "F64",
        "BOOL",
        [],
        {},
    ),
    *(
        [0, 8],
        [8, 0],
        [-8, 0],
        [0, 2**63],
        [7],
        [1, 7],
        [2**32, 2**32],
        {"twofold": "{}"},
        {"law": "none"},
        [[[[[[[]]]]]]],
    ),
)


def edit_header(sources: Sources, chance: random.Random) -> bytes:
    """Change the container's own JSON: names, dtypes, shapes, offsets, metadata."""
    data, end = sources[0], 8 + int.from_bytes(sources[0][:8], "little")
    header = json.loads(data[8:end])
    _edit(header, chance)
    return _rebuilt(json.dumps(header), data[end:], chance)


def edit_record(sources: Sources, chance: random.Random) -> bytes:
    """Change our record inside it: fields of the message and of the plan."""
    data, end = sources[0], 8 + int.from_bytes(sources[0][:8], "little")
    header = json.loads(data[8:end])
    record = json.loads(header["__metadata__"]["twofold"])
    _edit(record, chance)
    header["__metadata__"]["twofold"] = canonical_json(record)
    return _rebuilt(json.dumps(header), data[end:], chance)


def edit_text(sources: Sources, chance: random.Random) -> bytes:
    """Change the header as text: repeated keys, NaN, huge numbers, brackets."""
    data, end = sources[0], 8 + int.from_bytes(sources[0][:8], "little")
    text = data[8:end].decode().rstrip()
    place = chance.randrange(len(text))
    piece = chance.choice(
        ('"sums":1,', "NaN", "-Infinity", "9" * 400, "1e999", "[" * 500, '{"a":' * 200, "\\u0000", '"', ",")
    )
    return _rebuilt(text[:place] + piece + text[place + chance.choice((0, 1, 5)) :], data[end:], chance)


def swap_arrays(sources: Sources, chance: random.Random) -> bytes:
    """Exchange the entries of two arrays, or their names."""
    data, end = sources[0], 8 + int.from_bytes(sources[0][:8], "little")
    header = json.loads(data[8:end])
    one, two = chance.sample([name for name in header if name != "__metadata__"], 2)
    if chance.random() < 0.5:
        header[one], header[two] = header[two], header[one]
    else:
        part = chance.choice(("dtype", "shape", "data_offsets"))
        header[one][part], header[two][part] = header[two][part], header[one][part]
    return _rebuilt(json.dumps(header), data[end:], chance)


def _edit(tree: dict[str, object], chance: random.Random) -> None:
    spots = list(_spots(tree))
    for _ in range(chance.choice((1, 1, 1, 3))):
        holder, key = chance.choice(spots) if chance.random() < 0.6 else (tree, chance.choice(sorted(tree) or ["more"]))
        action = chance.random()
        if type(holder.get(key) if isinstance(holder, dict) else None) is bool:
            holder[key] = not holder[key]
        elif action < 0.6:
            holder[key] = chance.choice(STRANGE)
        elif action < 0.75 and isinstance(holder, dict):
            holder[chance.choice(("more", "sums", "__metadata__", "x" * 300, "\x1b"))] = chance.choice(STRANGE)
        elif action < 0.9 and isinstance(holder, dict):
            holder.pop(key, None)
        elif isinstance(key, str) and isinstance(holder.get(key), int | float):
            holder[key] = holder[key] * chance.choice((-1, 2, 0.5, 1 + 1e-6))


def _spots(tree: object):
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
    for key in keys:
        yield tree, key
        yield from _spots(tree[key])  # type: ignore[index]


def _rebuilt(text: str, body: bytes, chance: random.Random) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    raw += b" " * (-len(raw) % 8) if chance.random() < 0.95 else b""
    return len(raw).to_bytes(8, "little") + raw + body


MUTATIONS: tuple[Mutation, ...] = (
    *(flip, flip_in_data, truncate, insert, delete, splice, length, noise),
    *(edit_header, edit_record, edit_text, swap_arrays),
)


def outcome(data: bytes, decode: Callable[[bytes, Plan], object], originals: set[str]) -> str:
    """Decode one message every way there is; anything but our errors goes through to the test."""
    is_cut(data)
    with suppress(*OURS):
        read_header(data)
    try:
        found = decode(data, PLAN)
    except OURS as error:
        refused, found = error, None
    else:
        refused = None
    if refused is not None:
        assert len(str(refused)) < 2_000
        assert str(refused).replace("\n", "").isprintable()
        return type(refused).__name__
    if receipt(data) not in originals:
        _check_sound(found, data)
        return "other message"
    return "unchanged"


def _check_sound(found: object, data: bytes) -> None:
    """What decodes is a whole message: it can be written again and read to the same content."""
    if isinstance(found, ItemFactors):
        assert decode_factors(encode_factors(found, PLAN), PLAN).hash == found.hash
    else:
        again = encode_release(found.content, entity=found.entity, plan=PLAN)
        assert decode_release(again, PLAN).content.digest() == found.content.digest()
        assert found.receipt == receipt(data)


def sealed_again(data: bytes) -> bytes:
    """What somebody would send who changes bytes on purpose: the checksum fits, and the deeper checks must hold."""
    found = re.search(rb'\\"checksum\\":\\"([0-9a-f]{64})', data[: 2**16])
    if found is None:
        return data
    blank = data[: found.start(1)] + b"0" * 64 + data[found.end(1) :]
    with suppress(BadMessage):
        return seal(blank)
    return blank


def run(times: int, seed: int) -> Counter[tuple[str, str]]:
    chance, seen = random.Random(seed), Counter()
    other = PLAN.with_(rank=2)
    kinds = {
        decode_release: [(prototypes(), prototypes("st-bern")), (prototypes("st-bern"), factors())],
        decode_factors: [(factors(), factors(1)), (factors(1), prototypes())],
    }
    kinds[decode_release].append((prototypes("st-anna", other), prototypes()))
    originals = {receipt(one) for pairs in kinds.values() for pair in pairs for one in pair}
    for _ in range(times):
        mutation, decode = chance.choice(MUTATIONS), chance.choice(list(kinds))
        data = mutation(chance.choice(kinds[decode]), chance)
        if chance.random() < 0.7:
            data = sealed_again(data)
        seen[mutation.__name__, outcome(data, decode, originals)] += 1
    return seen


def check_spread(seen: Counter[tuple[str, str]]) -> None:
    """The run must really have met every kind of refusal, and messages that decode."""
    assert {kind for kind, _ in seen} == {one.__name__ for one in MUTATIONS}
    ends = Counter()
    for (_, end), number in seen.items():
        ends[end] += number
    assert ends["BadMessage"] > 0.4 * ends.total()
    for end in ("PlanMismatch", "NotForRealUse", "other message"):
        assert ends[end] > 0
    for kind in ("truncate", "length", "noise"):
        assert not seen[kind, "other message"]
        assert not seen[kind, "unchanged"]


def test_a_few_thousand_changed_messages_give_only_our_errors():
    check_spread(run(3_000, seed=1))


def test_one_flipped_bit_anywhere_is_seen():
    for data, decode in ((prototypes(), decode_release), (factors(), decode_factors)):
        for place in range(0, len(data), 3):
            changed = bytearray(data)
            changed[place] ^= 1 << (place % 8)
            with pytest.raises(OURS):
                decode(bytes(changed), PLAN)


def test_changed_messages_do_not_make_memory_grow():
    run(200, seed=2)  # what is loaded once is not counted
    tracemalloc.start()
    try:
        run(300, seed=3)
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_hundred_thousand_changed_messages_give_only_our_errors():
    seen = run(100_000, seed=4)
    assert seen.total() == 100_000
    check_spread(seen)
