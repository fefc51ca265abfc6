"""An entity's secret keys on disk, bound to one plan, with the one list of survivors it has answered."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path

from twofold.errors import PlanMismatch, PrivacyError, UnreadableSource
from twofold.protocol.files import read_limited
from twofold.protocol.key_messages import decode_answer
from twofold.protocol.plan import Plan
from twofold.protocol.roster import Roster
from twofold.secure_sum import Keys, UnmaskMessage
from twofold.transport.once import put_once

__all__ = ["KeyStore", "new_keys"]

_LARGEST = 4 * 1024 * 1024


def new_keys(path: str | PathLike[str], entity: str) -> Roster:
    """Make the secret keys of an entity for one plan; gives the public ones, for whoever writes the plan.

    Parameters
    ----------
    path : path
        File for the secret keys, readable by this user alone. One that is there is kept: its public keys are given.
    entity : str
        Public name.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     new_keys(f"{folder}/st-anna.keys", "st-anna") == new_keys(f"{folder}/st-anna.keys", "st-anna")
    True
    """
    file = Path(path)
    if not file.exists():
        put_once(file, Keys.new().to_bytes(), mode=0o600)
    return Roster({entity: _read(file).public})


class KeyStore:
    """Secret keys of an entity: in a file, or in memory for a simulation.

    Parameters
    ----------
    keys : path or Keys
        What `new_keys` wrote.

    Privacy
    -------
    Keys serve one plan: which one is written beside them, once, before anything is shared. So is the list of those the
    message is masked for, and the answer that takes masks off, before it is sent: a second list of survivors is never
    answered, and that is what the proof rests on. Whoever puts back an old copy of these files breaks it, as with a
    ledger.
    """

    def __init__(self, keys: str | PathLike[str] | Keys) -> None:
        self._path = None if isinstance(keys, Keys) else Path(keys)
        self.keys = keys if isinstance(keys, Keys) else _read(Path(keys))
        self._held: dict[str, bytes] = {}

    def bind(self, plan: Plan) -> None:
        """Tie the keys to a plan, or refuse another one than they are tied to."""
        if self._once("plan", plan.hash.encode()) != plan.hash.encode():
            raise PlanMismatch(
                "these keys belong to another plan.",
                expected=f"new keys for the plan with hash {plan.hash[:12]}",
                fix="twofold enroll makes new ones; a drop-out's key becomes known, so none is used twice",
            )

    def keep_roll(self, digest: str) -> None:
        """Write down which list this entity masks for, before it does; another one is refused ever after."""
        if self._once("roll", digest.encode()) != digest.encode():
            raise PlanMismatch(
                "the server published another list of those who shared keys before.",
                expected="the one list this entity has masked its message for",
                fix="ask the server why there are two; another list needs another plan and new keys",
            )

    def answered(self, plan: Plan) -> UnmaskMessage | None:
        """Give the answer of earlier, if there was one."""
        data = self._stored("answer")
        return None if data is None else decode_answer(data, plan).content

    def keep_answer(self, data: bytes) -> bytes:
        """Store the answer before it is sent; gives the stored one, which may be that of another process."""
        if self._once("answer", data) != data:
            raise PrivacyError("another answer was stored meanwhile; nothing is sent.", fix="run the same again")
        return data

    def _beside(self, what: str) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.name}.{what}")

    def _stored(self, what: str) -> bytes | None:
        if self._path is None:
            return self._held.get(what)
        file = self._beside(what)
        return read_limited(file, _LARGEST) if os.path.lexists(file) else None

    def _once(self, what: str, data: bytes) -> bytes:
        """Store something once and for all; gives what is stored."""
        if self._path is None:
            return self._held.setdefault(what, data)
        put_once(self._beside(what), data, mode=0o600)
        return read_limited(self._beside(what), _LARGEST)


def _read(path: Path) -> Keys:
    if not path.exists():
        raise UnreadableSource(
            "there is no file of secret keys.", found=path.name, fix=f"twofold enroll --keys {path.name}"
        )
    return Keys.from_bytes(read_limited(path, _LARGEST))
