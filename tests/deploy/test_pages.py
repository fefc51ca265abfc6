"""The pages for IT departments: their commands exist with these options, and they show files that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.deploy.test_examples import check_command
from twofold_flower import start

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"
PAGES = [*sorted((HOW_TO / "it").glob("*.md")), HOW_TO / "flower.md", HOW_TO / "serve.md"]


def commands(program: str) -> list[str]:
    """Give the lines of all pages that start with a program; those with dots are not whole."""
    blocks = (re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL) for page in PAGES)
    text = "".join(one for every in blocks for one in every).replace("\\\n", " ")
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line.startswith(f"{program} ") and "..." not in line]


@pytest.mark.parametrize("line", commands("twofold"))
def test_a_command_takes_these_options(line: str) -> None:
    check_command(shlex.split(line)[1:])


@pytest.mark.parametrize("line", commands("twofold-flower"))
def test_a_command_of_the_adapter_takes_these_options(line: str) -> None:
    assert start._parser().parse_args(shlex.split(line)[1:]).verb


def test_every_example_is_shown_once_and_is_there() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = re.findall(r'--8<-- "(.*?)"', text)
    folders = ("nginx", "systemd", "container")
    there = {f"deploy/{one}/{path.name}" for one in folders for path in (ROOT / "deploy" / one).iterdir()}
    assert sorted(shown) == sorted(there)


def test_every_requirement_is_answered() -> None:
    """Fifteen of users, ten functional and five others, each in one row."""
    page = (ROOT / "docs" / "how-to" / "it" / "flute.md").read_text(encoding="utf-8")
    asked = re.findall(r"^\| ((?:URS|F-SRS|NF-SRS)-\d+) \|", page, re.MULTILINE)
    numbers = {"URS": 15, "F-SRS": 10, "NF-SRS": 5}
    assert asked == [f"{kind}-{number}" for kind, most in numbers.items() for number in range(1, most + 1)]
