"""The checksum and the signature inside a container."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadMessage
from twofold.storage.container import (
    BLANK,
    check_seal,
    check_signature,
    is_sealed,
    open_container,
    pack,
    pack_sealed,
    seal,
)
from twofold.storage.signing import Purpose, SigningKey, verify


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


# Signatures

KEY, OTHER = SigningKey.new(), SigningKey.new()
UNSIGNED = "0" * 128


def signed(record: dict[str, object] | None = None, signer: SigningKey = KEY) -> bytes:
    return pack_sealed({"a": 1} if record is None else record, {"x": np.arange(3)}, signer=signer)


def test_a_signed_container_is_sealed_and_equal_content_under_one_key_gives_equal_bytes():
    data = signed()
    record = open_container(data).record
    assert is_sealed(data, record)
    check_signature(record, KEY.public, maker="st-anna")
    assert data == signed() == signed({"a": 1, "checksum": "anything", "signature": "anything"})
    assert len(data) == len(signed(signer=OTHER))
    assert record["checksum"] == open_container(signed(signer=OTHER)).record["checksum"]


def test_the_signature_is_over_the_checksum_of_everything_else():
    record = open_container(signed()).record
    covered = bytes.fromhex(record["checksum"])
    assert verify(KEY.public, Purpose.MESSAGE, covered, bytes.fromhex(record["signature"]))
    blank = pack({"a": 1, "checksum": BLANK, "signature": UNSIGNED}, {"x": np.arange(3)})
    assert record["checksum"] == hashlib.sha256(blank).hexdigest()


def test_every_changed_byte_of_a_signed_container_is_seen():
    """A changed signature fits the checksum, which leaves it out, and no key."""
    data = signed()
    for place in range(8, len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        try:
            record = open_container(changed).record
        except BadMessage:
            continue
        if is_sealed(changed, record):
            with refused(BadMessage, "signature"):
                check_signature(record, KEY.public, maker="st-anna")


@pytest.mark.parametrize("public", [OTHER.public, bytes(32), b""])
def test_another_key(public: bytes):
    with refused(BadMessage, "signature", found="another key", expected="st-anna"):
        check_signature(open_container(signed()).record, public, maker="st-anna")


def test_no_signature_at_all():
    data = pack_sealed({"a": 1}, {"x": np.arange(3)})
    assert "signature" not in open_container(data).record
    with refused(BadMessage, "signature", found="no signature", expected="st-anna"):
        check_signature(open_container(data).record, KEY.public, maker="st-anna")


@pytest.mark.parametrize("signature", [None, 5, "", "x" * 128, "A" * 128, "0" * 126, ["0" * 128], UNSIGNED])
def test_what_is_no_signature(signature: object):
    record = dict(open_container(signed()).record) | {"signature": signature}
    with refused(BadMessage, "signature"):
        check_signature(record, KEY.public, maker="st-anna")


@pytest.mark.parametrize("signature", [5, "", "x" * 128, "A" * 128, "0" * 126])
def test_a_checksum_beside_what_is_no_signature_does_not_fit(signature: object):
    data = pack_sealed({"a": 1, "signature": signature}, {"x": np.arange(3)})
    with refused(BadMessage, "checksum"):
        check_seal(data, open_container(data).record)


def test_a_signature_that_stands_twice_is_refused():
    """Which of the two is left out of the checksum must not be for anybody to choose."""
    data = pack({"a": {"signature": UNSIGNED}, "checksum": BLANK, "signature": UNSIGNED}, {"x": np.arange(3)})
    with refused(BadMessage, "checksum"):
        seal(data, signer=KEY)
    twice = open_container(signed()).record["signature"]
    copied = signed({"a": 1, "b": {"signature": twice}})
    assert is_sealed(copied, open_container(copied).record)  # another one inside is data like any other
    inside = open_container(copied).record["signature"]
    again = pack({"b": {"signature": inside}, "checksum": BLANK, "signature": inside}, {"x": np.arange(3)})
    with refused(BadMessage, "checksum"):
        check_seal(again, open_container(again).record)


def test_a_record_without_a_place_for_the_signature():
    with refused(BadMessage, "checksum"):
        seal(pack({"a": 1, "checksum": BLANK}, {"x": np.arange(3)}), signer=KEY)
