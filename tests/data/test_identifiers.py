"""Identifiers: any one type in, the same values out, positions that never lie."""

from __future__ import annotations

import datetime
import uuid

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refused import refused
from twofold.data.catalog import Identifiers, factorize, id_column, lookup
from twofold.errors import BadIdentifier

IDS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True),
    st.lists(st.integers(0, 50), unique=True),
    st.lists(st.text(max_size=5), unique=True),
    st.lists(st.binary(max_size=4), unique=True),
    st.lists(st.uuids(), unique=True),
    st.lists(st.dates(), unique=True),
    st.lists(st.tuples(st.integers(), st.text(max_size=2)), unique=True),
    st.lists(st.integers(2**64, 2**70), unique=True),
)


@given(IDS)
def test_ids_come_back_as_given(values: list[object]) -> None:
    ids = Identifiers(values)
    assert list(ids) == values
    assert [type(value) for value in ids] == [type(value) for value in values]
    assert [ids.position(value) for value in values] == list(range(len(values)))


@given(IDS.filter(lambda values: len(values) > 1))
def test_encode_finds_every_id_and_only_those(values: list[object]) -> None:
    known, unknown = values[:-1], values[-1]
    codes = Identifiers(known).encode(id_column([*known, unknown]))
    assert codes.tolist() == [*range(len(known)), -1]


@given(st.lists(st.integers(-5, 300), min_size=1), st.sampled_from([pl.Int64, pl.Int16, pl.Int32]))
def test_factorize_agrees_with_numpy(values: list[int], dtype: type[pl.DataType]) -> None:
    codes, ids = factorize(pl.Series(values, dtype=dtype))
    expected, inverse = np.unique(values, return_inverse=True)
    assert ids.to_list() == expected.tolist()
    assert codes.tolist() == inverse.tolist()
    assert ids.dtype == dtype


@given(st.lists(st.one_of(st.integers(0, 20), st.integers(10**12, 10**12 + 20)), min_size=1))
def test_factorize_agrees_with_numpy_when_ids_are_far_apart(values: list[int]) -> None:
    codes, ids = factorize(pl.Series(values))
    expected, inverse = np.unique(values, return_inverse=True)
    assert (ids.to_list(), codes.tolist()) == (expected.tolist(), inverse.tolist())


@given(st.lists(st.text(max_size=3), min_size=1))
def test_factorize_sorts_text(values: list[str]) -> None:
    codes, ids = factorize(pl.Series(values))
    assert ids.to_list() == sorted(set(values))
    assert [ids[int(code)] for code in codes] == values


@pytest.mark.parametrize("dtype", [pl.UInt64, pl.Int128, pl.UInt128])
def test_wide_integers_are_numbered_too(dtype: type[pl.DataType]) -> None:
    codes, ids = factorize(pl.Series([3, 0, 3], dtype=dtype))
    assert (codes.tolist(), ids.to_list()) == ([1, 0, 1], [0, 3])
    assert lookup(pl.Series([3, 9], dtype=dtype), pl.Series([0, 3])).tolist() == [1, -1]


def test_ids_outside_the_window_are_unknown() -> None:
    assert lookup(pl.Series([-7, 3, 99, 4]), pl.Series([3, 4])).tolist() == [-1, 0, -1, 1]


def test_widths_of_integers_do_not_matter() -> None:
    wide = lookup(pl.Series([1, 2**40], dtype=pl.UInt64), pl.Series([2**40, 1, -5], dtype=pl.Int64))
    narrow = lookup(pl.Series([2, 1], dtype=pl.UInt8), pl.Series([1, 2], dtype=pl.Int64))
    assert (wide.tolist(), narrow.tolist()) == ([1, 0], [1, 0])


def test_text_and_integers_never_match() -> None:
    ids = Identifiers([1, 2])
    assert ids.encode(pl.Series(["1", "2"])).tolist() == [-1, -1]
    assert ids.get("1") is None
    assert ids.get(True) is None
    assert ids.get(np.int32(2)) == 1
    assert ids.get(np.float64(2)) is None
    assert ids.get([2]) is None
    assert Identifiers([]).get(None) is None


def test_categories_are_text() -> None:
    column = pl.Series(["b", "a", "b"], dtype=pl.Categorical)
    assert Identifiers(["a", "b"]).encode(column).tolist() == [1, 0, 1]


@pytest.mark.parametrize("values", [[1, "1"], ["a", b"a"], [1, True], [datetime.date(2020, 1, 1), "x"]])
def test_mixed_types_are_refused_without_showing_them(values: list[object]) -> None:
    with refused(BadIdentifier, "id", expected="ids of one type"):
        Identifiers(values)


@pytest.mark.parametrize("values", [[1, 1], ["a", "a"], [uuid.UUID(int=4)] * 2])
def test_repeated_ids_are_refused(values: list[object]) -> None:
    with refused(BadIdentifier, "ids", expected="every id once"):
        Identifiers(values)


@pytest.mark.parametrize("values", [[1, None], [None], [1.5, float("nan")]])
def test_missing_ids_are_refused(values: list[object]) -> None:
    with refused(BadIdentifier, "id", expected="an id in every row of the id column"):
        Identifiers(values)


def test_nested_ids_are_refused() -> None:
    with refused(BadIdentifier, "id", expected="one plain id per row (integers, text, dates, ...)"):
        Identifiers(pl.Series([[1], [2]]))


def test_an_unknown_id_is_not_repeated_in_the_error() -> None:
    with pytest.raises(KeyError) as caught:
        Identifiers(["a"]).position("patient-17")
    assert "patient-17" not in str(caught.value)


def test_the_digest_follows_order_and_text_not_storage() -> None:
    numbers, texts = Identifiers([1, 2]), Identifiers(["1", "2"])
    assert numbers.digest() == texts.digest()
    assert numbers.digest() != Identifiers([2, 1]).digest()
    assert Identifiers(["ab", "c"]).digest() != Identifiers(["a", "bc"]).digest()


def test_repr_shows_size_and_type_only() -> None:
    assert repr(Identifiers(["secret"])) == "Identifiers(1 of type text)"


def test_take_keeps_the_type() -> None:
    odd = Identifiers([uuid.UUID(int=1), uuid.UUID(int=2)])
    assert list(odd.take([1])) == [uuid.UUID(int=2)]
    assert list(Identifiers([5, 6, 7]).take([2, 0])) == [7, 5]
