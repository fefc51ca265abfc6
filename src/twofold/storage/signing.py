"""Ed25519 signatures with a purpose, and fingerprints as words.

A signature covers its purpose, so one made for a message never passes for an agreement, an approval or a ledger head.
Signing is deterministic: the same key, purpose and bytes give the same signature, so stored bytes can be made again.
"""

from __future__ import annotations

import hashlib
import os
from enum import StrEnum
from functools import lru_cache
from typing import Final, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from twofold.errors import BadMessage

__all__ = ["KEY_BYTES", "SIGNATURE_BYTES", "Purpose", "SigningKey", "check_public_key", "fingerprint", "verify"]

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
_CURVE: Final = 2**255 - 19
#: y of the eight points whose order divides eight: under such a "key" a signature that anyone can write down holds for
#: one message in eight or for every message.
_EIGHTH: Final = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER: Final = frozenset({0, 1, _CURVE - 1, _EIGHTH, _CURVE - _EIGHTH})
_PREFIX: Final = b"twofold signature 1\0"
#: Rounds of the fingerprint, about 20 ms: each try of a forger costs as much.
_ROUNDS: Final = 2**16
_WORDS: Final = 12
#: Bytes of data whose check is remembered: digests of messages and public parts are shorter.
_SHORT: Final = 1024


class Purpose(StrEnum):
    """What a signature is for; it cannot be used for anything else."""

    IDENTITY = "identity"
    MESSAGE = "message"
    AGREEMENT = "agreement"
    APPROVAL = "approval"
    LEDGER = "ledger"
    CARD = "card"
    LOG = "log"
    REPORT = "report"
    VOUCHER = "voucher"
    REQUEST = "request"
    INVITATION = "invitation"


class SigningKey:
    """A secret Ed25519 key; never shown and never pickled.

    Parameters
    ----------
    secret : bytes
        32 bytes from `new` or `to_bytes`.

    Examples
    --------
    >>> key = SigningKey.new()
    >>> signature = key.sign(Purpose.CARD, b"a card")
    >>> verify(key.public, Purpose.CARD, b"a card", signature), verify(key.public, Purpose.LOG, b"a card", signature)
    (True, False)
    """

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
            raise BadMessage("a signing key is not 32 bytes.", parameter="sign")
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return "SigningKey(secret)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SigningKey) and self.public == other.public

    def __hash__(self) -> int:
        return hash(self.public)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("keys are not pickled; store to_bytes() in a file that only their owner can read")

    @classmethod
    def new(cls) -> SigningKey:
        """Draw a new key from the operating system's randomness."""
        return cls(os.urandom(KEY_BYTES))

    def to_bytes(self) -> bytes:
        """Give the secret, for a file that only its owner can read."""
        return self._key.private_bytes_raw()

    def sign(self, purpose: Purpose, data: bytes) -> bytes:
        """Sign bytes for a purpose; 64 bytes, the same every time."""
        return self._key.sign(_signed(purpose, data))


def verify(public: bytes, purpose: Purpose, data: bytes, signature: bytes) -> bool:
    """Whether the owner of a public key signed these bytes for this purpose.

    Examples
    --------
    >>> verify(SigningKey.new().public, Purpose.LOG, b"", bytes(64))
    False
    """
    if len(signature) != SIGNATURE_BYTES or len(public) != KEY_BYTES:
        return False
    # Not kept in memory: a long text, as of a card, and a request, which nobody signs twice.
    check = _remembered if len(data) <= _SHORT and purpose is not Purpose.REQUEST else _check
    return check(public, _signed(purpose, data), signature)


def _check(public: bytes, data: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


#: The same bytes are read several times: by their sender before sending, and in every look at a folder.
_remembered = lru_cache(maxsize=4096)(_check)


def check_public_key(key: bytes) -> bytes:
    """Refuse bytes that are not a public key in its one canonical form.

    Examples
    --------
    >>> len(check_public_key(SigningKey.new().public))
    32
    """
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise BadMessage("a public key is not 32 bytes.", expected="an Ed25519 public key", parameter="sign")
    height = int.from_bytes(key, "little") % 2**255
    if height in _SMALL_ORDER:
        raise BadMessage("a public key belongs to nobody: everybody can sign for it.", parameter="sign")
    if height >= _CURVE:
        raise BadMessage(
            "a public key is not in canonical form.", expected="a number below 2^255 - 19", parameter="sign"
        )
    return key


def fingerprint(data: bytes) -> str:
    """Twelve words to compare over the phone; equal bytes have equal words.

    Privacy
    -------
    Twelve words are 96 bits of a slow hash. Anyone who writes two plans may look for a pair with equal words: that
    takes about 2^48 tries of 2^17 hashes each.

    Examples
    --------
    >>> fingerprint(b"plan").count(" "), fingerprint(b"plan") == fingerprint(b"plan"), fingerprint(b"plan?")[:12]
    (11, True, 'raven saturn')
    """
    digest = hashlib.sha256(data).digest()  # the slow hash takes zeros at the end of its input for padding
    slow = hashlib.pbkdf2_hmac("sha256", digest, b"twofold fingerprint 1", _ROUNDS, _WORDS)
    words = WORDS.split()
    return " ".join(words[byte] for byte in slow)


def _signed(purpose: Purpose, data: bytes) -> bytes:
    return _PREFIX + purpose.value.encode() + b"\0" + data


#: 256 words, one per byte, chosen to sound different from each other.
WORDS: Final = """
actor admiral album alley almond amber anchor angel ankle apple apron arrow aspen atlas attic
bacon badge bagel bamboo banjo barrel basil basket beacon beaver bench berry bishop blanket blossom bobcat
bonfire bottle boulder bracelet brass bridge bronze bucket buffalo bugle butter cabin cactus camel candle canyon
captain caravan carbon carpet castle cedar cello chalk cherry chimney cinema cliff clover cobalt coffee comet
copper coral cotton cougar cradle crayon cricket crystal cupboard curtain daisy dancer desert diamond dinner
dolphin donkey dragon drummer eagle easel echo eclipse elbow ember emerald engine falcon feather fiddle
finger flannel forest fossil fountain freckle frost garden garlic gazelle ginger giraffe glacier goblet gondola
granite grape guitar hammer harbor harvest hazel helmet heron hickory hollow honey horizon hurdle icicle
igloo indigo insect island ivory jacket jaguar jasmine jelly jigsaw jungle juniper kettle kitten koala
ladder lagoon lantern laurel lava lemon leopard lettuce lilac lizard lobster locket lotus lumber magnet
mammoth mango marble meadow melon mermaid meteor mitten monsoon mosaic motor muffin mustard napkin nectar
needle nickel noodle nutmeg oasis ocean octopus olive onion opera orbit orchid ostrich otter oxygen
oyster paddle panther papaya parrot pebble pelican pencil pepper piano pigeon pillow pirate planet
plum pocket poppy prairie pumpkin puzzle quarry quilt rabbit raccoon radish raven ribbon river rocket
rooster saddle saffron salmon sandal saturn scarf season shadow shovel silver skeleton sparrow spider
spiral squirrel statue sunset swan tablet teapot temple thunder tiger timber tomato trumpet tulip
turtle umbrella valley vanilla velvet violin volcano wagon walnut whistle willow window winter yellow zebra zipper
"""
