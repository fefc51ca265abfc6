"""fold_in: exact against SciPy's nnls, in every shape of input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from tests.matrices import random_rows
from tests.refused import refused
from twofold.algorithms import FoldIn, _nmf_sides, fold_in
from twofold.algorithms._jit import without_numba
from twofold.errors import BadNumber, BadParameter, BadShape


def kkt_residual(X, V, U, ridge):
    """Largest violation of the optimality conditions of one dense row, relative to its natural scale."""
    gram, rhs = V.T @ V + ridge * np.eye(V.shape[1]), X @ V
    scale = np.sqrt(np.diag(gram) * max(X @ X, np.finfo(float).tiny))
    slope = (gram @ U - rhs) / np.where(scale > 0, scale, 1.0)
    return max(np.max(-slope), np.max(np.abs(slope[U > 0]), initial=0.0))


def by_scipy(X, V, ridge):
    tall = np.vstack([V, np.sqrt(ridge) * np.eye(V.shape[1])])
    return nnls(tall, np.concatenate([X, np.zeros(V.shape[1])]), maxiter=1000)[0]


def loss(X, V, u, ridge):
    return float(np.sum((X - V @ u) ** 2) + ridge * u @ u)


@st.composite
def problems(draw):
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    rank, n_items = draw(st.integers(1, 24)), draw(st.integers(1, 40))
    V = rng.standard_normal((n_items, rank))
    kind = draw(st.sampled_from(["random", "nonnegative", "degenerate", "deficient", "scaled", "sparse"]))
    if kind == "nonnegative":
        V = np.abs(V)
    elif kind == "degenerate":
        V = rng.integers(-1, 2, V.shape).astype(float)
    elif kind == "deficient":
        V = rng.standard_normal((n_items, max(1, rank // 3))) @ rng.standard_normal((max(1, rank // 3), rank))
    elif kind == "scaled":
        V = V * 10.0 ** rng.integers(-5, 6, rank)
    elif kind == "sparse":
        V = np.where(rng.random(V.shape) < 0.3, np.abs(V), 0.0)
    X = rng.standard_normal(n_items) if draw(st.booleans()) else V @ np.maximum(rng.standard_normal(rank), 0)
    return X * 10.0 ** draw(st.integers(-3, 3)), V, draw(st.sampled_from([0.0, 1e-8, 0.01, 1.0, 100.0]))


@given(problems())
def test_satisfies_the_optimality_conditions_and_matches_scipy(problem):
    X, V, ridge = problem
    for shape in ("dense", "sparse"):
        rows = X[None] if shape == "dense" else sp.csr_array(np.where(X == 0, 1, X)[None])
        if shape == "sparse":
            rows.data[:] = X
        U = fold_in(rows, V, regularization=ridge, count_scaling=0.0, threads=1)[0]
        assert (U >= 0).all()
        assert np.isfinite(U).all()
        assert kkt_residual(X, V, U, ridge) < 1e-6
        best = loss(X, V, by_scipy(X, V, ridge), ridge)
        assert loss(X, V, U, ridge) <= best + 1e-9 * (X @ X) + 1e-300


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3, 7, 8, 9, 16, 17, 20, 31, 50]))
def test_kernel_equals_reference_on_masked_rows(seed, rank):
    rng = np.random.default_rng(seed)
    V = rng.random((30, rank)) - 0.3
    X = random_rows((11, 30), 0.4, rng)
    weights = rng.random(X.nnz)
    options = {"weights": weights, "row_weights": rng.random(11) + 0.1, "regularization": 0.05, "threads": 1}
    for feedback in ("ratings", "counts"):
        quick = fold_in(X, V, feedback=feedback, **options)
        with without_numba():
            slow = fold_in(X, V, feedback=feedback, **options)
        np.testing.assert_allclose(quick, slow, atol=1e-7)


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(5)
    X = random_rows((300, 60), 0.2, rng)
    X.data[:] = rng.integers(1, 6, X.nnz)
    return X, rng.random((60, 20))


def test_masked_rows_match_scipy_row_by_row(ratings):
    X, V = ratings
    U = fold_in(X, V, regularization=0.1)
    for row in range(0, 300, 10):
        own = X[[row]]
        expected = by_scipy(own.data, V[own.indices], 0.1 * own.nnz)
        np.testing.assert_allclose(U[row], expected, atol=1e-8)


def test_dense_equals_sparse(ratings):
    X, V = ratings
    dense = np.full(X.shape, np.nan)
    dense[X.nonzero()] = X.data
    np.testing.assert_array_equal(fold_in(dense, V), fold_in(X, V))
    for other in (X.tocsc(), X.tocoo(), sp.csr_matrix(X)):
        np.testing.assert_array_equal(fold_in(other, V), fold_in(X, V))


def test_fully_observed_dense_equals_the_same_as_entries(ratings):
    _, V = ratings
    X = np.random.default_rng(1).poisson(2.0, (50, 60)).astype(float)
    stored = sp.csr_array(X + 1)
    stored.data[:] = X.ravel()
    np.testing.assert_allclose(fold_in(X, V), fold_in(stored, V), atol=1e-10)


def test_counts_form_equals_the_dense_weighted_problem(ratings):
    X, V = ratings
    U = fold_in(X, V, feedback="counts", zero_weight=0.3, regularization=0.2, count_scaling=0.0)
    dense, weights = X.toarray(), np.where(X.toarray() != 0, 1.0, 0.3)
    for row in range(0, 300, 25):
        root = np.sqrt(weights[row])
        expected = by_scipy(root * dense[row], root[:, None] * V, 0.2)
        np.testing.assert_allclose(U[row], expected, atol=1e-8)
    np.testing.assert_allclose(U, fold_in(dense, V, feedback="counts", zero_weight=0.3, regularization=0.2,
                                          count_scaling=0.0), atol=1e-12)  # fmt: skip


def test_counts_with_full_weight_is_the_dense_problem(ratings):
    X, V = ratings
    one = fold_in(X, V, feedback="counts", zero_weight=1.0)
    np.testing.assert_allclose(one, fold_in(X.toarray(), V), atol=1e-10)


def test_counts_with_zero_weight_nothing_is_the_masked_problem(ratings):
    X, V = ratings
    np.testing.assert_array_equal(fold_in(X, V, feedback="counts", zero_weight=0.0), fold_in(X, V))


def test_weights_and_row_weights_scale_the_loss(ratings):
    X, V = ratings
    twice = fold_in(X, V, weights=np.full(X.nnz, 2.0), row_weights=np.full(300, 3.0), regularization=0.6)
    np.testing.assert_allclose(twice, fold_in(X, V, regularization=0.1), atol=1e-8)


def test_weights_follow_their_entries_in_every_format(ratings):
    X, V = ratings
    own = X.copy()
    own.data = np.random.default_rng(0).random(X.nnz)
    expected = fold_in(X, V, weights=own.data)
    for make in (sp.csc_array, sp.coo_array):
        np.testing.assert_array_equal(fold_in(make(X), V, weights=make(own).data), expected)
        np.testing.assert_array_equal(fold_in(make(X), V, weights=make(own)), expected)


def test_unconstrained_is_ridge_regression(ratings):
    X, V = ratings
    U = fold_in(X, V - 0.5, nonnegative=False, regularization=0.1)
    own = X[[7]]
    v = (V - 0.5)[own.indices]
    expected = np.linalg.solve(v.T @ v + 0.1 * own.nnz * np.eye(20), v.T @ own.data)
    np.testing.assert_allclose(U[7], expected, atol=1e-10)
    assert (U < 0).any()


def test_unconstrained_without_penalty_and_rank_deficient():
    rng = np.random.default_rng(2)
    V = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 6))
    X = rng.standard_normal((4, 30))
    U = fold_in(X, V, nonnegative=False, regularization=0.0)
    best = np.linalg.lstsq(V, X.T, rcond=None)[0].T
    np.testing.assert_allclose(U @ V.T, best @ V.T, atol=1e-6)


def test_float32_is_near_float64(ratings):
    X, V = ratings
    single = fold_in(X, V, dtype=np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, fold_in(X, V), atol=2e-4)


def test_does_not_depend_on_threads(ratings):
    X, V = ratings
    many = sp.vstack([X] * 40, format="csr")
    np.testing.assert_array_equal(fold_in(many, V, threads=1), fold_in(many, V, threads=3))
    dense = np.random.default_rng(0).poisson(1.0, (5000, 60)).astype(np.float32)
    np.testing.assert_array_equal(fold_in(dense, V, threads=1), fold_in(dense, V, threads=3))


def test_a_row_does_not_depend_on_its_neighbours(ratings):
    X, V = ratings
    U = fold_in(X, V)
    np.testing.assert_array_equal(fold_in(X[[13]], V)[0], U[13])


@pytest.mark.parametrize("feedback", ["ratings", "counts"])
def test_one_user_equals_the_row(ratings, feedback):
    X, V = ratings
    ready, row = FoldIn(V, feedback=feedback), X[[4]]
    np.testing.assert_allclose(ready.one(row.indices, row.data), ready.rows(X)[4], atol=1e-12)
    np.testing.assert_array_equal(ready.one([], []), np.zeros(20))


def test_empty_rows_one_entry_and_more_factors_than_items():
    V = np.random.default_rng(0).random((3, 12))
    X = sp.csr_array(np.array([[0, 0, 0], [0, 4, 0], [1, 2, 3]], dtype=float))
    for ridge in (0.0, 0.1):
        U = fold_in(X, V, regularization=ridge)
        assert np.isfinite(U).all()
        np.testing.assert_array_equal(U[0], 0)
    np.testing.assert_allclose(fold_in(X, V, regularization=0.0)[1] @ V[1], 4.0)
    assert fold_in(sp.csr_array((0, 3)), V).shape == (0, 12)
    assert fold_in(np.zeros((0, 3)), V).shape == (0, 12)
    np.testing.assert_array_equal(fold_in(sp.csr_array((2, 3)), V), 0)


def test_zero_and_equal_columns_of_factors():
    V = np.zeros((5, 4))
    V[:, 1] = V[:, 2] = [1, 2, 3, 4, 5]
    X = 2 * V[:, 1][None]
    for dtype in (np.float32, np.float64):
        U = fold_in(X, V, regularization=0.0, dtype=dtype)
        np.testing.assert_allclose(U @ V.T, X, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("x", "v"), [(1e30, 1.0), (1e-30, 1.0), (1.0, 1e-15), (1e15, 1e15), (1e-150, 1e-3)])
def test_huge_and_tiny_values_scale_out(ratings, x, v, dtype):
    X, V = ratings
    scaled = fold_in(X * x, V * v, regularization=0.1 * v**2, dtype=np.float64)
    np.testing.assert_allclose(scaled * (v / x), fold_in(X, V, regularization=0.1), rtol=1e-6, atol=1e-9)
    assert np.isfinite(fold_in(X * x, V * v, dtype=dtype)).all()


def test_the_input_is_left_alone(ratings):
    X, V = ratings
    data, indices, factors = X.data.copy(), X.indices.copy(), V.copy()
    fold_in(X, V)
    np.testing.assert_array_equal(X.data, data)
    np.testing.assert_array_equal(X.indices, indices)
    np.testing.assert_array_equal(V, factors)


def test_repeated_cells_mean_their_sum():
    V = np.random.default_rng(0).random((3, 2))
    twice = sp.csr_array((np.array([1.0, 2.0, 5.0]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 3))
    once = sp.csr_array(np.array([[5.0, 3.0, 0.0]]))
    np.testing.assert_array_equal(fold_in(twice, V), fold_in(once, V))


def test_int64_indices_are_taken():
    V = np.random.default_rng(0).random((3, 2))
    X = sp.csr_array(np.array([[5.0, 3.0, 0.0]]))
    wide = sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    np.testing.assert_array_equal(fold_in(wide, V), fold_in(X, V))


def test_bad_input_is_refused(ratings):
    X, V = ratings
    with refused(BadShape, "X"):
        fold_in(X, V[:-1])
    with refused(BadShape, "V", expected="(any, at least 1)"):
        fold_in(X, V[:, 0])
    with refused(BadNumber, "V", expected="finite numbers"):
        fold_in(X, np.where(V > 0.5, np.nan, V))
    broken = X.copy()
    broken.data[3] = np.inf
    with refused(BadNumber, "X", expected="finite numbers"):
        fold_in(broken, V)
    with refused(BadNumber, "weights"):
        fold_in(X, V, weights=-np.ones(X.nnz))
    with refused(BadShape, "weights", found="(3,)"):
        fold_in(X, V, weights=np.ones(3))
    with refused(BadNumber, "row_weights", expected="0 or more"):
        fold_in(X, V, row_weights=np.full(300, -1.0))
    with refused(BadParameter, "regularization", found="-0.1"):
        fold_in(X, V, regularization=-0.1)
    with refused(BadParameter, "feedback", expected='"ratings" or "counts"'):
        fold_in(X, V, feedback="stars")
    with refused(BadNumber, "X", expected="finite numbers"):
        fold_in(np.full((2, 60), np.nan), V, feedback="counts")
    with refused(BadParameter, "threads"):
        fold_in(X, V, threads=0)


def test_one_user_refuses_bad_input(ratings):
    ready = FoldIn(ratings[1])
    with refused(BadShape, "values"):
        ready.one([1, 2], [1.0])
    with refused(BadShape, "columns", expected="0 to 59"):
        ready.one([60], [1.0])
    with refused(BadNumber, "values"):
        ready.one([1], [np.nan])
    with refused(BadShape, "columns", found="type float64"):
        ready.one([0.5], [1.0])


@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1e15, 1e30])
def test_one_user_with_factors_far_from_one(ratings, scale):
    for dtype in (np.float32, np.float64):
        assert np.isfinite(FoldIn(ratings[1] * scale, dtype=dtype).one([1, 2], [1.0, 2.0])).all()


def test_a_row_that_does_not_settle_is_mended(ratings, monkeypatch):
    X, V = ratings
    expected = fold_in(X, V)
    monkeypatch.setattr("twofold.algorithms._nmf_sides._numbers", lambda _dtype, _rank: (1, 1e-14, 1e-15))
    np.testing.assert_allclose(fold_in(X, V), expected, atol=1e-8)


@pytest.mark.parametrize("density", [0.05, 0.6])
def test_observed_zeros_give_the_same_however_the_rows_are_multiplied(density, monkeypatch):
    rng = np.random.default_rng(8)
    X, V = random_rows((90, 40), density, rng), rng.random((40, 12))
    options = {"regularization": 0.1, "count_scaling": 0.0}
    whole = fold_in(X.toarray(), V, **options)
    for size in (_nmf_sides.CELLS_PER_BLOCK, 40 * 16):
        monkeypatch.setattr(_nmf_sides, "CELLS_PER_BLOCK", size)
        found = fold_in(X, V, feedback="counts", zero_weight=1.0, **options)
        np.testing.assert_allclose(found, whole, atol=1e-10)
