"""Centres from noisy sums: exact without noise, modest with it."""

from __future__ import annotations

import dataclasses

import numpy as np

from twofold.release import Noise, Prototypes, ReleaseParameters, Units
from twofold.release.cells import centres, padded, shrunk_means

PUBLIC = ReleaseParameters(n_items=20, n_users=1000, max_items=20, bound=1, n_prototypes=2)
UNITS = Units(values=1 / 1024, observed=1.0, counts=1.0)


def message(means: np.ndarray, sizes: list[int], noise: float, counts: float = 0.0) -> Prototypes:
    sums = np.rint(means * np.array(sizes)[:, None] * 1024).astype(np.int64)
    return Prototypes(
        mechanism="sulq",
        sums=sums,
        counts=np.array(sizes),
        units=UNITS,
        noise=Noise(law="laplace", values=noise, observed=0.0, counts=counts),
        seeded=False,
    )


def test_without_noise_means_are_exact_and_with_noise_they_shrink_to_the_common_one() -> None:
    means = np.stack([np.full(20, 0.1), np.full(20, 0.5)])
    calm, _ = shrunk_means(message(means, [300, 100], 0.0), PUBLIC)
    np.testing.assert_allclose(calm, means, atol=1e-5)
    some, _ = shrunk_means(message(means, [300, 100], 10.0), PUBLIC)
    common = 0.2
    assert (np.abs(some - common) <= np.abs(means - common) + 1e-9).all()
    drowned, _ = shrunk_means(message(means, [300, 100], 1e4), PUBLIC)
    np.testing.assert_allclose(drowned, common, atol=1e-4)


def test_of_many_cells_of_nothing_but_noise_none_stays_by_luck() -> None:
    draws = np.random.default_rng(0)
    public = dataclasses.replace(PUBLIC, n_users=12_000, n_prototypes=120)
    apart = 0.3 + draws.laplace(0, 1 / np.sqrt(2), (120, 20))  # sums of 100 users each, with a noise of 100
    found, sizes = shrunk_means(message(apart, [100] * 120, 100.0), public)
    assert len(sizes) == 120
    np.testing.assert_allclose(found, found[:1].repeat(120, axis=0), atol=1e-12)
    seen = np.where(np.arange(120)[:, None] < 60, 0.3, 3.3) + (apart - 0.3)
    found, _ = shrunk_means(message(seen, [100] * 120, 100.0), public)
    assert np.linalg.norm(found[:60].mean(axis=0) - found[60:].mean(axis=0)) > 1


def test_one_clear_cell_among_many_of_noise_stays_and_the_others_do_not() -> None:
    draws = np.random.default_rng(0)
    items = 457
    public = dataclasses.replace(PUBLIC, n_items=items, max_items=items, bound=9, n_users=12_000, n_prototypes=120)
    means = 0.3 + draws.laplace(0, 1 / np.sqrt(2), (120, items))  # sums of 100 users each, with a noise of 100
    means[7] += 1.7 * np.sign(
        draws.normal(size=items)
    )  # four times the energy of the noise: 2 % more in the mean of all
    found, _ = shrunk_means(message(means, [100] * 120, 100.0), public)
    rest = np.delete(found, 7, axis=0)
    np.testing.assert_allclose(rest, rest[:1].repeat(119, axis=0), atol=1e-12)
    assert np.linalg.norm(found[7] - rest[0]) > 0.5 * np.linalg.norm(means[7] - 0.3)


def test_large_sums_without_noise_are_exact() -> None:
    public = dataclasses.replace(PUBLIC, bound=10**6)
    means = np.array([[1e5] * 20, [2e5] * 20])
    found, _ = shrunk_means(message(means, [10, 10], 0.0), public)
    np.testing.assert_allclose(found, means)


def test_one_mean_of_nothing_but_noise_says_the_same_of_all_items() -> None:
    draws = np.random.default_rng(0)
    noisy = 0.1 + draws.laplace(0, 0.1 / np.sqrt(2), (1, 20))
    [alone], _ = shrunk_means(message(noisy, [1000], 100.0), PUBLIC)
    np.testing.assert_allclose(alone, noisy.mean(), atol=1e-3)
    profile = np.linspace(0, 1, 20)[None] / 5  # far above its noise
    [clear], _ = shrunk_means(message(profile, [1000], 1.0), PUBLIC)
    np.testing.assert_allclose(clear, profile[0], atol=1e-3)


def test_cells_that_do_not_stand_out_are_left_out() -> None:
    means = np.stack([np.full(20, 0.1), np.full(20, 0.9)])
    kept, sizes = shrunk_means(message(means, [300, 5], 0.0, counts=10.0), PUBLIC)
    assert len(kept) == 1
    assert sizes.tolist() == [300]
    nobody, _ = shrunk_means(message(means, [3, -5], 0.0, counts=10.0), PUBLIC)
    assert np.isfinite(nobody).all()


def test_more_cells_than_centres_are_merged_by_size() -> None:
    means = np.stack([np.full(20, 0.1), np.full(20, 0.12), np.full(20, 0.8)])
    found = np.sort(centres(message(means, [300, 100, 50], 0.0), PUBLIC)[:, 0])
    np.testing.assert_allclose(found, [0.105, 0.8], atol=1e-3)


def test_centres_stay_in_the_ball_of_the_rows() -> None:
    huge = message(np.full((1, 20), 50.0), [10], 0.0)
    assert np.linalg.norm(centres(huge, PUBLIC)) <= PUBLIC.row_l2 * (1 + 1e-12)


def test_padding_is_public_and_fills_up() -> None:
    start = np.zeros((1, 20))
    one, two = padded(start, PUBLIC, count=5), padded(start, PUBLIC, count=5)
    assert (one == two).all()
    assert len(np.unique(one, axis=0)) == 5
    assert padded(one, PUBLIC, count=3) is one
    assert not (padded(start, dataclasses.replace(PUBLIC, seed=1), count=5) == one).all()
