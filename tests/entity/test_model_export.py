"""Numbers for other programs, with ids and without objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.entity.export import id_array
from twofold.entity.model import Model
from twofold.entity.models.stack import taste
from twofold.errors import BadIdentifier, BadParameter

MakeModel = Callable[..., Model]


def test_npz_holds_item_factors_and_ids(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model()
    path = model.export(tmp_path / "items.npz")
    with np.load(path, allow_pickle=False) as found:
        assert found["items"].tolist() == list(model.catalog.items)
        assert np.array_equal(found["item_factors"], model.scorer.arrays()["factors"])
        assert all(part.dtype.kind != "O" for part in found.values())
    assert path.stat().st_mode & 0o077 == 0


def test_npz_holds_weights_that_give_the_scores(make_model: MakeModel, tmp_path: Path) -> None:
    for kind in ("item-item", "item-item of few rows"):
        model = make_model(kind)
        with np.load(model.export(tmp_path / "items.npz")) as found:
            weights, means = found["weights"], found["means"]
        row = np.clip(model.history.matrix.toarray()[3], 0, 5)
        expected = dict(model.recommend("user-3", n=30, exclude_seen=False))
        scores = means + (row - means) @ weights
        assert {f"item-{at}": score for at, score in enumerate(scores)} == pytest.approx(expected, abs=1e-4)


def test_npz_holds_parts_of_a_stack_that_give_the_scores(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model("stack")
    with np.load(model.export(tmp_path / "items.npz")) as found:
        parts = dict(found)
    row = np.clip(model.history.matrix.toarray()[3], 0, 5)
    inner = parts["means"] + (row - parts["means"]) @ parts["weights"]
    scores = parts["use_weight"] * parts["use"] + parts["taste_weight"] * taste(inner[None])[0]
    expected = dict(model.recommend("user-3", n=30, exclude_seen=False))
    assert {f"item-{at}": score for at, score in enumerate(scores)} == pytest.approx(expected, abs=1e-4)


def test_parquet_holds_the_same_as_a_table(kind: str, make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model(kind, catalog=Catalog(range(100, 130)))
    frame = pl.read_parquet(model.export(tmp_path / "items.parquet"))
    with np.load(model.export(tmp_path / "items.npz")) as found:
        arrays = dict(found)
    assert frame["item"].to_list() == arrays["items"].tolist() == list(range(100, 130))
    if kind == "sparse-item-item":
        assert frame["weight"].explode().drop_nulls().to_list() == arrays["weights"].tolist()
        assert frame["source"].list.len().cum_sum().to_list() == arrays["ends"].tolist()
        return
    if kind in ("stack", "popularity"):
        assert frame["use"].to_list() == arrays["use"].tolist()
        assert set(frame["use_weight"]) == {arrays["use_weight"].item()} == {0.5}
    if kind == "popularity":
        assert frame.columns == ["item", "use", "use_weight"]
        return
    name, key = (
        ("item_factors", "factor_2") if kind in ("factors", "ials", "confidence") else ("weights", "weight_to_2")
    )
    assert frame[key].to_list() == arrays[name][:, 1].tolist()
    assert frame.width == arrays[name].shape[1] + (5 if kind == "stack" else 2)


def test_users_are_written_only_when_asked_for(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model()
    model.export(tmp_path / "items.npz")
    with np.load(tmp_path / "items.npz") as found:
        assert "users" not in found
    with np.load(model.export(tmp_path / "users.npz", what="users")) as found:
        assert found["users"].tolist() == list(model.history.user_ids)
        assert np.array_equal(found["user_factors"], model.user_factors)
    frame = pl.read_parquet(model.export(tmp_path / "users.parquet", what="users"))
    assert frame.columns == ["user", "factor_1", "factor_2", "factor_3", "factor_4"]


def test_what_cannot_be_exported_is_refused(make_model: MakeModel, tmp_path: Path) -> None:
    with refused(BadParameter, "path"):
        make_model().export(tmp_path / "items.csv")
    with pytest.raises(BadParameter):
        make_model().export(tmp_path / "items.npz", what="everything")  # type: ignore[arg-type]
    with refused(BadParameter, "kind"):
        make_model("item-item").export(tmp_path / "users.npz", what="users")
    with pytest.raises(BadIdentifier):
        id_array(Identifiers(["a\0", "b"]))
    assert list(tmp_path.iterdir()) == []
