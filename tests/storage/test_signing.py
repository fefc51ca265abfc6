"""Signatures with a purpose, keys in one form, and words that people can compare."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from tests.refused import refused
from twofold.errors import BadMessage
from twofold.storage.signing import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    WORDS,
    Purpose,
    SigningKey,
    check_public_key,
    fingerprint,
    verify,
)

KEY, OTHER = SigningKey.new(), SigningKey.new()
PRIME, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493


def test_the_same_bytes_every_time_and_valid_for_its_owner_alone():
    signature = KEY.sign(Purpose.MESSAGE, b"data")
    assert (len(signature), len(KEY.public)) == (SIGNATURE_BYTES, KEY_BYTES)
    assert KEY.sign(Purpose.MESSAGE, b"data") == signature
    assert verify(KEY.public, Purpose.MESSAGE, b"data", signature)
    assert not verify(OTHER.public, Purpose.MESSAGE, b"data", signature)
    assert not verify(KEY.public, Purpose.MESSAGE, b"datA", signature)
    assert not verify(KEY.public, Purpose.MESSAGE, b"", signature)


@pytest.mark.parametrize("signed", Purpose)
@pytest.mark.parametrize("read", Purpose)
def test_purposes_do_not_mix(signed: Purpose, read: Purpose):
    assert verify(KEY.public, read, b"data", KEY.sign(signed, b"data")) == (signed is read)


def test_no_bytes_carry_one_purpose_into_another():
    """The purpose ends at a zero byte that no purpose holds, so data cannot continue it."""
    for one in Purpose:
        for other in Purpose:
            if one is not other and other.startswith(one.value):
                raise AssertionError(f"{other} begins like {one}")
            data = other.value.encode() + b"\0data"
            assert verify(KEY.public, other, b"data", KEY.sign(one, data)) is False
    assert all(b"\0" not in one.value.encode() for one in Purpose)


@pytest.mark.parametrize("signature", [b"", bytes(64), bytes(63), bytes(65), b"\xff" * 64])
def test_what_is_no_signature(signature: bytes):
    assert not verify(KEY.public, Purpose.CARD, b"", signature)


def test_every_changed_bit_of_a_signature():
    signature = KEY.sign(Purpose.LOG, b"data")
    for at in range(8 * SIGNATURE_BYTES):
        changed = bytearray(signature)
        changed[at // 8] ^= 1 << at % 8
        assert not verify(KEY.public, Purpose.LOG, b"data", bytes(changed))


def test_a_signature_has_one_form():
    """The second half plus the order of the group would be a second signature of the same bytes."""
    signature = KEY.sign(Purpose.LOG, b"data")
    second = int.from_bytes(signature[32:], "little") + ORDER
    assert not verify(KEY.public, Purpose.LOG, b"data", signature[:32] + second.to_bytes(32, "little"))


@pytest.mark.parametrize("public", [b"", bytes(31), bytes(33), b"\xff" * 32, KEY.public[::-1]])
def test_what_is_no_key_has_signed_nothing(public: bytes):
    assert not verify(public, Purpose.LOG, b"data", KEY.sign(Purpose.LOG, b"data"))


def test_a_public_key_has_one_form():
    assert check_public_key(KEY.public) == KEY.public
    for number in (PRIME, PRIME + 1, 2**255 - 1):
        for sign in (0, 2**255):
            with refused(BadMessage, "sign", expected="2^255 - 19"):
                check_public_key((number + sign).to_bytes(32, "little"))
    for wrong in (b"", bytes(31), bytes(33), KEY.public.hex(), None, bytearray(KEY.public)):
        with refused(BadMessage, "sign"):
            check_public_key(wrong)


@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(33), "0" * 32, None])
def test_a_secret_has_32_bytes_and_is_not_shown(secret: object):
    with refused(BadMessage, "sign"):
        SigningKey(secret)


def test_a_key_is_stored_and_never_shown_or_pickled():
    again = SigningKey(KEY.to_bytes())
    assert (again, hash(again), again.public) == (KEY, hash(KEY), KEY.public)
    assert KEY != OTHER
    assert KEY.to_bytes().hex() not in f"{KEY!r} {KEY} {[KEY]} {vars(KEY)}"
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            copied(KEY)


# Words


def test_256_words_that_are_told_apart():
    words = WORDS.split()
    assert len(words) == len(set(words)) == 256
    assert all(re.fullmatch("[a-z]{4,9}", word) for word in words), [one for one in words if len(one) > 9]
    assert words == sorted(words)
    assert len({word[:4] for word in words}) > 230


def test_twelve_words_the_same_everywhere():
    """Zeros at the end of the data made no difference in the first version."""
    said = fingerprint(b"plan")
    assert fingerprint(b"plan") == said
    assert len(said.split(" ")) == 12
    assert set(said.split(" ")) <= set(WORDS.split())
    assert len({fingerprint(data) for data in (b"", b"plan", b"plan ", b"Plan", b"plan\0")}) == 5
