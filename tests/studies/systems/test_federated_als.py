"""Federated alternating least squares: the sum of the entities' gradients is the gradient of the pooled objective."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from studies.systems import system
from studies.systems.factorization import Factorization
from studies.systems.iterative import item_gradient
from twofold.algorithms.fold_in import fold_in
from twofold.data.federation import Federation
from twofold.data.sources import hospitals

RNG = np.random.default_rng(0)
ROWS = sparse.csr_array(np.where(RNG.random((9, 5)) < 0.6, RNG.integers(1, 6, (9, 5)), 0).astype(float))
V = RNG.uniform(0.1, 1, (5, 2))


def objective(V: np.ndarray, how: Factorization, feedback: Any) -> float:
    """The objective with users at their best, as written in `masked_nmf`, entry by entry."""
    absent = how.zero_weight if feedback == "counts" else 0.0
    dense = ROWS.toarray()
    U = fold_in(
        ROWS, V, feedback=feedback, zero_weight=how.zero_weight, regularization=how.regularization,
        count_scaling=how.count_scaling, nonnegative=False, dtype=np.float64,
    )  # fmt: skip
    weights = np.where(dense != 0, 1.0, absent)
    own, items = (how.regularization * weights.sum(axis=axis) ** how.count_scaling for axis in (1, 0))
    return float(
        (weights * (dense - U @ V.T) ** 2).sum() + (own * (U**2).sum(axis=1)).sum() + (items * (V**2).sum(axis=1)).sum()
    )


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
@pytest.mark.parametrize("scaling", [0.0, 1.0])
def test_the_gradient_is_that_of_the_objective(feedback: Any, scaling: float) -> None:
    """Central differences; users are at their minimum, so that only V's own part is left (envelope theorem)."""
    how = Factorization(rank=2, regularization=0.3, count_scaling=scaling)
    found = 2 * item_gradient(ROWS, V, how, feedback=feedback).astype(float)
    if scaling == 0:
        found += 2 * how.regularization * V  # the server's part
    step = 1e-4
    for place in np.ndindex(V.shape):
        moved = np.zeros_like(V)
        moved[place] = step
        slope = (objective(V + moved, how, feedback) - objective(V - moved, how, feedback)) / (2 * step)
        assert abs(found[place] - slope) < 1e-3 * max(1, abs(slope))


def test_entities_gradients_add_up() -> None:
    how = Factorization(rank=2)
    whole = item_gradient(ROWS, V, how, feedback="counts")
    parts = [
        item_gradient(sparse.csr_array(ROWS[part]), V, how, feedback="counts") for part in (slice(0, 4), slice(4, 9))
    ]
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["federated-als", "fedavg"])
def test_more_iterations_come_to_the_pooled_fit(name: str) -> None:
    """Over one hospital's patients dealt out to three entities, which are alike."""
    ratings = hospitals.load(0.002, n_hospitals=1).pooled()
    federation = Federation.cut(ratings, np.arange(ratings.n_users) % 3)
    dense = ratings.matrix.toarray()
    weights = np.where(dense != 0, 1.0, 0.1)

    def error(name: str, **options: int) -> float:
        fitted = system(name, rank=4, **options).fit(federation, feedback="counts", seed=0)
        return float((weights * (fitted.scores(0, ratings.matrix) - dense) ** 2).sum())

    best, few, many = error("pooled"), error(name, iterations=1), error(name, iterations=60)
    assert best < many < 1.05 * best
    assert few > 1.5 * best
