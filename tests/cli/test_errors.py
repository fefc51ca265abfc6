"""`twofold errors`, and how a verb prints a refusal: in terms of its own options, with a page that exists."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from tests.refused import check_refusal
from twofold.cli import app
from twofold.cli.errors import pages
from twofold.cli.render import Shell, Verb
from twofold.errors import BadBound, BadParameter, BadPlan, Run, Set


def ask(*line: str) -> Result:
    return CliRunner().invoke(app, list(line))


def shell(group: str, verb: str) -> Shell:
    return Shell.of(get_command(app).commands[group].commands[verb])  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["missing-column", "MissingColumn", "Missing column", "missing_column"])
def test_a_page_is_found_by_any_spelling_of_its_name(name: str) -> None:
    shown = ask("errors", name)
    assert shown.exit_code == 0
    assert shown.stdout == f"missing-column\n\n{pages()['missing-column']}\n"


def test_without_a_name_all_are_listed() -> None:
    assert ask("errors").stdout.split() == list(pages())
    assert json.loads(ask("errors", "--json").stdout) == pages()
    assert json.loads(ask("errors", "exit-code-3", "--json").stdout) == {
        "name": "exit-code-3",
        "text": pages()["exit-code-3"],
    }


def test_every_exit_code_has_a_page() -> None:
    codes = (0, 1, 2, 3, 130, 141)
    assert [name for name in pages() if name.startswith("exit")] == [f"exit-code-{code}" for code in codes]


def test_a_page_that_does_not_exist_names_the_nearest() -> None:
    result = ask("errors", "missing-colum")
    check_refusal(result.exception, BadParameter, "name", found="missing-colum", expected="missing-column")


def test_a_refusal_is_printed_once_with_a_command_that_prints_its_page(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item\na\n")
    (tmp_path / "visits.csv").write_text("user,item,value\n1,b,2\n")
    command = [sys.executable, "-m", "twofold", "check", "visits.csv", "--catalog", "items.csv"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=os.environ)
    assert (result.returncode, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert lines[0].startswith("UnknownItems: ")
    assert lines[-2:] == ["  Do: --unknown-items drop", "  More: twofold errors unknown-items"]
    assert len(lines) == 4
    assert ask(*lines[-1].split()[2:]).exit_code == 0


def test_the_same_error_names_an_option_or_a_field_of_the_plan() -> None:
    error = BadPlan("{parameter} is bad.", fix=(Set("rank", 5), Run("plan new p.toml")), parameter="secure.survivors")
    made, shown = (error.render(shell("plan", verb)).splitlines() for verb in ("new", "show"))
    assert made[:2] == ["--survivors is bad.", "  Do: --rank 5, or twofold plan new p.toml"]
    assert shown[:2] == ["secure.survivors is bad.", "  Do: twofold plan new p.toml"]
    assert str(error).splitlines()[:2] == ["secure.survivors is bad.", "  Do: rank=5, or twofold plan new p.toml"]


@pytest.mark.parametrize(
    ("advice", "words"),
    [
        (Set("max_items", 60), "--max-items 60"),
        (Set("simulation", True), "--simulation"),
        (Set("separator", ";"), "--separator ';'"),
        (Set("unit.entities", 2), "--unit-entities 2"),
        (Set("value_range", "x y"), 'value_range = "x y"'),
    ],
)
def test_a_setting_can_be_pasted(advice: Set, words: str) -> None:
    assert shell("plan", "new").fix(advice) == words


def test_options_that_exclude_each_other(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item\na\n")
    (tmp_path / "visits.csv").write_text("user,item,value\n1,a,2\n")
    line = ("check", str(tmp_path / "visits.csv"), "--catalog", str(tmp_path / "items.csv"))
    check_refusal(ask(*line, "--l1", "1", "--l2", "1").exception, BadBound, "l2")
    result = ask(*line, "--max-items", "0")
    check_refusal(result.exception, BadBound, "max_items", found="0")
    assert result.stderr.startswith("BadBound: --max-items ")


def test_every_verb_prints_its_refusals_and_explains_itself() -> None:
    def verbs(command: Any) -> Iterator[Any]:
        if not hasattr(command, "commands"):
            yield command
        for one in getattr(command, "commands", {}).values():
            yield from verbs(one)

    found = list(verbs(get_command(app)))
    assert len(found) >= 19
    for command in found:
        assert isinstance(command, Verb)
        assert command.help
        assert all(one.help for one in command.params), command.name
