"""What an operator remembers of one sum: every report it could open, and every message it sent or got.

One SQLite file. Reports are added in transactions and read back one at a time, so that a hundred thousand of them need
little memory. Messages are written once: the first to be stored under a name is the one that counts, whichever process
stored it and whatever happens afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twofold.errors import PlanMismatch, TransportError
from twofold.federation.mailbox import Rejected
from twofold.federation.plan import Plan
from twofold.storage.database import Database

__all__ = ["Kept", "OperatorBook"]

_FILE: Final = "operator.db"
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS report (
    entity TEXT PRIMARY KEY, digest BLOB UNIQUE NOT NULL, name BLOB NOT NULL, word BLOB NOT NULL, box BLOB NOT NULL,
    half BLOB
);
CREATE TABLE IF NOT EXISTS message (name TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen (receipt TEXT PRIMARY KEY, name TEXT, reason TEXT) WITHOUT ROWID;
"""
#: Kilobytes.
_CACHE: Final = "cache_size = -16384"
#: Refusals that are remembered with their reason.
_MOST_REFUSED: Final = 10_000
#: Digests asked for in one query.
_BATCH: Final = 500


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A report that an operator could open: sealed as it came, so that a copy of the file opens nothing by itself.

    Parameters
    ----------
    entity : str
        Who sent it.
    digest : bytes
        What its maker signed.
    report : bytes
        Its random name.
    word : int
        This operator's share of its check word.
    box : bytes
        The sealed share.
    half : bytes or None
        The other operator's half, until it is handed on.
    """

    entity: str
    digest: bytes = field(repr=False)
    report: bytes = field(repr=False)
    word: int = field(repr=False)
    box: bytes = field(repr=False)
    half: bytes | None = field(default=None, repr=False)


class OperatorBook:
    """The memory of one operator for one plan.

    Parameters
    ----------
    folder : path or None
        A folder of this operator alone; None keeps everything in memory, for simulations.
    plan : Plan
        A folder of another plan is refused.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> book = OperatorBook(None, plan)
    >>> book.once("freeze", b"first"), book.once("freeze", b"second"), book.count
    (b'first', b'first', 0)
    """

    def __init__(self, folder: str | PathLike[str] | None, plan: Plan) -> None:
        self.folder = None if folder is None else Path(folder)
        self._most = plan.expected_entities
        file = None if self.folder is None else self.folder / _FILE
        self._base = Database(file, _TABLES, owner="operator", pragmas=("secure_delete = ON", _CACHE))
        if self.once("plan", plan.canonical().encode()) != plan.canonical().encode():
            raise PlanMismatch(
                "this folder holds the sum of another plan.",
                expected=f"the plan with hash {plan.hash[:12]}",
                fix="give every plan its own folder",
                parameter="plan",
            )

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    # Reports.

    @property
    def count(self) -> int:
        """Number of reports: no row is ever removed, so the last number is it, without a walk over all of them."""
        return int(self._base.one("SELECT coalesce(max(rowid), 0) FROM report")[0])

    def entities(self, digests: Iterable[bytes] | None = None) -> set[str]:
        """Names of those whose report is here, or of those whose report has one of these digests."""
        wanted = None if digests is None else set(digests)
        rows = self._base.each("SELECT entity, digest FROM report")
        return {name for name, digest in rows if wanted is None or bytes(digest) in wanted}

    def digest_of(self, entity: str) -> bytes | None:
        """Give the digest of an entity's report, or None."""
        found = self._base.one("SELECT digest FROM report WHERE entity = ?", entity)
        return None if found is None else bytes(found[0])

    def add(self, reports: Iterable[Kept]) -> None:
        """Store reports of entities that have none yet, up to the plan's number and until the list is final.

        What another process has stored first stays.
        """
        rows = [
            (one.entity, one.digest, one.report, one.word.to_bytes(8, "little"), one.box, one.half) for one in reports
        ]
        with self._base.together("reports"):
            room = 0 if self.get("freeze") is not None else self._most - self.count
            for row in rows:
                if room > 0:
                    room -= self._base.execute("INSERT OR IGNORE INTO report VALUES (?, ?, ?, ?, ?, ?)", *row)

    def add_half(self, entity: str, half: bytes) -> None:
        """Keep the other operator's half of a report of which only the own half had arrived."""
        with self._base.together("half"):
            self._base.execute("UPDATE report SET half = ? WHERE entity = ? AND half IS NULL", half, entity)

    def lacks_half(self, entity: str) -> bool:
        """Whether the other operator's half of a report never was here."""
        return self._base.one("SELECT 1 FROM report WHERE entity = ? AND half IS NULL", entity) is not None

    def listed(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Digests of all reports, sorted, and this operator's shares of their check words."""
        rows = self._base.rows("SELECT digest, word FROM report ORDER BY digest")
        digests = np.frombuffer(b"".join(row[0] for row in rows), dtype=np.uint8).reshape(-1, 32)
        return digests, np.frombuffer(b"".join(row[1] for row in rows), dtype=np.uint8).reshape(-1, 8)

    def reports(self, digests: Iterable[bytes]) -> Iterator[Kept]:
        """Give the reports with these digests, a few in memory at a time; refuse if one is missing."""
        wanted = list(digests)
        for start in range(0, len(wanted), _BATCH):
            part = wanted[start : start + _BATCH]
            marks = ",".join("?" * len(part))
            here = f"FROM report WHERE digest IN ({marks}) AND length(box) > 0"
            (held,) = self._base.one(f"SELECT count(*) {here}", *part)
            if held != len(part):
                raise TransportError(
                    "reports of the final list are not in the operator's folder.",
                    found=f"{len(part) - held} missing",
                    fix="restore the folder from before they were erased, or start a new plan",
                    parameter="state",
                )
            for entity, digest, name, word, box in self._base.each(
                f"SELECT entity, digest, name, word, box {here}", *part
            ):
                yield Kept(entity=entity, digest=digest, report=name, word=int.from_bytes(word, "little"), box=box)

    def halves(self, most: int) -> list[tuple[str, bytes]]:
        """Give some of the other operator's halves that were not handed on yet, by entity; up to `most` bytes."""
        found: list[tuple[str, bytes]] = []
        for entity, half in self._base.each("SELECT entity, half FROM report WHERE length(half) > 0"):
            most -= len(half)
            if found and most < 0:
                break
            found.append((entity, half))
        return found

    def handed_on(self, entities: Iterable[str]) -> None:
        """Forget halves that were handed on, and remember that they were."""
        with self._base.together("handed on"):
            self._base.execute_each("UPDATE report SET half = x'' WHERE entity = ?", [(name,) for name in entities])

    def erase(self) -> None:
        """Erase all sealed shares: the sum is published, and nothing else is to be learnt from them."""
        if self._base.one("SELECT 1 FROM report WHERE length(box) > 0 LIMIT 1") is None:
            return
        with self._base.together("erase"):
            self._base.execute("UPDATE report SET box = x'', half = x''")
        self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log of changes holds them as well

    # Files that were looked at.

    def seen(self, receipt: str) -> bool:
        """Whether a file with this receipt was looked at before."""
        return self._base.one("SELECT 1 FROM seen WHERE receipt = ?", receipt) is not None

    def mark(self, receipts: Iterable[tuple[str, str | None, str | None]]) -> None:
        """Remember files: receipt and, if it was refused, a public name and the reason."""
        with self._base.together("seen"):
            self._base.execute_each("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)", list(receipts))

    def refused(self) -> list[Rejected]:
        """Give what was refused, and why."""
        rows = self._base.rows(
            f"SELECT name, reason FROM seen WHERE reason IS NOT NULL ORDER BY receipt LIMIT {_MOST_REFUSED}"
        )
        return [Rejected(name, reason) for name, reason in rows]

    # Messages.

    def once(self, name: str, data: bytes) -> bytes:
        """Store bytes under a name for good; give what is stored there, which may be older."""
        found = self.get(name)
        if found is None:
            with self._base.together(name):
                self._base.execute("INSERT OR IGNORE INTO message VALUES (?, ?)", name, data)
            found = self.get(name)
        assert found is not None
        return found

    def once_together(self, messages: dict[str, bytes]) -> dict[str, bytes]:
        """Store several for good, all or none; give what is stored."""
        with self._base.together(", ".join(messages)):
            if not any(self.get(name) is not None for name in messages):
                self._base.execute_each("INSERT INTO message VALUES (?, ?)", list(messages.items()))
        return {name: found for name in messages if (found := self.get(name)) is not None}

    def get(self, name: str) -> bytes | None:
        """Give what is stored under a name, or None."""
        found = self._base.one("SELECT data FROM message WHERE name = ?", name)
        return None if found is None else bytes(found[0])

    def every(self, prefix: str) -> list[bytes]:
        """Give everything stored under names that begin so, in their order."""
        rows = self._base.rows("SELECT data FROM message WHERE name LIKE ? ORDER BY name", prefix + "%")
        return [bytes(data) for (data,) in rows]
