"""Keys of an entity: two key pairs, a seed and a salt, all for one plan; and readers of plain records."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from twofold.checks import check_entity_name
from twofold.errors import BadMessage, BadParameter, BadPlan
from twofold.secure_sum.derive import SECRET_BYTES

__all__ = [
    "Keys",
    "PublicKeys",
    "agree",
    "check_public",
    "check_roster",
    "entity_name",
    "exact_fields",
    "hex_bytes",
    "hex_table",
    "private_of",
    "public_of",
    "table_record",
]

_PARTS = ("mask", "seal", "seed", "salt")
_CURVE = 2**255 - 19
#: A name in a message of a stranger.
entity_name = partial(check_entity_name, error=BadMessage)
_ANY = X25519PrivateKey.from_private_bytes(bytes(SECRET_BYTES))


@dataclass(frozen=True, kw_only=True)
class PublicKeys:
    """The public halves, which the roster of a plan lists under the entity's name.

    Parameters
    ----------
    mask, seal : bytes
        X25519 public keys of 32 bytes: one makes pairwise masks, the other seals shares. A key of small order, which
        would give the same secret with everybody, a key that is not written in its one canonical form, and twice the
        same key are refused.

    Examples
    --------
    >>> public = Keys.new().public
    >>> PublicKeys.from_record(public.to_record()) == public
    True
    """

    mask: bytes
    seal: bytes

    def __post_init__(self) -> None:
        for key in (self.mask, self.seal):
            check_public(key)
        if self.mask == self.seal:
            raise BadMessage(
                "the mask key and the seal key are the same.", fix="enrol again with new keys", parameter="seal"
            )

    def to_record(self) -> dict[str, str]:
        """Plain text for a plan."""
        return {"mask": self.mask.hex(), "seal": self.seal.hex()}

    @classmethod
    def from_record(cls, record: object) -> PublicKeys:
        """Read a record of `to_record`."""
        fields = exact_fields(record, ("mask", "seal"), what="a pair of public keys")
        return cls(mask=hex_bytes(fields, "mask", SECRET_BYTES), seal=hex_bytes(fields, "seal", SECRET_BYTES))


@dataclass(frozen=True, kw_only=True)
class Keys:
    """An entity's secrets for **one** plan.

    A drop-out's mask key becomes known to the server, so every plan gets new keys; `Keys.new` takes them from
    the operating system. They are never shown. Python cannot guarantee that they are wiped from memory.

    Parameters
    ----------
    mask, seal : bytes
        X25519 secret keys.
    seed : bytes
        Source of the self-mask.
    salt : bytes
        Source of the coefficients of the sharing polynomials, so that sharing again gives the same bytes.

    Examples
    --------
    >>> keys = Keys.new()
    >>> keys
    Keys(secret)
    """

    mask: bytes = field(repr=False)
    seal: bytes = field(repr=False)
    seed: bytes = field(repr=False)
    salt: bytes = field(repr=False)

    def __post_init__(self) -> None:
        parts = [getattr(self, name) for name in _PARTS]
        if not all(isinstance(part, bytes) and len(part) == SECRET_BYTES for part in parts):
            raise BadParameter("secret keys must be four strings of 32 bytes.", fix="make them with Keys.new()")
        if len(set(parts)) < len(parts):
            raise BadParameter("two of the four secrets are the same.", fix="make them with Keys.new()")

    def __repr__(self) -> str:
        return "Keys(secret)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("keys are not pickled; Secrets.to_bytes() is for a file that only the entity can read")

    @classmethod
    def new(cls) -> Keys:
        """Draw new keys from the operating system's randomness."""
        return cls(**{name: os.urandom(SECRET_BYTES) for name in _PARTS})

    @property
    def public(self) -> PublicKeys:
        """The public keys."""
        return PublicKeys(mask=public_of(self.mask), seal=public_of(self.seal))


