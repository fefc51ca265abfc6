r"""A sum of integers that two operators learn without learning any summand: one message of every entity.

An entity splits its numbers x into two shares modulo 2^bits, :math:`x = a + b`. The share b is the key stream of a
32-byte seed. The first operator gets a, the second the seed, each in a box that only it can open
(HPKE, RFC 9180: X25519, HKDF-SHA256, AES-128-GCM). Each operator alone sees uniform numbers. It adds up its shares over
one list of entities and adds a whole noise; the two sums together are the sum of all x, and both noises.

Every box is bound to its header: plan, entity, report, role, modulus, length and both sealing keys. Moved to another
entity, plan or operator, it does not open. The first number, the check word, is 1: its two shares show that the two
boxes of a report belong together, and nothing else.

Pure: keys, bytes and arrays in, bytes and arrays out. The primitives are those of `cryptography`. What is promised
against whom, with the proof, is in docs/reference/operators.md.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from numpy.typing import NDArray

from twofold.errors import BadMessage, BadParameter, BadShape
from twofold.secure_sum.derive import SECRET_BYTES, add_stream, derive, digest, stream
from twofold.secure_sum.keys import check_public
from twofold.secure_sum.masking import modulus_mask
from twofold.secure_sum.messages import pack, unpack

__all__ = [
    "REPORT_BYTES",
    "ReportHeader",
    "Share",
    "add_share",
    "box_bytes",
    "commitment",
    "joined_sum",
    "open_share",
    "split",
    "words_match",
]

#: Length of a report's random name.
REPORT_BYTES: Final = 16
_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
#: An encapsulated key and an authentication tag.
_SEAL_BYTES: Final = 32 + 16
#: The check word.
_WORDS: Final = 1


@dataclass(frozen=True, kw_only=True)
class ReportHeader:
    """What both boxes of a report are bound to.

    Parameters
    ----------
    plan : bytes
        Hash of the plan.
    entity : str
        Who sends it.
    report : bytes
        16 random bytes.
    bits : int
        Of the modulus: a whole number of bytes, at most 64.
    length : int
        How many numbers, without the check word.
    seals : pair of bytes
        X25519 public keys of the first and the second operator.

    Examples
    --------
    >>> seals = (b"a" * 32, b"b" * 32)
    >>> one = ReportHeader(plan=bytes(32), entity="anna", report=bytes(16), bits=48, length=9, seals=seals)
    >>> one.bound(0) == one.bound(1)
    False
    """

    plan: bytes
    entity: str
    report: bytes
    bits: int
    length: int
    seals: tuple[bytes, bytes]

    def __post_init__(self) -> None:
        if self.bits % 8 or not 16 <= self.bits <= 64 or self.length < 1:
            raise BadParameter("the modulus or the length of a report is out of range.", parameter="bits")
        if len(self.report) != REPORT_BYTES:
            raise BadParameter("the name of a report has the wrong length.", parameter="report")
        _check_seals(*self.seals)

    @cached_property
    def _parts(self) -> tuple[bytes, ...]:
        numbers = self.bits.to_bytes(8, "little"), self.length.to_bytes(8, "little")
        return (self.plan, self.entity.encode(), self.report, *numbers, *self.seals)

    def bound(self, place: int) -> bytes:
        """What the box of one operator is bound to: everything, and its role."""
        return digest("operator box", bytes([place]), *self._parts)

    def stream(self, seed: bytes) -> bytes:
        """Key of the second share's stream."""
        return derive(seed, "operator share", *self._parts)


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one operator found in its box: packed numbers for the first operator, a seed for the second."""

    place: int
    content: bytes
    word: int


def box_bytes(header_bits: int, length: int, place: int) -> int:
    """Bytes of a box, which public numbers decide.

    Examples
    --------
    >>> box_bytes(48, 2_000, 0), box_bytes(48, 2_000, 1)
    (12054, 80)
    """
    return _SEAL_BYTES + ((length + _WORDS) * header_bits // 8 if place == 0 else SECRET_BYTES)


def split(values: NDArray[np.int64], header: ReportHeader) -> tuple[bytes, bytes]:
    """Split numbers between two operators, each share in a box that only its operator can open.

    Parameters
    ----------
    values : array of int64
        `header.length` numbers. A number beyond the modulus wraps around and is never refused.
    header : ReportHeader
        What the boxes are bound to.

    Privacy
    -------
    The seed comes from the operating system and serves one message. **Store both boxes and send the stored ones**: the
    seed is forgotten, so no second message under it can ever be made. Each share alone is uniform, whatever the
    numbers are: b by the cipher, a because b is added to it.

    Examples
    --------
    >>> from twofold.secure_sum.keys import Keys, private_of
    >>> one, two = Keys.new(), Keys.new()
    >>> seals = (one.public.seal, two.public.seal)
    >>> header = ReportHeader(plan=bytes(32), entity="anna", report=bytes(16), bits=32, length=2, seals=seals)
    >>> boxes = split(np.array([3, -5]), header)
    >>> shares = [
    ...     open_share(private_of(key.seal), boxes[place], header, place) for place, key in enumerate((one, two))
    ... ]
    >>> totals = [np.zeros(2, dtype=np.uint64) for _ in shares]
    >>> for total, share in zip(totals, shares):
    ...     add_share(total, share, header)
    >>> joined_sum(totals, bits=32), words_match(*(share.word for share in shares), bits=32)
    (array([ 3, -5]), True)
    """
    if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.shape != (header.length,):
        raise BadShape(
            "a report takes one row of numbers.", expected=f"{header.length:,} whole numbers", parameter="values"
        )
    seed = os.urandom(SECRET_BYTES)
    first = np.empty(header.length + _WORDS, dtype=np.uint64)
    first[0] = 1
    first[_WORDS:] = values.astype(np.uint64)  # negative numbers wrap around, as they should
    add_stream(first, header.stream(seed), bits=header.bits, subtract=True)
    contents = (pack(first & modulus_mask(header.bits), header.bits), seed)
    made = [
        _SUITE.encrypt(content, _public(header.seals[place]), info=header.bound(place))
        for place, content in enumerate(contents)
    ]
    return made[0], made[1]


def open_share(private: X25519PrivateKey, box: bytes, header: ReportHeader, place: int) -> Share:
    """Open one operator's box.

    Raises
    ------
    BadMessage
        It was made for somebody else, moved, changed, or has another length. Nothing of this depends on the numbers.
    """
    if len(box) != box_bytes(header.bits, header.length, place):
        raise BadMessage(
            "a share has another length.",
            found=f"{len(box):,} bytes",
            expected=f"{box_bytes(header.bits, header.length, place):,}",
            parameter="box",
        )
    try:
        content = _SUITE.decrypt(box, private, info=header.bound(place))
    except (InvalidTag, ValueError):
        raise BadMessage(
            "a share does not open: it was made for another operator, plan or entity, or was changed.",
            expected="a box sealed to this operator",
            parameter="box",
        ) from None
    return Share(place=place, content=content, word=_word(content, header, place))


def _word(content: bytes, header: ReportHeader, place: int) -> int:
    width = header.bits // 8
    return int.from_bytes(content[:width] if place == 0 else stream(header.stream(content), width), "little")


def words_match(first: int, second: int, *, bits: int) -> bool:
    """Whether two shares of a check word belong together.

    Examples
    --------
    >>> words_match(2**32 - 4, 5, bits=32), words_match(1, 1, bits=32)
    (True, False)
    """
    return (first + second - 1) & ((1 << bits) - 1) == 0


def add_share(total: NDArray[np.uint64], share: Share, header: ReportHeader) -> None:
    """Add a share to an operator's running sum, in place; only the low `bits` bits mean anything.

    The check word is left out.
    """
    if share.place == 0:
        total += unpack(share.content, header.bits)[_WORDS:]
        return
    whole = np.zeros(header.length + _WORDS, dtype=np.uint64)
    add_stream(whole, header.stream(share.content), bits=header.bits)
    total += whole[_WORDS:]


def joined_sum(totals: Sequence[NDArray[np.uint64]], *, bits: int) -> NDArray[np.int64]:
    """Add the sums of all operators, as signed numbers.

    Examples
    --------
    >>> joined_sum([np.array([2**16 - 7], dtype=np.uint64), np.array([4], dtype=np.uint64)], bits=16)
    array([-3])
    """
    total = np.zeros(totals[0].size, dtype=np.uint64)
    for one in totals:
        total += one
    total &= modulus_mask(bits)
    shift = np.uint64(64 - bits)
    return (total << shift).view(np.int64) >> np.int64(64 - bits)


def commitment(data: bytes, nonce: bytes) -> bytes:
    """Commit to bytes that are shown later; hiding because of 32 random bytes.

    Examples
    --------
    >>> commitment(b"a", bytes(32)) == commitment(b"b", bytes(32))
    False
    """
    return digest("operator commitment", nonce, data)


@lru_cache(maxsize=64)
def _check_seals(first: bytes, second: bytes) -> None:
    """Refuse keys of which one does not protect; two forms of one key are told apart by nobody but this check."""
    try:
        for seal in (first, second):
            check_public(seal)
    except BadMessage as error:
        raise BadParameter(error.summary, expected=error.expected, parameter="seals") from None
    if first == second:
        raise BadParameter(
            "both operators have the same sealing key: one could open everything.",
            expected="keys of two operators who do not work together",
            parameter="seals",
        )


@lru_cache(maxsize=64)
def _public(key: bytes) -> X25519PublicKey:
    return X25519PublicKey.from_public_bytes(key)
