"""Ids go into arrays and come back the same, or are refused."""

from __future__ import annotations

import datetime
import uuid

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refused import refused
from twofold.data.catalog import Identifiers
from twofold.entity.artefact import StoredIds, restore_ids, store_ids
from twofold.errors import BadIdentifier, BadModel

ANY = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=20),
    st.lists(st.text(max_size=6), unique=True, min_size=1, max_size=20),
    st.lists(st.binary(max_size=6), unique=True, min_size=1, max_size=20),
    st.lists(st.dates(), unique=True, min_size=1, max_size=20),
    st.lists(st.uuids(), unique=True, min_size=1, max_size=20),
)


@given(ANY)
def test_ids_come_back_as_they_went_in(values: list) -> None:
    back = restore_ids(store_ids(Identifiers(values), "user"))
    assert list(back) == values
    assert [type(one) for one in back] == [type(one) for one in values]


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int32, pl.UInt8, pl.UInt64, pl.Date])
def test_columns_keep_their_type(dtype: type[pl.DataType]) -> None:
    column = pl.Series([3, 1, 2], dtype=pl.Int32).cast(dtype)
    assert restore_ids(store_ids(Identifiers(column), "user")).to_polars().dtype == dtype


def test_the_largest_unsigned_integer_comes_back() -> None:
    column = pl.Series([2**64 - 1, 0], dtype=pl.UInt64)
    assert list(restore_ids(store_ids(Identifiers(column), "user"))) == [2**64 - 1, 0]


@pytest.mark.parametrize(
    "values", [[1.5, 2.5], [(1, 2)], [datetime.datetime(2020, 1, 1)], [2**70], [True, False], [datetime.time(3)]]
)
def test_other_types_are_refused_by_name(values: list) -> None:
    with refused(BadIdentifier, "ids"):
        store_ids(Identifiers(values), "user")


@pytest.mark.parametrize(
    "stored",
    [
        StoredIds("integer Int64", {"numbers": np.array([1, 1])}),
        StoredIds("integer Int8", {"numbers": np.array([1000])}),
        StoredIds("integer Float64", {"numbers": np.array([1])}),
        StoredIds("integer Int64", {}),
        StoredIds("integer Int64", {"numbers": np.zeros((2, 2), np.int64)}),
        StoredIds("date", {"numbers": np.array([-5])}),
        StoredIds("date", {"numbers": np.array([10**12])}),
        StoredIds("text", {"words": np.array([255]), "ends": np.array([1])}),
        StoredIds("text", {"words": np.array([97]), "ends": np.array([9])}),
        StoredIds("text", {"words": np.array([97, 0]), "ends": np.array([1])}),
        StoredIds("text", {"words": np.array([97]), "ends": np.array([2, 1])}),
        StoredIds("text", {"words": np.array([97]), "ends": np.array([-1])}),
        StoredIds("text", {"words": np.array([97])}),
        StoredIds("uuid", {"words": np.array([97]), "ends": np.array([3])}),
        StoredIds("pickle", {"words": np.array([97]), "ends": np.array([1])}),
    ],
)
def test_unsound_arrays_are_refused(stored: StoredIds) -> None:
    with pytest.raises(BadModel):
        restore_ids(stored)


def test_a_uuid_is_sixteen_bytes() -> None:
    stored = store_ids(Identifiers([uuid.UUID(int=5)]), "user")
    assert stored.arrays["ends"].tolist() == [16]
