"""The README's Python and shell run as written, on a made-up table."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.agreed import agree
from twofold.data.catalog import Catalog
from twofold.data.read import read_ratings
from twofold.entity.agent import Entity
from twofold.federation.agreement import Agreements
from twofold.federation.folder import ServerFolder
from twofold.federation.plan import Plan
from twofold.federation.secure import OperatorSum
from twofold.identity.keys import Role
from twofold.identity.keystore import KeyStore, new_keys
from twofold.identity.roster import Roster
from twofold.privacy.ledger import Ledger
from twofold.server.operate import operate
from twofold.server.operator import Operator

pytestmark = pytest.mark.long

OPERATORS = ("city-clinic", "university")
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
    (tmp_path / "drop").mkdir()
    return tmp_path


def keyed(folder: Path, *names: str) -> None:
    for name in names:
        role = Role.OPERATOR if name in OPERATORS else Role.ENTITY
        new_keys(folder / f"{name}.keys", name, role).write(folder / f"{name}.pub")


def send(folder: Path, name: str) -> None:
    """Another hospital's message, from the same table."""
    columns = {"user": "patient", "item": "code", "value": "count"}
    ratings = read_ratings(folder / "visits.parquet", Catalog.read(folder / "items.csv"), **columns)
    plan, keys = Plan.read(folder / "plan.toml"), folder / f"{name}.keys"
    KeyStore(keys).agree(plan.hash)
    KeyStore(keys).confirm(plan.hash)
    Ledger.create(folder / f"{name}.ledger", dataset=name, ceiling=plan.budget, unit=plan.unit)
    ledger, agreed = folder / f"{name}.ledger", folder / "plan.agreed"
    Entity(name, ratings, plan, ledger=ledger, keys=keys, agreements=agreed).report().save(
        folder / "drop" / f"{name}.report"
    )


def publish(folder: Path) -> Path:
    """The work of both operators, until they have published."""
    plan, box = Plan.read(folder / "plan.toml"), folder / "drop"
    both = [Operator(plan, KeyStore(folder / f"{one}.keys"), state=folder / f"{one}.state") for one in OPERATORS]
    for _ in range(8):
        for one in both:
            operate(one, ServerFolder(box, box, plan))
    (found,) = box.glob("*.round2")
    return found


def test_the_python_runs_as_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = block("Eight lines of Python")
    first, second = code.split("# ... the operators publish items.round2\n")
    assert len([line for line in code.splitlines() if line.strip() and line[0] not in "#i"]) <= 8
    everybody = ("st-anna", "st-bern", *OPERATORS)
    keyed(folder, *everybody)
    roster = Roster.joined(Roster.read(folder / f"{name}.pub") for name in everybody)
    plan = {"mechanism": "gram", "n_entities": 2, "secure": OperatorSum(floor=2), "roster": roster}
    Plan(catalog=Catalog.read(folder / "items.csv"), **plan).write(folder / "plan.toml")
    agree(folder / "plan.toml", write=True)
    send(folder, "st-bern")
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a ledger is new
        exec(first, names)
    publish(folder).rename("items.round2")
    exec(second, names)
    assert capsys.readouterr().out.startswith("item-")


def test_the_shell_runs_as_written(folder: Path) -> None:
    lines = [line.split("#")[0].strip() for line in block("A federation in the shell").splitlines()]
    keyed(folder, "st-bern", "st-clara", *OPERATORS)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def run(command: str, *codes: int) -> str:
        words = shlex.split(command)
        if words == ["twofold", "demo"]:
            words += ["--patients", "1200", "--hospitals", "6"]  # the same steps in a fraction of the time
        result = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env=environment)
        assert result.returncode in codes, (command, result.stderr)
        assert result.stdout.strip()
        return result.stdout

    commands = [line for line in lines if line]
    *first, join, coordinate = commands
    for command in first:
        if command.startswith("twofold plan agreed"):  # the operators at their place
            for name in OPERATORS:
                plan = Plan.read(folder / "plan.toml")
                signature = KeyStore(folder / f"{name}.keys").agree(plan.hash)
                Agreements(plan.hash, {name: signature}).write(folder / f"{name}.agreement")
        run(command, 0)
    send(folder, "st-bern")
    send(folder, "st-clara")
    assert "sent: the report" in run(join, 3)
    run(coordinate, 3)
    publish(folder)
    assert "published" in run(coordinate, 0)
    assert "already sent: the report" in run(join.replace(" --new-ledger", ""), 0)
    assert (folder / "st-anna.model").exists()


def test_the_two_commands_come_first() -> None:
    first = re.search(r"```\n(.*?)```", README, re.DOTALL)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first.group(1).splitlines()] == ["make demo", "make test"]
