"""A fitted estimator on disk: it comes back as it was, and a folder that was touched is refused."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.errors import BadModel, DataError, NotFitted, UnknownUser
from twofold.estimator import FederatedRecommender
from twofold.federation.plan import Plan

CATALOG = Catalog([f"item-{number}" for number in range(12)])
PLAN = Plan(catalog=CATALOG, feedback="counts", bound=5, max_items=6, rank=2, simulation=True, n_entities=2)


def matrix() -> sparse.csr_array:
    rng = np.random.default_rng(0)
    there = rng.random((40, 12)) < 0.4
    there[:, 0] = True  # a table has no row for somebody without an entry
    return sparse.csr_array(there * rng.integers(1, 6, (40, 12)))


def frame(labels: tuple[Any, Any] = ("north", "south")) -> pl.DataFrame:
    cells = matrix().tocoo()
    return pl.DataFrame(
        {
            "entity": [labels[row % 2] for row in cells.row],
            "user": cells.row,
            "item": [f"item-{column}" for column in cells.col],
            "value": cells.data,
        }
    )


@pytest.fixture(scope="module")
def fitted() -> FederatedRecommender:
    return FederatedRecommender(PLAN, rng=0, strength="shared", local="factors").fit(frame())


def test_it_comes_back_as_it_was(fitted: FederatedRecommender, tmp_path: Path) -> None:
    folder = fitted.save(tmp_path / "saved")
    again = FederatedRecommender.load(folder)
    assert again.recommend(7, n=3) == fitted.recommend(7, n=3)
    assert again.recommend({"item-3": 2}, n=3, entity="north") == fitted.recommend({"item-3": 2}, n=3, entity="north")
    assert (again.predict(frame()) == fitted.predict(frame())).all()
    held_out = frame().with_columns(user=pl.col("user") + 100)
    assert again.score(held_out) == fitted.score(held_out)
    assert (again.entities_, again.private_, again.n_features_in_) == (("north", "south"), False, 4)
    assert again.plan.hash == fitted.plan.hash
    assert (again.strength, again.local, again.rng) == ("shared", "factors", 0)
    assert again.fit(frame()).recommend(7, n=3) == fitted.recommend(7, n=3)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())


def test_it_may_be_saved_again_but_not_over_something_else(fitted: FederatedRecommender, tmp_path: Path) -> None:
    folder = fitted.save(tmp_path / "saved")
    before = sorted(path.name for path in folder.iterdir())
    fitted.save(folder)
    assert sorted(path.name for path in folder.iterdir()) == before
    other = tmp_path / "mine"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with refused(DataError, "path", found="mine"):
        fitted.save(other)
    assert [path.name for path in other.iterdir()] == ["notes.txt"]


def test_labels_of_numbers_stay_numbers(tmp_path: Path) -> None:
    made = FederatedRecommender(PLAN, rng=0, strength="shared", local="factors").fit(frame((1, 2)))
    assert FederatedRecommender.load(made.save(tmp_path / "saved")).entities_ == (1, 2)


def test_what_cannot_be_saved(fitted: FederatedRecommender, tmp_path: Path) -> None:
    with pytest.raises(NotFitted):
        FederatedRecommender(PLAN).save(tmp_path / "saved")
    odd = FederatedRecommender(PLAN)
    odd.models_ = {(1, 2): next(iter(fitted.models_.values()))}
    with refused(DataError, "entity", found="tuple"):
        odd.save(tmp_path / "saved")


def test_a_touched_folder_is_refused(fitted: FederatedRecommender, tmp_path: Path) -> None:
    folder = fitted.save(tmp_path / "saved")
    record = json.loads((folder / "recommender.json").read_text())

    def tried(changed: Any) -> None:
        text = changed if isinstance(changed, str) else json.dumps(changed)
        (folder / "recommender.json").write_text(text)
        with refused(BadModel, "path"):
            FederatedRecommender.load(folder)

    first, second = record["entities"]
    for change in (
        "",
        "{",
        "[]",
        "[" * 100_000,
        {},
        record | {"schema": "twofold.recommender/2"},
        record | {"entities": [first | {"file": "../000000.model"}]},
        record | {"entities": [first | {"sha256": "0" * 64}]},
        record | {"entities": [first | {"file": second["file"]}]},
        record | {"entities": [first | {"label": [1]}]},
        record | {"plan": record["plan"] | {"rank": 1}},
        record | {"columns": {"nonsense": 1}},
    ):
        tried(change)
    with refused(BadModel, "path"):
        FederatedRecommender.load(tmp_path / "nowhere")
    (folder / "recommender.json").write_text(json.dumps(record))
    (folder / first["file"]).write_bytes((folder / first["file"]).read_bytes()[:-1])
    with refused(BadModel, "path"):
        FederatedRecommender.load(folder)


def test_a_matrix_and_its_labels_give_what_the_table_gives(fitted: FederatedRecommender) -> None:
    labels = ["north" if row % 2 == 0 else "south" for row in range(40)]
    for form in ("csr", "coo"):
        made = FederatedRecommender(PLAN, rng=0, strength="shared", local="factors")
        made.fit(matrix().asformat(form), entity=labels)
        assert made.recommend(7, n=3) == fitted.recommend(7, n=3)
    with pytest.raises(UnknownUser):
        fitted.recommend(99)


def test_a_matrix_without_the_entity_of_every_row_is_refused() -> None:
    for wrong in ("entity", ["north"] * 3):
        with refused(DataError, "entity", expected="one label per row"):
            FederatedRecommender(PLAN, rng=0).fit(matrix(), entity=wrong)
    with refused(DataError, "matrix"):
        FederatedRecommender(PLAN, rng=0).fit(matrix()[:, :5], entity=["north"] * 40)


def test_several_users_of_one_entity(fitted: FederatedRecommender) -> None:
    frame = fitted.recommend([0, 2], n=2, entity="north")
    assert frame["user"].unique().sort().to_list() == [0, 2]  # type: ignore[call-overload]
