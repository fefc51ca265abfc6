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

pytestmark = pytest.mark.long

TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial" / "first_federation.md").read_text()
HOSPITALS = ("st-anna", "st-bern", "st-clara")
COLUMNS = "--user patient --item code --value count"

#: What the tutorial takes as given: one pooled table.
PRELUDE = """
import warnings
import polars as pl
warnings.simplefilter("ignore")
frame = pl.concat(
    pl.read_csv(f"{name}.csv").with_columns(hospital=pl.lit(name), patient=pl.col("patient") + ("" if first else name))
    for name, first in (("st-anna", True), ("st-bern", False), ("st-clara", False))
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


def test_the_shell_runs_as_written(folder: Path) -> None:
    others = {
        "twofold plan new": "twofold keys new --{role} {name} --keys {name}.keys -o {name}.pub",
        "twofold plan agreed": "twofold plan agree plan.toml --keys {name}.keys -o {name}.agreement",
        "twofold factorize": f"twofold release --plan plan.toml --data {{name}}.parquet {COLUMNS} --ledger "
        "{name}.ledger --new-ledger --keys {name}.keys -o {name}.round1",
    }
    for line in (line for line in block("Plain messages, file by file").splitlines() if line.strip()):
        for name in (*HOSPITALS[1:], OPERATOR):  # the others do their part at their place
            role = "operator" if name == OPERATOR else "entity"
            due = next((command for verb, command in others.items() if line.startswith(verb)), None)
            if due is not None and (role == "entity" or "factorize" not in line):
                run(due.format(name=name, role=role), folder)
        assert run(line, folder).strip(), line
    found = json.loads(run("twofold recommend st-anna.model --user patient-17 -n 5 --json", folder))
    assert len(found) == 5
    assert {"item", "score"} <= set(found[0])


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """First reader A11: every command of the first section, data and keys included, in an empty folder."""
    home = tmp_path_factory.mktemp("typed")
    section = TUTORIAL.split("## Type it\n", 1)[1].split("\n## ", 1)[0]
    commands = "".join(re.findall(r"```bash\n(.*?)```", section, re.DOTALL))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=300,
    )
    assert result.returncode == 0, (result.stdout, result.stderr)
    assert "Error" not in result.stderr
    return home, result.stdout


def test_two_operators_and_one_message_of_each_hospital_as_typed(typed: tuple[Path, str]) -> None:
    home, told = typed
    assert len(list(home.glob("*.model"))) == len(HOSPITALS)
    assert told.count("closed: reports, lists of reports, final lists, sums of shares, item factors") == 2
    assert told.count("already sent: the report") == len(HOSPITALS)
    sent = [path.name.split(".")[0] for path in (home / "drop").glob("*.report")]
    assert sorted(sent) == [*HOSPITALS]  # one file of each
    assert "the ledger holds this release, and nothing since" in told
    assert re.search(r"because of \w+ drug \d", told)
    assert "weigh as much as" in told  # the small hospital takes what the others know
    for name in HOSPITALS:
        state = json.loads(run(f"twofold ledger show {name}.ledger --json", home))
        assert [one["status"] for one in state["entries"]] == ["released"]


def test_the_python_runs_as_written_after_the_commands(typed: tuple[Path, str]) -> None:
    home, _ = typed
    section = TUTORIAL.split("## In Python\n", 1)[1].split("\n## ", 1)[0]
    code = PRELUDE + "".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))
    code += "\nprint(model.recommend('patient-17', n=2)[0].item, U.shape[1])"
    result = subprocess.run([sys.executable, "-c", code], cwd=home, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    item, rank = result.stdout.split()
    assert item in pl.read_csv(home / "items.csv")["item"].to_list()
    assert rank == "2"
    (stored,) = (home / "drop").glob("st-anna.*.report")
    assert (home / "drop" / "st-anna.report").read_bytes() == stored.read_bytes()  # never sealed twice


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
