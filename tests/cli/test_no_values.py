"""No command shows a person's row when files are mixed up, waits for a pipe, or calls histories private."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from twofold.cli import app
from twofold.errors import TwofoldError

ROWS = "Jane Doe{0}hiv-test{0}positive\nJohn Roe{0}heparin{0}negative\n"
SECRET = ("Jane", "Doe", "hiv-test", "positive", "John", "negative")
FILES = {
    "comma.csv": ROWS.format(",").encode(),
    "semicolon.csv": ROWS.format(";").encode(),
    "tab.csv": ROWS.format("\t").encode(),
    "json.csv": b'{"user": "Jane Doe", "item": "hiv-test"}\n{"user": "John Roe", "item": "heparin"}\n',
    "quoted.csv": b'"Jane Doe","hiv-test","positive"\n',
    "utf16.csv": ROWS.format(",").encode("utf-16"),
    "turned.csv": b"item,Jane Doe,John Roe\nheparin,positive,negative\n",
    "assignments.csv": b"Jane = 'hiv-test'\nJane = 'positive'\n",
}
COMMANDS = (
    "check {data} --catalog items.csv",
    "check {data} --catalog items.csv --user patient --item code --value none",
    "check {data} --catalog {data}",
    "release --plan plan.toml --data {data} --ledger x.ledger --new-ledger -o x.round1",
    "release --plan plan.toml --catalog {data} --data {data} --ledger x.ledger --new-ledger -o x.round1",
    "release --plan {data} --data items.csv --ledger x.ledger --new-ledger -o x.round1",
    "join --plan plan.toml --data {data} --ledger x.ledger --new-ledger -o x.model --outbox out --inbox in",
    "simulate --plan plan.toml --data {data} --entity hospital --ledgers books --new-ledgers",
    "recommend {data} --user 3",
    "personalize {data} --plan plan.toml --data {data} -o x.model",
    "factorize {data} --plan plan.toml -o x.round2",
    "plan new other.toml --catalog {data}",
    "plan new other.toml --catalog items.csv --features {data}",
    "plan show {data}",
    "plan explain {data}",
    "ledger show {data}",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("items.csv").write_text("item\nheparin\nlactate\n")
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    for name in ("in", "out"):
        Path(name).mkdir()
    made = CliRunner().invoke(
        app, ["plan", "new", "plan.toml", "--catalog", "items.csv", "--n-users", "25", "--rank", "2"]
    )
    assert made.exit_code == 0
    return tmp_path


@pytest.mark.parametrize("data", FILES)
def test_no_command_shows_a_row(data: str, folder: Path) -> None:
    """Audit L2: `Found: columns Jane Doe;hiv-test`."""
    for command in COMMANDS:
        result = CliRunner().invoke(app, command.format(data=data).split())
        assert result.exit_code != 0 or "--catalog turned" in command.format(data=data), command
        error = result.exception
        assert isinstance(error, TwofoldError | SystemExit | None), (command, error)
        told = json.dumps(error.as_dict()) if isinstance(error, TwofoldError) else ""
        told += f"{result.output} {error}"
        assert not [word for word in SECRET if word in told], (command, told)
    assert not (folder / "x.round1").exists()


@pytest.mark.parametrize("named", ["/dev/stdin", "../../../../../../../../../../../../dev/stdin", "pipe"])
def test_a_plan_that_names_a_device_or_pipe_does_not_hang_join(named: str, folder: Path) -> None:
    """Audit L1: `[catalog] file = "/dev/stdin"` in a stranger's plan hung `join`."""
    subprocess.run(["mkfifo", "pipe"], check=True, cwd=folder)
    text = Path("plan.toml").read_text()
    assert 'file = "items.csv"' in text
    Path("plan.toml").write_text(text.replace('file = "items.csv"', f'file = "{named}"'))
    line = "join --plan plan.toml --data comma.csv --ledger x.ledger --new-ledger -o x.model --outbox out --inbox in"
    asked = subprocess.Popen(
        [sys.executable, "-m", "twofold", *line.split()],
        stdin=subprocess.PIPE,  # open, and nothing is ever written to it
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert asked.wait(timeout=60) == 2
        assert asked.stderr is not None
        assert "Traceback" not in asked.stderr.read()
    finally:
        asked.kill()
        asked.communicate()
