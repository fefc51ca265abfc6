"""Refusals of the numeric functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.refused import refused
from twofold.algorithms import _checks
from twofold.errors import BadNumber, BadParameter, BadShape


@pytest.mark.parametrize("value", [0, -3, 1.0, "2", None, True])
def test_whole_number_refuses(value):
    with refused(BadParameter, "rank"):
        _checks.whole_number("rank", value)


def test_whole_number_takes_numpy_integers():
    assert _checks.whole_number("rank", np.int32(4)) == 4


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf, "1", None, True])
def test_non_negative_number_refuses(value):
    with refused(BadParameter, "tolerance"):
        _checks.non_negative_number("tolerance", value)


def test_choice_names_the_words():
    with refused(BadParameter, "feedback", expected='"ratings" or "counts"'):
        _checks.choice("feedback", "stars", ("ratings", "counts"))


def test_floating_type_follows_the_data_or_the_wish():
    assert _checks.floating_type(None, np.dtype(np.int8)) == np.float32
    assert _checks.floating_type(None, np.dtype(np.float64)) == np.float64
    assert _checks.floating_type("float64", np.dtype(np.float32)) == np.float64
    with refused(BadParameter, "dtype", found="float16"):
        _checks.floating_type(np.float16, np.dtype(np.float32))


def test_vector_refuses_length_nan_and_sign():
    with refused(BadShape, "w", expected="(3,)"):
        _checks.vector("w", [1, 2], 3)
    with refused(BadNumber, "w", expected="finite numbers"):
        _checks.vector("w", [1, np.nan], 2)
    with refused(BadNumber, "w", expected="0 or more"):
        _checks.vector("w", [1, -1], 2)
    np.testing.assert_array_equal(_checks.vector("w", [1, -1], 2, signed=True), [1, -1])


@pytest.mark.parametrize("shape", [(3,), (2, 0), (2, 2, 2), (3, 2)])
def test_factors_refuse_shapes(shape):
    with refused(BadShape, "V", expected="(2, at least 1)"):
        _checks.factors("V", np.zeros(shape), 2, None)


def test_factors_refuse_types_and_infinity():
    with refused(BadNumber, "V", found="type <U1"):
        _checks.factors("V", np.array([["a"]]), None, None)
    with refused(BadNumber, "V", expected="finite numbers"):
        _checks.factors("V", [[np.inf]], None, None)


def damaged(**changes):
    matrix = sp.csr_array(np.eye(3))
    for name, value in changes.items():
        setattr(matrix, name, np.asarray(value))
    return matrix


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": [0, 1, 3]},
        {"indices": [0, -1, 2]},
        {"indptr": [0, 2, 1, 3]},
        {"indptr": [1, 1, 2, 3]},
        {"indptr": [0, 1, 2, 4]},
        {"indptr": [0, 1, 3]},
        {"data": [1.0]},
    ],
)
def test_damaged_indices_never_reach_a_kernel(changes):
    with refused(BadShape, "X", "csr_array"):
        _checks.compressed_rows("X", damaged(**changes))


def test_starts_are_wide_so_that_more_than_two_billion_entries_fit():
    starts, columns = _checks.compressed_rows("X", sp.csr_array(np.eye(3)))
    assert starts.dtype == np.int64
    assert columns.dtype == np.int32


def test_columns_stay_wide_when_they_must():
    n_columns = 2**31 + 5
    matrix = sp.csr_array((np.ones(1), (np.zeros(1, int), np.array([n_columns - 1]))), shape=(1, n_columns))
    assert _checks.compressed_rows("X", matrix)[1].dtype == np.int64
