"""One cell: errors by hand, the fresh draw against real draws, and the recorded values of the paper's authors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies.case import load_case
from studies.data import synthetic
from studies.paper import measuring
from studies.paper.measuring import installed_system, run_cell
from studies.store import Cell

DATA = {"source": "synthetic", "n_users": 300, "n_items": 20, "rank": 4, "n_entities": 3}


def values(found: dict[str, Any], group: str = "all") -> dict[str, float]:
    return {metric: value for metric, where, value, _, _ in found["rows"] if where == group}


def test_item_means_err_by_their_standard_deviation() -> None:
    found = values(run_cell(Cell(data=DATA, system="popularity-pooled", options={}, seed=3)))
    table = load_case(DATA, 3).train.pooled().matrix.toarray()
    assert found["rmse_table"] == pytest.approx(np.sqrt(table.var(axis=0).mean()), rel=1e-6)
    assert found["rounds"] == 2


def test_the_fresh_draw_is_what_real_draws_give() -> None:
    found = values(run_cell(Cell(data=DATA, system="popularity-pooled", options={}, seed=3)))
    made = synthetic.generate(synthetic.PoissonConfig(n_users=300, n_items=20, rank=4, n_entities=3), rng=3)
    means = made.federation.pooled().matrix.toarray().mean(axis=0)
    rng = np.random.default_rng(0)
    draws = [np.mean((rng.poisson(made.rates()) - means) ** 2) for _ in range(200)]
    assert found["rmse_fresh"] == pytest.approx(np.sqrt(np.mean(draws)), rel=3e-3)


def test_a_cell_is_plain_json_and_repeats() -> None:
    data = {"source": "hospitals", "scale": 1.0, "n_patients": 400, "n_hospitals": 4}
    cell = Cell(data=data, system="individual", options={"rank": 2, "max_iterations": 3}, seed=1)
    one, other = run_cell(cell), run_cell(cell)
    assert json.loads(json.dumps(one))["rows"] == [list(row) for row in other["rows"]]
    found = values(one)
    assert 0 < found["mean_rank"] < 0.5
    assert found["rmse_per_entity_mean"] <= found["rmse_pooled"] + 1e-12
    assert found["rmse_train_per_entity_mean"] <= found["rmse_train_pooled"] + 1e-12
    assert {row[1] for row in one["rows"]} >= {"all", "quarter 1", "quarter 4", "entity hospital-001"}
    assert values(run_cell(Cell(data=data, system="individual", options=cell.options, seed=2))) != found


def test_time_of_the_processor_counts_programs_that_a_cell_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(data={"source": "hospitals", "scale": 0.001}, system="popularity-own", options={}, seed=0)
    alone = run_cell(cell)["cpu_seconds"]
    busy = [sys.executable, "-c", "import time\nwhile time.process_time() < 1.5: pass"]

    def loading(*given: Any) -> Any:
        subprocess.run(busy, check=True)
        return load_case(*given)

    monkeypatch.setattr(measuring, "load_case", loading)
    assert run_cell(cell)["cpu_seconds"] > alone + 1


def test_training_error_is_over_entries() -> None:
    data = {"source": "hospitals", "scale": 1.0, "n_patients": 400, "n_hospitals": 4}
    found = values(run_cell(Cell(data=data, system="popularity-pooled", options={}, seed=1)))
    rows = load_case(data, 1).train.pooled().matrix
    means = np.asarray(rows.mean(axis=0))
    assert found["rmse_train_pooled"] == pytest.approx(
        np.sqrt(np.mean((rows.data - means[rows.indices]) ** 2)), rel=1e-5
    )


def test_private_systems_say_what_they_pay() -> None:
    data = {"source": "hospitals", "scale": 0.001}
    private = values(run_cell(Cell(data=data, system="popularity-private", options={"epsilon": 3}, seed=0)))
    assert private["epsilon_paid"] == 3
    assert "epsilon_paid" not in values(run_cell(Cell(data=data, system="popularity-own", options={}, seed=0)))


def test_preferences_have_no_error_in_stars() -> None:
    pytest.importorskip("implicit")
    data = {"source": "hospitals", "scale": 0.001}
    found = values(run_cell(Cell(data=data, system="implicit", options={"rank": 2, "iterations": 2}, seed=0)))
    assert "mean_rank" in found
    assert not [name for name in found if name.startswith("rmse")]
    assert not installed_system("lenskit") or installed_system("implicit")


def test_pooled_movielens_is_what_the_authors_recorded(data_folder: Path) -> None:
    options = {"regularization": 0.1, "count_scaling": 0.0, "zero_weight": 1.0, "max_iterations": 200, "rank": 10}
    found = values(run_cell(Cell(data={"source": "movielens-recorded"}, system="pooled", options=options, seed=0)))
    assert found["rmse_pooled"] == pytest.approx(2.79, rel=0.02)
    assert found["mean_rank"] == pytest.approx(0.130, rel=0.02)


def test_pure_noise_ranks_like_chance(data_folder: Path) -> None:
    options = {"regularization": 0.1, "count_scaling": 0.0, "zero_weight": 1.0, "rank": 10, "n_prototypes": 50}
    found = values(run_cell(Cell(data={"source": "movielens-recorded"}, system="pure-noise", options=options, seed=0)))
    assert found["mean_rank"] == pytest.approx(0.5, abs=0.02)


def test_a_model_that_only_ranks_has_no_error() -> None:
    data = {"source": "hospitals", "scale": 1.0, "n_patients": 300, "n_hospitals": 3}
    found = values(run_cell(Cell(data=data, system="ladder-secure", options={"epsilon": 1}, seed=0)))
    assert not any(metric.startswith("rmse") for metric in found)
    assert 0 < found["mean_rank_unseen"] < 0.5  # chance
    assert found["epsilon_paid"] == 1
