"""Derivation and streams: purposes apart, blocks without seams, every width."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.secure_sum import derive as module
from twofold.secure_sum.derive import add_stream, derive, digest, stream

KEY = bytes(range(32))


def numbers_of(data: bytes, bits: int) -> list[int]:
    width = bits // 8
    return [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]


@pytest.mark.parametrize("bits", range(16, 65, 8))
@pytest.mark.parametrize("subtract", [False, True])
def test_numbers_are_the_bytes_of_the_stream(bits: int, subtract: bool) -> None:
    total = np.full(1000, 5, dtype=np.uint64)
    add_stream(total, KEY, bits=bits, subtract=subtract)
    sign = -1 if subtract else 1
    wanted = [(5 + sign * number) % 2**bits for number in numbers_of(stream(KEY, 1000 * bits // 8), bits)]
    assert [int(number) % 2**bits for number in total] == wanted


@pytest.mark.parametrize("size", [1, 63, 64, 65, 128, 200])
def test_blocks_have_no_seams(size: int, monkeypatch) -> None:
    whole = np.zeros(size, dtype=np.uint64)
    add_stream(whole, KEY, bits=40)
    monkeypatch.setattr(module, "_BLOCK", 64)
    blocks = np.zeros(size, dtype=np.uint64)
    add_stream(blocks, KEY, bits=40)
    low = np.uint64(2**40 - 1)
    np.testing.assert_array_equal(whole & low, blocks & low)


def test_adding_and_subtracting_cancel() -> None:
    total = np.arange(100_000, dtype=np.uint64)
    add_stream(total, KEY, bits=48)
    add_stream(total, KEY, bits=48, subtract=True)
    np.testing.assert_array_equal(total & np.uint64(2**48 - 1), np.arange(100_000, dtype=np.uint64))


def test_purposes_and_parts_are_kept_apart() -> None:
    made = {
        derive(KEY, "a"),
        derive(KEY, "b"),
        derive(KEY, "a", b""),
        derive(KEY, "a", b"", b""),
        derive(KEY, "a", b"xy", b"z"),
        derive(KEY, "a", b"x", b"yz"),
        derive(KEY[::-1], "a"),
        digest("a", KEY),
    }
    assert len(made) == 8
