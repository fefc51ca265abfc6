"""The federations of the frontier: sampling, splits and features."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from studies.case import Case, load_case
from studies.frontier.fit import Bench
from studies.frontier.release import item_features, plan_of
from studies.frontier.settings import DataSetting, quarters, read_frontier, sampled

SIZES = {f"e{number:02d}": 100 - number for number in range(10)}


def test_quarters_are_by_size():
    found = quarters(SIZES)
    assert found["e09"] == 0
    assert found["e00"] == 3
    assert [list(found.values()).count(one) for one in range(4)] == [3, 2, 3, 2]


def test_a_sample_has_the_smallest_and_the_largest_of_every_quarter():
    assert sampled(SIZES, (2, 1, 2, 0)) == ("e09", "e07", "e06", "e04", "e02", "e01", "e00")
    assert sampled(SIZES, (9, 9, 9, 9)) == tuple(quarters(SIZES))


def test_weights_add_up_to_all_entities():
    setting = read_frontier("quick").of("hospitals-middle")
    bench = Bench(load_case(setting.case, seed=1), setting)
    assert sum(bench.weight(entity) for entity in bench.measured) == pytest.approx(len(bench.case.train))


def test_held_out_entries_are_not_in_the_training_part():
    case = load_case(read_frontier("tiny").of("hospitals-middle").case, seed=2)
    for entity, train in case.rows.items():
        assert train.multiply(case.held[entity]).nnz == 0
        assert np.diff(case.held[entity].indptr).max() == 5
        assert train.data.max() <= 5


def test_another_seed_is_another_federation():
    setting = read_frontier("tiny").of("hospitals-middle")
    one, two = (load_case(setting.case, seed=seed).rows for seed in (1, 2))
    assert any((one[name] != two[name]).nnz for name in one if name in two and one[name].shape == two[name].shape) or {
        name: rows.shape for name, rows in one.items()
    } != {name: rows.shape for name, rows in two.items()}


def test_features_of_classes():
    made = item_features(pl.DataFrame({"kind": ["lab", "drug"], "class": ["liver", "statins"]}))
    assert made.names == ("class: liver", "class: statins", "kind: drug", "kind: lab")
    assert made.matrix.tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]


def test_watched_films(data_folder):
    case, setting = full("movielens-zip1-implicit")
    plan = plan_of(case, setting)
    assert plan.feedback == case.train.feedback == "counts"
    assert all((rows.data == 1).all() for rows in case.rows.values())
    assert plan.features_table.n_features == 18


def test_a_tenth_of_the_ratings(data_folder):
    case, setting = full("jester")
    held, kept = (sum(rows.nnz for rows in part.values()) for part in (case.held, case.rows))
    assert held / (held + kept) == pytest.approx(0.1, abs=0.002)
    assert len(sampled(case.sizes, setting.sample)) == sum(setting.sample)


def test_regions_of_people(data_folder):
    case, _ = full("eicu-regions")
    assert len(case.train) < 10
    assert np.diff(case.held[max(case.sizes, key=case.sizes.get)].indptr).max() == 5


def full(name: str) -> tuple[Case, DataSetting]:
    setting = read_frontier("full").of(name)
    return load_case(setting.case, seed=0), setting
