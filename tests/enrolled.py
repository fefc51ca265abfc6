"""Everybody a plan needs before it is real: keys, a roster, agreements, the operator."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twofold.federation.agreement import Agreements
from twofold.federation.plan import Plan
from twofold.identity.keys import Role, Secrets
from twofold.identity.keystore import KeyStore, new_keys
from twofold.identity.roster import Roster
from twofold.secure_sum import Keys
from twofold.storage.signing import SigningKey

OPERATOR = "coordinator"


@dataclass
class Enrolled:
    """A plan with a roster, and the secrets of all its members, in memory or in files."""

    plan: Plan
    secrets: dict[str, Secrets]
    folder: Path | None = None
    agreements: Agreements = field(init=False)

    def __post_init__(self) -> None:
        signed = [Agreements.signed(self.plan, one.sign, name) for name, one in self.secrets.items()]
        self.agreements = Agreements.joined(signed)
        if self.folder is not None:
            for name in self.secrets:
                store = KeyStore(self.keys(name))
                store.agree(self.plan.hash)
                store.confirm(self.plan.hash)

    def keys(self, name: str) -> Any:
        """What `Entity(keys=...)` takes: a file, or the secrets in memory."""
        return self.secrets[name] if self.folder is None else self.folder / f"{name}.keys"

    def signer(self, name: str = OPERATOR) -> SigningKey:
        """Give the signing key of a member; the operator's by default."""
        return self.secrets[name].sign

    def given(self, name: str) -> dict[str, Any]:
        """Arguments of `Entity` for a real plan."""
        return {"keys": self.keys(name), "agreements": self.agreements}


def enrolled(
    plan: Plan, *names: str, folder: Path | None = None, secrets: dict[str, Secrets] | None = None
) -> Enrolled:
    """Enrol entities (by default those of the plan) and an operator; everybody agrees and confirms."""
    made = secrets or _secrets(names or plan.entities, folder)
    keyed = plan.with_(roster=Roster(one.identity for one in made.values()), entities=(), writer=None)
    return Enrolled(keyed, made, folder)


def fixed_secrets(*names: str, operators: tuple[str, ...] = (OPERATOR,)) -> dict[str, Secrets]:
    """Secrets of entities and operators that follow from their names: the same ones in every process."""
    roles = dict.fromkeys(names, Role.ENTITY) | dict.fromkeys(operators, Role.OPERATOR)
    return {name: _fixed(name, role) for name, role in roles.items()}


def _fixed(name: str, role: Role) -> Secrets:
    parts = {one: hashlib.sha256(f"{one} of {name}".encode()).digest() for one in ("mask", "seal", "seed", "salt")}
    sign = SigningKey(hashlib.sha256(f"sign of {name}".encode()).digest())
    return Secrets(name=name, role=role, sign=sign, sum=Keys(**parts))


def _secrets(names: tuple[str, ...], folder: Path | None) -> dict[str, Secrets]:
    roles = dict.fromkeys(names, Role.ENTITY) | {OPERATOR: Role.OPERATOR}
    if folder is None:
        return {name: Secrets.new(name, role) for name, role in roles.items()}
    for name, role in roles.items():
        new_keys(folder / f"{name}.keys", name, role)
    return {name: Secrets.from_bytes((folder / f"{name}.keys").read_bytes()) for name in roles}
