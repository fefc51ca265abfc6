"""The checksum inside a container."""

from __future__ import annotations

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadMessage
from twofold.storage.container import BLANK, check_seal, is_sealed, open_container, pack, pack_sealed, seal


def test_equal_content_gives_equal_bytes_and_other_content_another_checksum():
    one, two = (pack_sealed({"a": 1}, {"x": np.arange(number)}) for number in (3, 4))
    assert one == pack_sealed({"a": 1, "checksum": "anything"}, {"x": np.arange(3)})
    assert open_container(one).record["checksum"] != open_container(two).record["checksum"]


def test_every_changed_byte_is_seen():
    data = pack_sealed({"a": 1}, {"x": np.arange(3)})
    record = open_container(data).record
    assert is_sealed(data, record)
    for place in range(8, len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        assert not is_sealed(changed, record)


@pytest.mark.parametrize("checksum", [None, 5, "", "x" * 64, "A" * 64, "0" * 63])
def test_what_is_no_checksum_does_not_fit(checksum):
    data = pack({"a": 1, "checksum": checksum}, {"x": np.arange(3)})
    with refused(BadMessage, "checksum"):
        check_seal(data, open_container(data).record)


def test_a_checksum_that_stands_twice_is_refused():
    data = pack({"a": {"checksum": BLANK}, "checksum": BLANK}, {"x": np.arange(3)})
    with refused(BadMessage, "checksum"):
        seal(data)
