"""The README's Python and shell run as written, on a made-up table."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.agreed import agree, make_keys
from twofold.data.catalog import Catalog
from twofold.federation.plan import Plan
from twofold.identity.roster import Roster

README = (Path(__file__).parents[2] / "README.md").read_text()


def block(heading: str) -> str:
    """The first fenced block under a heading."""
    section = README.split(f"## {heading}\n", 1)[1]
    found = re.search(r"```\w*\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A hospital's visits and the agreed item list, under the names the README uses."""
    rng = np.random.default_rng(0)
    patients, items = np.nonzero(rng.random((40, 70)) < 0.3)
    names = np.array([f"item-{number:02}" for number in range(70)])
    visits = {
        "patient": [f"patient-{p}" for p in patients],
        "code": names[items],
        "count": rng.integers(1, 9, items.size),
    }
    pl.DataFrame(visits).write_parquet(tmp_path / "visits.parquet")
    pl.DataFrame({"item": names}).write_csv(tmp_path / "items.csv")
    make_keys(["st-anna"], tmp_path)
    return tmp_path


def test_the_python_runs_as_written(folder: Path) -> None:
    code = block("Eight lines of Python")
    assert len([line for line in code.splitlines() if line.strip() and not line.startswith("import")]) <= 8
    roster = Roster.joined(Roster.read(folder / f"{name}.pub") for name in ("st-anna", "coordinator"))
    Plan(catalog=Catalog.read(folder / "items.csv"), roster=roster).write(folder / "plan.toml")
    agree(folder / "plan.toml", write=True)
    result = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("item-")


def test_the_shell_runs_as_written(folder: Path) -> None:
    lines = [line.split("#")[0].strip() for line in block("Four lines of shell").splitlines()]
    commands = [line for line in lines if line]
    assert len(commands) == 4
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in commands:
        words = shlex.split(command)
        if words == ["twofold", "demo"]:
            words += ["--patients", "1200", "--hospitals", "6"]  # the same steps in a fraction of the time
        result = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env=environment)
        assert result.returncode == 0, (command, result.stderr)
        assert result.stdout.strip()


def test_the_two_commands_come_first() -> None:
    first = re.search(r"```\n(.*?)```", README, re.DOTALL)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first.group(1).splitlines()] == ["make demo", "make test"]
