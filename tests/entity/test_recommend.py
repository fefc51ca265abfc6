"""Histories from dicts, filters, and the best of some scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refused import refused
from twofold.data.catalog import Identifiers
from twofold.entity.asked import allowed_columns, item_column, read_history
from twofold.entity.model import Model, _number, best_items
from twofold.errors import BadParameter, BadValue, CatalogError, UnknownUser

ITEMS = Identifiers(["creatinine", "heparin", "lactate"])


def read(given: dict, feedback: str = "counts") -> tuple[list[int], list[float]]:
    history = read_history(given, ITEMS, feedback=feedback, lower=0, bound=5)
    return history.columns.tolist(), history.values.tolist()


@given(st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=40), st.integers(1, 50))
def test_the_best_are_those_of_a_plain_sort(scores: list[float], n: int) -> None:
    expected = sorted((at for at in range(len(scores)) if scores[at] > -np.inf), key=lambda at: (-scores[at], at))[:n]
    assert best_items(np.array(scores), n).tolist() == expected


def test_the_order_of_a_dict_does_not_matter_and_values_are_cut_to_the_bounds() -> None:
    assert read({"lactate": 9, "creatinine": 1}) == read({"creatinine": 1, "lactate": 9}) == ([0, 2], [1.0, 5.0])
    assert read({"heparin": -3}, "ratings") == ([1], [0.0])
    assert read({}) == ([], [])


def test_numpy_numbers_are_numbers() -> None:
    assert read({"heparin": np.float32(2), "lactate": np.int8(3)}) == ([1, 2], [2.0, 3.0])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -17.25])
def test_a_bad_value_is_refused_and_not_repeated(value: float) -> None:
    with pytest.raises(BadValue) as caught:
        read({"heparin": 1, "lactate": value})
    assert "17" not in str(caught.value)
    assert "lactate" not in str(caught.value)


@pytest.mark.parametrize("value", ["3", None, [1], 1j])
def test_what_is_no_number_is_refused(value: object) -> None:
    with refused(BadValue, "history"):
        read({"heparin": value})


def test_unknown_items_are_counted_and_never_named() -> None:
    with refused(CatalogError, "history", found="2 of 3", expected="3") as caught:
        read({"heparin": 1, "secret-drug": 1, 7: 1})
    assert "secret-drug" not in str(caught.value)


def test_a_filter_gives_columns_and_an_empty_one_none() -> None:
    assert allowed_columns(None, ITEMS) is None
    columns = allowed_columns(("lactate", "creatinine", "lactate"), ITEMS)
    assert columns is not None
    assert columns.tolist() == [0, 2]
    none = allowed_columns([], ITEMS)
    assert none is not None
    assert none.size == 0


def test_an_unknown_item_of_a_question_brings_the_closest_one() -> None:
    with refused(CatalogError, "items", "heparin?"):
        item_column("heparine", ITEMS)
    with refused(CatalogError, "items", found="1 of 2 unknown"):
        allowed_columns(["heparin", 5], ITEMS)


@pytest.mark.parametrize("items", ["heparin", b"heparin", 5])
def test_a_filter_that_is_no_list_is_refused(items: object) -> None:
    with refused(BadParameter, "items"):
        allowed_columns(items, ITEMS)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", True, None])
def test_a_number_of_items_below_one_is_refused(n: object) -> None:
    with refused(BadParameter, "n"):
        _number(n)


def test_several_users_at_once_get_what_each_gets_alone(make_model: Callable[..., Model]) -> None:
    model = make_model()
    asked = ["user-3", "user-0", "user-7"]
    frame = model.recommend(asked, n=4)
    assert frame["user"].unique(maintain_order=True).to_list() == asked
    for user in asked:
        lone = model.recommend(user, n=4)
        rows = frame.filter(pl.col("user") == user)
        assert rows["item"].to_list() == [one.item for one in lone]
        assert rows["score"].to_list() == pytest.approx([one.score for one in lone], rel=1e-5)
    for same in (pl.Series(asked), np.array(asked, dtype=object), np.array(asked)):
        assert model.recommend(same, n=4).equals(frame)
    assert model.recommend([], n=4).height == 0
    assert model.recommend(asked, n=2, items=["item-1", "item-2"], exclude_seen=False)["item"].n_unique() <= 2


def test_an_unknown_user_among_several_is_refused_without_the_id(make_model: Callable[..., Model]) -> None:
    with pytest.raises(UnknownUser) as caught:
        make_model().recommend(["user-1", "somebody else"])
    assert "somebody" not in str(caught.value)


def test_numbers_of_numpy_are_ids_and_arrays_of_them_are_several(make_model: Callable[..., Model]) -> None:
    model = make_model(users=range(40))
    assert model.recommend(np.int64(3), n=2) == model.recommend(3, n=2)
    assert model.recommend(np.array([3, 5]), n=2)["user"].unique().sort().to_list() == [3, 5]
    assert model.recommend(pd.Series([3, 5]), n=2).equals(model.recommend([3, 5], n=2))
    assert model.recommend(pl.Series([3, 5]), n=2).equals(model.recommend([3, 5], n=2))
