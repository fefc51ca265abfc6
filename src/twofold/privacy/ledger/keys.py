"""The secret key of one reservation, kept until its release is stored, so that a killed draw can be repeated.

Why it is sound
---------------
Write k for the key of a reservation, x for the data whose digest the reservation names, f for the program.

1. *One key, one data set.* k is made for one reservation and named by it alone, with a random name. It is read only
   by `Keys.source`, under the lock, and only for a request whose record would be the same to the last letter (data,
   plan, version, events, unit, price, software, libraries; `resumes`). Any other request for that plan and version
   destroys the key and closes the reservation before it draws, from another key. A copy of the ledger, as from a
   backup, holds the same record and follows the same rule, so that it can only make f(x, k) again.
2. *One reservation, one byte string.* What leaves is committed first, a reservation is committed once, and whole bytes
   that a crash left are adopted before anything is drawn. Drawing again gives f(x, k) again; if the bytes differ
   from those whose storing had begun, the draw was not a function of the key, and the reservation is closed as lost.
3. *A crash reveals nothing more.* When a process dies may depend on what it drew. Fresh noise after a crash would then
   be noise on condition of a crash, which is not the noise that was promised. f(x, k) again is not: whatever kills
   and restarts do, f(x, k) leaves or nothing does, and both are decided by a value that was paid for.

Not covered: a `draw` that uses randomness other than its source, or a program that was changed without a new version.
Such bytes are still paid for and still leave once, but point 3 does not hold for them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import platform
import re
import secrets
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from twofold.errors import LedgerBroken
from twofold.privacy.ledger.files import Files, read_small
from twofold.privacy.ledger.record import canonical
from twofold.privacy.ledger.state import Entry
from twofold.privacy.rng import KEY_BYTES, Keyed
from twofold.storage import files as disk

__all__ = ["Keys", "resumes"]

#: Another domain than that of the noise, so that what is kept in the ledger tells nothing about it.
_CHECK = b"twofold ledger key check 1\0"
_NAME = re.compile("[0-9a-f]{32}")
#: Of a reserve record, what differs from one asking to the next.
_OWN = ("kind", "at", "nonce", "draw")


class Keys:
    """The key files of one ledger; used by the process that holds its lock.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keys = Keys(Files(book=Path(folder, "x.ledger")))
    ...     keys.folder.mkdir()
    ...     sorted(keys.make("a nonce"))
    ['by', 'check', 'key']
    """

    def __init__(self, files: Files) -> None:
        self.folder = files.releases

    def make(self, nonce: str) -> dict[str, str]:
        """Store a key and give the facts for its reservation: name, check value, and who can use it.

        The check value is 256 bits of SHAKE-256 under the key, in its own domain and salted with the record's
        nonce. It shows that a key file is whole and the right one; it gives neither the key nor a word of the noise.
        """
        name, key = secrets.token_hex(16), os.urandom(KEY_BYTES)
        disk.replace(self._path(name), key)
        return {"key": name, "check": _check(key, nonce), "by": _makers()}

    def source(self, entry: Entry) -> Keyed | None:
        """Give the noise of an open reservation, from its first word; None without an intact key."""
        key = self._read(entry)
        return None if key is None else Keyed(key)

    def whole(self, entry: Entry) -> bool:
        """Whether the reservation still has its key."""
        return self._read(entry) is not None

    def left(self, entry: Entry) -> bool:
        """Whether a key file of this name exists, intact or not."""
        name = _named(entry)
        return name is not None and os.path.lexists(self._path(name))

    def destroy(self, entry: Entry) -> None:
        """Destroy the key, if there is one."""
        name = _named(entry)
        if name is not None:
            disk.destroy(self._path(name))

    def sweep(self, waiting: Iterable[Entry]) -> None:
        """Destroy every key that no waiting reservation needs: settled, or made for a record never written."""
        kept = {_named(entry) for entry in waiting}
        for path in sorted(self.folder.glob("*.key")):
            if path.name.removesuffix(".key") not in kept:
                disk.destroy(path)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def _read(self, entry: Entry) -> bytes | None:
        name = _named(entry)
        if name is None or entry.status != "open":
            return None
        try:
            key = read_small(self._path(name))
        except (FileNotFoundError, ValueError):
            return None
        except OSError as error:
            raise LedgerBroken(
                "the key of a draw cannot be read.",
                found=f"{name[:8]}....key: {error.strerror or error}",
                expected="a plain file that only its owner can read",
                parameter="key",
            ) from error
        due = str(entry.request["draw"].get("check"))
        return key if len(key) == KEY_BYTES and hmac.compare_digest(_check(key, entry.request["nonce"]), due) else None


def resumes(entry: Entry, body: Mapping[str, Any]) -> bool:
    """Whether a request, as it would be recorded, matches an open reservation.

    Examples
    --------
    >>> from twofold.privacy.ledger.state import Cost
    >>> asked = {"data": "0" * 64, "events": [], "nonce": "1"}
    >>> entry = Entry(number=1, hash="", cost=Cost(), request={**asked, "draw": {"by": _makers()}})
    >>> resumes(entry, asked | {"nonce": "2"}), resumes(entry, asked | {"data": "1" * 64})
    (True, False)
    """
    made = entry.request.get("draw")
    same = canonical(_shared(entry.request)) == canonical(_shared(body))
    return entry.status == "open" and isinstance(made, Mapping) and made.get("by") == _makers() and same


def _shared(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in _OWN}


def _named(entry: Entry) -> str | None:
    """Name of the key; None for reservations made before keys were kept, and for a name that could be a path."""
    made = entry.request.get("draw")
    name = made.get("key") if isinstance(made, Mapping) else None
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None


def _check(key: bytes, nonce: str) -> str:
    return hashlib.shake_256(_CHECK + key + nonce.encode()).hexdigest(32)


@cache
def _makers() -> str:
    """Name the libraries a draw depends on besides twofold: other versions may round differently."""
    parts = [f"{platform.python_implementation()} {platform.python_version()}"]
    parts += [f"{name} {_version(name)}" for name in ("numpy", "scipy", "numba")]
    return ", ".join([*parts, f"{platform.system()} {platform.machine()}"])


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"
