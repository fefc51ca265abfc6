"""The table of mechanisms, at its smallest."""

from __future__ import annotations

from typing import Any

import pytest

from studies import mechanisms
from studies.mechanisms import DELTA, diffprivlib_cells, entrants, recorded
from twofold.release import NOT_PRIVATE, PRIVATE


def test_the_command_prints_one_line_per_entrant_and_peer(capsys: pytest.CaptureFixture[str]) -> None:
    mechanisms.main(["--size", "tiny"])
    printed = capsys.readouterr().out
    for name in (*PRIVATE, "auto", "kmeans", "random", "scikit-learn", "diffprivlib", "reference program"):
        assert name in printed
    assert printed.count("n=400 m=20") == len(entrants()) + 4
    assert "± " in printed


def test_where_auto_takes_a_sum_without_centres_its_name_stands(capsys: pytest.CaptureFixture[str]) -> None:
    mechanisms.main(["--size", "tiny"])
    [line] = [one for one in capsys.readouterr().out.splitlines() if "| auto " in one and DELTA in one]
    cells = [one.strip() for one in line.split("|")][4:9]
    case = mechanisms.make_mixture(400, 20, 10, 0)
    entrant = mechanisms.Entrant(name="auto", delta=DELTA)
    taken = [mechanisms.without_centres(entrant, case, epsilon) for epsilon in mechanisms.EPSILONS]
    assert "gram" in taken
    assert "" in taken
    for cell, name in zip(cells, taken, strict=True):
        assert cell == name if name else "±" in cell


def test_every_mechanism_takes_part() -> None:
    assert {one.name for one in entrants()} >= {*PRIVATE, "auto"}
    assert {one.name for one in entrants() if not one.private} <= set(NOT_PRIVATE)


def test_a_shape_without_a_record_has_blanks_and_one_with_it_has_figures() -> None:
    case = mechanisms.make_mixture(2000, 50, 10, 0)
    assert recorded(case)[0][0] == "98-111"


def test_a_missing_peer_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *_: Any) -> Any:
        raise ImportError(f"cannot import a name from {name}")

    case = mechanisms.make_mixture(50, 5, 2, 0)
    monkeypatch.setattr("studies.mechanisms.importlib.import_module", refuse)
    cells, promise = diffprivlib_cells(case, mechanisms.EPSILONS)
    assert cells[0] == "does not import"
    assert "overspent" in promise
    assert len(cells) == len(mechanisms.EPSILONS)


def test_without_scikit_learn_our_own_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanisms.importlib.util, "find_spec", lambda _: None)
    assert "twofold" in mechanisms.make_mixture(100, 5, 2, 0).judge


@pytest.mark.slow
def test_targets_at_twenty_thousand_users() -> None:
    """At ε = 10 the ratio is at most 1.1 and at ε = 1 at most 12, for clusters of an entity's own, over three seeds."""
    from studies.mechanisms import Entrant, run_once

    for seed in range(3):
        case = mechanisms.make_mixture(20_000, 50, 10, seed)
        for name in ("balcan", "sulq"):
            assert run_once(Entrant(name=name), case, "10").ratio <= 1.1
            assert run_once(Entrant(name=name), case, "1").ratio <= 12
