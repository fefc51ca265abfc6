"""`twofold plan explain` from a file and from options."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from twofold.cli.plan import app
from twofold.errors import BadPrivacyParameter, UnreadableSource

NUMBERS = "n_items = 457\nn_users = 900\nbound = 1\nmax_items = 66\nn_prototypes = 10\n"


def run(*arguments: object, fails: type[Exception] | None = None):
    done = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    if fails is None:
        assert done.exit_code == 0, done.output + repr(done.exception)
    else:
        assert isinstance(done.exception, fails), done.output + repr(done.exception)
    return done.output


@pytest.fixture
def plan(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(NUMBERS)
    return file


def test_the_table_has_every_epsilon_and_both_mechanisms(plan):
    shown = run(plan)
    assert "4,580 numbers, 36,640 bytes" in shown
    for text in ("52.5%", "73.1%", "95.3%", "99.99%", "Laplace", "Gaussian", "profile", "useful?"):
        assert text in shown
    assert "…" not in shown


def test_json_holds_the_numbers(plan):
    told = json.loads(run(plan, "--json"))
    assert [row["epsilon"] for row in told["rows"][::2]] == [0.1, 1, 3, 10]
    assert told["rows"][0]["noise_on_mean"] == pytest.approx(11.5, rel=0.01)


def test_options_go_before_the_file(plan):
    told = json.loads(run(plan, "--json", "--n-users", 9000, "--epsilon", 2))
    assert told["public"]["n_users"] == 9000
    assert {row["epsilon"] for row in told["rows"]} == {2}


def test_options_alone_are_enough():
    options = ("--n-items", 457, "--n-users", 900, "--bound", 1, "--max-items", 66, "--n-prototypes", 10)
    assert json.loads(run(*options, "--json"))["leaves"]["numbers"] == 4580


def test_the_plans_own_epsilon_joins_the_usual_ones(plan):
    plan.write_text(NUMBERS + "epsilon = 0.5\nrank = 20\n")
    told = json.loads(run(plan, "--json"))
    assert [row["epsilon"] for row in told["rows"][::2]] == [0.1, 0.5, 1, 3, 10]


def test_bad_files_and_numbers(plan, tmp_path):
    run(tmp_path / "none.toml", fails=UnreadableSource)
    plan.write_text("n_items 5")
    run(plan, fails=UnreadableSource)
    plan.write_text("n_items = 5")
    run(plan, fails=BadPrivacyParameter)
    plan.write_text(NUMBERS.replace("900", '"many"'))
    run(plan, fails=BadPrivacyParameter)
    plan.write_text(NUMBERS + 'epsilon = "small"')
    run(plan, fails=BadPrivacyParameter)
