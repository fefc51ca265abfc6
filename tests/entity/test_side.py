"""Sums of an entity's own rows: products by either way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from twofold.algorithms._jit import without_numba
from twofold.entity.models import side as module
from twofold.entity.models.side import Side


def side(users: int, items: int, density: float) -> Side:
    rng = np.random.default_rng(4)
    held = rng.random((users, items)) < density
    return Side(sparse.csr_array(np.where(held, rng.integers(1, 6, held.shape), 0).astype(np.float32)))


@pytest.mark.parametrize("density", [0.0, 0.02, 0.1, 0.6, 1.0])
@pytest.mark.parametrize("users", [1, 90, 2_100])
def test_products_are_those_of_the_whole_matrix(users, density):
    given = side(users, 40, density)
    for rows, gram in ((given.unit, given.unit_gram), (given.damped, given.damped_gram)):
        whole = rows.toarray().astype(np.float64)
        np.testing.assert_allclose(gram, whole.T @ whole, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(gram, gram.T)


def test_products_are_the_same_by_either_way(monkeypatch):
    found = []
    for share in (0.0, 1.1):
        monkeypatch.setattr(module, "_DENSE", share)
        found.append(side(300, 40, 0.2).unit_gram)
        with without_numba():
            found.append(side(300, 40, 0.2).unit_gram)
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=1e-12)
