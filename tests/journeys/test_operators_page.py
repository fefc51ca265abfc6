"""The page about two operators: its commands exist with these options, and its Python runs as written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from tests.agreed import agree
from tests.simulation.test_secure import CATALOG, ratings
from twofold.cli import app
from twofold.federation.plan import Plan
from twofold.federation.secure import OperatorSum
from twofold.identity.keys import Role
from twofold.identity.keystore import new_keys
from twofold.identity.roster import Roster
from twofold.privacy.ledger import Ledger

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "operators.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    text = "".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ")
    return [line.split("#")[0].strip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("line", commands())
def test_every_command_takes_these_options(line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "twofold"
    found: TyperCommand | TyperGroup = typer.main.get_command(app)
    while isinstance(found, TyperGroup):
        found = found.commands[words.pop(0)]
    found.make_context("twofold", words, resilient_parsing=False)


def test_the_python_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("drop").mkdir()
    everybody = {"st-anna": Role.ENTITY, "st-bern": Role.ENTITY, "clinic": Role.OPERATOR, "university": Role.OPERATOR}
    roster = Roster([new_keys(f"{name}.keys", name, role) for name, role in everybody.items()])
    terms: dict[str, Any] = {"mechanism": "gram", "rank": 2, "n_entities": 2, "roster": roster}
    CATALOG.write("items.csv")
    made = Plan(
        catalog=CATALOG, feedback="counts", bound=5, max_items=3, n_users=2_000, secure=OperatorSum(floor=2), **terms
    )
    made.write("plan.toml")
    plan = agree("plan.toml", write=True)
    Ledger.create("st-anna.ledger", dataset="st-anna", ceiling=plan.budget, unit=plan.unit)
    names: dict[str, Any] = {"ratings": ratings(1)}
    exec(compile(code, "operators.md", "exec"), names)
    assert names["status"].missing == ("st-bern",)
    assert not names["status"].refused
