"""The active-set method behind the references, against SciPy's nnls."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from twofold.algorithms._reference import non_negative_quadratic


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 15), st.sampled_from([1, 3, 12]))
def test_reaches_the_loss_of_nnls_even_when_singular(seed, rank, n, inner):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, min(inner, rank))) @ rng.standard_normal((min(inner, rank), rank))
    b = rng.standard_normal(n)
    x = non_negative_quadratic(A.T @ A, A.T @ b)
    assert (x >= 0).all()
    assert np.sum((A @ x - b) ** 2) <= nnls(A, b, maxiter=1000)[1] ** 2 + 1e-9 * (b @ b)


def test_nothing_to_explain_gives_zeros():
    np.testing.assert_array_equal(non_negative_quadratic(np.zeros((3, 3)), np.zeros(3)), 0)
    np.testing.assert_array_equal(non_negative_quadratic(np.eye(3), -np.ones(3)), 0)
