"""A SQLite file: all of a block or nothing, private, and never through a link."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.errors import TransportError
from twofold.storage import files
from twofold.storage.database import Database

TABLE = "CREATE TABLE IF NOT EXISTS seen (name TEXT PRIMARY KEY)"


def base_in(folder: Path) -> Database:
    return Database(folder / "own" / "one.db", TABLE, owner="service")


def names(base: Database) -> list[str]:
    return [name for (name,) in base.rows("SELECT name FROM seen ORDER BY name")]


def test_a_block_is_whole_or_nothing(tmp_path: Path) -> None:
    base = base_in(tmp_path)
    with base.together("two"):
        base.execute_each("INSERT INTO seen VALUES (?)", [("a",), ("b",)])
    with suppress(KeyError), base.together("none"):
        base.execute("INSERT INTO seen VALUES ('c')")
        raise KeyError
    base.close()
    assert names(base_in(tmp_path)) == ["a", "b"]


def test_a_kill_before_the_commit_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, told = base_in(tmp_path), list[str]()

    def killed(name: str) -> None:
        told.append(name)
        if name == "service: commit one":
            raise SystemExit

    monkeypatch.setattr(files, "_listener", killed)
    with pytest.raises(SystemExit), base.together("one"):
        base.execute("INSERT INTO seen VALUES ('a')")
    assert told == ["service: store one", "service: commit one"]
    assert names(base_in(tmp_path)) == []


def test_it_is_the_owners_alone(tmp_path: Path) -> None:
    base = base_in(tmp_path)
    with base.together("one"):
        base.execute("INSERT INTO seen VALUES ('a')")
    rights = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "own").iterdir()}
    assert rights == {0o600}


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with refused(TransportError, "folder"):
        Database(tmp_path / "no" / "where" / "one.db", TABLE, owner="service")
    (tmp_path / "own").mkdir()
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / "own" / "one.db").symlink_to(tmp_path / "elsewhere")
    with refused(TransportError, "state"):
        base_in(tmp_path)
    (tmp_path / "own" / "one.db").unlink()
    (tmp_path / "own" / "one.db").write_bytes(b"no database" * 100)
    with refused(TransportError, "state"):
        base_in(tmp_path)


def test_a_change_that_fails_is_a_refusal(tmp_path: Path) -> None:
    base = base_in(tmp_path)
    with refused(TransportError, "state"), base.together("twice"):
        base.execute_each("INSERT INTO seen VALUES (?)", [("a",), ("a",)])
    assert names(base) == []
