"""What the penalty takes off is given back where it was signal."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.server.rows import above_noise, unshrunk


def test_no_noise_changes_nothing() -> None:
    moments = np.array([[2.0, 1.0], [1.0, 3.0]])
    assert unshrunk(np.eye(3)[:, :2], np.eye(2), moments, 0.0) is moments


@pytest.mark.parametrize("rank", [1, 3])
def test_every_singular_value_gets_its_own_gain(rank: int) -> None:
    rng = np.random.default_rng(rank)
    U, V = rng.random((20, rank)), rng.random((9, rank))
    gram, edge = U.T @ U, 0.7
    found = V @ unshrunk(V, gram, gram, edge) @ V.T
    sizes = np.linalg.svd(U @ V.T, compute_uv=False)[:rank]
    expected = np.sort(sizes * (sizes + 2 * edge))[::-1]
    np.testing.assert_allclose(np.linalg.eigvalsh(found)[::-1][:rank], expected, rtol=1e-9)


def test_a_pattern_in_two_equal_factors_counts_as_one() -> None:
    u, v, edge = np.ones((4, 1)), np.arange(1.0, 4.0)[:, None], 2.0
    once = v @ unshrunk(v, u.T @ u, u.T @ u, edge) @ v.T
    U, V = np.hstack([u, u]) / 2**0.5, np.hstack([v, v]) / 2**0.5
    twice = V @ unshrunk(V, U.T @ U, U.T @ U, edge) @ V.T
    np.testing.assert_allclose(once, twice, rtol=1e-9)


def test_a_factor_below_a_hundredth_of_the_edge_is_dead() -> None:
    V, gram = np.ones((1, 2)), np.diag([1.0, 1e-6])
    assert above_noise(V, gram, 1.0).tolist() == [0]
    assert above_noise(V, gram, 0.0).tolist() == [0, 1]
