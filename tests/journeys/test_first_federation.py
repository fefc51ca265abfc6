"""The tutorial's Python and shell run as written, and a federation of separate processes through one shared folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.agreed import OPERATOR, agree, make_keys

TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial" / "first_federation.md").read_text()
HOSPITALS = ("st-anna", "st-bern", "st-clara")
COLUMNS = "--user patient --item code --value count"

#: What the tutorial takes as given: the others' messages and one pooled table.
PRELUDE = """
import warnings
import polars as pl
import twofold as tw
warnings.simplefilter("ignore")
catalog = tw.Catalog.read("items.csv")
plan = tw.Plan.read("plan.toml")
columns = dict(user="patient", item="code", value="count")
tables = {name: pl.read_parquet(f"{name}.parquet") for name in ("st-bern", "st-clara")}
def other(name, table):
    own = dict(ledger=f"{name}.ledger", keys=f"{name}.keys", agreements="plan.agreed")
    return tw.Entity(name, tw.read_ratings(table, catalog, **columns), plan, **own).release()
others = [other(name, table) for name, table in tables.items()]
frame = pl.concat(
    [pl.read_parquet("visits.parquet").with_columns(hospital=pl.lit("st-anna"))]
    + [table.with_columns(hospital=pl.lit(name)) for name, table in tables.items()]
).rename({"patient": "user", "code": "item", "count": "value"})
"""


def block(heading: str) -> str:
    section = TUTORIAL.split(f"## {heading}\n", 1)[1]
    found = re.search(r"```\w*\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found.group(1)


def visits(name: str, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    patients, items = np.nonzero(rng.random((60, 70)) < 0.3)
    names = np.array([*["creatinine", "heparin"], *[f"item-{number:02}" for number in range(68)]])
    prefix = "patient" if name == "st-anna" else f"{name}-patient"
    return pl.DataFrame(
        {
            "patient": [f"{prefix}-{p}" for p in patients],
            "code": names[items],
            "count": rng.integers(1, 9, items.size),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, name in enumerate(HOSPITALS):
        visits(name, seed).write_parquet(tmp_path / f"{name}.parquet")
    visits("st-anna", 0).write_parquet(tmp_path / "visits.parquet")
    items = ["creatinine", "heparin", *[f"item-{number:02}" for number in range(68)]]
    pl.DataFrame({"item": items}).write_csv(tmp_path / "items.csv")
    return tmp_path


def run(command: str, folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(
        shlex.split(command), cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, (command, result.stderr)
    return result.stdout


def enrolled(folder: Path, more: str = "") -> None:
    """Keys, a plan and everybody's agreement."""
    public = make_keys(HOSPITALS, folder)
    run(f"twofold plan new plan.toml --catalog items.csv --bound 5 --n-users 400 {public} {more}", folder)
    agree(folder / "plan.toml", write=True)


def test_the_python_runs_as_written(folder: Path) -> None:
    enrolled(folder)
    code = PRELUDE + block("In Python") + "\nprint(model.recommend('patient-17', n=5)[0].item, U.shape[1])"
    result = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    item, rank = result.stdout.split()
    assert item in pl.read_csv(folder / "items.csv")["item"].to_list()
    assert rank == "20"
    assert (folder / "st-anna.model").stat().st_size > 1000


def test_the_shell_runs_as_written(folder: Path) -> None:
    others = {
        "twofold plan new": "twofold keys new --{role} {name} --keys {name}.keys -o {name}.pub",
        "twofold plan agreed": "twofold plan agree plan.toml --keys {name}.keys -o {name}.agreement",
        "twofold factorize": f"twofold release --plan plan.toml --data {{name}}.parquet {COLUMNS} --ledger "
        "{name}.ledger --new-ledger --keys {name}.keys -o {name}.round1",
    }
    text = block("Keys, a plan, everybody's agreement") + block("In the shell, with files")
    for line in (line for line in text.splitlines() if line.strip()):
        for name in (*HOSPITALS[1:], OPERATOR):  # the others do their part at their place
            role = "operator" if name == OPERATOR else "entity"
            due = next((command for verb, command in others.items() if line.startswith(verb)), None)
            if due is not None and (role == "entity" or "factorize" not in line):
                run(due.format(name=name, role=role), folder)
        assert run(line, folder).strip(), line
    found = json.loads(run("twofold recommend st-anna.model --user patient-17 -n 5 --json", folder))
    assert len(found) == 5
    assert {"item", "score"} <= set(found[0])


