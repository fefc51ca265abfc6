"""Non-negative factors of a denoised matrix."""

from __future__ import annotations

import numpy as np

from twofold.server.counts import nonnegative_factors


def spectrum(matrix: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    values, axes = np.linalg.eigh(matrix)
    return axes[:, ::-1][:, :rank], values[::-1][:rank]


def mixture(items: int = 50, rank: int = 4) -> np.ndarray:
    rng = np.random.default_rng(0)
    V = rng.gamma(0.3, 1.0, size=(items, rank))
    U = rng.dirichlet(np.full(rank, 0.3), size=2_000)
    return V @ (U.T @ U / 2_000) @ V.T


def test_a_mixture_of_few_patterns_is_found_again():
    truth = mixture()
    V, moments = nonnegative_factors(*spectrum(truth, 4), 4)
    assert (V >= 0).all()
    assert np.linalg.norm(V @ moments @ V.T - truth) < 0.05 * np.linalg.norm(truth)
    assert (np.linalg.eigvalsh(moments) > -1e-9).all()


def test_equal_input_gives_equal_bytes():
    one, other = (nonnegative_factors(*spectrum(mixture(), 4), 3) for _ in range(2))
    assert one[0].tobytes() == other[0].tobytes()
    assert one[1].tobytes() == other[1].tobytes()


def test_the_rank_is_never_above_what_was_asked_for():
    assert nonnegative_factors(*spectrum(mixture(), 4), 2)[0].shape[1] <= 2


def test_more_factors_fit_better():
    truth = mixture(rank=6)
    errors = []
    for rank in (1, 2, 6):
        V, moments = nonnegative_factors(*spectrum(truth, 6), rank)
        errors.append(np.linalg.norm(V @ moments @ V.T - truth))
    assert errors[0] > errors[1] > errors[2]


def test_no_patterns_give_one_factor_of_zeros():
    V, moments = nonnegative_factors(np.zeros((7, 0)), np.zeros(0), 5)
    assert (V.shape, moments.shape, V.any(), moments.any()) == ((7, 1), (1, 1), False, False)
