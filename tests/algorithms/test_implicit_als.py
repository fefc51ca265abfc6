"""implicit_als: the objective it states, its kernel against the reference, the same bits on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.matrices import random_rows
from tests.refused import refused
from twofold.algorithms import _ials_kernels, _reference
from twofold.algorithms._jit import without_numba
from twofold.algorithms.implicit_als import implicit_als
from twofold.errors import BadNumber, BadParameter

SETTINGS = {"unobserved": 0.2, "regularization": 0.02}


def objective(X, U, V, *, unobserved, regularization, count_scaling=1.0):
    """The stated objective, from dense arrays and nothing else."""
    dense = X.toarray().astype(float)
    seen, scores = dense != 0, U.astype(float) @ V.T.astype(float)
    loss = np.sum(np.where(seen, (dense - scores) ** 2, 0.0)) + unobserved * np.sum(scores**2)
    for axis, factors in ((1, U), (0, V)):
        size = seen.sum(axis) + unobserved * seen.shape[axis]
        loss += regularization * np.sum(size**count_scaling * np.sum(factors.astype(float) ** 2, 1))
    return loss


def clusters(users=60, items=40, seed=0):
    """Two tastes, entries of several sizes, somebody and something without any."""
    rng = np.random.default_rng(seed)
    likely = np.where((np.arange(users)[:, None] % 2) == (np.arange(items) % 2), 0.4, 0.05)
    counts = np.where(rng.random((users, items)) < likely, rng.integers(1, 4, (users, items)), 0)
    counts[5], counts[:, 7] = 0, 0
    return sp.csr_array(counts.astype(np.float32))


def test_the_stated_objective_falls_to_a_stationary_point():
    X = clusters()
    losses = [objective(X, *implicit_als(X, 5, epochs=epochs, **SETTINGS), **SETTINGS) for epochs in (1, 2, 4, 16, 200)]
    assert losses == sorted(losses, reverse=True)
    U, V = (part.astype(float) for part in implicit_als(X, 5, epochs=200, **SETTINGS))
    dense = X.toarray()
    seen, scores = dense != 0, U @ V.T
    size = seen.sum(1) + 0.2 * 40
    slope = (np.where(seen, scores - dense, 0) + 0.2 * scores) @ V + 0.02 * size[:, None] * U
    assert np.abs(slope).max() < 1e-3


@pytest.mark.parametrize("rank", [1, 3, 8, 13])
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_the_kernel_agrees_with_the_reference(rank, power):
    X = clusters()
    fast = implicit_als(X, rank, epochs=3, count_scaling=power, **SETTINGS)
    with without_numba():
        slow = implicit_als(X, rank, epochs=3, count_scaling=power, **SETTINGS)
    for one, other in zip(fast, slow, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4)


def test_enough_steps_solve_a_row():
    rng = np.random.default_rng(1)
    factors = rng.standard_normal((20, 8)).astype(np.float32)
    starts, columns = np.array([0, 6, 6, 13]), rng.permutation(20)[:13].astype(np.int32)
    values = rng.random(13).astype(np.float32)
    base, scale, ridge = (rng.random(size).astype(np.float32) + 0.5 for size in (8, 8, 3))
    for run in (_ials_kernels.descend_rows, _reference.descend_rows):
        out = np.ones((3, 8), np.float32)
        run(0, 3, starts, columns, values, factors.ravel(), 8, base, scale, ridge, 24, out.reshape(-1))
        assert not out[1].any()
        for row in (0, 2):
            v = factors[columns[starts[row] : starts[row + 1]]].astype(float)
            exact = np.linalg.solve(
                v.T @ v + np.diag(base + ridge[row] * scale), values[starts[row] : starts[row + 1]] @ v
            )
            np.testing.assert_allclose(out[row], exact, rtol=1e-3, atol=1e-4)


def test_the_same_bits_on_any_number_of_threads():
    rng = np.random.default_rng(2)
    X = random_rows((3000, 400), 0.06, rng, np.float32)
    one, two = (implicit_als(X, 12, epochs=2, threads=threads, rng=7) for threads in (1, 3))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
    other = implicit_als(X, 12, epochs=2, rng=8)
    assert not np.array_equal(one[0], other[0])


def test_a_fit_that_is_stopped_is_one_of_so_many_epochs():
    looks = []

    def third(epoch, V):
        looks.append((epoch, V))
        return epoch == 3

    stopped = implicit_als(clusters(), 6, stop=third, **SETTINGS)
    assert [epoch for epoch, _ in looks] == [1, 2, 3]
    np.testing.assert_array_equal(looks[-1][1], stopped[1])
    for one, other in zip(stopped, implicit_als(clusters(), 6, epochs=3, **SETTINGS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_tastes_are_told_apart():
    U, V = implicit_als(clusters(), 4, **SETTINGS)
    scores = U @ V.T
    same = (np.arange(60)[:, None] % 2) == (np.arange(40) % 2)
    assert scores[same].mean() > 3 * scores[~same].mean()
    assert (U < 0).any()
    assert not U[5].any()
    assert not V[7].any()


@pytest.mark.parametrize("unit", [1e-15, 1e15])
def test_units_do_not_matter(unit):
    X = clusters()
    U, V = implicit_als(X, 4, epochs=100, unobserved=0.2, regularization=0.02)
    far = implicit_als(X * unit, 4, epochs=100, unobserved=0.2, regularization=0.02 * unit)
    np.testing.assert_allclose(far[0].astype(float) @ far[1].T.astype(float) / unit, U @ V.T, rtol=0.02, atol=2e-3)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (4, 3)])
def test_nothing_observed_gives_zeros(shape):
    U, V = implicit_als(sp.csr_array(shape, dtype=np.float32), 2)
    assert U.shape == (shape[0], 2)
    assert V.shape == (shape[1], 2)
    assert not U.any()
    assert not V.any()


def test_without_weight_on_absent_entries_and_without_penalty_it_stays_finite():
    U, V = implicit_als(clusters(), 12, unobserved=0.0, regularization=0.0)
    assert np.isfinite(U).all()
    assert np.isfinite(V).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [("unobserved", -0.1), ("regularization", np.nan), ("count_scaling", -1), ("epochs", -1), ("steps", 0)],
)
def test_settings_without_meaning_are_refused(name, value):
    with refused(BadParameter, name):
        implicit_als(clusters(), 2, **{name: value})


def test_nan_is_refused():
    X = clusters()
    X.data[3] = np.nan
    with refused(BadNumber, "X"):
        implicit_als(X, 2)
