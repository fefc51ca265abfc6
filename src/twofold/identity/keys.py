"""Who someone is: secret keys in one file, and a public part, signed by itself, to hand out.

An identity has a signing key, which may serve for years, and the two public keys of a secure sum, which serve one plan.
`Secrets.renewed` makes new keys for the next plan under the same signing key, so its fingerprint stays what people have
compared. `Secrets.replaced` makes a new signing key that the old one vouches for, and `revocation` withdraws a key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from os import PathLike
from typing import Any, Final, NoReturn

from twofold.checks import check_entity_name
from twofold.errors import BadPlan, ProtocolError, Run, TwofoldError
from twofold.secure_sum.derive import SECRET_BYTES
from twofold.secure_sum.keys import Keys, PublicKeys, exact_fields, hex_bytes
from twofold.storage.container import canonical_json, parse_json
from twofold.storage.files import read_limited, write_whole
from twofold.storage.signing import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    Purpose,
    SigningKey,
    check_public_key,
    fingerprint,
    verify,
)

__all__ = ["LARGEST_PART", "Identity", "Revocation", "Role", "Secrets"]

_PUBLIC: Final = "twofold.identity/1"
_SECRET: Final = "twofold.secrets/1"
_REVOKED: Final = "twofold.revocation/1"
_SUM: Final = ("mask", "seal", "seed", "salt")
#: Bytes of a public part, or of a file of secret keys; ours have less than a thousand.
LARGEST_PART: Final = 16 * 1024


class Role(StrEnum):
    """What the owner of a key does."""

    ENTITY = "entity"
    OPERATOR = "operator"
    PERSON = "person"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The public part of someone's keys.

    Parameters
    ----------
    name : str
        Public name.
    role : Role
        An entity with data, an operator of a server, or a person who approves.
    sign : bytes
        Ed25519 public key.
    sum : PublicKeys
        Public keys for one secure sum.
    signature : bytes
        By `sign`, over everything else: only the owner of the key can have made this.
    replaces, vouched : bytes
        An earlier signing key of the same owner and its signature over this identity; empty without one.

    Examples
    --------
    >>> anna = Secrets.new("st-anna").identity
    >>> Identity.from_text(anna.text) == anna, anna.role.value, len(anna.words.split())
    (True, 'entity', 12)
    """

    name: str
    role: Role = Role.ENTITY
    sign: bytes
    sum: PublicKeys
    signature: bytes = field(repr=False)
    replaces: bytes = field(default=b"", repr=False)
    vouched: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        check_entity_name(self.name)
        check_public_key(self.sign)
        if not verify(self.sign, Purpose.IDENTITY, self._covered, self.signature):
            raise _not_an_identity("a signature that does not match")
        if self.replaces and not verify(self.replaces, Purpose.IDENTITY, b"next " + self._covered, self.vouched):
            raise _not_an_identity("an earlier key that does not vouch for this one")

    @property
    def words(self) -> str:
        """The signing key as twelve words, to be compared over the phone."""
        return fingerprint(self.sign)

    @property
    def text(self) -> str:
        """Canonical JSON, as `from_text` reads it."""
        return canonical_json(self.record)

    @property
    def record(self) -> dict[str, Any]:
        """The same as plain JSON."""
        later = {"replaces": self.replaces.hex(), "vouched": self.vouched.hex()} if self.replaces else {}
        return _covered_record(self) | {"signature": self.signature.hex()} | later

    @property
    def _covered(self) -> bytes:
        return canonical_json(_covered_record(self)).encode()

    @classmethod
    def from_record(cls, record: object) -> Identity:
        """Read a record of `record`; one that its owner did not sign is refused."""
        try:
            names = ["schema", "name", "role", "sign", "mask", "seal", "signature"]
            if isinstance(record, dict) and "replaces" in record:
                names += ["replaces", "vouched"]
            fields = exact_fields(record, names, what="a public part")
            if fields["schema"] != _PUBLIC:
                raise ValueError("another format")
            later = {}
            if "replaces" in fields:
                later = {
                    "replaces": hex_bytes(fields, "replaces", KEY_BYTES),
                    "vouched": hex_bytes(fields, "vouched", SIGNATURE_BYTES),
                }
            return cls(
                name=check_entity_name(fields["name"]),
                role=Role(str(fields["role"])),
                sign=hex_bytes(fields, "sign", KEY_BYTES),
                sum=PublicKeys(
                    mask=hex_bytes(fields, "mask", SECRET_BYTES), seal=hex_bytes(fields, "seal", SECRET_BYTES)
                ),
                signature=hex_bytes(fields, "signature", SIGNATURE_BYTES),
                **later,
            )
        except (ProtocolError, BadPlan, ValueError, TypeError) as error:
            raise _not_an_identity(error.summary if isinstance(error, TwofoldError) else "another format") from None

    @classmethod
    def from_text(cls, text: str) -> Identity:
        """Read the text of one public part."""
        try:
            record = parse_json(text)
        except ProtocolError as error:
            raise _not_an_identity(error.found or "no text") from None
        return cls.from_record(record)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Identity:
        """Read the file of a public part."""
        return cls.from_text(read_limited(path, LARGEST_PART).decode(errors="replace"))

    def write(self, path: str | PathLike[str]) -> None:
        """Write the file of a public part, completely or not at all."""
        write_whole(path, self.text.encode())


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """Someone's secret keys: one to sign with, and those of one secure sum. Never shown, never pickled.

    Examples
    --------
    >>> anna = Secrets.new("st-anna")
    >>> anna, Secrets.from_bytes(anna.to_bytes()) == anna
    (Secrets(st-anna), True)
    >>> next_year = anna.renewed()
    >>> next_year.identity.words == anna.identity.words, next_year.sum == anna.sum
    (True, False)
    """

    name: str
    role: Role = Role.ENTITY
    sign: SigningKey = field(repr=False)
    sum: Keys = field(repr=False)
    replaces: bytes = field(default=b"", repr=False)
    vouched: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        check_entity_name(self.name)

    def __repr__(self) -> str:
        return f"Secrets({self.name})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("keys are not pickled; store to_bytes() in a file that only their owner can read")

    @classmethod
    def new(cls, name: str, role: Role = Role.ENTITY) -> Secrets:
        """Draw new keys from the operating system's randomness."""
        return cls(name=name, role=role, sign=SigningKey.new(), sum=Keys.new())

    def renewed(self) -> Secrets:
        """Give new keys for another secure sum, under the same signing key."""
        return Secrets(name=self.name, role=self.role, sign=self.sign, sum=Keys.new())

    def replaced(self) -> Secrets:
        """Give new keys, with a new signing key that this one vouches for."""
        made = Secrets.new(self.name, self.role)
        vouched = self.sign.sign(Purpose.IDENTITY, b"next " + canonical_json(_covered_record(made)).encode())
        return Secrets(
            name=self.name, role=self.role, sign=made.sign, sum=made.sum, replaces=self.sign.public, vouched=vouched
        )

    @cached_property
    def identity(self) -> Identity:
        """The public part, to hand out."""
        signature = self.sign.sign(Purpose.IDENTITY, canonical_json(_covered_record(self)).encode())
        return Identity(
            name=self.name,
            role=self.role,
            sign=self.sign.public,
            sum=self.sum.public,
            signature=signature,
            replaces=self.replaces,
            vouched=self.vouched,
        )

    def revocation(self) -> Revocation:
        """Give a statement, signed by the key itself, that it must not be used any more."""
        return Revocation(sign=self.sign.public, signature=self.sign.sign(Purpose.IDENTITY, _revoked(self.sign.public)))

    def to_bytes(self) -> bytes:
        """Canonical JSON, for a file that only the owner can read."""
        record = {"schema": _SECRET, "name": self.name, "role": self.role.value, "sign": self.sign.to_bytes().hex()}
        record |= {name: getattr(self.sum, name).hex() for name in _SUM}
        record |= {"replaces": self.replaces.hex(), "vouched": self.vouched.hex()}
        return canonical_json(record).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Secrets:
        """Read bytes of `to_bytes`; errors never show their content."""
        try:
            record = exact_fields(
                parse_json(data.decode()),
                ("schema", "name", "role", "sign", *_SUM, "replaces", "vouched"),
                what="a file of secret keys",
            )
            if record["schema"] != _SECRET:
                raise ValueError("another format")
            later = bool(record["replaces"])
            return cls(
                name=check_entity_name(record["name"]),
                role=Role(str(record["role"])),
                sign=SigningKey(hex_bytes(record, "sign", KEY_BYTES)),
                sum=Keys(**{name: hex_bytes(record, name, SECRET_BYTES) for name in _SUM}),
                replaces=hex_bytes(record, "replaces", KEY_BYTES if later else 0),
                vouched=hex_bytes(record, "vouched", SIGNATURE_BYTES if later else 0),
            )
        except (TwofoldError, ValueError, TypeError):
            raise BadPlan(
                "this is not a file of secret keys.",
                expected="what twofold keys new wrote",
                fix=Run("keys new --entity st-anna --keys st-anna.keys --output st-anna.pub"),
                parameter="keys",
            ) from None


