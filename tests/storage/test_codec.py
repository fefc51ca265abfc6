"""The container: equal bytes for equal content, and nothing but our error for anything else."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import load, save

from tests.refused import refused
from twofold.errors import BadMessage
from twofold.storage.container import LARGEST_HEADER, Layout, is_cut, open_container, pack, receipt, unpack

RECORD = {"schema": "x/1", "b": 2, "a": {"d": 1.5, "c": "ε"}}
ARRAYS = {"sums": np.arange(6).reshape(2, 3), "factors": np.ones((3, 2), dtype=np.float32), "means": np.ones(3)}
LAYOUTS = {
    "sums": Layout(dtype="I64", shape=(2, 3)),
    "factors": Layout(dtype="F32", shape=(3, 2)),
    "means": Layout(dtype="F64", shape=(3,)),
}
PROGRAM = """
import random, sys
import numpy as np
from twofold.storage.container import pack, receipt
record = list({"schema": "x/1", "b": 2, "a": {"d": 1.5, "c": "ε"}}.items())
ones = np.ones((3, 2), dtype=np.float32)
arrays = list({"sums": np.arange(6).reshape(2, 3), "factors": ones, "means": np.ones(3)}.items())
for _ in range(20):
    random.shuffle(record)
    random.shuffle(arrays)
    print(receipt(pack(dict(record), dict(arrays))))