def test_the_shared_folder_runs_as_typed(tmp_path: Path) -> None:
    """First reader A11: every command of the section, data and keys included, in an empty folder."""
    section = TUTORIAL.split("## Through a shared folder\n", 1)[1]
    typed = "".join(re.findall(r"```bash\n(.*?)```", section, re.DOTALL))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(
        ["bash", "-e", "-c", typed],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=300,
    )
    assert result.returncode == 0, (result.stdout, result.stderr)
    assert len(list(tmp_path.glob("*.model"))) == len(HOSPITALS)
    assert "closed: agreements, key shares, masked messages, answers" in result.stdout
    assert "Error" not in result.stderr
    for name in HOSPITALS:
        state = json.loads(run(f"twofold ledger show {name}.ledger --json", tmp_path))
        assert [one["status"] for one in state["entries"]] == ["released"]


def test_asking_twice_writes_the_same_bytes_and_spends_once(folder: Path) -> None:
    enrolled(folder)
    ask = f"twofold release --plan plan.toml --data visits.parquet {COLUMNS} --ledger a.ledger --keys st-anna.keys"
    run(f"{ask} --new-ledger -o st-anna.round1", folder)
    run(f"{ask} --entity st-anna -o again.round1", folder)
    assert (folder / "st-anna.round1").read_bytes() == (folder / "again.round1").read_bytes()
    state = json.loads(run("twofold ledger show a.ledger --json", folder))
    assert len(state["entries"]) == 1


def test_a_federation_of_separate_processes_through_one_shared_folder(folder: Path) -> None:
    """The server waits in a process of its own; two hospitals come at different times, one never answers."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    past = "2020-01-01T00:00:00Z"
    enrolled(folder, f"--quorum 2 --deadline {past}")
    (folder / "drop").mkdir()
    (folder / "drop" / "holiday.jpg").write_bytes(b"not a message")
    collect = f"twofold coordinate --plan plan.toml --keys {OPERATOR}.keys --inbox drop --outbox drop --state server"
    early = subprocess.run(
        shlex.split(collect), cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    assert early.returncode == 2
    assert early.stderr.startswith("TooFewMessages")
    server = subprocess.Popen(
        shlex.split(f"{collect} --wait 120 --poll 0.1 --json"),
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    ask = f"twofold release --plan plan.toml {COLUMNS} --new-ledger -o drop"
    for name in HOSPITALS[:2]:
        run(f"{ask} --entity {name} --keys {name}.keys --data {name}.parquet --ledger {name}.ledger", folder)
    found, _ = server.communicate(timeout=150)
    assert server.returncode == 0
    assert json.loads(found)["arrived"] == 2
    run(f"twofold personalize drop --plan plan.toml --data visits.parquet {COLUMNS} -o st-anna.model", folder)
    chosen = json.loads(run("twofold recommend st-anna.model --user patient-17 -n 3 --json", folder))
    assert len(chosen) == 3
    late = f"twofold release --plan plan.toml {COLUMNS} --new-ledger -o drop --entity st-clara --keys st-clara.keys"
    run(f"{late} --data st-clara.parquet --ledger st-clara.ledger", folder)  # its message is stored, and comes too late
    before = next((folder / "drop").glob("*.round2")).read_bytes()
    assert "published" in run(collect, folder)
    assert next((folder / "drop").glob("*.round2")).read_bytes() == before
    run(f"twofold personalize drop --plan plan.toml --data st-clara.parquet {COLUMNS} -o st-clara.model", folder)
