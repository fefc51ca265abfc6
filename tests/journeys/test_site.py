"""The page for the IT department and the officer runs as written, from the policy to the auditor."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.site_keys import write_keys
from twofold.cli import app
from twofold.errors import NotApproved
from twofold.identity.log import Event, read_log, verify_log
from twofold.identity.log_entry import FIELDS

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "site.md").read_text()


def lines(heading: str) -> list[str]:
    """The commands of the first block of shell under a heading."""
    found = re.search(r"```bash\n(.*?)```", PAGE.split(f"## {heading}\n", 1)[1], re.DOTALL)
    assert found is not None
    return found.group(1).splitlines()


def ask(line: str, answer: str | None = None) -> Result:
    words = shlex.split(line)
    assert words[0] == "twofold"
    return CliRunner().invoke(app, words[1:], input=answer)


def test_the_page_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keys = {name: write_keys(tmp_path, name) for name in ("officer", "head", "trial-office", "data-centre", "st-anna")}
    for line in lines("The policy"):
        assert ask(line).exit_code == 0, line
    names = {"signer": keys["st-anna"], "writer": keys["trial-office"].public, "operator": keys["data-centre"].public}
    [block] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    with pytest.raises(NotApproved):
        exec(compile(block, "site.md", "exec"), dict(names))
    [line] = lines("Approving a release")
    shown = ask(line, "y\n")
    assert shown.exit_code == 0
    assert "trial-office" in shown.output
    exec(compile(block, "site.md", "exec"), dict(names))
    for line in lines("The security log"):
        assert ask(line).exit_code == 0, line
    events = [one.event for one in read_log("st-anna.log")]
    assert events == [Event.LOG_OPENED, Event.DRAFT_MADE, Event.APPROVED, Event.RELEASED, Event.SENT]
    assert verify_log("st-anna.log", keys=[keys["st-anna"].public]).signed


def test_the_page_lists_every_event_and_field() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \| ([a-z, ]+) \|$", PAGE.split("## The security log")[1], re.MULTILINE)
    told = {event: fields.split(", ") for event, fields in rows if event != "event"}
    assert told == {event.value: list(fields) for event, fields in FIELDS.items()}
