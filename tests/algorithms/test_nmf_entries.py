"""Entries by rows and by columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.matrices import random_rows
from tests.refused import refused
from twofold.algorithms._jit import without_numba
from twofold.algorithms._nmf_sides import observed
from twofold.errors import BadShape


@pytest.mark.parametrize("shape", [(7, 5), (1, 1), (3, 0), (0, 3), (40, 2)])
@pytest.mark.parametrize("weighted", [True, False])
def test_transposed_is_the_matrix_by_columns(shape, weighted):
    X = random_rows(shape, 0.5, np.random.default_rng(0))
    entries, _ = observed(X, X.data + 1 if weighted else None, "ratings")
    turned = entries.transposed()
    expected = X.T.tocsr()
    np.testing.assert_array_equal(turned.starts, expected.indptr)
    np.testing.assert_array_equal(turned.columns, expected.indices)
    np.testing.assert_array_equal(turned.values, expected.data)
    np.testing.assert_array_equal(turned.weights, expected.data + 1 if weighted else np.empty(0))
    with without_numba():
        slow = entries.transposed()
    for name in ("starts", "columns", "values", "weights"):
        np.testing.assert_array_equal(getattr(turned, name), getattr(slow, name))


def test_weights_of_other_cells_are_refused():
    X, other = sp.csr_array(np.eye(3)), sp.csr_array(np.eye(3)[::-1])
    with refused(BadShape, "weights", expected="the cells of X"):
        observed(X, other, "ratings")


def test_a_full_matrix_stays_dense_and_a_masked_one_does_not():
    assert observed(np.ones((2, 2)), None, "ratings")[0] is None
    assert observed(np.ones((2, 2)), np.ones((2, 2)), "ratings")[1] is None
    entries, _ = observed(np.array([[1.0, np.nan], [0.0, 3.0]]), None, "ratings")
    np.testing.assert_array_equal(entries.values, [1, 0, 3])
    counts, _ = observed(np.array([[1, 0], [0, 3]]), None, "counts")
    np.testing.assert_array_equal(counts.values, [1, 3])
