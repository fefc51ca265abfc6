"""`twofold demo`: runs without data, and its table says what it should."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from twofold.cli import app

SMALL = ["demo", "--patients", "1200", "--hospitals", "8", "--seed", "3"]


def test_the_numbers_are_ranks_and_better_than_chance() -> None:
    result = CliRunner().invoke(app, [*SMALL, "--json"])
    assert result.exit_code == 0, result.output
    lines = json.loads(result.stdout)
    assert [line["group"] for line in lines] == ["smallest", "second", "third", "largest"]
    assert sum(line["patients"] for line in lines) == 1200
    assert sum(line["hospitals"] for line in lines) == 8
    for line in lines:
        for name in ("common_everywhere", "common_here", "alone", "pooled"):
            assert 0 < line[name] < 0.25
        assert 0.3 < line["mass_kept"] < 1


def test_a_seed_repeats_the_table() -> None:
    first, second = (CliRunner().invoke(app, SMALL).stdout for _ in range(2))
    assert first == second
    assert "Nothing has left a hospital in this demo." in " ".join(first.split())
