"""An invitation: a small file from which an entity's set-up follows, instead of ten questions.

It names the server, how to know it, the plan by its hash, and the entity. Everything else is fetched and compared with
hashes: the plan with the invitation's, then roster, item list and features with the plan's. The coordinator signs it;
whether that is the right coordinator is for people to compare, as with any plan (`--confirm`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from twofold.checks import check_entity_name, is_hash
from twofold.errors import BadMessage, PlanMismatch, ProtocolError
from twofold.federation.plan import Plan
from twofold.secure_sum.keys import exact_fields, hex_bytes
from twofold.storage.container import canonical_json, parse_json, receipt
from twofold.storage.files import read_limited, write_whole
from twofold.storage.signing import SIGNATURE_BYTES, Purpose, SigningKey, verify

if TYPE_CHECKING:
    from twofold.identity.roster import Roster

__all__ = ["Invitation", "fetched_plan"]

_SCHEMA: Final = "twofold.invitation/1"
_LARGEST: Final = 64 * 1024
_PEM: Final = "-----BEGIN CERTIFICATE-----"
_FIELDS: Final = ("server", "pin", "authority", "plan", "entity", "operator")


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """What an entity needs to find a federation.

    Parameters
    ----------
    server : str
        Address of the coordinator.
    plan : str
        Hash of the plan.
    entity : str
        Whom it invites.
    operator : str
        Who signed it, by the name in the plan's roster.
    pin : str
        SHA-256 of the server's public key; empty if none is pinned.
    authority : str
        Certificate authority to trust, as PEM; empty for those of the system.
    signature : bytes
        Of the operator.

    Examples
    --------
    >>> from twofold.identity.roster import Roster
    >>> roster, secrets = Roster.new(["st-anna"])
    >>> asked = Invitation(server="https://a.org", plan="ab" * 32, entity="st-anna", operator="coordinator")
    >>> made = asked.signed(secrets["coordinator"].sign)
    >>> Invitation.from_text(made.text) == made
    True
    >>> made.check(roster)
    """

    server: str
    plan: str
    entity: str
    operator: str
    pin: str = ""
    authority: str = field(default="", repr=False)
    signature: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        check_entity_name(self.entity, error=BadMessage)
        check_entity_name(self.operator, error=BadMessage)
        if not is_hash(self.plan) or (self.pin and not is_hash(self.pin)):
            raise BadMessage("a hash in the invitation is damaged.", parameter="invitation")
        if self.authority and not self.authority.lstrip().startswith(_PEM):  # else it would be read as a file's name
            raise BadMessage("the invitation holds no certificate.", expected=_PEM, parameter="invitation")

    def signed(self, signer: SigningKey) -> Invitation:
        """Sign it."""
        return Invitation(**{**vars(self), "signature": signer.sign(Purpose.INVITATION, self._covered)})

    def check(self, roster: Roster) -> None:
        """Refuse one that an operator of the plan did not sign, or for somebody who is not in the roster."""
        maker = roster.operators.get(self.operator)
        if maker is None or not verify(maker.sign, Purpose.INVITATION, self._covered, self.signature):
            raise BadMessage(
                "the invitation is not signed by an operator of its plan.",
                found=self.operator,
                expected="an invitation as twofold invite wrote it",
                fix="ask the operator to send it again",
                parameter="invitation",
            )
        if self.entity not in roster.entities:
            raise PlanMismatch("the plan does not name this entity.", found=self.entity, parameter="invitation")

    @property
    def text(self) -> str:
        """Canonical JSON, as `from_text` reads it."""
        return canonical_json(self._record | {"signature": self.signature.hex()})

    @property
    def _record(self) -> dict[str, Any]:
        return {"schema": _SCHEMA} | {name: getattr(self, name) for name in _FIELDS}

    @property
    def _covered(self) -> bytes:
        return receipt(canonical_json(self._record).encode()).encode()

    @classmethod
    def from_text(cls, text: str) -> Invitation:
        """Read the text of an invitation."""
        try:
            record = exact_fields(parse_json(text), ("schema", *_FIELDS, "signature"), what="an invitation")
            if record["schema"] != _SCHEMA or not all(isinstance(record[name], str) for name in _FIELDS):
                raise ProtocolError("another format.")
            signature = hex_bytes(record, "signature", SIGNATURE_BYTES)
            return cls(**{name: str(record[name]) for name in _FIELDS}, signature=signature)
        except ProtocolError:
            raise BadMessage(
                "this is not an invitation.", expected="what twofold invite wrote", parameter="invitation"
            ) from None

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Invitation:
        """Read the file of an invitation."""
        return cls.from_text(read_limited(path, _LARGEST).decode(errors="replace"))

    def write(self, path: str | PathLike[str]) -> None:
        """Write the file of an invitation, completely or not at all."""
        write_whole(path, self.text.encode())


def fetched_plan(documents: Mapping[str, bytes], plan_hash: str) -> Plan:
    """Give the plan of a hash, with its roster and features, from bytes that a server sent.

    Parameters
    ----------
    documents : mapping of str to bytes
        What the server sent: ``plan`` and ``roster``, and ``features`` if the plan has a table.
    plan_hash : str
        What the plan must be.

    Raises
    ------
    PlanMismatch
        A document is missing, or is not the one whose hash the invitation or the plan holds.
    """
    from twofold.federation.tables import decode_features
    from twofold.identity.roster import Roster  # loads the library of ciphers

    if receipt(documents.get("plan", b"")) != plan_hash:
        raise _other("plan", plan_hash)
    plan = Plan.from_dict(parse_json(documents["plan"].decode()))
    changes: dict[str, Any] = {}
    if plan.roster is not None:
        if receipt(documents.get("roster", b"")) != plan.roster.hash:
            raise _other("roster", plan.roster.hash)
        changes["roster"] = Roster.from_text(documents["roster"].decode())
    if plan.features is not None:
        found = decode_features(documents.get("features", b""))
        if found.hash != plan.features.hash:
            raise _other("features", plan.features.hash)
        changes["features"] = found
    made = plan.with_(**changes) if changes else plan
    if made.hash != plan_hash:
        raise _other("plan", plan_hash)
    return made


def _other(what: str, due: str) -> PlanMismatch:
    return PlanMismatch(
        f"the server sent another {what} than the one that was agreed; nothing was written.",
        expected=f"the one with hash {due[:12]}",
        fix="ask the operator; the invitation may be for another server",
        parameter=what,
    )
