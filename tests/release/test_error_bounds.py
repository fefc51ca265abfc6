"""Error bounds: never exceeded more often than stated, near in the worst case, and said by plan explain."""

from __future__ import annotations

import math

import numpy as np
import pytest

from studies.bounds import reconstruction
from twofold.release.bilinear.mechanism import Gram
from twofold.release.contract import ReleaseParameters
from twofold.release.usefulness import moments_bound, reconstruction_bound


def noise(rng: np.random.Generator, items: int) -> np.ndarray:
    """Symmetric, deviation 1 off the diagonal and √2 on it."""
    drawn = rng.normal(size=(items, items))
    return (drawn + drawn.T) / math.sqrt(2)


@pytest.mark.parametrize("items", [5, 40, 150])
def test_the_norm_of_noise_exceeds_its_bound_no_more_often_than_stated(items: int) -> None:
    rng = np.random.default_rng(items)
    found = np.array([np.abs(np.linalg.eigvalsh(noise(rng, items))).max() for _ in range(200)])
    for failure in (0.5, 0.05):
        assert (found > moments_bound(2 * math.sqrt(items), n_items=items, failure=failure)).mean() <= failure
    assert found.mean() > 0.4 * moments_bound(2 * math.sqrt(items), n_items=items)


@pytest.mark.parametrize("rank", [1, 3, 10])
def test_reconstruction_never_loses_more_than_twice_the_rank_times_the_norm(rank: int) -> None:
    """Deterministic: for any error whatever, also one made to do harm."""
    rng = np.random.default_rng(rank)
    for scale in (0.001, 0.05, 1.0):
        rows = rng.normal(size=(60, 20)) * np.arange(1, 21) ** -0.5
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        M = rows.T @ rows / 60
        worst = -np.linalg.eigh(M)[1][:, -rank:]
        for error in (scale * noise(rng, 20), -scale * worst @ worst.T):
            lost = reconstruction(M, M + error, rank) - reconstruction(M, M, rank)
            assert -1e-12 <= lost <= 2 * rank * np.abs(np.linalg.eigvalsh(error)).max() + 1e-12


def test_an_error_that_is_made_for_it_comes_near_the_bound() -> None:
    """Two equal halves apart from a sliver: an error of half the sliver swaps them, and costs all of it."""
    gap = 0.1
    M, error = np.diag([0.5 + gap, 0.5]), np.diag([-(gap / 2 + 1e-9), gap / 2 + 1e-9])
    lost = reconstruction(M, M + error, 1) - reconstruction(M, M, 1)
    assert lost == pytest.approx(gap)
    assert lost == pytest.approx(2 * np.abs(np.diag(error)).max(), rel=1e-6)


def test_the_bound_falls_with_people_and_with_one_noise_for_all() -> None:
    public = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=5, delta="1e-6", n_entities=20)
    own, more, secure = (
        reconstruction_bound(Gram().noise_share(one), 10, n_items=457)
        for one in (public, public.with_(n_users=1800), public.with_(honest=20))
    )
    assert more == pytest.approx(own / 2)
    assert secure == pytest.approx(own / math.sqrt(20), rel=0.02)