@dataclass(frozen=True, kw_only=True)
class Revocation:
    """A statement, signed by a key itself, that it must not be used any more.

    Examples
    --------
    >>> gone = Secrets.new("st-anna").revocation()
    >>> Revocation.from_text(gone.text) == gone
    True
    """

    sign: bytes
    signature: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not verify(check_public_key(self.sign), Purpose.IDENTITY, _revoked(self.sign), self.signature):
            raise BadPlan("this is not a revocation signed by its key.", parameter="revoked")

    @property
    def text(self) -> str:
        """Canonical JSON, as `from_text` reads it."""
        return canonical_json({"schema": _REVOKED, "sign": self.sign.hex(), "signature": self.signature.hex()})

    @classmethod
    def from_text(cls, text: str) -> Revocation:
        """Read a revocation."""
        try:
            fields = exact_fields(parse_json(text), ("schema", "sign", "signature"), what="a revocation")
            if fields["schema"] != _REVOKED:
                raise ValueError("another format")
            return cls(
                sign=hex_bytes(fields, "sign", KEY_BYTES), signature=hex_bytes(fields, "signature", SIGNATURE_BYTES)
            )
        except (ProtocolError, ValueError):
            raise BadPlan(
                "this is not a revocation.", expected="what twofold keys revoke wrote", parameter="revoked"
            ) from None

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Revocation:
        """Read the file of a revocation."""
        return cls.from_text(read_limited(path, LARGEST_PART).decode(errors="replace"))


def _covered_record(one: Identity | Secrets) -> dict[str, Any]:
    """What an identity's own signature covers."""
    public = one.sign if isinstance(one.sign, bytes) else one.sign.public
    keys = one.sum if isinstance(one.sum, PublicKeys) else one.sum.public
    return {"schema": _PUBLIC, "name": one.name, "role": one.role.value, "sign": public.hex()} | keys.to_record()


def _revoked(public: bytes) -> bytes:
    return b"revoked " + public


def _not_an_identity(found: str) -> BadPlan:
    return BadPlan(
        "this is not a public part of keys.",
        found=found,
        expected="what twofold keys new wrote",
        fix=Run("keys new --entity st-anna --keys st-anna.keys --output st-anna.pub"),
        parameter="public_key",
    )
