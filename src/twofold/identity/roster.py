"""The roster of a federation: who takes part and who runs it, each under a signing key of their own."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from os import PathLike
from typing import Final

from twofold.errors import BadPlan, ProtocolError, Run
from twofold.identity.keys import Identity, Revocation, Role, Secrets
from twofold.secure_sum.keys import PublicKeys
from twofold.storage.container import canonical_json, parse_json
from twofold.storage.files import read_limited, write_whole

__all__ = ["Roster"]

_SCHEMA: Final = "twofold.roster/1"
_LARGEST: Final = 4 * 1024 * 1024
#: Every pair of entities has its own mask, so the total work grows with the square of their number.
MOST_ENTITIES: Final = 2_000


class Roster(Mapping[str, Identity]):
    """Identities of all entities and of the operator; the plan holds its hash, so nobody can swap a key.

    Parameters
    ----------
    members : iterable of Identity
        No name and no key twice, and nobody but entities and operators.

    Privacy
    -------
    Every identity is signed by its own key, so a roster cannot hold a key that its owner does not have. That a name
    belongs to the institution that people think of is for people to check: by comparing fingerprints.

    Examples
    --------
    >>> roster, secrets = Roster.new(["st-anna", "st-bern"])
    >>> list(roster.entities), roster.operator.name, Roster.from_text(roster.text) == roster
    (['st-anna', 'st-bern'], 'coordinator', True)
    """

    def __init__(self, members: Iterable[Identity]) -> None:
        every = sorted(members, key=lambda one: one.name)
        _check(every)
        self._members = {one.name: one for one in every}

    def __getitem__(self, name: str) -> Identity:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Roster({len(self.entities)} entities, {len(self.operators)} operators, {self.hash[:12]})"

    @cached_property
    def entities(self) -> dict[str, Identity]:
        """Those who take part, by name."""
        return {name: one for name, one in self.items() if one.role is Role.ENTITY}

    @cached_property
    def operators(self) -> dict[str, Identity]:
        """Those who run servers, by name."""
        return {name: one for name, one in self.items() if one.role is Role.OPERATOR}

    @property
    def operator(self) -> Identity:
        """The one operator of a federation with one server."""
        if len(self.operators) != 1:
            raise BadPlan(
                "the roster does not name one operator.",
                found=f"{len(self.operators)} operators",
                expected="the public part of the server's keys",
                fix=Run("keys new --operator coordinator --keys coordinator.keys --output coordinator.pub"),
                parameter="roster",
            )
        return next(iter(self.operators.values()))

    @cached_property
    def sums(self) -> dict[str, PublicKeys]:
        """Public keys of the entities for a secure sum."""
        return {name: one.sum for name, one in self.entities.items()}

    @cached_property
    def text(self) -> str:
        """Canonical JSON, as `from_text` reads it."""
        return canonical_json({"schema": _SCHEMA, "members": [one.record for one in self.values()]})

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @classmethod
    def new(
        cls, names: Iterable[str], operator: str | Iterable[str] = "coordinator"
    ) -> tuple[Roster, dict[str, Secrets]]:
        """Make new keys for everybody, as a simulation does; return the roster and all secrets by name."""
        operators = [operator] if isinstance(operator, str) else [*operator]
        made = {name: Secrets.new(name) for name in names}
        made |= {name: Secrets.new(name, Role.OPERATOR) for name in operators}
        return cls(one.identity for one in made.values()), made

    @classmethod
    def from_text(cls, text: str) -> Roster:
        """Read a roster, or the public part of one member."""
        return cls(_members(text))

    @classmethod
    def identities(cls, path: str | PathLike[str]) -> list[Identity]:
        """Read all identities of a file: a roster, or one public part, a person's too."""
        return _members(read_limited(path, _LARGEST).decode(errors="replace"))

    @classmethod
    def joined(
        cls, parts: Iterable[Mapping[str, Identity] | Identity], *, revoked: Iterable[Revocation] = ()
    ) -> Roster:
        """Join the public parts that people sent, or rosters; a key replaces the one that vouches for it.

        Raises
        ------
        BadPlan
            Two keys under one name, neither of which vouches for the other; or a key that its owner has revoked.
        """
        gone = {one.sign for one in revoked}
        sent: dict[str, list[Identity]] = {}
        listed = ([part] if isinstance(part, Identity) else part.values() for part in parts)
        for one in (identity for part in listed for identity in part):
            if one not in sent.setdefault(one.name, []):
                sent[one.name].append(one)
        every: dict[str, Identity] = {}
        for name, given in sent.items():  # in any order: the one that none of the others replaces
            last = [one for one in given if all(one is other or other.replaces != one.sign for other in given)]
            if len(last) != 1:
                raise BadPlan(
                    "two different keys have one name.",
                    found=name,
                    fix=f"ask {name} which fingerprint is right",
                    parameter="roster",
                )
            every[name] = last[0]
        if withdrawn := sorted(one.name for one in every.values() if one.sign in gone):
            raise BadPlan(
                "a key in the roster was revoked by its owner.",
                found=", ".join(withdrawn[:5]),
                expected="the key that they use now",
                fix=f"ask {withdrawn[0]} for the public part of the new key",
                parameter="roster",
            )
        return cls(every.values())

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Roster:
        """Read the file of a roster, or of one public part."""
        return cls(cls.identities(path))

    def write(self, path: str | PathLike[str]) -> None:
        """Write the file of a roster, completely or not at all."""
        write_whole(path, self.text.encode())


def _members(text: str) -> list[Identity]:
    try:
        record = parse_json(text)
        if set(record) != {"schema", "members"}:
            return [Identity.from_record(record)]
        members = record["members"]
        if record["schema"] != _SCHEMA or not isinstance(members, list) or len(members) > MOST_ENTITIES + 2:
            raise ProtocolError("another format.")
    except ProtocolError as error:
        raise BadPlan(
            "this is not a roster.",
            found=error.found or "another format",
            expected="what twofold keys new wrote, or twofold plan new joined",
            fix=Run("keys new --entity st-anna --keys st-anna.keys --output st-anna.pub"),
            parameter="roster",
        ) from None
    return [Identity.from_record(one) for one in members]


def _check(members: list[Identity]) -> None:
    if not 1 <= len(members) <= MOST_ENTITIES + 2:
        raise BadPlan(
            "the roster has too few or too many members.",
            found=f"{len(members)}",
            expected=f"1 to {MOST_ENTITIES:,} entities and their operators",
            parameter="roster",
        )
    if people := [one.name for one in members if one.role is Role.PERSON]:
        raise BadPlan(
            "the roster holds a person's keys.",
            found=people[0],
            expected="keys of entities and of operators; people approve, they do not take part",
            parameter="roster",
        )
    names = Counter(one.name.casefold() for one in members)
    keys = Counter(key for one in members for key in (one.sign, one.sum.mask, one.sum.seal))
    for times, what in ((names, "name"), (keys, "public key")):
        if any(number > 1 for number in times.values()):
            owners = [
                one.name
                for one in members
                if max(names[one.name.casefold()], keys[one.sign], keys[one.sum.mask], keys[one.sum.seal]) > 1
            ]
            raise BadPlan(
                f"a {what} occurs twice in the roster.",
                found="in the entries of " + ", ".join(owners[:6]),
                expected=f"another {what} for every member",
                fix="ask them to make new keys",
                parameter="roster",
            )
