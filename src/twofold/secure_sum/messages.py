"""The three messages an entity sends, the sealed boxes in the first, and the packed numbers of the second.

None carries data in the clear. Only the named receiver can open a box, and nobody can change or move it: its key is
HKDF(X25519(seal key of the sender, seal key of the receiver)) with the terms and both names in this order, so each box
has its own key. What goes into it follows from the sender's keys and the terms alone, hence a key never seals two
different contents and the nonce may be zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from twofold.errors import BadMessage
from twofold.secure_sum.derive import SECRET_BYTES, derive, digest
from twofold.secure_sum.keys import agree, entity_name, exact_fields, hex_bytes, hex_table, table_record
from twofold.secure_sum.shamir import SHARE_BYTES
from twofold.secure_sum.terms import Terms

__all__ = ["BOX_BYTES", "MaskedMessage", "SharesMessage", "UnmaskMessage", "open_box", "pack", "seal_box", "unpack"]

_TAG = 16
#: A share of the mask key, a share of the self-mask seed, and the tag.
BOX_BYTES = 2 * SHARE_BYTES + _TAG
_NONCE = bytes(12)


@dataclass(frozen=True, kw_only=True)
class SharesMessage:
    """Step 1: shares of a sender's secrets, each sealed for its holder.

    Parameters
    ----------
    sender : str
        Who shares.
    terms : bytes
        Digest of the terms.
    commitment : bytes
        Commitment to the sender's self-mask seed.
    boxes : mapping of str to bytes
        Sealed shares by receiver: everybody but the sender, or fewer when it is handed on.

    Examples
    --------
    >>> message = SharesMessage(sender="anna", terms=bytes(32), commitment=bytes(32), boxes={"bert": bytes(82)})
    >>> SharesMessage.from_record(message.to_record()) == message
    True
    """

    sender: str
    terms: bytes = field(repr=False)
    commitment: bytes = field(repr=False)
    boxes: Mapping[str, bytes] = field(repr=False)

    def __post_init__(self) -> None:
        _check(self.sender, (self.terms, self.commitment), {BOX_BYTES: [self.boxes]})

    def to_record(self) -> dict[str, object]:
        """Plain JSON-able record."""
        return {
            "sender": self.sender,
            "terms": self.terms.hex(),
            "commitment": self.commitment.hex(),
            "boxes": table_record(self.boxes),
        }

    @classmethod
    def from_record(cls, record: object) -> SharesMessage:
        """Read a record of `to_record`."""
        fields = exact_fields(record, ("sender", "terms", "commitment", "boxes"), what="a message of shares")
        return cls(
            sender=entity_name(fields["sender"]),
            terms=hex_bytes(fields, "terms", SECRET_BYTES),
            commitment=hex_bytes(fields, "commitment", SECRET_BYTES),
            boxes=hex_table(fields, "boxes", BOX_BYTES),
        )


@dataclass(frozen=True, kw_only=True)
class MaskedMessage:
    """Step 2: the sender's numbers and two check numbers, masked; uniform to anyone without the secrets.

    Parameters
    ----------
    sender : str
        Whose numbers.
    present : bytes
        Digest of the terms and of who shared; sums of messages with different digests are refused.
    bits : int
        The modulus is 2^bits.
    numbers : array of uint64
        Below 2^bits.

    Examples
    --------
    >>> numbers = np.arange(3, dtype=np.uint64)
    >>> MaskedMessage(sender="anna", present=bytes(32), bits=16, numbers=numbers)
    MaskedMessage(sender='anna', bits=16)
    """

    sender: str
    present: bytes = field(repr=False)
    bits: int
    numbers: NDArray[np.uint64] = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        _check(self.sender, (self.present,), {})
        if type(self.bits) is not int or self.bits not in range(16, 65, 8):
            raise BadMessage(
                "a masked message has an impossible modulus.", expected="bits 16, 24, ... or 64", parameter="bits"
            )
        sound = isinstance(self.numbers, np.ndarray) and self.numbers.dtype == np.uint64 and self.numbers.ndim == 1
        if not sound or self.numbers.size < 3 or int(self.numbers.max()) >> self.bits:
            raise BadMessage(
                "a masked message does not hold numbers of its modulus.",
                found=f"from {self.sender!r}",
                expected=f"at least 3 whole numbers from 0, below 2^{self.bits}",
                parameter="numbers",
            )


@dataclass(frozen=True, kw_only=True)
class UnmaskMessage:
    """Step 3: the sender's shares of the survivors' self-mask seeds and of the drop-outs' mask keys.

    Parameters
    ----------
    sender : str
        Who answers.
    lists : bytes
        Digest of the terms and of both lists that were answered.
    seeds, keys : mapping of str to bytes
        Shares by the name they belong to; never one name in both.

    Examples
    --------
    >>> message = UnmaskMessage(sender="anna", lists=bytes(32), seeds={"anna": bytes(33)}, keys={})
    >>> message, UnmaskMessage.from_record(message.to_record()) == message
    (UnmaskMessage(sender='anna'), True)
    """

    sender: str
    lists: bytes = field(repr=False)
    seeds: Mapping[str, bytes] = field(repr=False)
    keys: Mapping[str, bytes] = field(repr=False)

    def __post_init__(self) -> None:
        _check(self.sender, (self.lists,), {SHARE_BYTES: [self.seeds, self.keys]})
        if set(self.seeds) & set(self.keys):
            raise BadMessage(
                "an answer gives both secrets of one entity.", found=f"from {self.sender!r}", parameter="keys"
            )

    def to_record(self) -> dict[str, object]:
        """Plain JSON-able record."""
        seeds, keys = table_record(self.seeds), table_record(self.keys)
        return {"sender": self.sender, "lists": self.lists.hex(), "seeds": seeds, "keys": keys}

    @classmethod
    def from_record(cls, record: object) -> UnmaskMessage:
        """Read a record of `to_record`."""
        fields = exact_fields(record, ("sender", "lists", "seeds", "keys"), what="an answer for unmasking")
        return cls(
            sender=entity_name(fields["sender"]),
            lists=hex_bytes(fields, "lists", SECRET_BYTES),
            seeds=hex_table(fields, "seeds", SHARE_BYTES),
            keys=hex_table(fields, "keys", SHARE_BYTES),
        )


def _check(sender: object, digests: tuple[bytes, ...], tables: Mapping[int, list[Mapping[str, bytes]]]) -> None:
    entity_name(sender)
    sound = all(isinstance(part, bytes) and len(part) == SECRET_BYTES for part in digests)
    for size, group in tables.items():
        for table in group:
            sound = sound and isinstance(table, Mapping) and all(_is_entry(entry, size) for entry in table.items())
    if not sound:
        raise BadMessage("a message holds fields of wrong sizes.", found=f"from {sender!r:.60}", parameter="sizes")


def _is_entry(entry: tuple[object, object], size: int) -> bool:
    entity_name(entry[0])
    return isinstance(entry[1], bytes) and len(entry[1]) == size


def seal_box(
    private: X25519PrivateKey,
    sender: str,
    receiver: str,
    terms: Terms,
    *,
    commitment: bytes,
    key_share: bytes,
    seed_share: bytes,
) -> bytes:
    """Seal the two shares of `receiver` with the sender's seal key.

    Examples
    --------
    >>> from twofold.secure_sum.keys import Keys, private_of
    >>> keys = {name: Keys.new() for name in ("anna", "bert")}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=2)
    >>> shares = {"key_share": b"1" * 33, "seed_share": b"2" * 33}
    >>> box = seal_box(private_of(keys["anna"].seal), "anna", "bert", terms, commitment=b"c", **shares)
    >>> opened = open_box(private_of(keys["bert"].seal), "anna", "bert", terms, commitment=b"c", box=box)
    >>> opened == (b"1" * 33, b"2" * 33)
    True
    """
    key = _key(private, sender, receiver, terms, other=receiver)
    return ChaCha20Poly1305(key).encrypt(_NONCE, key_share + seed_share, _bound(sender, receiver, terms, commitment))


def open_box(
    private: X25519PrivateKey, sender: str, receiver: str, terms: Terms, *, commitment: bytes, box: bytes
) -> tuple[bytes, bytes]:
    """Open the box from `sender` with the own seal key: shares of its mask key and of its self-mask seed."""
    key = _key(private, sender, receiver, terms, other=sender)
    try:
        opened = ChaCha20Poly1305(key).decrypt(_NONCE, box, _bound(sender, receiver, terms, commitment))
    except InvalidTag:
        raise BadMessage(
            "sealed shares do not open: they were changed or made for another entity or plan.",
            found=f"from {sender!r} for {receiver!r}",
            fix=f"ask {sender!r} to send its shares again",
            parameter="box",
        ) from None
    return opened[:SHARE_BYTES], opened[SHARE_BYTES:]


def _key(private: X25519PrivateKey, sender: str, receiver: str, terms: Terms, *, other: str) -> bytes:
    shared = agree(private, terms.roster[other].seal)
    return derive(shared, "seal", terms.digest, sender.encode(), receiver.encode())


def _bound(sender: str, receiver: str, terms: Terms, commitment: bytes) -> bytes:
    return digest("box", terms.digest, commitment, sender.encode(), receiver.encode())


def pack(numbers: NDArray[np.uint64], bits: int) -> bytes:
    r"""Write numbers without the bytes that are always zero.

    Examples
    --------
    >>> pack(np.array([1, 2], dtype=np.uint64), 24)
    b'\x01\x00\x00\x02\x00\x00'
    """
    whole = np.ascontiguousarray(numbers, dtype="<u8").view(np.uint8).reshape(-1, 8)
    return whole[:, : bits // 8].tobytes()


def unpack(data: bytes, bits: int) -> NDArray[np.uint64]:
    r"""Read bytes of `pack`.

    Examples
    --------
    >>> unpack(b"\x01\x00\x00\x02\x00\x00", 24)
    array([1, 2], dtype=uint64)
    """
    width = bits // 8
    if len(data) % width:
        raise BadMessage("the numbers are truncated.", expected=f"{width} bytes for each", parameter="data")
    whole = np.zeros((len(data) // width, 8), dtype=np.uint8)
    whole[:, :width] = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    return whole.view("<u8").reshape(-1).astype(np.uint64, copy=False)
