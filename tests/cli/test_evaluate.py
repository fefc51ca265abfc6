"""`twofold evaluate`: as a data scientist would type it, and what it refuses."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from tests.entity.evaluated import federation, people
from tests.refused import check_refusal
from tests.reported import rows_of
from twofold.cli import app
from twofold.data.catalog import Catalog
from twofold.data.read import read_ratings
from twofold.data.split import leave_n_out
from twofold.entity.personalize import fit_alone
from twofold.errors import (
    BadModel,
    BadParameter,
    BadValue,
    DataError,
    EmptyTable,
    MissingColumn,
    PlanMismatch,
    TransportError,
    TwofoldError,
    UnreadableSource,
)
from twofold.federation.factors import save_factors


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    made = federation(60, 300)
    made.models["e0"].save("anna.model")
    save_factors(made.factors, "items.round2", made.plan)
    split = leave_n_out(people(60, 1), n=1, rng=0)
    fit_alone(split.train, name="alone").save("alone.model")
    rows_of(people(60, 1)).write_csv("visits.csv")
    rows_of(split.test).write_csv("later.csv")
    return tmp_path


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def call(line: str) -> str:
    result = ask(line)
    assert result.exit_code == 0, (line, result.output, result.exception)
    return result.stdout


def refused(line: str, kind: type[TwofoldError], parameter: str | None = None, *facts: str) -> TwofoldError:
    return check_refusal(ask(line).exception, kind, parameter, *facts)


def test_the_answer_comes_first_and_fits_80_columns(folder: Path) -> None:
    out = call("evaluate anna.model --factors items.round2 --against alone,popularity,shared-popularity,random")
    assert out.startswith("Joining ")
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "…" not in out
    for word in ("nDCG@10", "MRR@10", "coverage@10", "shared-popularity", "standard error", "keep them here"):
        assert word in out


def test_json_and_the_file_hold_the_same_figures(folder: Path) -> None:
    line = "evaluate anna.model --factors items.round2 --leave-n-out 1 --seed 3 -n 5 --json"
    record = json.loads(call(f"{line} -o figures.csv"))
    table = pl.read_csv("figures.csv")
    assert table.height == len(record["table"])
    assert table["value"].to_list() == pytest.approx([row["value"] for row in record["table"]])
    alone = table.filter((pl.col("system") == "alone") & (pl.col("history") == "all") & (pl.col("metric") == "ndcg"))
    [gap] = [
        row
        for row in record["differences"]
        if (row["against"], row["history"], row["metric"]) == ("alone", "all", "ndcg")
    ]
    assert alone["gain"].item() == pytest.approx(gap["value"])
    assert alone["people"].item() == 60
    call(f"{line} -o figures.parquet")
    assert pl.read_parquet("figures.parquet").columns == table.columns
    call(f"{line} -o figures.json")
    assert json.loads(Path("figures.json").read_text()) == record
    assert all(stat.S_IMODE(Path(f"figures.{end}").stat().st_mode) == 0o600 for end in ("csv", "parquet", "json"))


def test_a_later_table_judges_the_model_as_it_is(folder: Path) -> None:
    strange = pl.DataFrame({"user": ["stranger", "p1-0"], "item": ["item-3", "unheard of"], "value": [1, 1]})
    pl.concat([pl.read_csv("later.csv"), strange.cast({"value": pl.Int64})]).write_csv("mixed.csv")
    record = json.loads(call("evaluate alone.model --test mixed.csv --json"))
    assert record["left_out"] == {
        "people the model does not know": 1,
        "entries of people the model does not know": 1,
        "rows of items outside the catalog": 1,
    }
    assert record["joining"] == "alone"
    out = call("evaluate alone.model --test mixed.csv")
    assert "Left out: 1 people the model does not know" in out
    assert "stranger" not in out
    assert "unheard" not in out


def test_data_of_ones_own_and_both_splitters(folder: Path) -> None:
    line = "evaluate anna.model --factors items.round2 --data visits.csv --json"
    one, share = (json.loads(call(f"{line} {how}")) for how in ("--leave-n-out 2", "--hold-out 0.5"))
    assert one["how"] != share["how"]
    again = json.loads(call("evaluate anna.model --factors items.round2 --json --leave-n-out 2"))
    assert again["how"] == one["how"]  # the model holds as many histories of the same lengths


def test_rows_without_a_value_are_dropped_on_request(folder: Path) -> None:
    rows = pl.read_csv("visits.csv")
    gap = pl.DataFrame({name: [None] for name in rows.columns}, schema=rows.schema)
    pl.concat([rows, gap]).write_csv("gaps.csv")
    line = "evaluate anna.model --factors items.round2 --leave-n-out 2 --json --data"
    assert ask(f"{line} gaps.csv").exit_code != 0
    assert (
        json.loads(call(f"{line} gaps.csv --missing drop"))["table"] == json.loads(call(f"{line} visits.csv"))["table"]
    )


def test_metrics_are_chosen_and_the_first_decides(folder: Path) -> None:
    record = json.loads(call("evaluate anna.model --factors items.round2 --metrics recall,ndcg --json"))
    assert record["metric"] == "recall"
    assert {row["metric"] for row in record["table"]} == {"recall", "ndcg"}
    refused("evaluate anna.model --factors items.round2 --metrics auc", BadParameter, "metrics", "'auc'")


def test_what_is_refused_before_anything_is_fitted(folder: Path) -> None:
    refused("evaluate anna.model", BadParameter, "factors")
    refused("evaluate alone.model --against shared", BadParameter, "factors")
    refused("evaluate alone.model --against best", BadParameter, "against", "'best'")
    refused("evaluate alone.model --factors items.round2", BadParameter, "factors")
    refused("evaluate missing.model", TransportError)
    refused("evaluate visits.csv", BadModel)
    refused("evaluate alone.model --data missing.csv", UnreadableSource)
    refused("evaluate alone.model --data visits.csv --user patient", MissingColumn)
    refused("evaluate alone.model -o figures.txt", DataError, "output", ".txt")
    refused("evaluate alone.model -o alone.csv/figures.csv", DataError, "output")
    for wrong in (
        "--test later.csv --leave-n-out 1",
        "--test later.csv --data visits.csv",
        "--leave-n-out 1 --hold-out 0.2",
        "--leave-n-out 0",
        "--hold-out 2",
        "-n 0",
    ):
        result = ask(f"evaluate alone.model {wrong}")
        assert result.exit_code == 2
        assert not isinstance(result.exception, TwofoldError)


def test_an_existing_output_stays_unless_forced(folder: Path) -> None:
    Path("figures.csv").write_text("mine")
    line = "evaluate alone.model --against popularity -o figures.csv"
    refused(line, DataError, "output", "figures.csv")
    assert Path("figures.csv").read_text() == "mine"
    call(f"{line} --force")
    assert Path("figures.csv").read_text().startswith("system,history,")
    before = Path("alone.model").read_bytes()
    os.link("alone.model", "linked.csv")
    refused("evaluate alone.model -o linked.csv --force", DataError, "output")
    assert Path("alone.model").read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    Path("closed").mkdir(mode=0o500)
    refused("evaluate alone.model -o closed/figures.csv", DataError, "output")


def test_tables_that_cannot_be_judged(folder: Path) -> None:
    pl.DataFrame({"user": [], "item": [], "value": []}, schema={"user": str, "item": str, "value": int}).write_csv(
        "empty.csv"
    )
    refused("evaluate alone.model --data empty.csv", EmptyTable, "data")
    refused("evaluate alone.model --test empty.csv", EmptyTable, "test")
    pl.DataFrame({"user": ["a", "b"], "item": ["item-1", "item-2"], "value": [1, 1]}).write_csv("single.csv")
    refused("evaluate alone.model --data single.csv", EmptyTable, "split")
    refused("evaluate alone.model --data single.csv --leave-n-out 3", EmptyTable, "split")
    refused("evaluate alone.model --data visits.csv --hold-out 0", EmptyTable, "split")
    refused("evaluate alone.model --test single.csv", EmptyTable, "test")
    pl.DataFrame({"user": ["a"], "item": ["item-1"], "value": [-1]}).write_csv("negative.csv")
    refused("evaluate alone.model --data negative.csv", BadValue)
    pl.DataFrame({"user": ["a"], "item": ["of another list"], "value": [1]}).write_csv("foreign.csv")
    refused("evaluate alone.model --data foreign.csv", EmptyTable, "data")
    assert "another list" not in ask("evaluate alone.model --data foreign.csv --unknown-items error").output


def test_factors_of_another_model_are_refused(folder: Path) -> None:
    other = federation(60, 90)
    save_factors(other.factors, "other.round2", other.plan)
    refused("evaluate anna.model --factors other.round2", PlanMismatch)


def test_a_catalog_of_numbers_and_people_of_numbers(folder: Path) -> None:
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((30, 12)) < 0.4)
    pl.DataFrame({"user": users, "item": items, "value": 1}).write_csv("numbers.csv")
    ratings = read_ratings("numbers.csv", Catalog(range(12)), feedback="counts")
    fit_alone(ratings).save("numbers.model")
    record = json.loads(call("evaluate numbers.model --data numbers.csv --against popularity,item-item --json"))
    assert set(record["systems"]) == {"model", "popularity", "item-item"}


def test_all_systems_are_told_in_words(folder: Path) -> None:
    record = json.loads(call("evaluate anna.model --factors items.round2 --json --against alone,random"))
    assert list(record["systems"]) == ["model", "alone", "random"]
    assert all(record["systems"].values())
