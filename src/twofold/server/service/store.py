"""What a service remembers of one federation: one SQLite file, and one file per message.

::

    STATE/PLAN/service.db        who sent what and when, what was published, what is on its way to the other operator
    STATE/PLAN/objects/ab/ab...  each message, under its SHA-256
    STATE/PLAN/audit.log         the chain of events (`twofold log`)
    STATE/PLAN/coordinator/      the coordinator's own state, or operator/

A message is whole and on the disk before its row is written, and its row is on the disk before anybody is told. So a
row always has its file; a file without a row belongs to an upload that was never acknowledged, and is used again when
the same bytes come.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from twofold.errors import PlanMismatch, TransportError
from twofold.federation.mailbox import Step
from twofold.federation.messages import receipt
from twofold.federation.plan import Plan
from twofold.storage.database import Database
from twofold.storage.files import make_folder, read_limited, sync_folder, unreadable, write_whole
from twofold.storage.files import step as announce

__all__ = ["Arrived", "Incoming", "Outcome", "Store"]

_FILE: Final = "service.db"
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS message (
    step TEXT, entity TEXT, receipt TEXT NOT NULL, size INTEGER NOT NULL, at TEXT NOT NULL, carrier TEXT NOT NULL,
    logged INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (step, entity)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS conflict (
    step TEXT, entity TEXT, receipt TEXT, at TEXT NOT NULL, carrier TEXT NOT NULL, PRIMARY KEY (step, entity, receipt)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS part (
    step TEXT, receipt TEXT, entity TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (step, receipt)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS posted (
    step TEXT, receipt TEXT, entity TEXT NOT NULL, delivered INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (step, receipt)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS published (step TEXT PRIMARY KEY, receipt TEXT NOT NULL, at TEXT NOT NULL) WITHOUT ROWID;
"""
#: Second messages of one entity in one step that are kept as evidence; one is enough to prove it.
_MOST_CONFLICTS: Final = 3
#: Parts of one step: lists, or bundles of a few megabytes.
_MOST_PARTS: Final = 10_000


class Outcome(StrEnum):
    """What became of a message."""

    NEW = "new"
    SAME = "same"
    CONFLICT = "conflict"
    CLOSED = "closed"


class Arrived(NamedTuple):
    """A message that was taken."""

    step: str
    entity: str
    receipt: str
    size: int
    at: str
    carrier: str


@dataclass(kw_only=True)
class Incoming:
    """A body on its way to the disk; nothing of it counts before `Store.keep`."""

    path: Path
    file: BinaryIO
    size: int = 0

    def __post_init__(self) -> None:
        self._hash = hashlib.sha256()

    def write(self, chunk: bytes) -> None:
        """Add some bytes."""
        self.file.write(chunk)
        self._hash.update(chunk)
        self.size += len(chunk)

    @property
    def digest(self) -> str:
        """SHA-256 of what came so far."""
        return self._hash.hexdigest()

    def discard(self) -> None:
        """Forget it."""
        with suppress(OSError):
            self.file.close()
        with suppress(OSError):
            self.path.unlink()


