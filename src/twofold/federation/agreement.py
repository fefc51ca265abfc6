"""Agreement to a plan: everybody it names signs its hash, and a real federation starts only when all have.

An entity's agreement goes up in the first step; the operator adds its own and publishes all of them. They may also
travel with the plan, as one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from twofold.checks import is_hash
from twofold.errors import BadMessage, NotReady, PlanMismatch, ProtocolError, Run
from twofold.federation.bodies import decode_body, encode_body
from twofold.federation.messages import AGREED, AGREEMENT, check_entity, roster_of
from twofold.federation.plan import Plan
from twofold.identity.keystore import agreement_text
from twofold.secure_sum.keys import exact_fields, hex_table, table_record
from twofold.storage.container import canonical_json, parse_json
from twofold.storage.files import read_limited, write_whole
from twofold.storage.signing import SIGNATURE_BYTES, Purpose, fingerprint, verify

if TYPE_CHECKING:
    from twofold.identity.keys import Identity, Revocation
    from twofold.identity.roster import Roster
    from twofold.storage.signing import SigningKey

__all__ = [
    "Agreement",
    "Agreements",
    "check_member",
    "decode_agreed",
    "decode_agreement",
    "encode_agreed",
    "encode_agreement",
    "must_agree",
    "plan_words",
]

_SCHEMA: Final = "twofold.agreements/1"
_LARGEST: Final = 1024 * 1024


def plan_words(plan: Plan) -> str:
    """Twelve words that stand for the whole plan, its roster included; everybody must read the same ones.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> len(plan_words(plan).split()), plan_words(plan) == plan_words(plan.with_(rank=1))
    (12, False)
    """
    return fingerprint(bytes.fromhex(plan.hash))


def check_member(plan: Plan, identity: Identity, revoked: Iterable[Revocation] = ()) -> Roster:
    """Give the roster of a plan; refuse an identity that is not in it, and one in which any key was revoked."""
    members = roster_of(plan)
    if members.get(identity.name) != identity:
        raise PlanMismatch(
            "the keys are not those that the plan lists under this name.",
            found=f"keys of {identity.name}",
            expected=f"keys of one of its {len(members)} members, as they enrolled",
            fix="use the right key file, or ask for a plan with the right roster",
            parameter="keys",
        )
    gone = {one.sign for one in revoked}
    if withdrawn := [name for name, one in members.items() if one.sign in gone]:
        raise PlanMismatch(
            "a key in the plan's roster was revoked by its owner.",
            found=", ".join(withdrawn[:5]),
            expected="a plan with the key that they use now",
            fix="ask the author for a new plan",
            parameter="roster",
        )
    return members


def must_agree(plan: Plan) -> Mapping[str, Identity]:
    """Give those who must agree before a real plan starts: everybody, or the operators who add all noise.

    Privacy
    -------
    Where entities add shares of the noise, a plan's writer who invents the other entities knows all other shares, so
    everybody must agree to the same list. Where two operators add whole noises, nothing rests on other entities.
    """
    members = roster_of(plan)
    return members.operators if plan.operators is not None and plan.operators.noise == "operators" else members


class Agreements(Mapping[str, bytes]):
    """Signatures of one plan's hash, by name.

    Parameters
    ----------
    plan_hash : str
        What was agreed to.
    signatures : mapping of str to bytes
        Checked against a roster by `check`, not before.

    Examples
    --------
    >>> from twofold.identity.roster import Roster
    >>> from twofold.federation.plan import CatalogKey
    >>> roster, secrets = Roster.new(["st-anna", "st-bern"])
    >>> key = CatalogKey(hash="0" * 64, n_items=3)
    >>> plan = Plan(catalog=key, feedback="counts", bound=5, max_items=2, roster=roster)
    >>> every = Agreements.joined(Agreements.signed(plan, one.sign, name) for name, one in secrets.items())
    >>> every.check(plan)
    >>> Agreements.from_text(every.text) == every, every.missing(plan.with_(rank=1))
    (True, ('coordinator', 'st-anna', 'st-bern'))
    """

    def __init__(self, plan_hash: str, signatures: Mapping[str, bytes]) -> None:
        self.plan_hash = plan_hash
        self._signatures = dict(sorted(signatures.items()))

    def __getitem__(self, name: str) -> bytes:
        return self._signatures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._signatures)

    def __len__(self) -> int:
        return len(self._signatures)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Agreements) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @classmethod
    def signed(cls, plan: Plan, signer: SigningKey, name: str) -> Agreements:
        """Agree to a plan under one name."""
        return cls(plan.hash, {name: signer.sign(Purpose.AGREEMENT, agreement_text(plan.hash, name))})

    @classmethod
    def joined(cls, parts: Iterable[Agreements]) -> Agreements:
        """Join what several people signed; agreements to another plan are refused."""
        every = list(parts)
        if len({one.plan_hash for one in every}) != 1:
            raise PlanMismatch(
                "the agreements are not to one plan.",
                found=", ".join(sorted({one.plan_hash[:12] for one in every})[:4]) or "none",
                expected="one hash",
                parameter="agreements",
            )
        return cls(every[0].plan_hash, {name: one[name] for one in every for name in one})

    def missing(self, plan: Plan) -> tuple[str, ...]:
        """Name those who must agree and have not signed the plan's hash."""
        due = must_agree(plan)
        if self.plan_hash != plan.hash:
            return tuple(due)
        return tuple(
            name
            for name, one in due.items()
            if not verify(one.sign, Purpose.AGREEMENT, agreement_text(plan.hash, name), self.get(name, b""))
        )

    def check(self, plan: Plan) -> None:
        """Refuse to start before everybody whom the plan names has agreed to its very hash."""
        if missing := self.missing(plan):
            raise NotReady(
                "not everybody who must has agreed to the plan; nothing was drawn.",
                found=f"{len(missing)} without a valid signature: {', '.join(missing[:6])}",
                expected=f"signatures of plan {plan.hash[:12]} by {', '.join(must_agree(plan))}"
                if plan.operators is not None
                else f"signatures of plan {plan.hash[:12]} by all {len(roster_of(plan))}",
                fix=Run(f"plan agree plan.toml --keys {missing[0]}.keys"),
                parameter="agreements",
            )

    @property
    def text(self) -> str:
        """Canonical JSON, as `from_text` reads it."""
        record = {"schema": _SCHEMA, "plan": self.plan_hash, "agreements": table_record(self._signatures)}
        return canonical_json(record)

    @classmethod
    def from_text(cls, text: str) -> Agreements:
        """Read the text of agreements; whether they are valid shows `check`."""
        try:
            record = exact_fields(parse_json(text), ("schema", "plan", "agreements"), what="a list of agreements")
            if record["schema"] != _SCHEMA or not is_hash(record["plan"]):
                raise ProtocolError("another format.")
            return cls(str(record["plan"]), hex_table(record, "agreements", SIGNATURE_BYTES))
        except ProtocolError:
            raise BadMessage(
                "this is not a list of agreements.", expected="what twofold plan agree wrote", parameter="agreements"
            ) from None

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Agreements:
        """Read the file of agreements."""
        return cls.from_text(read_limited(path, _LARGEST).decode(errors="replace"))

    def write(self, path: str | PathLike[str]) -> None:
        """Write the file of agreements, completely or not at all."""
        write_whole(path, self.text.encode())


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """An entity's agreement, decoded and valid."""

    entity: str
    content: Agreements = field(repr=False)


