"""`twofold audit`: a table or JSON, quiet progress, and an exit code that means something."""

from __future__ import annotations

import json
import math

import pytest
import typer
from typer.testing import CliRunner

from twofold import __version__
from twofold.cli import audit as module
from twofold.privacy.audit.suite import Finding, Report
from twofold.privacy.site_words import read_audit

SOUND = Finding(mechanism="m", method="x", claimed_epsilon=1.0, claimed_delta=0.0, lower_bound=0.9)
ROW = {"mechanism": "m", "adjacency": "replace", "claimed": 2.0, "found": 2.0, "tight": True}


@pytest.fixture
def run(monkeypatch):
    app = typer.Typer()
    app.command()(module.audit)

    def call(findings, *arguments):
        report = Report(confidence=0.9995, findings=tuple(findings), enumeration=(ROW,))

        def fake(*, more, rng, announce):
            assert more  # the release mechanisms are attacked end to end too
            announce("m")
            return report

        monkeypatch.setattr(module, "run_audit", fake)
        return CliRunner().invoke(app, list(arguments))

    return call


def test_json_is_one_record(run):
    result = run([SOUND], "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["findings"][0]["lower_bound"] == 0.9


def test_the_table_names_claims_and_bounds(run):
    result = run([SOUND])
    assert result.exit_code == 0
    for text in ("claimed ε", "proven ε at least", "0.900", "not falsified", "passed", "99.95%"):
        assert text in result.stdout


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"lower_bound": 1.2}, "FALSIFIED"),
        ({"broken": True}, "NOT CAUGHT"),
        ({"differing_parameters": ("scale",)}, "scale"),
    ],
)
def test_a_failure_is_loud(run, change, verdict):
    fields = {"mechanism": "m", "method": "x", "claimed_epsilon": 1.0, "claimed_delta": 0.0, "lower_bound": 0.9}
    result = run([Finding(**fields | change)])
    assert result.exit_code == 1
    assert verdict in result.stdout
    assert "FAILED" in result.stdout


def test_no_progress_bar_outside_a_terminal(run):
    assert run([SOUND], "--json").stderr == ""


def test_the_result_is_written_for_a_card(run, tmp_path):
    broken = Finding(
        mechanism="b", method="x", claimed_epsilon=1.0, claimed_delta=0.0, lower_bound=math.inf, broken=True
    )
    assert run([SOUND, broken], "--output", str(tmp_path / "audit.json")).exit_code == 0
    found = read_audit(tmp_path / "audit.json")
    assert (found.passed, found.sound, found.broken) == (True, 1, 1)
    assert found.software == f"twofold {__version__}"
    assert json.loads((tmp_path / "audit.json").read_text())["mechanisms"] == [SOUND.mechanism]
    assert found.mechanisms == (SOUND.mechanism,)


def test_a_failed_audit_is_written_too(run, tmp_path):
    wrong = Finding(mechanism="m", method="x", claimed_epsilon=1.0, claimed_delta=0.0, lower_bound=1.2)
    assert run([wrong], "-o", str(tmp_path / "audit.json")).exit_code == 1
    assert not read_audit(tmp_path / "audit.json").passed
