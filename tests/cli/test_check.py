"""`twofold check`: as a data scientist would type it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from twofold.cli import app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pl.DataFrame({"item": ["creatinine", "heparin"]}).write_csv(tmp_path / "items.csv")
    visits = {"patient": ["p1", "p1", "p2"], "code": ["creatinine", "heparin", "heparin"], "n": [9, 1, 2]}
    pl.DataFrame(visits).write_parquet(tmp_path / "visits.parquet")
    return tmp_path


def arguments(folder: Path, *more: str) -> list[str]:
    columns = ["--user", "patient", "--item", "code", "--value", "n"]
    return ["check", str(folder / "visits.parquet"), "--catalog", str(folder / "items.csv"), *columns, *more]


def test_json_has_what_a_bound_would_cut(folder: Path) -> None:
    result = CliRunner().invoke(app, arguments(folder, "--bound", "5", "--max-items", "1", "--json"))
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert (report["users"], report["items"], report["entries"]) == (2, 2, 3)
    [cut] = report["bounds"]
    assert cut["entries_clipped"] == pytest.approx(1 / 3)
    assert cut["entries_dropped"] == pytest.approx(1 / 3)
    assert cut["mass_clipped"] == pytest.approx(4 / 12)
    assert "private data" in report["warning"]


def test_the_table_warns_and_without_bounds_shows_a_ladder(folder: Path) -> None:
    result = CliRunner().invoke(app, arguments(folder))
    assert result.exit_code == 0
    assert "keep them here" in result.stdout
    assert result.stdout.count("%") >= 9 * 4


def test_l1_and_l2_caps_reach_the_bounds(folder: Path) -> None:
    for flag, norm in (("--l1", "l1"), ("--l2", "l2")):
        result = CliRunner().invoke(app, arguments(folder, flag, "3", "--json"))
        [cut] = json.loads(result.stdout)["bounds"]
        assert (cut["norm"], cut["norm_cap"], cut["users_scaled"]) == (norm, 3.0, 0.5)


def test_our_errors_are_one_message_and_exit_code_2(folder: Path) -> None:
    command = [sys.executable, "-m", "twofold", *arguments(folder)]
    command[command.index("patient")] = "person"
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("MissingColumn: ")
    assert "Do: --user COLUMN, or --item COLUMN, or --value COLUMN\n" in result.stderr
    assert result.stderr.endswith("More: twofold errors missing-column\n")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_an_entity_with_fewer_people_than_promised_is_told_here_and_not_refused(folder: Path) -> None:
    for users, told in ((2, False), (60, True)):
        line = ["plan", "new", str(folder / "plan.toml"), "--catalog", str(folder / "items.csv"), "--rank", "1"]
        made = CliRunner().invoke(app, [*line, "--n-users", str(users), "--simulation", "--force"])
        assert made.exit_code == 0, made.output
        asked = arguments(folder, "--plan", str(folder / "plan.toml"))
        result = CliRunner().invoke(app, asked)
        assert result.exit_code == 0
        assert ("NOTE" in result.stderr) is told
        quiet = CliRunner().invoke(app, [*asked, "--json"])  # read by programs, whose logs are not the person's screen
        assert (quiet.exit_code, quiet.stderr) == (0, "")


def test_rows_with_something_missing_are_dropped_and_counted(folder: Path) -> None:
    visits = {"patient": ["p1", None, "p2"], "code": ["creatinine", "heparin", "heparin"], "n": [9, 1, None]}
    pl.DataFrame(visits).write_parquet(folder / "visits.parquet")
    assert CliRunner().invoke(app, arguments(folder)).exit_code != 0
    result = CliRunner().invoke(app, arguments(folder, "--missing", "drop", "--json"))
    assert json.loads(result.stdout)["notes"]["missing_dropped"] == 2
    assert "2 rows" in CliRunner().invoke(app, arguments(folder, "--missing", "drop")).stdout
