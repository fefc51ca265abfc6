"""Attacks on every coalition at small size: sound sums are not refuted, broken ones are caught."""

from __future__ import annotations

from dataclasses import replace

import pytest

from studies.coalitions import Row, _attack, _found, _small, main, planned, rows
from twofold.privacy.coalitions import BOTH, ONE, PUBLIC

FEW = 10_000


@pytest.mark.parametrize("kind", ["operators", "entities", "both"])
@pytest.mark.parametrize("who", [PUBLIC, ONE, BOTH])
def test_no_coalition_learns_more_than_is_stated(kind, who):
    found = _found(_attack(kind, who), FEW, 11)
    assert found <= _small(kind)[who]
    if (kind, who) == ("operators", BOTH):
        assert found > 5  # the attack works: nothing hides the numbers from both


def test_the_noise_of_one_operator_suffices_for_the_public():
    silent = replace(_attack("operators", PUBLIC), noises=(1.0, 0.0))
    assert 0.1 < _found(silent, FEW, 12) <= _small("operators")[ONE]


@pytest.mark.parametrize("noises", [(1.0, 0.0), (1.0, 0.2)])
def test_an_operator_that_adds_too_little_is_caught_by_its_peer(noises):
    weak = replace(_attack("operators", ONE), noises=noises)
    assert _found(weak, FEW, 13) > _small("operators")[ONE]


def test_a_verdict_needs_both_directions():
    given = {"kind": "operators", "who": "x", "planned": ()}
    assert Row(**given, stated=1.0, found=0.5).right
    assert not Row(**given, stated=1.0, found=1.5).right
    assert Row(**given, stated=1.0, found=1.5, broken=True).result == "caught"
    assert not Row(**given, stated=1.0, found=0.5, broken=True).right


def test_plans_have_the_row_that_is_printed():
    assert planned("both", 10).sharing == "operators"
    assert planned("plain", 1).secure is None


@pytest.mark.slow
def test_the_whole_table():
    found = list(rows(canaries=60_000, seed=5))
    assert all(row.right for row in found if not row.broken)
    assert [row.result for row in found if row.broken][:2] == ["caught", "caught"]
    assert len({(row.kind, row.who) for row in found}) == len(found) == 17


@pytest.mark.slow
def test_the_command_prints_a_verdict_for_every_row(capsys):
    """With few canaries the finest fault is missed, and the exit code says so."""
    assert main(["--canaries", "400"]) in (0, 1)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(lines) == 18
    assert "REFUTED" not in "\n".join(lines)
