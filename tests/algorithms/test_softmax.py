"""Moments of a softmax: the compiled kernel against a slow reference and against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, special

from twofold.algorithms import _reference
from twofold.algorithms._softmax_kernels import exponentials, softmax_moments


def case(users=7, number=2, items=29, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    closed = sparse.csr_array((rng.random((users, items)) < 0.3) & (np.arange(items) > 0))
    return scale * rng.normal(size=(users, number, items)), rng.random(number), closed.indptr, closed.indices


def found(run, given):
    users, number, _ = given[0].shape
    sizes, moments = np.empty(users), np.full((users, number, 1 + number), np.nan)
    run(*given, sizes, moments)
    return sizes, moments


@pytest.mark.parametrize("scale", [0.0, 1.0, 50.0, 1e5])
@pytest.mark.parametrize(("number", "items"), [(1, 1), (1, 8), (2, 29), (3, 64)])
def test_the_kernel_agrees_with_the_reference(number, items, scale):
    given = case(number=number, items=items, scale=scale)
    (sizes, moments), (other_sizes, other_moments) = (
        found(one, given) for one in (softmax_moments, _reference.softmax_moments)
    )
    np.testing.assert_allclose(sizes, other_sizes, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(moments, other_moments, rtol=1e-12, atol=1e-13 * max(scale**2, 1.0))


def test_the_reference_is_a_softmax():
    parts, weights, starts, closed = given = case()
    sizes, moments = found(_reference.softmax_moments, given)
    for row, part in enumerate(parts):
        open_ones = np.setdiff1d(np.arange(part.shape[1]), closed[starts[row] : starts[row + 1]])
        z = weights @ part[:, open_ones]
        chance = special.softmax(z)
        assert sizes[row] == pytest.approx(special.logsumexp(z))
        np.testing.assert_allclose(moments[row, :, 0], part[:, open_ones] @ chance)
        assert moments[row, 1, 1] == pytest.approx(float(np.prod(part[:, open_ones], axis=0) @ chance))
        assert moments[row, 0, 2] == pytest.approx(moments[row, 1, 1])


def test_rows_have_the_same_bits_wherever_they_are():
    parts, weights, starts, closed = given = case(users=9)
    sizes, moments = found(softmax_moments, given)
    for row in range(9):
        own = closed[starts[row] : starts[row + 1]]
        alone = found(softmax_moments, (parts[row : row + 1].copy(), weights, np.array([0, own.size]), own))
        assert alone[0][0] == sizes[row]
        np.testing.assert_array_equal(alone[1][0], moments[row])


def test_exponentials_are_right_to_the_last_bits():
    x = -np.concatenate([np.linspace(0, 3, 3_001), np.geomspace(1e-18, 699, 3_001), np.arange(20) * np.log(2) / 2])
    made = x.copy()
    exponentials(made, np.empty_like(x))
    np.testing.assert_allclose(made, np.exp(x), rtol=4e-16)


@pytest.mark.parametrize("far", [-701.0, -1e6, -np.inf])
def test_far_below_nothing_is_left(far):
    made = np.array([far, 0.0])
    exponentials(made, np.empty(2))
    assert made[0] < 1e-300
    assert made[1] == 1


def test_what_is_not_a_number_stays_none():
    made = np.array([np.nan, -1.0])
    exponentials(made, np.empty(2))
    assert np.isnan(made[0])
    assert made[1] == pytest.approx(np.exp(-1.0))
