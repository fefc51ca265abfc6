"""Packing loses nothing and refuses what is cut off."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.refused import refused
from twofold.errors import BadMessage
from twofold.secure_sum.messages import pack, unpack


@given(data=st.data(), bits=st.sampled_from(range(16, 65, 8)))
def test_numbers_come_back(data, bits: int) -> None:
    numbers = np.array(data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=20)), dtype=np.uint64)
    packed = pack(numbers, bits)
    assert len(packed) == numbers.size * bits // 8
    assert packed == b"".join(int(number).to_bytes(bits // 8, "little") for number in numbers)
    np.testing.assert_array_equal(unpack(packed, bits), numbers)


def test_a_cut_is_refused() -> None:
    with refused(BadMessage, "data"):
        unpack(bytes(7), 24)