def check_roster(roster: Mapping[str, PublicKeys], *, least: int = 1) -> None:
    """Refuse a roster with an invalid name, anything but keys, or a repeated key.

    Examples
    --------
    >>> check_roster({name: Keys.new().public for name in ("anna", "bert")}, least=2)
    """
    if not isinstance(roster, Mapping) or len(roster) < least:
        raise BadPlan(
            "the roster has too few entities.",
            expected=f"a table from names to public keys, of at least {least}",
            parameter="roster",
        )
    for name, keys in roster.items():
        check_entity_name(name)
        if not isinstance(keys, PublicKeys):
            raise BadPlan(
                "the roster holds something other than public keys.",
                expected="PublicKeys under every name",
                parameter="roster",
            )
    times = Counter(key for keys in roster.values() for key in (keys.mask, keys.seal))
    owners = sorted(name for name, keys in roster.items() if max(times[keys.mask], times[keys.seal]) > 1)
    if owners:
        raise BadPlan(
            "a public key occurs twice in the roster.",
            found="in the entries of " + ", ".join(owners),
            expected="different keys for every entity",
            fix="ask them to enrol again with new keys",
            parameter="roster",
        )


def public_of(secret: bytes) -> bytes:
    """X25519 public key of a secret one.

    Examples
    --------
    >>> len(public_of(bytes(32)))
    32
    """
    return private_of(secret).public_key().public_bytes_raw()


def private_of(secret: bytes) -> X25519PrivateKey:
    """Prepare a secret key; do it once for many `agree` calls, since it costs as much as one.

    Examples
    --------
    >>> type(private_of(bytes(32))).__name__
    'X25519PrivateKey'
    """
    return X25519PrivateKey.from_private_bytes(secret)


def agree(private: X25519PrivateKey, public: bytes) -> bytes:
    """Diffie-Hellman secret of a secret and another's public key; a public key of small order is refused.

    Examples
    --------
    >>> one, two = Keys.new(), Keys.new()
    >>> agree(private_of(one.mask), two.public.mask) == agree(private_of(two.mask), one.public.mask)
    True
    """
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise BadMessage(
            "a public key has small order: it gives everyone the same secret.",
            fix="enrol again with new keys",
            parameter="public",
        ) from None


def check_public(key: bytes) -> None:
    """Refuse what is not an X25519 public key in canonical form, or one of small order.

    Examples
    --------
    >>> check_public(Keys.new().public.seal)
    """
    if not isinstance(key, bytes) or len(key) != SECRET_BYTES:
        raise BadMessage("a public key is not 32 bytes.", expected="an X25519 public key", parameter="public")
    if int.from_bytes(key, "little") >= _CURVE:
        raise BadMessage(
            "a public key is not in canonical form.", expected="a number below 2^255 - 19", parameter="public"
        )
    agree(_ANY, key)  # every secret key is a multiple of 8, so any one shows a small order


def exact_fields(record: object, names: Sequence[str], *, what: str) -> Mapping[str, object]:
    """Check that a record has exactly the named fields.

    Examples
    --------
    >>> exact_fields({"a": 1}, ["a"], what="an example")
    {'a': 1}
    """
    if not isinstance(record, Mapping) or set(record) != set(names):
        raise BadMessage(f"this is not {what}.", expected="the fields " + ", ".join(sorted(names)), parameter="record")
    return record


def hex_bytes(record: Mapping[str, object], name: str, size: int) -> bytes:
    r"""Read a field of `size` bytes in lower-case hexadecimal.

    Examples
    --------
    >>> hex_bytes({"tag": "00ff"}, "tag", 2)
    b'\x00\xff'
    """
    text = record[name]
    digits = set("0123456789abcdef")
    if not isinstance(text, str) or len(text) != 2 * size or not set(text) <= digits:
        raise BadMessage(
            f"the field {name!r:.60} is damaged.",
            expected=f"{size} bytes in lower-case hexadecimal",
            parameter=f"{name:.60}",
        )
    return bytes.fromhex(text)


def hex_table(record: Mapping[str, object], name: str, size: int) -> dict[str, bytes]:
    r"""Read a field that maps names to `size` bytes each.

    Examples
    --------
    >>> hex_table({"tags": {"a": "01"}}, "tags", 1)
    {'a': b'\x01'}
    """
    table = record[name]
    if not isinstance(table, Mapping):
        raise BadMessage(f"the field {name!r} is damaged.", expected="a table from names to bytes", parameter=name)
    return {key: hex_bytes(table, key, size) for key in sorted(map(entity_name, table))}


def table_record(table: Mapping[str, bytes]) -> dict[str, str]:
    r"""Write a table for `hex_table`.

    Examples
    --------
    >>> table_record({"a": b"\x01"})
    {'a': '01'}
    """
    return {name: value.hex() for name, value in sorted(table.items())}