"""


def with_header(header: object, body: bytes = b"", *, raw: bytes | None = None) -> bytes:
    """A container with a header of our making."""
    text = json.dumps(header).encode() if raw is None else raw
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


def entry(dtype: object = "I64", shape: object = (1,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def header(**arrays: object) -> dict[str, object]:
    return {"__metadata__": {"twofold": "{}"}, **arrays}


def test_equal_content_gives_equal_bytes_in_every_process_and_order():
    seen = {receipt(pack(RECORD, ARRAYS))}
    for hash_seed in ("0", "1", "12345"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": hash_seed},
        )
        seen |= set(done.stdout.split())
    assert len(seen) == 1


def test_the_bytes_are_safetensors_that_others_read():
    found = load(pack(RECORD, ARRAYS))
    assert {name: array.tolist() for name, array in found.items()} == {n: a.tolist() for n, a in ARRAYS.items()}


def test_what_goes_in_comes_out_as_views():
    data = pack(RECORD, ARRAYS)
    container = open_container(data)
    found = unpack(data, container, LAYOUTS)
    assert container.record == RECORD
    assert container.size == len(data)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
        assert not found[name].flags.owndata
        assert not found[name].flags.writeable


def test_strides_and_byte_order_do_not_matter():
    table = np.arange(12).reshape(3, 4)
    straight = pack({}, {"x": np.ascontiguousarray(table.T)})
    assert pack({}, {"x": table.T}) == straight
    assert pack({}, {"x": table.T.astype(">i8")}) == straight
    assert pack({}, {"x": np.repeat(table, 2, axis=0).T[:, ::2]}) == straight


def test_every_prefix_is_cut_and_nothing_else_is():
    data = pack(RECORD, ARRAYS)
    assert all(is_cut(data[:end]) for end in range(1, len(data)))
    assert not is_cut(data)
    assert not is_cut(data + b"x")
    assert not is_cut(b"\xff" * 20)
    for end in range(len(data)):
        with pytest.raises(BadMessage):
            unpack(data[:end], open_container(data[:end]), LAYOUTS)


def test_bytes_after_the_end_are_refused():
    data = pack(RECORD, ARRAYS) + b"\x00"
    with refused(BadMessage, found=f"{len(data):,} bytes", expected=f"{len(data) - 1:,}"):
        unpack(data, open_container(data), LAYOUTS)


def test_arrays_must_be_those_expected_before_anything_is_read():
    data = pack(RECORD, ARRAYS)
    container = open_container(data)
    for changed in (
        {"sums": LAYOUTS["sums"]},
        LAYOUTS | {"more": LAYOUTS["means"]},
        LAYOUTS | {"sums": Layout(dtype="F64", shape=(2, 3))},
        LAYOUTS | {"sums": Layout(dtype="I64", shape=(3, 2))},
        LAYOUTS | {"sums": Layout(dtype="I64", shape=(6,))},
    ):
        with pytest.raises(BadMessage):
            unpack(data, container, changed)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers_that_are_not_finite_are_refused(bad, kind):
    data = pack({}, {"x": np.array([1.0, bad], dtype=kind)})
    name = "F32" if kind is np.float32 else "F64"
    with refused(BadMessage, "arrays"):
        unpack(data, open_container(data), {"x": Layout(dtype=name, shape=(2,))})


@pytest.mark.parametrize(
    "found",
    [
        header(x=entry(offsets=(0, 16))),
        header(x=entry(offsets=(8, 16))),
        header(x=entry(offsets=(8, 0))),
        header(x=entry(offsets=(0, 8, 16))),
        header(x=entry(offsets=(0.0, 8))),
        header(x=entry(offsets=(0, True))),
        header(x=entry(offsets=(-8, 0))),
        header(x=entry(shape=(-1,))),
        header(x=entry(shape=(True,))),
        header(x=entry(shape=(1, 1, 1))),
        header(x=entry(shape=[])),
        header(x=entry(shape="1")),
        header(x=entry(shape=(10**18, 10**18))),
        header(x=entry(dtype="BOOL")),
        header(x=entry(dtype=["I64"])),
        header(x=entry(dtype="O")),
        header(x=entry(), y=entry()),
        header(x=entry(), y=entry(offsets=(16, 24))),
        header(x=entry(dtype="F32", offsets=(0, 4)), y=entry(dtype="F64", offsets=(4, 12))),
        header(x=entry() | {"more": 1}),
        header(x=[]),
        {"x": entry()},
        {"__metadata__": {"twofold": "{}", "format": "pt"}, "x": entry()},
        {"__metadata__": {"format": "{}"}},
        {"__metadata__": {"twofold": {}}},
        {"__metadata__": {"twofold": "[]"}},
        {"__metadata__": {"twofold": '{"a":1,"a":2}'}},
        [],
    ],
)
def test_headers_that_no_message_of_ours_has(found):
    with pytest.raises(BadMessage):
        open_container(with_header(found, bytes(64)))


@pytest.mark.parametrize("raw", [b"{", b"{\xff\xfe}", b'{"a":1,"a":2}', b"{}", b"{" + b" " * 70_000 + b"}"])
def test_headers_that_are_no_text_or_too_long(raw):
    with pytest.raises(BadMessage):
        open_container(with_header(None, raw=raw))


def test_a_length_that_promises_the_world_costs_nothing():
    bombs = [
        (2**63).to_bytes(8, "little") + b"{" + bytes(1000),
        (LARGEST_HEADER + 8).to_bytes(8, "little") + b"{" + bytes(LARGEST_HEADER),
        with_header(header(x=entry(shape=(2**40, 2**20), offsets=(0, 2**63)))),
        with_header(None, raw=b'{"a":' * 13_000),
        with_header(
            None, raw=b'{"__metadata__":{"twofold":"{}"},' + b",".join(b'"%d":1' % i for i in range(7_000)) + b"}"
        ),
        with_header({"__metadata__": {"twofold": "[" * 60_000}}),
    ]
    open_container(pack({}, {"x": np.ones(1)}))  # what is loaded once is not counted
    tracemalloc.start()
    try:
        for bomb in bombs:
            with pytest.raises(BadMessage):
                unpack(bomb, open_container(bomb), LAYOUTS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20


def test_our_own_header_is_never_too_long():
    with refused(BadMessage, "header"):
        pack({"a": "x" * LARGEST_HEADER}, {"x": np.ones(1)})


def test_a_file_of_somebody_elses_is_foreign():
    for data in (
        save({"x": np.ones(1)}),
        save({"x": np.ones(1)}, metadata={"format": "np"}),
        b"PK\x03\x04" + bytes(99),
    ):
        with refused(BadMessage, expected="twofold release or factorize wrote"):
            open_container(data)