def encode_agreement(signature: bytes, plan: Plan, *, entity: str, signer: SigningKey) -> bytes:
    """Write an entity's agreement."""
    return encode_body(AGREEMENT, plan, {"signature": {entity: signature.hex()}}, entity=entity, signer=signer)


def decode_agreement(data: bytes, plan: Plan) -> Agreement:
    """Read an entity's agreement, if it signs this very plan."""
    record, body = decode_body(data, plan, AGREEMENT)
    entity, found = check_entity(record, plan), _signatures(body, "signature", plan)
    if set(found) != {entity} or entity in found.missing(plan):
        raise BadMessage("the message does not hold its sender's agreement.", found=entity, parameter="signature")
    return Agreement(entity=entity, content=found)


def encode_agreed(agreements: Agreements, plan: Plan, *, signer: SigningKey) -> bytes:
    """Write everybody's agreements."""
    return encode_body(AGREED, plan, {"agreements": table_record(agreements)}, signer=signer)


@lru_cache(maxsize=16)  # a simulation of two hundred entities reads it hundreds of times
def decode_agreed(data: bytes, plan: Plan) -> Agreements:
    """Read everybody's agreements; if one is missing or invalid, all are refused."""
    found = _signatures(decode_body(data, plan, AGREED)[1], "agreements", plan)
    if wrong := found.missing(plan) or tuple(name for name in found if name not in roster_of(plan)):
        raise BadMessage(
            "the list of agreements is not that of the plan's members.",
            found=", ".join(wrong[:6]),
            parameter="agreements",
        )
    return found


def _signatures(body: Mapping[str, Any], name: str, plan: Plan) -> Agreements:
    return Agreements(plan.hash, hex_table(exact_fields(body, (name,), what="agreements"), name, SIGNATURE_BYTES))
