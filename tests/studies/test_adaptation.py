"""The experiment on adaptation: one small case, the sums behind its figures, its command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

from studies import adaptation
from studies.adaptation import SETTINGS, WAYS, Outcome, measure, merged, place_sums, run_case, shared_factors
from studies.case import load_case
from studies.mean_rank import mean_rank


def test_places_are_those_of_mean_rank():
    rng = np.random.default_rng(0)
    U, V = rng.integers(0, 3, size=(9, 2)).astype(float), rng.integers(0, 3, size=(30, 2)).astype(float)
    held = np.where(rng.random((9, 30)) < 0.2, rng.integers(1, 5, size=(9, 30)), 0).astype(float)
    seen = sparse.csr_array(((rng.random((9, 30)) < 0.2) & (held == 0)).astype(float))
    total, weight = place_sums(U @ V.T, seen, sparse.csr_array(held))
    assert total / weight == pytest.approx(mean_rank(U, V, sparse.csr_array(held), seen=seen))


def test_measures_add_up_over_entities():
    rng = np.random.default_rng(1)
    held = sparse.csr_array((rng.random((40, 12)) < 0.2).astype(float))
    none = sparse.csr_array(held.shape)
    line = rng.random(12)

    def score(rows: sparse.csr_array) -> np.ndarray:
        return np.tile(line, (rows.shape[0], 1))

    whole = measure(score, none, held, lower=0, bound=5).figures
    parts = [measure(score, none[part], held[part], lower=0, bound=5) for part in (slice(0, 13), slice(13, 40))]
    assert merged(parts).figures == pytest.approx(whole)


def test_one_case_from_split_to_figures():
    setting = SETTINGS["hospitals"]
    case = load_case(setting.case(0.005), seed=3)
    assert all((np.diff(rows.indptr) <= 5).all() for rows in case.held.values())
    shared = shared_factors(case, setting)
    assert not shared.private
    assert shared.n_items == 457
    outcome = run_case(case, setting)
    assert set(outcome.overall) == set(WAYS)
    assert all(0 < figures["nDCG@10"] < 1 for figures in outcome.overall.values())
    assert outcome.overall["adapted"]["nDCG@10"] > outcome.overall["popularity"]["nDCG@10"]
    assert sum(outcome.chosen.values()) == len(case.train)
    assert run_case(case, setting, workers=1).overall == outcome.overall


def outcome(alone: float, adapted: float) -> Outcome:
    figures = {way: {"nDCG@10": 0.5, "mean rank": 0.1, "RMSE": 1.0} for way in WAYS}
    figures["alone"] = figures["alone"] | {"nDCG@10": alone}
    figures["adapted"] = figures["adapted"] | {"nDCG@10": adapted}
    return Outcome(overall=figures, smallest=figures)


def test_the_difference_is_paired_over_seeds():
    made = adaptation.summary("hospitals", [outcome(0.5, 0.6), outcome(0.7, 0.8), outcome(0.9, 1.0)])
    found = made["overall"]["nDCG@10"]
    assert found["adapted - alone"]["mean"] == pytest.approx(0.1)
    assert found["adapted - alone"]["error"] == pytest.approx(0.0, abs=1e-12)
    assert found["alone"]["error"] == pytest.approx(0.2 / np.sqrt(3))


def test_ratings_have_errors_and_counts_do_not():
    assert "RMSE" in adaptation.summary("movielens-zip1", [outcome(0.5, 0.5)])["overall"]
    assert "RMSE" not in adaptation.summary("hospitals", [outcome(0.5, 0.5)])["overall"]


def test_the_command_prints_a_table_and_writes_json(monkeypatch, capsys, tmp_path):
    seen: list[tuple[str, list[int]]] = []

    def fake(name: str, *, scale: float, seeds: range) -> list[Outcome]:
        seen.append((name, list(seeds)))
        return [outcome(0.5, 0.6) for _ in seeds]

    monkeypatch.setattr(adaptation, "run", fake)
    adaptation.main(["--size", "tiny", "--data", "hospitals", "--seeds", "3", "--json", str(tmp_path / "out.json")])
    assert seen == [("hospitals", [3000, 3001, 3002])]
    assert "| hospitals, all users | nDCG@10 ↑ |" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())[0]["seeds"] == 3
    with pytest.raises(SystemExit):
        adaptation.main(["--data", "nowhere"])
    assert "movielens-zip3" in capsys.readouterr().err


def test_reported_seeds_are_not_those_of_the_tuning():
    assert adaptation.FIRST_SEED > 2_000
    assert set(SETTINGS) == {"movielens-zip1", "movielens-zip3", "hospitals"}
