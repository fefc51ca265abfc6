"""The public keys of a federation whose server sees only sums: who takes part, and under which keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, Final

from twofold.errors import BadPlan, ProtocolError, Run
from twofold.secure_sum.keys import PublicKeys, check_roster
from twofold.storage.container import canonical_json, parse_json
from twofold.storage.files import read_limited, write_whole

__all__ = ["Roster"]

_SCHEMA: Final = "twofold.keys/1"
_LARGEST: Final = 4 * 1024 * 1024
#: Every pair of entities has its own mask, so the total work grows with the square of their number.
MOST_ENTITIES: Final = 2_000


class Roster(Mapping[str, PublicKeys]):
    """Names and public keys of all participants; the plan holds its hash, so nobody can swap a key.

    Parameters
    ----------
    keys : mapping of str to PublicKeys
        No key twice. Of one entity: what it sends to the author of the plan.

    Examples
    --------
    >>> from twofold.secure_sum.keys import Keys
    >>> roster = Roster({"st-anna": Keys.new().public, "st-bern": Keys.new().public})
    >>> list(roster), Roster.from_text(roster.text) == roster
    (['st-anna', 'st-bern'], True)
    """

    def __init__(self, keys: Mapping[str, PublicKeys]) -> None:
        check_roster(keys)
        if len(keys) > MOST_ENTITIES:
            raise BadPlan(
                "the roster has too many entities.",
                found=f"{len(keys)} keys",
                expected=f"1 to {MOST_ENTITIES:,}",
                parameter="roster",
            )
        self._keys = dict(sorted(keys.items()))

    def __getitem__(self, name: str) -> PublicKeys:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def text(self) -> str:
        """Canonical JSON, as `from_text` reads it."""
        return canonical_json({"schema": _SCHEMA, "keys": {name: one.to_record() for name, one in self.items()}})

    @property
    def hash(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @classmethod
    def from_text(cls, text: str) -> Roster:
        """Read a list of keys, or the one key of an entity."""
        try:
            record: Any = parse_json(text)
            if set(record) != {"schema", "keys"} or record["schema"] != _SCHEMA:
                raise ValueError("another format")
            found = {name: PublicKeys.from_record(one) for name, one in record["keys"].items()}
        except (ProtocolError, ValueError, KeyError, TypeError, AttributeError):
            raise BadPlan(
                "this is not a list of public keys.",
                expected="what twofold keys new wrote, or twofold plan new joined",
                fix=Run("keys new --entity st-anna --keys st-anna.keys"),
                parameter="roster",
            ) from None
        return cls(found)

    @classmethod
    def joined(cls, parts: Iterable[Mapping[str, PublicKeys]]) -> Roster:
        """Join the keys that entities sent; a repeated name is refused."""
        every: dict[str, PublicKeys] = {}
        for part in parts:
            for name, keys in part.items():
                if every.get(name, keys) != keys:
                    raise BadPlan(
                        "an entity has two different keys.",
                        found=name,
                        fix=f"ask {name} which one is right",
                        parameter="roster",
                    )
                every[name] = keys
        return cls(every)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Roster:
        """Read a file of keys."""
        try:
            return cls.from_text(read_limited(path, _LARGEST).decode())
        except UnicodeDecodeError:
            raise BadPlan("this is not a list of public keys.", found="no text", parameter="roster") from None

    def write(self, path: str | PathLike[str]) -> None:
        """Write a file of keys, completely or not at all."""
        write_whole(path, self.text.encode())
