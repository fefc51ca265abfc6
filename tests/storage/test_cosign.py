"""A second signature over the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadMessage
from twofold.storage.container import (
    COSIGNATURE,
    check_signature,
    cosign,
    is_sealed,
    open_container,
    pack_sealed,
)
from twofold.storage.signing import SigningKey

ONE, TWO, THREE = (SigningKey(bytes([number]) * 32) for number in (1, 2, 3))


def made(**fields: object) -> bytes:
    return pack_sealed({"schema": "x/1", **fields}, {"a": np.arange(5)}, signer=ONE, cosigned=True)


def test_both_signatures_hold() -> None:
    record = open_container(done := cosign(made(), TWO)).record
    assert is_sealed(done, record)
    check_signature(record, ONE.public, maker="one")
    check_signature(record, TWO.public, maker="two", name=COSIGNATURE)


@pytest.mark.parametrize(("key", "name"), [(TWO, "signature"), (ONE, COSIGNATURE), (THREE, COSIGNATURE)])
def test_a_signature_holds_in_its_own_place_only(key: SigningKey, name: str) -> None:
    record = open_container(cosign(made(), TWO)).record
    with refused(BadMessage, "signature"):
        check_signature(record, key.public, maker="somebody", name=name)


def test_an_empty_place_is_no_signature() -> None:
    record = open_container(made()).record
    assert is_sealed(made(), record)
    with refused(BadMessage, "signature"):
        check_signature(record, TWO.public, maker="two", name=COSIGNATURE)


def test_a_second_signature_is_written_once() -> None:
    with refused(BadMessage, COSIGNATURE):
        cosign(cosign(made(), TWO), THREE)


def test_a_message_without_a_place_for_it_is_refused() -> None:
    with refused(BadMessage, COSIGNATURE):
        cosign(pack_sealed({"schema": "x/1"}, {"a": np.arange(5)}, signer=ONE), TWO)


def test_damaged_bytes_are_not_signed() -> None:
    data = made()
    with refused(BadMessage, "checksum"):
        cosign(data[:-1] + bytes([data[-1] ^ 1]), TWO)


@pytest.mark.parametrize("signed", [False, True])
def test_a_changed_byte_breaks_the_seal(signed: bool) -> None:
    data = cosign(made(), TWO) if signed else made()
    for at in range(0, len(data), 3):
        changed = bytearray(data)
        changed[at] ^= 1
        try:
            record = open_container(bytes(changed)).record
        except BadMessage:
            continue
        if is_sealed(bytes(changed), record):
            # Signatures are no part of what is sealed; each is checked by itself.
            with refused(BadMessage, "signature"):
                check_signature(record, ONE.public, maker="one")
                check_signature(record, TWO.public, maker="two", name=COSIGNATURE)


@pytest.mark.parametrize("value", ["", "00", "zz" * 64, 3, ["0" * 128]])
def test_a_damaged_second_signature_breaks_the_seal(value: object) -> None:
    data = pack_sealed({"schema": "x/1", COSIGNATURE: value}, {"a": np.arange(5)}, signer=ONE)
    assert not is_sealed(data, open_container(data).record)


def test_a_second_place_elsewhere_in_the_record_breaks_the_seal() -> None:
    """A field whose text holds the same name and digits: nobody could say which of them is the signature."""
    data = made(inner={COSIGNATURE: "0" * 128})
    with refused(BadMessage, "checksum"):
        cosign(data, TWO)
