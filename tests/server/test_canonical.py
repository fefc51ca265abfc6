"""Factors that mean the same get one form."""

from __future__ import annotations

import numpy as np

from twofold.server.denoise import canonical


def test_scale_and_order_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    V, U = rng.random((9, 4)), rng.random((30, 4))
    first = canonical(V, U.T @ U / 30)
    order, scale = rng.permutation(4), rng.random(4) * 5 + 0.1
    W, T = (V * scale)[:, order], (U / scale)[:, order]
    second = canonical(W, T.T @ T / 30)
    for one, two in zip(first, second, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)
    np.testing.assert_allclose(first[0] @ first[1] @ first[0].T, V @ (U.T @ U / 30) @ V.T, rtol=1e-12)


def test_both_sides_have_the_same_mean_square() -> None:
    rng = np.random.default_rng(1)
    U = rng.random((30, 3)) * [1, 5, 9]
    V, moments = canonical(rng.random((7, 3)), U.T @ U / 30)
    np.testing.assert_allclose((V**2).mean(axis=0), np.diag(moments), rtol=1e-12)
    assert (np.diff(np.diag(moments)) <= 0).all()


def test_dead_factors_are_left_out() -> None:
    V, moments = canonical(np.array([[1.0, 0.0, 2.0]]), np.diag([1.0, 1.0, 0.0]))
    assert V.shape == (1, 1)
    assert moments.shape == (1, 1)
    nothing = canonical(np.zeros((3, 2)), np.zeros((2, 2)))
    assert [part.shape for part in nothing] == [(3, 1), (1, 1)]
