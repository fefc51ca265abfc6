"""Non-negative factors say the same as means and patterns."""

from __future__ import annotations

import numpy as np

from twofold.server.ratings import nonnegative_mixtures


def test_the_second_moments_are_those_of_means_and_patterns():
    rng = np.random.default_rng(0)
    means, loadings = rng.uniform(2, 4, size=9), 0.3 * rng.normal(size=(9, 3))
    V, moments = nonnegative_mixtures(means, loadings, 20)
    assert V.shape == (9, 7)
    assert (V >= 0).all()
    assert np.allclose(V @ moments @ V.T, np.outer(means, means) + loadings @ loadings.T)
    assert np.linalg.eigvalsh(moments).min() > -1e-9


def test_patterns_beyond_the_rank_are_left_out():
    V, moments = nonnegative_mixtures(np.full(4, 3.0), np.eye(4)[:, :3], 4)
    assert V.shape[1] == 3
    assert np.allclose(V @ moments @ V.T, 9.0 + np.diag([1.0, 0, 0, 0]))


def test_no_pattern_at_all_leaves_the_means():
    V, moments = nonnegative_mixtures(np.full(4, 3.0), np.zeros((4, 2)), 20)
    assert np.allclose(V @ moments @ V.T, 9.0)
