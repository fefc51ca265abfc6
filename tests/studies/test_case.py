"""Data sets of the experiments: kept once, split alike, named when missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from studies.case import load_case
from tests.refused import refused
from twofold.errors import BadParameter, MissingDataset


def test_more_entities_bring_more_users_only_if_asked() -> None:
    common = {"source": "synthetic", "n_users": 60, "n_items": 5, "rank": 2}
    assert load_case({**common, "n_entities": 3, "users_per_entity": 40}, 0).train.n_users == 120
    assert load_case({**common, "n_entities": 3, "users_per_entity": 0}, 0).train.n_users == 60


def test_a_case_is_loaded_once_and_differs_by_seed() -> None:
    data = {"source": "hospitals", "scale": 0.001}
    assert load_case(data, 0) is load_case(dict(reversed(data.items())), 0)
    one, other = (load_case(data, seed).train.pooled().matrix for seed in (0, 1))
    assert one.nnz != other.nnz or not np.array_equal(one.data, other.data)


def test_train_and_test_share_no_entry() -> None:
    case = load_case({"source": "hospitals", "scale": 0.001}, 0)
    assert case.test is not None
    both = case.train.pooled().matrix.multiply(case.test.pooled().matrix)
    assert both.nnz == 0
    assert case.test.n_entries > 0


def test_the_recorded_split_does_not_depend_on_the_seed(data_folder: Path) -> None:
    assert load_case({"source": "movielens-recorded"}, 0) is load_case({"source": "movielens-recorded"}, 5)


@pytest.mark.parametrize(("source", "folder"), [("eicu-full", "eicu-crd-2.0"), ("eicu-demo", "eicu-demo-2.0.1")])
def test_what_is_missing_is_named(source: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path))
    with refused(MissingDataset, folder, "licence", "physionet.org", f"$TWOFOLD_DATA/{folder}"):
        load_case({"source": source}, 97)


def test_an_unknown_source_is_refused() -> None:
    with refused(BadParameter, None, found="'netflix'", expected="movielens-recorded"):
        load_case({"source": "netflix"}, 0)


def test_full_tables_are_read_from_their_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.data.sources.eicu_example import write_example

    for name in ("eicu-crd-2.0", "eicu-demo-2.0.1"):
        (tmp_path / name).mkdir()
        write_example(tmp_path / name)
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path))
    assert load_case({"source": "eicu-full"}, 98).train.n_users == 4  # stays, not people


def test_two_are_held_out_of_everyone_with_three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{student},7,s{skill}" for student in range(1, 6) for skill in range(student)]
    (tmp_path / "assistments-2009").mkdir()
    (tmp_path / "assistments-2009" / "answers.csv").write_text("\n".join(["student,school,skill", *lines]))
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path))
    case = load_case({"source": "assistments", "least_people": 1, "least_items": 1}, 3)
    held, kept = case.held["7"], case.rows["7"]
    assert np.diff(held.indptr).tolist() == [0, 0, 2, 2, 2]
    assert np.diff(kept.indptr).tolist() == [1, 2, 1, 2, 3]
    assert held.multiply(kept).nnz == 0
