"""Nobody pays for a release that shows nothing without having said so: by commands, in every kind of plan.

Where somebody sits at a terminal the command asks; a script is refused and told what to type.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.agreed import agree
from tests.refused import check_refusal
from twofold.cli import app, main
from twofold.errors import BadPlan
from twofold.federation.plan import Plan
from twofold.identity.keys import Role
from twofold.identity.keystore import new_keys
from twofold.privacy.ledger import Ledger

ITEMS = tuple("abcdef")
ENTITIES, OPERATORS = ("anna", "bern", "clara"), ("clinic", "uni")
NEW = "plan new plan.toml --catalog items.csv --bound 5 --max-items 6 --rank 2 --mechanism gram"
JOIN = "join --data anna.csv --outbox box --inbox box -o anna.model"
RELEASE = "release --data anna.csv --entity anna -o anna.round1"
#: Kinds of plans, by their options and the commands that pay in them.
KINDS = {
    "plain": ("", (RELEASE, JOIN)),
    "peers": ("--secure peers", (JOIN,)),
    "operators": ("--secure operators --writer anna", (RELEASE, JOIN)),
}
CASES = [(kind, command) for kind, (_, commands) in KINDS.items() for command in commands]


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def paying(command: str, more: str = "") -> str:
    return f"{command} --plan plan.toml --keys anna.keys --ledger anna.ledger {more}"


def plan_of(kind: str, *, users: int) -> Plan:
    """A real plan of three entities to which everybody agreed, with keys and a table."""
    named = (*ENTITIES, *OPERATORS) if kind == "operators" else (*ENTITIES, OPERATORS[0])
    for name in named:
        role = Role.OPERATOR if name in OPERATORS else Role.ENTITY
        new_keys(f"{name}.keys", name, role).write(f"{name}.pub")
    public = " ".join(f"--public-key {name}.pub" for name in named)
    result = ask(f"{NEW} --n-users {users} {KINDS[kind][0]} {public}")
    assert result.exit_code == 0, result.output
    return agree("plan.toml", write=True)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("box").mkdir()
    Path("items.csv").write_text("\n".join(["item", *ITEMS]))
    rows = [f"{user},{ITEMS[(user + step) % 6]},1" for user in range(9) for step in range(3)]
    Path("anna.csv").write_text("\n".join(["user,item,value", *rows]))
    return tmp_path


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that somebody sits there; what they type is the input of the command."""
    monkeypatch.setattr("twofold.cli.options._asks", lambda: True)


def files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


def spent() -> int:
    return len(Ledger(Path("anna.ledger")).state().entries)


@pytest.mark.parametrize(("kind", "command"), CASES)
def test_a_script_is_refused_before_anything_is_read_written_or_spent(kind: str, command: str) -> None:
    assert plan_of(kind, users=9).prediction.word == "nothing"
    before = files()
    for table in ("anna.csv", "missing.csv"):  # whatever is in the table: only public numbers count
        result = ask(paying(command.replace("anna.csv", table), "--new-ledger"))
        error = check_refusal(result.exception, BadPlan, "confirm_useless", found="nothing")
        assert "--confirm-useless" in result.output
        assert error.expected
    assert files() == before


@pytest.mark.parametrize(("kind", "command"), CASES)
def test_who_says_so_pays_and_is_not_asked_again(kind: str, command: str) -> None:
    plan_of(kind, users=9)
    due = 3 if command == JOIN else 0
    first = ask(paying(command, "--new-ledger --confirm-useless"))
    assert first.exit_code == due, (first.output, first.exception)
    if kind == "peers":  # its price is due at a later visit, so that it is refused until then
        check_refusal(ask(paying(command)).exception, BadPlan, "confirm_useless")
        return
    assert spent() == 1
    again = ask(paying(command))
    assert again.exit_code == due, (again.output, again.exception)
    check_refusal(ask(paying(command, "--version 2")).exception, BadPlan, "confirm_useless")
    assert spent() == 1


@pytest.mark.parametrize(("kind", "command"), CASES)
def test_a_plan_of_which_something_is_expected_needs_no_word(kind: str, command: str) -> None:
    assert plan_of(kind, users=5_000).prediction.word not in (None, "nothing")
    result = ask(paying(command, "--new-ledger"))
    assert result.exit_code == (3 if command == JOIN else 0), (result.output, result.exception)


@pytest.mark.parametrize(("typed", "pays"), [("y\n", True), ("n\n", False), ("", False)])
@pytest.mark.usefixtures("terminal")
def test_at_a_terminal_somebody_is_asked(typed: str, pays: bool) -> None:
    plan_of("plain", users=9)
    result = CliRunner().invoke(app, paying(RELEASE, "--new-ledger").split(), input=typed)
    assert (result.exit_code == 0) == pays
    assert Path("anna.ledger").exists() == pays
    assert Path("anna.round1").exists() == pays


def test_the_exit_code_is_that_of_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_of("plain", users=9)
    monkeypatch.setattr(sys, "argv", ["twofold", *paying(RELEASE, "--new-ledger").split()])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
