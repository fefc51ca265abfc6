"""Keys: hidden, whole, canonical; bad public keys are refused."""

from __future__ import annotations

import copy
import pickle

import pytest

from tests.refused import refused
from twofold.errors import BadMessage, BadParameter
from twofold.secure_sum import Keys, PublicKeys
from twofold.secure_sum.keys import agree, private_of, public_of

#: Encodings of points of small order on Curve25519 or its twist that are below the modulus.
SMALL_ORDER = [
    bytes(32),
    (1).to_bytes(32, "little"),
    (2**255 - 20).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
]


def test_new_keys_differ() -> None:
    assert Keys.new() != Keys.new()


def test_nothing_shows_a_secret() -> None:
    keys = Keys.new()
    for text in (repr(keys), str(keys), f"{keys}", repr([keys])):
        for part in (keys.mask, keys.seal, keys.seed, keys.salt):
            assert part.hex() not in text
            assert repr(part) not in text
    for attempt in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="not pickled"):
            attempt(keys)


def test_short_or_repeated_secrets_are_refused() -> None:
    parts = {"mask": b"1" * 32, "seal": b"2" * 32, "seed": b"3" * 32, "salt": b"4" * 32}
    for change in ({"seed": b"3"}, {"salt": b"1" * 32}, {"mask": "1" * 32}):
        with pytest.raises(BadParameter):
            Keys(**(parts | change))


@pytest.mark.parametrize("key", SMALL_ORDER, ids=lambda key: key.hex()[:8])
def test_keys_of_small_order_are_refused(key: bytes) -> None:
    sound = Keys.new().public
    with refused(BadMessage, "public", "small order"):
        PublicKeys(mask=key, seal=sound.seal)
    with refused(BadMessage, "public", "small order"):
        PublicKeys(mask=sound.mask, seal=key)
    with refused(BadMessage, "public", "small order"):
        agree(private_of(b"7" * 32), key)


def test_a_second_spelling_of_a_key_is_refused() -> None:
    sound = Keys.new().public
    high = bytes([*sound.mask[:-1], sound.mask[-1] | 0x80])
    for key in (high, (2**255 - 19 + 9).to_bytes(32, "little")):
        with refused(BadMessage, "public", expected="2^255 - 19"):
            PublicKeys(mask=key, seal=sound.seal)


def test_wrong_sizes_and_twice_the_same_key_are_refused() -> None:
    sound = Keys.new().public
    with refused(BadMessage, "seal"):
        PublicKeys(mask=sound.mask, seal=sound.mask)
    with refused(BadMessage, "public", "32 bytes", expected="X25519"):
        PublicKeys(mask=sound.mask[:31], seal=sound.seal)


def test_both_sides_agree_and_the_public_half_follows_from_the_secret() -> None:
    one, two = Keys.new(), Keys.new()
    assert agree(private_of(one.seal), two.public.seal) == agree(private_of(two.seal), one.public.seal)
    assert public_of(one.mask) == one.public.mask
