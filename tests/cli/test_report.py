"""`twofold report`: one page from a model, its factors, its ledger or its card, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import stat
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from tests.entity.evaluated import CATALOG, people
from tests.refused import check_refusal
from tests.reported import reported, rows_of
from twofold.cli import app
from twofold.data.ratings import Ratings
from twofold.entity import evaluate as evaluating
from twofold.entity.baselines import BASELINES
from twofold.errors import (
    BadCard,
    BadModel,
    BadParameter,
    DataError,
    EmptyTable,
    LedgerBroken,
    PlanMismatch,
    TwofoldError,
)


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def call(line: str) -> str:
    result = ask(line)
    assert result.exit_code == 0, (line, result.output, result.exception)
    return result.stdout


def refused(line: str, kind: type[TwofoldError], parameter: str | None = None, *facts: str) -> TwofoldError:
    return check_refusal(ask(line).exception, kind, parameter, *facts)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real federation of two: keys, plan, ledgers, factors, a model and a signed card."""
    return reported(tmp_path_factory.mktemp("made"))


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same files, to write beside."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


FACTORS = "--plan plan.toml --factors items.round2"


def test_a_page_with_everything(folder: Path) -> None:
    out = call(f"report anna.model {FACTORS} --ledger anna.ledger -o report.html")
    text = unescape(Path("report.html").read_text())
    verdict = next(line.strip() for line in out.splitlines() if line.strip().startswith(("Joining", "Too")))
    assert verdict in text
    for words in ("Two messages", "The privacy card", "1. The guarantee", "not signed", "The data here", "ε = 20"):
        assert words in text
    assert stat.S_IMODE(Path("report.html").stat().st_mode) == 0o600
    assert "keep it inside" in out


def test_a_signed_card_and_a_public_page(folder: Path) -> None:
    record = json.loads(call(f"report anna.model {FACTORS} --card card.html --public -o public.html --json"))
    assert record["public"]
    assert record["card"]
    assert record["verdict"] is None
    text = Path("public.html").read_text()
    assert record["bytes"] == len(text.encode())
    assert "Copied from a signed card" in text
    assert "nDCG" not in text
    assert "The data here" not in text


def test_quality_needs_something_to_judge_by(folder: Path) -> None:
    assert "without quality" in call("report anna.model -o plain.html")
    assert "Quality" not in Path("plain.html").read_text()
    record = json.loads(call("report alone.model --test later.csv --against popularity -o alone.html --json"))
    assert record["verdict"].startswith("Nothing was shared")


def test_an_existing_page_stays_unless_forced(folder: Path) -> None:
    Path("report.html").write_text("mine")
    refused("report alone.model -o report.html", DataError, "output", "report.html")
    assert Path("report.html").read_text() == "mine"
    call("report alone.model --against popularity -o report.html --force")
    assert Path("report.html").read_text().startswith("<!doctype html>")
    for own in ("alone.model", "plan.toml", "items.round2", "anna.ledger", "anna.ledger.head"):
        before = Path(own).read_bytes()
        files = f"{FACTORS} --ledger anna.ledger" if own != "alone.model" else ""
        model = "alone.model" if own == "alone.model" else "anna.model"
        refused(f"report {model} {files} -o {own} --force", DataError, "output")
        assert Path(own).read_bytes() == before


def test_what_is_refused(folder: Path) -> None:
    refused("report items.csv -o r.html", BadModel)
    refused("report anna.model --factors items.round2 -o r.html", PlanMismatch, "plan")
    refused("report anna.model --data anna.csv -o r.html", BadParameter, "factors")
    refused(f"report anna.model {FACTORS} --ledger benno.ledger.head -o r.html", LedgerBroken)
    refused("report anna.model --card plan.toml -o r.html", BadCard)
    refused("report alone.model --ledger anna.ledger -o r.html", DataError, "ledger")
    refused("report alone.model --card card.html -o r.html", PlanMismatch, "card")
    refused("report alone.model -o nowhere/r.html", DataError, "output")
    refused("report alone.model -o .", DataError, "output")
    pl.DataFrame({"user": ["a"], "item": ["item-1"], "value": [1]}).write_csv("single.csv")
    refused("report alone.model --data single.csv -o r.html", EmptyTable, "split")
    for wrong in (
        "--ledger anna.ledger --card card.html",
        "--site site.toml",
        "--public --test later.csv",
        "--test later.csv --leave-n-out 1",
    ):
        result = ask(f"report alone.model {wrong} -o r.html")
        assert result.exit_code == 2
        assert not isinstance(result.exception, TwofoldError)
    assert not Path("r.html").exists()
    assert not list(Path().glob(".*.part"))


def test_another_plan_is_refused(folder: Path) -> None:
    call("plan new other.toml --catalog items.csv --n-entities 2 --n-users 9 --bound 3 --rank 2 --simulation")
    refused("evaluate anna.model --plan other.toml --factors items.round2", PlanMismatch, "plan")
    refused("evaluate alone.model --plan other.toml", PlanMismatch, "plan")
    refused("report anna.model --plan other.toml -o r.html", PlanMismatch, "plan")


@pytest.mark.parametrize("page", ["evaluate", "report"])
def test_the_commands_of_the_how_to_run_as_written(page: str, folder: Path) -> None:
    for path in [*folder.iterdir()]:
        if path.name.startswith("anna."):
            path.rename(folder / f"st-{path.name}")
    text = (Path(__file__).parents[2] / "docs" / "how-to" / f"{page}.md").read_text()
    lines = [line for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    assert len(lines) > 2
    later = people(60, 1).matrix.toarray()
    rows_of(Ratings.from_matrix(later + 1, catalog=CATALOG, users=people(60, 1).user_ids)).write_csv("later.csv")
    for line in lines:
        assert line.startswith("twofold ")
        call(line.removeprefix("twofold "))


def test_the_python_of_the_how_to_runs_as_written() -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "evaluate.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "evaluate.md", "exec"), names)
    assert set(names["found"].systems) == {"model", "alone", "popularity", "item-item"}


def test_the_page_names_every_baseline_and_verdict() -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "evaluate.md").read_text()
    assert re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE) == list(BASELINES)
    source = Path(evaluating.__file__).read_text()
    named = re.findall(r"^\| ((?:Joining|Too little)[\w ]+) \|", text, re.MULTILINE)
    said = re.findall(r'f"((?:Joining|Too little)[\w ]*)', source)
    assert len(named) == 5
    assert all(any(one.startswith(begins) for one in said) for begins in named)
    assert all(any(one.startswith(begins) for begins in named) for one in said)
