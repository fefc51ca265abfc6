"""Order, sign and accuracy of the linear algebra helpers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from twofold.algorithms.linear_algebra import low_rank_svd, range_finder, symmetric_eigen
from twofold.errors import BadNumber, BadParameter, BadShape


@pytest.fixture
def low_rank():
    rng = np.random.default_rng(0)
    return rng.standard_normal((60, 4)) @ rng.standard_normal((4, 30))


def test_symmetric_eigen_is_sorted_and_rebuilds_the_matrix(low_rank):
    gram = low_rank.T @ low_rank
    values, vectors = symmetric_eigen(gram)
    assert (np.diff(values) <= 0).all()
    np.testing.assert_allclose(vectors * values @ vectors.T, gram, atol=1e-9)
    largest = vectors[np.abs(vectors).argmax(0), np.arange(30)]
    assert (largest > 0).all()


def test_symmetric_eigen_of_a_few(low_rank):
    values, vectors = symmetric_eigen(low_rank.T @ low_rank, 3)
    expected = np.linalg.svd(low_rank, compute_uv=False)[:3] ** 2
    np.testing.assert_allclose(values, expected)
    assert vectors.shape == (30, 3)


def test_symmetric_eigen_refuses():
    with pytest.raises(BadShape, match="square"):
        symmetric_eigen(np.ones((2, 3)))
    with pytest.raises(BadParameter, match="more than the matrix has"):
        symmetric_eigen(np.eye(2), 3)
    with pytest.raises(BadNumber, match="NaN"):
        symmetric_eigen([[np.nan]])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_range_finder_spans_a_low_rank_matrix(low_rank, make):
    basis = range_finder(make(low_rank), 6, rng=1)
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(basis @ (basis.T @ low_rank), low_rank, atol=1e-9)
    np.testing.assert_array_equal(basis, range_finder(make(low_rank), 6, rng=1))


def test_range_finder_never_asks_for_more_than_there_is():
    assert range_finder(np.eye(3), 10).shape == (3, 3)


def test_low_rank_svd_matches_numpy(low_rank):
    noisy = low_rank + 0.01 * np.random.default_rng(1).standard_normal(low_rank.shape)
    left, values, right = low_rank_svd(noisy, 4)
    np.testing.assert_allclose(values, np.linalg.svd(noisy, compute_uv=False)[:4], rtol=1e-6)
    np.testing.assert_allclose(left * values @ right.T, low_rank, atol=0.1)
