"""masked_nmf: the objective it states, falling at every step, on every kind of input."""

from __future__ import annotations

import gzip

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.refused import refused
from twofold.algorithms import fold_in, masked_nmf
from twofold.algorithms._jit import without_numba
from twofold.algorithms.masked_nmf import MaskedNMFResult
from twofold.errors import BadNumber, BadParameter, BadShape


def objective(X, U, V, *, penalty, power, absent=0.0, weights=None, row_weights=None):
    """The stated objective, from dense arrays and nothing else; X holds NaN where nothing is stored."""
    seen = ~np.isnan(X)
    weight = np.where(seen, 1.0 if weights is None else weights, absent)
    weight = weight * (1.0 if row_weights is None else np.asarray(row_weights)[:, None])
    loss = np.sum(weight * (np.where(seen, X, 0.0) - U.astype(float) @ V.T.astype(float)) ** 2)
    sizes = [seen.sum(axis) + absent * (~seen).sum(axis) for axis in (1, 0)]
    return loss + penalty * sum(
        np.sum(n**power * np.sum(F.astype(float) ** 2, 1)) for n, F in zip(sizes, (U, V), strict=True)
    )


def masked(rng, shape=(40, 25), density=0.4, rank=3, noise=0.1):
    X = rng.random((shape[0], rank)) @ rng.random((rank, shape[1])) * 5
    X += noise * rng.standard_normal(shape)
    return np.where(rng.random(shape) < density, X, np.nan)


def as_sparse(X):
    seen = ~np.isnan(X)
    return sp.csr_array((X[seen], np.nonzero(seen)), shape=X.shape)


@pytest.fixture
def X():
    return masked(np.random.default_rng(3))


def test_returns_a_pair_that_unpacks(X):
    U, V = masked_nmf(as_sparse(X), rank=4)
    assert U.shape == (40, 4)
    assert V.shape == (25, 4)
    assert (U >= 0).all()
    assert (V >= 0).all()


def test_finds_the_factors_of_an_exact_product():
    X = masked(np.random.default_rng(0), density=0.7, noise=0.0)
    U, V = masked_nmf(X, rank=3, regularization=0.0, max_iterations=500, tolerance=0.0)
    assert np.abs(U @ V.T - X)[~np.isnan(X)].max() < 0.05


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("feedback", ["ratings", "counts"])
def test_reports_the_stated_objective_and_it_never_rises(X, power, dtype, feedback):
    rng = np.random.default_rng(1)
    weights, rows = rng.random(X.shape), rng.random(40) + 0.2
    sparse, own = as_sparse(X), as_sparse(np.where(np.isnan(X), np.nan, weights))
    fit = masked_nmf(
        sparse,
        4,
        feedback=feedback,
        weights=own,
        row_weights=rows,
        zero_weight=0.2,
        regularization=0.1,
        count_scaling=power,
        dtype=dtype,
        return_info=True,
    )
    absent = 0.2 if feedback == "counts" else 0.0
    stated = objective(X, fit.user_factors, fit.item_factors, penalty=0.1, power=power, absent=absent,
                       weights=weights, row_weights=rows)  # fmt: skip
    assert fit.objective[-1] == pytest.approx(stated, rel=1e-10 if dtype == np.float64 else 1e-4)
    assert (np.diff(fit.objective) <= 0).all()
    assert fit.iterations >= 3
    assert isinstance(fit, MaskedNMFResult)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(0, 1), st.sampled_from([0.0, 1e-6, 0.1, 10.0]))
def test_never_rises_and_stays_finite_on_random_problems(seed, rank, density, penalty):
    rng = np.random.default_rng(seed)
    X = masked(rng, shape=(rng.integers(1, 30), rng.integers(1, 12)), density=density, noise=3.0)
    for dtype in (np.float32, np.float64):
        fit = masked_nmf(X, rank, regularization=penalty, dtype=dtype, max_iterations=15, return_info=True)
        assert (np.diff(fit.objective) <= 0).all()
        assert np.isfinite(fit.user_factors).all()
        assert np.isfinite(fit.item_factors).all()
        assert min(fit.user_factors.min(initial=0), fit.item_factors.min(initial=0)) >= 0


def test_users_are_exact_given_items(X):
    U, V = masked_nmf(X, 4, regularization=0.1)
    np.testing.assert_allclose(U, fold_in(X, V, regularization=0.1), atol=1e-9)


