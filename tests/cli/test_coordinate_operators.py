"""`twofold coordinate` for two operators: what it prints, exit codes, separate folders, and who must have agreed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.refused import check_refusal
from twofold.cli import app
from twofold.errors import NotReady, TooFewMessages

ENTITIES, OPERATORS = ("anna", "bern", "carl"), ("clinic", "uni")
ITEMS = "abcdef"


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def call(line: str) -> str:
    result = ask(line)
    assert result.exit_code == 0, (line, result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real plan to which everybody agreed, and the reports of all entities in a folder of their own."""
    folder = tmp_path_factory.mktemp("operators")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ENTITIES:
            call(f"keys new --entity {name} --keys {name}.keys --output {name}.pub")
            rows = [f"{user},{ITEMS[(user + step) % 6]},1" for user in range(20) for step in range(3)]
            Path(f"{name}.csv").write_text("\n".join(["user,item,value", *rows]))
        for name in OPERATORS:
            call(f"keys new --operator {name} --keys {name}.keys --output {name}.pub")
        Path("items.csv").write_text("\n".join(["item", *ITEMS]))
        public = " ".join(f"--public-key {name}.pub" for name in (*ENTITIES, *OPERATORS))
        call(f"plan new plan.toml --catalog items.csv --secure operators --floor 2 --n-users 200 --rank 1 {public}")
        for name in (*ENTITIES, *OPERATORS):
            call(f"plan agree plan.toml --keys {name}.keys --output {name}.agreement")
        call("plan agreed plan.toml clinic.agreement uni.agreement -o plan.agreed")
        Path("sent").mkdir()
        for name in ENTITIES:
            ledger = f"--ledger {name}.ledger --new-ledger"
            joined = ask(
                f"join --plan plan.toml --data {name}.csv {ledger} --keys {name}.keys --confirm --outbox sent "
                f"--inbox sent -o {name}.model"
            )
            assert joined.exit_code == 3, joined.output
    return folder


@pytest.fixture(autouse=True)
def folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    shutil.copytree(prepared, home)
    monkeypatch.chdir(home)
    for name in OPERATORS:
        Path(f"{name}-in").mkdir()
        Path(f"{name}-out").mkdir()
    return home


def look(name: str, more: str = "", *, shared: bool = False) -> Result:
    boxes = "--inbox sent --outbox sent" if shared else f"--inbox {name}-in --outbox {name}-out"
    return ask(f"coordinate --plan plan.toml {boxes} --state {name}.state --keys {name}.keys {more}")


def send(entity: str, operator: str) -> None:
    (path,) = Path("sent").glob(f"{entity}.*.report")
    shutil.copy(path, f"{operator}-in")


def carry() -> None:
    for one, other in (OPERATORS, OPERATORS[::-1]):
        for path in Path(f"{one}-out").iterdir():
            shutil.copy(path, f"{other}-in")


def test_a_shared_drive_and_what_is_said_on_the_way() -> None:
    first = look("clinic", shared=True)
    assert first.exit_code == 3
    assert "open: lists of reports, step 2 of 5" in first.output
    assert "waiting: for operator uni" in first.output
    assert "let uni run twofold coordinate" in first.output.replace("\n", " ")
    assert "1 of 1" not in first.output
    assert "missing" not in first.output
    codes = [look(name, shared=True).exit_code for name in ("uni", "clinic", "uni", "clinic", "uni", "clinic")]
    assert codes == [3, 3, 3, 3, 0, 0]
    assert "published: 3 of 3 reports" in look("uni", shared=True).output
    assert len([*Path("sent").glob("*.round2")]) == 1


def test_json_names_the_operator_that_is_waited_for() -> None:
    found = look("clinic", "--json", shared=True)
    record = json.loads(found.stdout)
    assert (record["step_open"], record["missing"], record["published"]) == ("lists of reports", ["uni"], False)


def test_folders_apart_with_reports_sent_to_either() -> None:
    send("anna", "clinic")
    send("bern", "uni")
    send("carl", "uni")
    Path("uni-in/stranger.report").write_bytes(b"nonsense")
    for _ in range(6):
        for name in OPERATORS:
            last = look(name)
            carry()
    assert last.exit_code == 0
    assert "published: 3 of 3 reports" in last.output
    published = {path.read_bytes() for name in OPERATORS for path in Path(f"{name}-out").glob("*.round2")}
    assert len(published) == 1


def test_below_the_floor_nothing_is_published_and_nothing_is_lost() -> None:
    send("anna", "clinic")
    waiting = look("clinic")
    assert waiting.exit_code == 3
    assert "missing: bern, carl" in waiting.output
    assert "it needs 1 more, 2 of 3 in all" in waiting.output
    error = look("clinic", "--close").exception
    check_refusal(error, TooFewMessages, "secure.floor", found="1", expected="at least 2")
    assert [*Path("clinic-out").glob("*.list")] == []
    send("bern", "clinic")
    assert "--close" in look("clinic").output
    assert look("clinic", "--close").exit_code == 3
    for _ in range(4):
        carry()
        codes = [(look(name).exit_code, carry())[0] for name in OPERATORS[::-1]]
    assert codes == [0, 0]
    assert "published: 2 of 3 reports" in look("uni").output


def test_an_entity_finds_the_item_factors() -> None:
    for name in ("clinic", "uni") * 4:
        look(name, shared=True)
    joined = ask(
        "join --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys --outbox sent --inbox sent "
        "-o anna.model"
    )
    assert joined.exit_code == 0, joined.output


@pytest.mark.parametrize("left", [(), ("uni",)])
def test_agreements_of_both_operators_must_be_here(left: tuple[str, ...]) -> None:
    Path("plan.agreed").unlink()
    if left:
        assert ask("plan agreed plan.toml uni.agreement -o plan.agreed").exit_code != 0
        shutil.copy("uni.agreement", "plan.agreed")
    result = look("clinic", shared=True)
    assert result.exit_code != 0
    if not left:
        check_refusal(result.exception, NotReady, "agreements", "plan.agreed")
    assert not Path("clinic.state").exists()
    assert [*Path("sent").glob("*.list")] == []
