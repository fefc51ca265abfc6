"""One SQLite file: private to its owner, changed in transactions that are on the disk before a call returns."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twofold.errors import TransportError
from twofold.storage.files import make_folder, step

__all__ = ["Database"]


class Database:
    """The memory of a server's part; threads may share it.

    Parameters
    ----------
    file : Path or None
        Made with its folder if it is not there, mode 0600; the folder's parent must be. None keeps everything in
        memory, for simulations.
    tables : str
        Statements that make the tables.
    owner : str
        Whose memory it is, for errors and for the steps that kill tests count.
    pragmas : iterable of str
        Settings besides those that make it durable.

    Examples
    --------
    >>> base = Database(None, "CREATE TABLE seen (name TEXT PRIMARY KEY)", owner="service")
    >>> with base.together("seen"):
    ...     _ = base.execute("INSERT INTO seen VALUES (?)", "st-anna")
    >>> base.one("SELECT count(*) FROM seen"), base.rows("SELECT name FROM seen")
    ((1,), [('st-anna',)])
    """

    def __init__(self, file: Path | None, tables: str, *, owner: str, pragmas: Iterable[str] = ()) -> None:
        self._owner, self._lock = owner, threading.RLock()
        try:
            self._base = self._opened(file)
            for one in pragmas:
                self._base.execute(f"PRAGMA {one}")
            self._base.executescript(tables)
        except (OSError, sqlite3.Error) as error:
            raise TransportError(
                f"the {owner}'s folder cannot be used.",
                found=getattr(error, "strerror", None) or type(error).__name__,
                fix="check that its parent exists, its permissions and its free space",
                parameter="state",
            ) from None

    @staticmethod
    def _opened(file: Path | None) -> sqlite3.Connection:
        if file is None:
            return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        make_folder(file.parent)
        # Never through a link, and with its rights from the beginning; SQLite gives its journals the same ones.
        os.close(os.open(file, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600))
        base = sqlite3.connect(file, isolation_level=None, timeout=30.0, check_same_thread=False)
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("PRAGMA synchronous = FULL")
        return base

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._base.close()

    def execute(self, query: str, *given: object) -> int:
        """Run one statement; give the number of rows that it changed."""
        with self._lock:
            return self._base.execute(query, given).rowcount

    def execute_each(self, query: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Run one statement for every row."""
        with self._lock:
            self._base.executemany(query, rows)

    def one(self, query: str, *given: object) -> Any:
        """Give the first row, or None."""
        with self._lock:
            return self._base.execute(query, given).fetchone()

    def rows(self, query: str, *given: object) -> list[Any]:
        """Give all rows."""
        with self._lock:
            return self._base.execute(query, given).fetchall()

    def each(self, query: str, *given: object) -> Iterator[Any]:
        """Give the rows one at a time, for more than memory should hold; one thread alone may use this."""
        return iter(self._base.execute(query, given))

    @contextmanager
    def together(self, name: str) -> Iterator[None]:
        """Make one transaction of the block: all of it, or nothing; on the disk before this returns."""
        step(f"{self._owner}: store {name}")
        with self._lock:
            try:
                self._base.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    step(f"{self._owner}: commit {name}")
                except BaseException:
                    self._base.execute("ROLLBACK")
                    raise
                self._base.execute("COMMIT")
            except sqlite3.Error as error:
                raise TransportError(
                    f"the {self._owner}'s folder cannot be written to; nothing was changed.",
                    found=type(error).__name__,
                    fix="check its permissions and free space, then run the same command again",
                    parameter="state",
                ) from None