def test_dense_equals_sparse_in_every_format(X):
    expected = masked_nmf(X, 3)
    for make in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array):
        for got, wanted in zip(masked_nmf(make(as_sparse(X)), 3), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_fully_observed_dense_equals_entries():
    X = masked(np.random.default_rng(4), density=1.1)
    weights = np.random.default_rng(0).random(40)
    dense = masked_nmf(X, 3, row_weights=weights)
    entries = masked_nmf(as_sparse(X), 3, row_weights=weights)
    for got, wanted in zip(dense, entries, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-7)


def test_counts_of_full_weight_equal_plain_factorization():
    X = np.random.default_rng(4).poisson(1.0, (40, 25)).astype(float)
    counts = masked_nmf(sp.csr_array(X), 3, feedback="counts", zero_weight=1.0, rng=1, return_info=True)
    start = (None, np.random.default_rng(0).random((25, 3)))
    sparse = masked_nmf(sp.csr_array(X), 3, feedback="counts", zero_weight=1.0, start=start)
    dense = masked_nmf(X, 3, start=start)
    for got, wanted in zip(sparse, dense, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-9)
    stated = objective(X, counts.user_factors, counts.item_factors, penalty=0.08, power=1.0)
    assert counts.objective[-1] == pytest.approx(stated)


def test_stored_zeros_are_observed():
    X = sp.csr_array((np.zeros(6), (np.repeat([0, 1], 3), np.tile([0, 1, 2], 2))), shape=(2, 3))
    U, V = masked_nmf(X, 2)
    np.testing.assert_array_equal(U @ V.T, 0)
    assert masked_nmf(X, 2, return_info=True).objective[-1] == 0


def test_kernel_equals_reference(X):
    options = {"max_iterations": 5, "regularization": 0.05, "row_weights": np.arange(1, 41) / 20}
    for feedback in ("ratings", "counts"):
        quick = masked_nmf(as_sparse(X), 3, feedback=feedback, **options)
        with without_numba():
            slow = masked_nmf(as_sparse(X), 3, feedback=feedback, **options)
        for got, wanted in zip(quick, slow, strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_float32_is_near_float64(X):
    single = masked_nmf(X, 3, dtype=np.float32, return_info=True)
    double = masked_nmf(X, 3, return_info=True)
    assert single.user_factors.dtype == np.float32
    assert double.user_factors.dtype == np.float64
    assert single.objective[-1] == pytest.approx(double.objective[-1], rel=1e-3)


def test_same_seed_same_bits_whatever_the_threads():
    X = masked(np.random.default_rng(0), shape=(9000, 40))
    one = masked_nmf(X, 8, threads=1, max_iterations=3, rng=7)
    for threads in (2, 5):
        for got, wanted in zip(masked_nmf(X, 8, threads=threads, max_iterations=3, rng=7), one, strict=True):
            np.testing.assert_array_equal(got, wanted)
    other = masked_nmf(X, 8, threads=1, max_iterations=3, rng=8)
    assert not np.array_equal(other[0], one[0])


def test_warm_start_goes_on(X):
    half = masked_nmf(X, 4, max_iterations=6, tolerance=0.0, return_info=True)
    pair = (half.user_factors, half.item_factors)
    on = masked_nmf(X, 4, start=pair, max_iterations=6, tolerance=0.0, return_info=True)
    assert on.objective[0] == pytest.approx(half.objective[-1])
    assert on.objective[-1] < half.objective[-1]
    from_users = masked_nmf(X, 4, start=(pair[0], None), max_iterations=0, return_info=True)
    assert from_users.objective[0] <= half.objective[-1]


def test_stops_by_tolerance_by_callback_and_by_count(X):
    calls = []
    stopped = masked_nmf(X, 3, callback=lambda i, f: calls.append((i, f)) or i == 2, return_info=True)
    assert [i for i, _ in calls] == [0, 1, 2]
    assert [f for _, f in calls] == list(stopped.objective)
    assert not stopped.converged
    loose = masked_nmf(X, 3, tolerance=1e-2, return_info=True)
    tight = masked_nmf(X, 3, tolerance=1e-6, max_iterations=500, return_info=True)
    assert loose.converged
    assert tight.converged
    assert loose.iterations < tight.iterations
    assert masked_nmf(X, 3, max_iterations=2, tolerance=0, return_info=True).iterations == 2


def test_noisy_negative_input_is_not_clipped():
    rng = np.random.default_rng(0)
    truth = rng.random((400, 2)) @ rng.random((2, 30))
    X = truth + 2 * rng.standard_normal(truth.shape)
    assert (X < 0).mean() > 0.3
    U, V = masked_nmf(X, 2, regularization=0.05)
    assert abs((U @ V.T).mean() - X.mean()) < 0.05


def test_row_weights_listen_to_the_quiet_rows():
    rng = np.random.default_rng(0)
    truth = rng.random((200, 2)) @ rng.random((2, 30))
    noise = np.where(np.arange(200) < 100, 0.01, 3.0)
    X = truth + noise[:, None] * rng.standard_normal(truth.shape)

    def error(weights):
        _, V = masked_nmf(X, 2, row_weights=weights, regularization=1e-4, max_iterations=200)
        return np.abs(fold_in(truth, V, regularization=1e-9) @ V.T - truth).mean()

    assert error(1 / noise**2) < error(None) / 5


def test_odd_shapes():
    for X in (
        sp.csr_array((3, 4)),
        sp.csr_array((0, 4)),
        sp.csr_array((3, 0)),
        sp.csr_array(np.array([[0, 0, 0], [0, 5, 0]])),
        np.full((3, 4), np.nan),
        np.full((5, 4), 3.0),
        np.full((5, 4), 0.0),
        np.full((5, 4), -1.0),
    ):
        for penalty in (0.0, 0.1):
            for feedback in ("ratings", "counts"):
                if feedback == "counts" and not sp.issparse(X) and np.isnan(X).any():
                    continue
                U, V = masked_nmf(X, 7, regularization=penalty, feedback=feedback)
                assert U.shape == (X.shape[0], 7)
                assert V.shape == (X.shape[1], 7)
                assert np.isfinite(U).all()
                assert np.isfinite(V).all()


@pytest.mark.parametrize("scale", [1e-140, 1e-30, 1e-12, 1e12, 1e30, 1e140])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_and_tiny_values(X, scale, dtype):
    U, V = masked_nmf(X, 3, regularization=0.05, dtype=np.float64, max_iterations=10)
    P, Q = masked_nmf(X * scale, 3, regularization=0.05 * scale, dtype=np.float64, max_iterations=10)
    np.testing.assert_allclose(P @ Q.T / scale, U @ V.T, rtol=1e-5, atol=1e-7)
    if scale == 1e140 and dtype == np.float32:
        with refused(BadNumber, "X", "float32"):
            masked_nmf(X * scale, 3, dtype=dtype, max_iterations=3)
        return
    for factors in masked_nmf(X * scale, 3, dtype=dtype, max_iterations=3):
        assert np.isfinite(factors).all()


def test_bad_input_is_refused(X):
    for rank in (0, -1, 2.5, True, "3"):
        with refused(BadParameter, "rank"):
            masked_nmf(X, rank)
    with refused(BadShape, "X", found="shape (25,)"):
        masked_nmf(X[0], 2)
    with refused(BadShape, "X", found="<U1"):
        masked_nmf(np.array([["a"]]), 2)
    with refused(BadShape, "X", found="complex128"):
        masked_nmf(as_sparse(X).astype(complex), 2)
    with refused(BadNumber, "X", expected="finite"):
        masked_nmf(np.where(X > 3, np.inf, X), 2)
    with refused(BadNumber, "weights", expected="0 or more"):
        masked_nmf(X, 2, weights=-np.ones(X.shape))
    with refused(BadShape, "row_weights", found="(1,)"):
        masked_nmf(X, 2, row_weights=[1.0])
    with refused(BadShape, "start V"):
        masked_nmf(X, 2, start=(None, np.ones((25, 3))))
    with refused(BadParameter, "tolerance"):
        masked_nmf(X, 2, tolerance=-1)
    with refused(BadParameter, "dtype", found="int32"):
        masked_nmf(X, 2, dtype=np.int32)


def test_errors_hold_no_value_of_the_data():
    X = np.array([[1234567.0, np.inf]])
    with pytest.raises(BadNumber) as caught:
        masked_nmf(X, 1)
    assert "1234567" not in str(caught.value)


def paper_split(X, rng):
    """Mark entries to hold out: five of each of 20% of users, never a user's last."""
    held = np.zeros(X.nnz, dtype=bool)
    for user in rng.choice(X.shape[0], X.shape[0] // 5, replace=False):
        own = np.arange(X.indptr[user], X.indptr[user + 1])
        held[rng.choice(own, min(5, own.size - 1), replace=False)] = True
    return held


def test_movielens_error_is_at_most_that_of_the_best_scaling(data_folder):
    with gzip.open(data_folder / "movielens-1m" / "ratings.csv.gz") as file:
        table = pl.read_csv(file.read())
    users, items = (np.unique(table[name], return_inverse=True)[1] for name in ("user", "item"))
    ratings = sp.csr_array((table["rating"].to_numpy().astype(np.float32), (users, items)), shape=(6040, 3706))
    rows = np.repeat(np.arange(6040), np.diff(ratings.indptr))
    errors = []
    for seed in range(4):  # one split's error moves by 0.004 with the choice of users
        held = paper_split(ratings, np.random.default_rng(seed))
        seen = ~held
        X = sp.csr_array((ratings.data[seen], (rows[seen], ratings.indices[seen])), shape=ratings.shape)
        U, V = masked_nmf(X, rank=20)
        assert held.sum() == 6040
        assert min(U.min(), V.min()) >= 0
        error = np.einsum("ij,ij->i", U[rows[held]], V[ratings.indices[held]]) - ratings.data[held]
        errors.append(np.sqrt(np.mean(error**2)))
    assert np.mean(errors) <= 0.877
