"""RMSE over held-out entries, every entry once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from twofold.errors import BadShape
from twofold.evaluation.measure import measure
from twofold.evaluation.rmse import rmse, squared_errors


def test_hand_computed():
    # Errors 1, 2 and 2: mean square 3.
    U, V = np.array([[1.0], [2.0]]), np.array([[2.0], [1.0]])
    test = sparse.csr_array(np.array([[3.0, 3.0], [0.0, 4.0]]))
    assert rmse(U, V, test) == pytest.approx(math.sqrt(3))


def test_every_entry_counts_once_not_every_user():
    scores, test = np.zeros((2, 3)), np.array([[1.0, 1.0, 1.0], [3.0, 0.0, 0.0]])
    assert rmse(np.zeros((2, 1)), np.zeros((3, 1)), sparse.csr_array(test)) == pytest.approx(math.sqrt(12 / 4))
    assert squared_errors(scores, sparse.csr_array(test)).tolist() == [1.0, 1.0, 1.0, 9.0]


def test_predictions_are_cut():
    test = sparse.csr_array(np.array([[5.0, 1.0]]))
    assert squared_errors(np.array([[9.0, -3.0]]), test, lower=1, bound=5).tolist() == [0.0, 0.0]
    assert squared_errors(np.array([[9.0, -3.0]]), test).tolist() == [16.0, 16.0]


def test_a_stored_zero_is_an_entry():
    test = sparse.csr_array((np.array([0.0]), np.array([1]), np.array([0, 1])), shape=(1, 2))
    assert rmse(np.array([[1.0]]), np.array([[1.0], [2.0]]), test) == 2.0


def test_nothing_held_out_is_nan():
    assert math.isnan(rmse(np.ones((2, 1)), np.ones((3, 1)), sparse.csr_array((2, 3))))


def test_blocks_do_not_matter():
    rng = np.random.default_rng(0)
    U, V = rng.random((23, 3)), rng.random((12, 3))
    test = sparse.csr_array(np.where(rng.random((23, 12)) < 0.3, rng.random((23, 12)), 0.0))
    assert rmse(U, V, test, block=4) == pytest.approx(rmse(U, V, test), rel=1e-14)


def test_equals_what_measure_says():
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    test = sparse.csr_array(rng.random((40, 30)) * (rng.random((40, 30)) < 0.2))
    train = sparse.csr_array(test.shape)
    for limits in ({}, {"lower": 0.1, "bound": 0.7}):
        measured = measure((U, V), train, test, feedback="ratings", metrics=["rmse"], **limits)
        assert rmse(U, V, test, block=7, **limits) == pytest.approx(measured.overall("rmse"), rel=1e-12)


def test_what_does_not_fit_is_refused():
    with pytest.raises(BadShape):
        rmse(np.ones((2, 1)), np.ones((3, 1)), sparse.csr_array((2, 4)))
    with pytest.raises(BadShape):
        squared_errors(np.ones((2, 3)), sparse.csr_array((2, 4)))
