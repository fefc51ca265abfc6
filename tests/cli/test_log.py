"""`twofold log`: an auditor reads and checks, and writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.refused import check_refusal
from tests.site_keys import write_keys
from twofold.cli import app
from twofold.errors import BadParameter, LogBroken
from twofold.identity import log as module
from twofold.identity.log import Event, SecurityLog, verify_log

PLAN = "ab" * 32


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three days of a log, in a folder that an auditor can only read."""
    monkeypatch.chdir(tmp_path)
    write_keys(tmp_path, "other")
    written = SecurityLog("security.log", write_keys(tmp_path, "st-anna"), entity="st-anna")
    for day in ("30", "31"):
        monkeypatch.setattr(module, "_now", lambda day=day: f"2027-01-{day}T12:00:00Z")
        written.add(Event.PLAN_AGREED, plan=PLAN)
    monkeypatch.setattr(module, "_now", lambda: "2027-02-01T12:00:00Z")
    written.add(Event.SENT, plan=PLAN, digest="cd" * 32)
    return tmp_path / "security.log"


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def test_show_prints_one_line_per_event(log: Path) -> None:
    lines = ask("log show security.log").output.splitlines()
    assert [line.split("  ")[1] for line in lines] == ["log opened", "plan agreed", "plan agreed", "sent"]
    assert lines[3].startswith("2027-02-01 12:00:00")
    assert "cdcdcdcdcdcd" in lines[3]


@pytest.mark.parametrize(
    ("since", "number"),
    [("2027-01-31", 2), ("2027-01-31T12:00:01Z", 1), ("2027-01-31T13:00:00+01:00", 2), ("2030-01-01", 0)],
)
def test_show_since(since: str, number: int) -> None:
    assert len(ask(f"log show security.log --since {since}").output.splitlines()) == number


def test_show_as_json_is_the_file(log: Path) -> None:
    assert ask("log show security.log --json").stdout_bytes == log.read_bytes()
    check_refusal(ask("log show security.log --since yesterday").exception, BadParameter, "since")


def test_verify(log: Path) -> None:
    head = verify_log(log).head
    shown = ask(f"log verify security.log --key st-anna.pub --head {head}").output
    assert shown.startswith("sound: 4 lines of st-anna")
    assert head in shown
    told = json.loads(ask("log verify security.log --key st-anna.pub --json").stdout)
    assert (told["sound"], told["entries"], told["head"], told["signed"]) == (True, 4, head, True)
    plain = ask("log verify security.log").output
    assert "--key" in plain
    assert "--head" in plain


def test_verify_fails_on_an_edit_another_key_and_a_head_that_is_gone(log: Path) -> None:
    for line in ("--key other.pub", f"--head {'00' * 32}"):
        check_refusal(ask(f"log verify security.log {line}").exception, LogBroken, "log")
    log.write_bytes(log.read_bytes().replace(b"sent", b"lost"))
    check_refusal(ask("log verify security.log").exception, LogBroken, "log", found="line 4")
    result = ask("log verify security.log --json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["sound"] is False


def test_show_stops_where_the_log_is_not_sound(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], *lines[2:]]))
    result = ask("log show security.log")
    check_refusal(result.exception, LogBroken, "log", found="line 2")
    assert len(result.stdout.splitlines()) == 1


def test_reading_writes_nothing_and_needs_no_other_file(log: Path) -> None:
    for other in log.parent.iterdir():
        if other != log:
            other.unlink()
    log.chmod(0o440)
    log.parent.chmod(0o555)
    try:
        assert ask("log show security.log").exit_code == 0
        assert ask("log verify security.log").exit_code == 0
        assert list(log.parent.iterdir()) == [log]
    finally:
        log.parent.chmod(0o755)


def test_a_torn_line_is_said(log: Path) -> None:
    log.write_bytes(log.read_bytes() + b'{"at"')
    assert "torn" in ask("log verify security.log --key st-anna.pub").output
