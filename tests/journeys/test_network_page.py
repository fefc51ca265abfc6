"""The page about HTTPS: its commands exist with these options, and its first block runs as written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from click import Command, Group

from twofold.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "network.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)


def commands() -> list[str]:
    text = "".join(BLOCKS).replace("\\\n", " ")
    return [line.strip().rstrip("&").strip() for line in text.splitlines() if line.strip().startswith("twofold")]


@pytest.mark.parametrize("line", commands())
def test_every_command_takes_these_options(line: str) -> None:
    _, *words = shlex.split(line)
    found: Command = typer.main.get_command(app)
    while isinstance(found, Group):
        found = found.commands[words.pop(0)]
    found.make_context("twofold", words, resilient_parsing=False)


@pytest.mark.slow
def test_the_first_federation_runs_as_written(tmp_path: Path) -> None:
    block = next(one for one in BLOCKS if "openssl" in one)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    words = ["bash", "-e", "-c", block]
    done = subprocess.run(
        words, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert {f"st-{name}.model" for name in ("anna", "bern", "clara")} <= {one.name for one in tmp_path.iterdir()}
