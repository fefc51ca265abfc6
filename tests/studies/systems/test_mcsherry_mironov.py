"""Private covariance with the noise gone: the model that the exact covariance gives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from studies.systems import system
from studies.systems.mcsherry_mironov import Covariance, leading
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings


def counts(seed: int, users: int = 150) -> Ratings:
    """Two patterns of six items each, at most five of each item."""
    rng = np.random.default_rng(seed)
    mean = np.kron(np.eye(2), np.full(6, 2.0))[rng.integers(2, size=users)] + 0.2
    rows = sparse.csr_array(np.minimum(rng.poisson(mean), 5).astype(float))
    return Ratings(rows, Identifiers(range(1000 * seed, 1000 * seed + users)), Catalog(range(12)), "counts")


@pytest.fixture(scope="module")
def federation() -> Federation:
    """Two entities with the same patterns."""
    return Federation({"north": counts(1), "south": counts(2)})


def test_without_noise_it_is_ridge_on_the_exact_covariance(federation: Federation) -> None:
    fitted = system("mcsherry-mironov", epsilon=10**9, items=12, rank=3, max_items=12, bound=5).fit(
        federation, feedback="counts", seed=0
    )
    dense = federation.pooled().matrix.toarray()
    mean, C = dense.mean(axis=0), np.cov(dense.T, bias=True)
    values, vectors = np.linalg.eigh(C)
    d, E = values[-3:], vectors[:, -3:]
    rest = (np.trace(C) - d.sum()) / 12
    expected = mean + (dense - mean) @ (E * (d / (d + rest))) @ E.T
    found = fitted.scores("north", sparse.csr_array(dense))
    assert np.abs(found - expected).max() < 0.05  # the grid of the products
    assert np.abs(expected - mean).max() > 1


def test_with_little_epsilon_only_the_means_are_left(federation: Federation) -> None:
    fitted = system("mcsherry-mironov", epsilon=0.01, items=12, max_items=12).fit(federation, feedback="counts", seed=0)
    scores = fitted.scores("north", federation["north"].matrix[:4])
    assert fitted.note.startswith("0 directions")
    assert np.ptp(scores, axis=0).max() == 0


def test_noise_alone_has_no_direction_above_its_edge() -> None:
    """The edge is that of a symmetric matrix of noise, with room for its fluctuation at this size."""
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(20):
        noise = np.triu(rng.normal(size=(200, 200)))
        noise += np.triu(noise, 1).T
        kept.append(leading(Covariance.of_counts(noise, 1.0, np.zeros(200), 1.0), 5).vectors.shape[1])
    assert np.mean(kept) < 1


def test_ratings_are_predicted_above_the_means(federation: Federation) -> None:
    """Stars that follow two tastes: the covariance tells them, the means do not."""
    rng = np.random.default_rng(3)
    taste = rng.integers(2, size=300)
    stars = np.where(np.kron(np.eye(2), np.ones(6))[taste] > 0, 5.0, 2.0)
    seen = rng.random(stars.shape) < 0.6
    seen[:, 0] = True
    table = Ratings(sparse.csr_array(np.where(seen, stars, 0)), Identifiers(range(300)), Catalog(range(12)), "ratings")
    one = Federation({"north": table})
    fitted = system("mcsherry-mironov", epsilon=10**9, items=12, rank=2, max_items=12, clamp=4.0).fit(
        one, feedback="ratings", seed=0
    )
    hidden = ~seen
    found = fitted.scores("north", table.matrix)
    error = np.sqrt(np.mean((found - stars)[hidden] ** 2))
    assert error < 0.5  # the means alone: 1.5
