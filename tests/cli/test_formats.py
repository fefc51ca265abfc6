"""--meds, --omop and --recbole in the place of --data, and item lists from public vocabularies."""

from __future__ import annotations

import json
import random
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from tests.cli.world import Told, ask
from tests.data.formats import cdm
from tests.refused import check_refusal
from twofold.errors import CatalogError, DataError, MissingColumn, UnreadableSource

INTER = "user_id:token\titem_id:token\trating:float\n1\tLAB//1\t3\n1\tLAB//2\t2\n2\tLAB//1\t5\n"
VERBS = (
    "check {source} --plan plan.toml",
    "release --plan plan.toml {source} --ledger x.ledger --new-ledger -o x.round1",
    "personalize --plan plan.toml {source} -o x.model",
    "join --plan plan.toml {source} --ledger x.ledger --new-ledger -o x.model --outbox . --inbox .",
)


def typed(line: str) -> Told:
    return ask(*line.split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A MEDS folder, an OMOP database, RecBole files, a list of codes and a plan for each."""
    monkeypatch.chdir(tmp_path)
    rows = [(person, datetime(2025, 1, 1), f"LAB//{1 + person % 3}") for person in range(30) for _ in range(3)]
    Path("meds/data").mkdir(parents=True)
    pl.DataFrame(rows, schema=["subject_id", "time", "code"], orient="row").write_parquet("meds/data/0.parquet")
    Path("meds/metadata").mkdir()
    Path("meds/metadata/dataset.json").write_text('{"dataset_name": "x"}')
    Path("codes.csv").write_text("code,description\nLAB//1,Lactate\nLAB//2,Sodium\nLAB//3,Urea\n")
    Path("films.inter").write_text(INTER)
    cdm.sqlite_file(Path("cdm.sqlite"))
    told = typed("catalog meds codes.csv --public -o items.csv")
    assert told.code == 0, told
    for name, catalog in (("plan", "items.csv"), ("concepts", "concepts.csv")):
        if name == "concepts":
            assert typed(f"catalog omop cdm.sqlite --public -o {catalog}").code == 0
        line = f"plan new {name}.toml --catalog {catalog} --n-users 30 --max-items 2 --bound 5 --rank 1 --simulation"
        assert typed(line).code == 0
    return tmp_path


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_reads_data_takes_the_formats(verb: str, folder: Path) -> None:
    told = typed(verb.format(source="--meds meds --codes LAB// --since 2025-01-01 --before 2026-01-01"))
    assert told.code == (3 if verb.startswith("join") else 0), told
    other = verb.replace("plan.toml", "concepts.toml").replace(" x.", " y.")
    told = typed(other.format(source="--omop sqlite:///cdm.sqlite"))
    assert told.code == (3 if verb.startswith("join") else 0), told


def test_evaluate_names_the_tables_and_warns_where_the_model_had_others(folder: Path) -> None:
    tables = "--table drug_exposure= --table measurement"
    assert typed(f"catalog omop cdm.sqlite {tables} --public -o every.csv").code == 0
    made = "plan new every.toml --catalog every.csv --n-users 30 --max-items 5 --bound 5 --rank 1 --simulation"
    assert typed(made).code == 0
    told = typed(f"personalize --plan every.toml --omop cdm.sqlite {tables} -o every.model")
    assert told.code == 0, told
    judge = "evaluate every.model --omop cdm.sqlite --leave-n-out 1 --resamples 2 --json"
    same = json.loads(typed(f"{judge} {tables}").out)["caveats"]
    assert "drug_exposure, measurement" in same[0]
    assert not any("WARNING" in one for one in same)
    fewer = json.loads(typed(f"{judge} --table drug_exposure=").out)["caveats"]
    assert any("WARNING" in one for one in fewer)


def test_a_table_and_a_format_give_the_same_message(folder: Path) -> None:
    """All formats end in the same Ratings."""
    events = pl.read_parquet("meds/data/0.parquet")
    events.group_by("subject_id", "code").len("value").write_csv("visits.csv")
    table = typed("check visits.csv --plan plan.toml --user subject_id --item code --json")
    shards = typed("check --meds meds --plan plan.toml --json")
    one, other = json.loads(table.out), json.loads(shards.out)
    assert (one["notes"]["rows"], other["notes"]["rows"]) == (30, 90)
    assert {**one, "notes": None} == {**other, "notes": None}


def test_check_without_a_plan(folder: Path) -> None:
    told = typed("check --meds meds --catalog items.csv --json")
    assert json.loads(told.out)["users"] == 30
    told = typed("check --recbole films.inter --catalog items.csv --feedback ratings --json")
    assert json.loads(told.out)["entries"] == 3


def test_evaluate_and_report_hold_entries_of_a_format_out(folder: Path) -> None:
    rng = random.Random(0)
    rows = [(person, datetime(2025, 1, 1), f"LAB//{rng.randint(1, 3)}") for person in range(60) for _ in range(9)]
    pl.DataFrame(rows, schema=["subject_id", "time", "code"], orient="row").write_parquet("meds/data/0.parquet")
    for line in (
        "release --plan plan.toml --meds meds --ledger x.ledger --new-ledger -o x.round1",
        "factorize x.round1 --plan plan.toml -o items.round2",
        "personalize items.round2 --plan plan.toml --meds meds -o x.model",
    ):
        assert typed(line).code == 0
    more = "--plan plan.toml --factors items.round2"
    told = typed(f"evaluate x.model --meds meds {more} --against popularity --resamples 2 -n 1 --json")
    assert told.code == 0, told
    assert max(row["people"] for row in json.loads(told.out)["table"]) > 30
    assert typed(f"report x.model --meds meds {more} --against popularity -o x.html").code == 0
    for verb in ("evaluate x.model --json", "report x.model -o y.html"):
        check_refusal(ask(*verb.split(), "--meds", "nowhere").error, UnreadableSource, "folder")


@pytest.mark.parametrize(
    "options",
    [
        "--meds meds --omop cdm.sqlite",
        "--meds meds visits.csv",
        "--meds meds --user patient",
        "--meds meds --duplicates sum",
        "--meds meds --care-site 5",
        "--meds meds --show-sql",
        "--recbole films.inter --since 2025-01-01",
        "--omop cdm.sqlite --codes LAB//",
        "visits.csv --codes LAB//",
        "visits.csv --since 2025-01-01",
        "",
    ],
)
def test_options_that_do_not_go_together_are_refused(options: str, folder: Path) -> None:
    told = ask("check", *options.split(), "--plan", "plan.toml")
    assert told.code == 2
    assert "Error" in told.err


def test_the_sql_is_printed_and_nothing_is_read(folder: Path) -> None:
    line = "release --plan concepts.toml --omop postgresql://me:Jane@nowhere/x --schema cdm --show-sql --ledger x -o y"
    told = typed(line)
    assert told.code == 0
    assert told.out.startswith("SELECT e.person_id")
    assert told.out.rstrip().endswith(";")
    assert "Jane" not in told.out
    assert not (folder / "x").exists()


def test_counts_are_no_ratings(folder: Path) -> None:
    line = (
        "plan new ratings.toml --catalog items.csv --feedback ratings --n-users 30 --max-items 2 --rank 1 --simulation"
    )
    assert typed(line).code == 0
    told = typed("check --meds meds --plan ratings.toml")
    check_refusal(told.error, DataError, "meds")
    assert typed("check --recbole films.inter --plan ratings.toml").code == 0


def test_a_database_is_never_overwritten(folder: Path) -> None:
    before = Path("cdm.sqlite").read_bytes()
    for source in ("cdm.sqlite", "sqlite:///cdm.sqlite"):
        told = typed(f"personalize --plan concepts.toml --omop {source} -o cdm.sqlite --force --entity x")
        check_refusal(told.error, DataError, "output")
        told = typed(f"catalog omop {source} --public --force -o cdm.sqlite")
        assert isinstance(told.error, DataError)
    assert Path("cdm.sqlite").read_bytes() == before


def test_a_list_that_nobody_calls_public_makes_no_file(folder: Path) -> None:
    for line in ("catalog meds codes.csv -o new.csv", "catalog omop cdm.sqlite -o new.csv"):
        told = typed(line)
        check_refusal(told.error, CatalogError, "public")
        assert "--public" in told.err
    assert not Path("new.csv").exists()


def test_features_of_the_vocabulary_go_into_a_plan(folder: Path) -> None:
    line = ["catalog", "omop", "cdm.sqlite", "--table", "drug_exposure", "--table", "measurement", "--public"]
    told = ask(
        *line, "--classes", "ATC 2nd", "--classes", "LOINC Class", "--features", "kinds.csv", "-o", "all.csv", "--json"
    )
    record = json.loads(told.out)
    assert (record["items"], record["classes"], record["described"]) == (4, 3, 4)
    told = typed("plan new f.toml --catalog all.csv --features kinds.csv --n-users 9 --max-items 2 --simulation")
    assert told.code == 0, told
    missing = ask(*line, "--classes", "ATC 5th", "--features", "more.csv", "-o", "more-items.csv")
    check_refusal(missing.error, CatalogError, "tables", "ATC 5th")
    assert not Path("more.csv").exists()
    assert not Path("more-items.csv").exists()
    assert ask(*line, "--features", "more.csv", "-o", "x.csv").code == 2
    assert ask(*line, "-o", "x.txt").code == 2


def test_an_item_file_of_recbole(folder: Path) -> None:
    Path("films.item").write_text("item_id:token\tmovie_title:token_seq\n1\tToy Story\n")
    assert typed("catalog recbole films.item --public -o films.csv").code == 0
    assert Path("films.csv").read_text() == "item,title\n1,Toy Story\n"


def test_no_error_of_a_format_shows_a_row(folder: Path) -> None:
    pl.DataFrame({"Jane Doe": [1], "code": ["hiv-test"]}).write_parquet("meds/data/1.parquet")
    told = typed("check --meds meds --plan plan.toml")
    check_refusal(told.error, MissingColumn, "subject_id")
    Path("films.inter").write_text("Jane Doe\thiv-test\tpositive\n")
    for line in ("check --meds meds --plan plan.toml", "check --recbole films.inter --plan plan.toml"):
        told = typed(line)
        assert told.code == 2
        assert not [word for word in ("Jane", "hiv-test", "positive") if word in f"{told.out}{told.err}{told.error}"]
