"""Known noise edges, optimal shrinkage, and one form for factors that mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.server.denoise import (
    canonical,
    keep_sketch,
    keep_symmetric,
    shrink_sketch,
    shrink_symmetric,
    symmetric_edge,
)

ITEMS, COLUMNS, NOISE = 80, 30, 1.7


def symmetric_noise(rng: np.random.Generator, items: int = ITEMS) -> np.ndarray:
    upper = np.triu(rng.normal(scale=NOISE, size=(items, items)))
    return upper + np.triu(upper, 1).T


@pytest.mark.parametrize("kind", ["symmetric", "sketch"])
def test_pure_noise_stays_below_in_at_least_95_of_100_draws(kind):
    rng, risen = np.random.default_rng(0), 0
    for _ in range(200):
        if kind == "symmetric":
            largest = np.linalg.eigvalsh(symmetric_noise(rng))[-1:]
            risen += bool(shrink_symmetric(largest, NOISE, ITEMS)[0] > 0)
        else:
            largest = np.linalg.svd(rng.normal(scale=NOISE, size=(ITEMS, COLUMNS)), compute_uv=False)[:1]
            risen += bool(shrink_sketch(largest, NOISE, ITEMS, COLUMNS)[0] > 0)
    assert risen <= 10


def sketch_edge(noise, items, columns):
    """Where the largest singular value of rectangular noise lies: see the head of `twofold.server.denoise`."""
    return noise * (np.sqrt(items) + np.sqrt(columns))


def test_the_edge_is_where_the_largest_value_of_noise_lies():
    rng = np.random.default_rng(1)
    square = [np.linalg.eigvalsh(symmetric_noise(rng, 200))[-1] for _ in range(10)]
    flat = [np.linalg.norm(rng.normal(scale=NOISE, size=(200, 50)), 2) for _ in range(10)]
    assert np.mean(square) == pytest.approx(symmetric_edge(NOISE, 200), rel=0.05)
    assert np.mean(flat) == pytest.approx(sketch_edge(NOISE, 200, 50), rel=0.05)
    assert symmetric_edge(NOISE, 200) < keep_symmetric(NOISE, 200) < 1.05 * symmetric_edge(NOISE, 200)
    assert sketch_edge(NOISE, 200, 50) < keep_sketch(NOISE, 200, 50) < 1.05 * sketch_edge(NOISE, 200, 50)


def test_without_noise_nothing_is_shrunk():
    values = np.array([0.25, 3.0, 9.0])
    np.testing.assert_array_equal(shrink_symmetric(values, 0.0, ITEMS), values)
    np.testing.assert_allclose(shrink_sketch(values, 0.0, ITEMS, COLUMNS), values)


@pytest.mark.parametrize("size", [1.3, 1.6, 2.5, 5.0])
def test_shrunk_sizes_are_as_good_as_the_best_there_are(size):
    """The oracle sees the truth: v·Mv along each direction seen is the size of least squared error."""
    rng, ours, best, raw = np.random.default_rng(2), 0.0, 0.0, 0.0
    for _ in range(8):
        axis = rng.normal(size=(200, 1))
        axis /= np.linalg.norm(axis)
        truth = size * symmetric_edge(NOISE, 200) / 2 * 2 * (axis @ axis.T)
        values, axes = np.linalg.eigh(truth + symmetric_noise(rng, 200))
        sizes = shrink_symmetric(values, NOISE, 200)
        oracle = np.maximum(np.einsum("ik,ij,jk->k", axes, truth, axes), 0.0) * (sizes > 0)
        for kept, name in ((sizes, "ours"), (oracle, "best"), (values * (sizes > 0), "raw")):
            loss = np.sum(((axes * kept) @ axes.T - truth) ** 2)
            ours, best, raw = (
                ours + loss * (name == "ours"),
                best + loss * (name == "best"),
                raw + loss * (name == "raw"),
            )
    assert ours <= 1.03 * best
    assert ours < raw


def test_shrunk_sizes_of_a_sketch_are_as_good_as_the_best_there_are():
    rng, ours, best, raw = np.random.default_rng(3), 0.0, 0.0, 0.0
    for _ in range(8):
        left, right = rng.normal(size=(200, 1)), rng.normal(size=(1, 60))
        truth = 1.5 * sketch_edge(NOISE, 200, 60) * (left / np.linalg.norm(left)) @ (right / np.linalg.norm(right))
        U, values, V = np.linalg.svd(truth + rng.normal(scale=NOISE, size=truth.shape), full_matrices=False)
        sizes = shrink_sketch(values, NOISE, 200, 60)
        oracle = np.einsum("ik,ij,kj->k", U, truth, V) * (sizes > 0)
        ours, best, raw = (
            total + np.sum(((U * kept) @ V - truth) ** 2)
            for total, kept in ((ours, sizes), (best, oracle), (raw, values * (sizes > 0)))
        )
    assert ours <= 1.03 * best
    assert ours < raw


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