class Store:
    """The memory of one federation; threads may share it.

    Parameters
    ----------
    folder : Path
        Of this federation alone. Made if it is not there; its parent must be.
    plan : Plan
        A folder of another plan is refused.

    Examples
    --------
    >>> import tempfile
    >>> from twofold.federation.mailbox import ROUNDS
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder) / "one", plan)
    ...     mark = store.put(b"bytes")
    ...     first = store.add(ROUNDS, "st-anna", mark, size=5, at="now", carrier="st-anna").value
    ...     again = store.add(ROUNDS, "st-anna", mark, size=5, at="now", carrier="st-anna").value
    ...     other = store.add(ROUNDS, "st-anna", "0" * 64, size=5, at="now", carrier="st-anna").value
    ...     store.close()
    >>> first, again, other
    ('new', 'same', 'conflict')
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        self._base = Database(folder / _FILE, _TABLES, owner="service")
        self._counts: dict[str, int] = {}
        try:
            make_folder(self._objects)
            for left in self._objects.glob(".*.part"):
                left.unlink()
        except OSError as error:
            raise unreadable(self._objects, error) from None
        content = plan.canonical().encode()
        with self._base.together("plan"):
            self._base.execute("INSERT OR IGNORE INTO about VALUES ('plan', ?)", content)
        if bytes(self._base.one("SELECT data FROM about WHERE name = 'plan'")[0]) != content:
            raise PlanMismatch(
                "this folder holds another federation.",
                expected=f"the plan with hash {plan.hash[:12]}",
                parameter="plan",
            )

    @property
    def _objects(self) -> Path:
        return self.folder / "objects"

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    # Files.

    def incoming(self) -> Incoming:
        """Begin a file."""
        path = self._objects / f".{secrets.token_hex(8)}.part"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        return Incoming(path=path, file=os.fdopen(descriptor, "w+b"))

    def content(self, one: Incoming) -> bytes:
        """Read what came."""
        one.file.flush()
        one.file.seek(0)
        return one.file.read()

    def keep(self, one: Incoming) -> str:
        """Put a complete file in its place, for good; give its receipt."""
        mark, target = one.digest, self.path_of(one.digest)
        announce("service: keep")
        one.file.flush()
        os.fsync(one.file.fileno())
        one.file.close()
        make_folder(target.parent)
        one.path.replace(target)
        sync_folder(target.parent)
        return mark

    def put(self, data: bytes) -> str:
        """Store bytes for good; give their receipt."""
        mark = receipt(data)
        target = self.path_of(mark)
        if not target.exists() or target.stat().st_size != len(data):
            make_folder(target.parent)
            write_whole(target, data, mode=0o600)
        return mark

    def read(self, mark: str, limit: int) -> bytes:
        """Give the bytes under a receipt; refuse a file that has changed."""
        data = read_limited(self.path_of(mark), limit)
        if receipt(data) != mark:
            raise TransportError(
                "a stored message is not the one that was accepted.",
                found=mark[:12],
                fix="restore the folder from a copy; entities can send their messages again at no cost",
                parameter="state",
            )
        return data

    def path_of(self, mark: str) -> Path:
        """Where the bytes under a receipt are."""
        return self._objects / mark[:2] / mark

    # Messages of entities.

    def receipt_of(self, step: Step, entity: str) -> str | None:
        """Give the receipt of an entity's message, or None."""
        found = self._base.one("SELECT receipt FROM message WHERE step = ? AND entity = ?", step.id, entity)
        return None if found is None else str(found[0])

    def add(self, step: Step, entity: str, mark: str, *, size: int, at: str, carrier: str) -> Outcome:
        """Take a message whose file is in place; the first of an entity counts, and a second is kept as evidence."""
        with self._base.together(f"message {step.id}"):
            known = self.receipt_of(step, entity)
            if known is None and self.is_closed(step):
                return Outcome.CLOSED
            if known is None:
                row = (step.id, entity, mark, size, at, carrier)
                self._base.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, 0)", *row)
                self._counts[step.id] += 1
                return Outcome.NEW
            if known == mark:
                return Outcome.SAME
            if not self.has_evidence(step, entity, mark):
                kept = (step.id, entity, mark, at, carrier)
                self._base.execute("INSERT OR IGNORE INTO conflict VALUES (?, ?, ?, ?, ?)", *kept)
            return Outcome.CONFLICT

    def is_closed(self, step: Step) -> bool:
        """Whether no new message is taken: the step is published, or has more than anybody waits for.

        Where entities are people, an institution vouches for names that nobody else knows, as many as it likes.
        """
        if step.id not in self._counts:
            self._counts[step.id] = self._base.one("SELECT count(*) FROM message WHERE step = ?", step.id)[0]
        return self.published_receipt(step) is not None or self._counts[step.id] >= 2 * self.plan.expected_entities

    def has_evidence(self, step: Step, entity: str, mark: str) -> bool:
        """Whether a message would be a second one of its entity, and enough of these are kept."""
        known = self.receipt_of(step, entity)
        if known is None or known == mark:
            return False
        count = self._base.one("SELECT count(*) FROM conflict WHERE step = ? AND entity = ?", step.id, entity)
        return bool(count[0] >= _MOST_CONFLICTS)

    def messages(self, step: Step) -> list[tuple[str, str]]:
        """Entity and receipt of every message of a step, by entity."""
        return self._pairs("message", step)

    def arrivals(self, step: Step) -> list[tuple[str, str]]:
        """Entity and time of every message of a step, by entity."""
        return self._pairs("message", step, "at")

    def conflicts(self, step: Step) -> list[tuple[str, str]]:
        """Entity and receipt of every second message of a step."""
        return self._pairs("conflict", step)

    def unlogged(self) -> list[Arrived]:
        """Messages whose line in the log may be missing, after a kill."""
        rows = self._base.rows("SELECT step, entity, receipt, size, at, carrier FROM message WHERE logged = 0")
        return [Arrived(*row) for row in rows]

    def logged(self, step: str, entity: str) -> None:
        """Remember that a message is in the log."""
        with self._base.together("logged"):
            self._base.execute("UPDATE message SET logged = 1 WHERE step = ? AND entity = ?", step, entity)

    # Messages of the other operator, and for it.

    def add_part(self, step: Step, mark: str, entity: str, *, at: str) -> Outcome:
        """Take a message of the other operator whose file is in place."""
        with self._base.together(f"part {step.id}"):
            if self.has_parts(step, mark):
                return Outcome.CLOSED
            row = (step.id, mark, entity, at)
            new = self._base.execute("INSERT OR IGNORE INTO part VALUES (?, ?, ?, ?)", *row)
            return Outcome.NEW if new else Outcome.SAME

    def has_parts(self, step: Step, mark: str) -> bool:
        """Whether a message would be a new one of the other operator, and as many as it may send are here."""
        if self._base.one("SELECT 1 FROM part WHERE step = ? AND receipt = ?", step.id, mark) is not None:
            return False
        return bool(self._base.one("SELECT count(*) FROM part WHERE step = ?", step.id)[0] >= _MOST_PARTS)

    def parts(self, step: Step) -> list[tuple[str, str]]:
        """Entity and receipt of everything the other operator sent in a step."""
        return self._pairs("part", step)

    def post(self, step: Step, mark: str, entity: str) -> None:
        """Remember a message for the other operator."""
        with self._base.together(f"post {step.id}"):
            self._base.execute("INSERT OR IGNORE INTO posted VALUES (?, ?, ?, 0)", step.id, mark, entity)

    def posted(self, step: Step) -> list[tuple[str, str]]:
        """Entity and receipt of everything for the other operator in a step."""
        return self._pairs("posted", step)

    def undelivered(self) -> list[tuple[str, str]]:
        """Step and receipt of what the other operator does not have yet."""
        rows = self._base.rows("SELECT step, receipt FROM posted WHERE delivered = 0")
        return [(str(a), str(b)) for a, b in rows]

    def delivered(self, step: str, mark: str) -> None:
        """Remember that the other operator has a message."""
        with self._base.together("delivered"):
            self._base.execute("UPDATE posted SET delivered = 1 WHERE step = ? AND receipt = ?", step, mark)

    # Publications.

    def publish(self, step: Step, mark: str, *, at: str) -> str:
        """Publish once; give the receipt that is published."""
        with self._base.together(f"publish {step.id}"):
            self._base.execute("INSERT OR IGNORE INTO published VALUES (?, ?, ?)", step.id, mark, at)
        found = self.published_receipt(step)
        assert found is not None
        return found

    def published_receipt(self, step: Step) -> str | None:
        """Receipt of what was published in a step, or None."""
        found = self._base.one("SELECT receipt FROM published WHERE step = ?", step.id)
        return None if found is None else str(found[0])

    def ask_to_close(self, step: str) -> None:
        """Remember that a step is to be closed."""
        asked = f"{step} {secrets.token_hex(8)}".encode()  # asked again, it is another request
        with self._base.together("close"):
            self._base.execute("INSERT OR REPLACE INTO about VALUES ('close', ?)", asked)

    def asked_to_close(self) -> tuple[str, str] | None:
        """Step that is to be closed, and the mark of the request; or None."""
        found = self._base.one("SELECT data FROM about WHERE name = 'close'")
        if found is None:
            return None
        step, _, mark = bytes(found[0]).decode().partition(" ")
        return step, mark

    def saw_to_close(self, step: str, mark: str) -> None:
        """Forget a request that was seen to; one that came meanwhile stays."""
        with self._base.together("closed"):
            self._base.execute("DELETE FROM about WHERE name = 'close' AND data = ?", f"{step} {mark}".encode())

    def _pairs(self, table: str, step: Step, column: str = "receipt") -> list[tuple[str, str]]:
        rows = self._base.rows(f"SELECT entity, {column} FROM {table} WHERE step = ?", step.id)
        return [(str(entity), str(value)) for entity, value in rows]
