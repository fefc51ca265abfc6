"""Item-item weights of an entity: from rows, or from their sums."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from twofold.entity.models.ridge import weights_from_gram
from twofold.entity.models.rungs import own_taste, unit_taste
from twofold.entity.models.side import Side


def side(users: int, items: int, density: float) -> Side:
    rng = np.random.default_rng(4)
    held = rng.random((users, items)) < density
    return Side(sparse.csr_array(np.where(held, rng.integers(1, 6, held.shape), 0).astype(np.float32)))


@pytest.mark.parametrize("fit", [unit_taste, own_taste])
def test_few_people_get_the_weights_that_many_would(fit, monkeypatch):
    given = side(15, 40, 0.3)
    assert given.few
    few = fit(given, 1.0).scores(given.rows)
    monkeypatch.setattr(Side, "few", False)
    np.testing.assert_allclose(few, fit(given, 1.0).scores(given.rows), rtol=1e-3, atol=1e-5)


def test_rough_weights_are_those_of_double_precision_and_fall_back_to_it():
    given = side(90, 40, 0.4)
    gram, ridge = given.unit_gram, np.full(40, 0.5)
    exact, rough = (weights_from_gram(gram, ridge, rough=one).matrix for one in (False, True))
    assert not np.array_equal(exact, rough)
    np.testing.assert_allclose(exact, rough, atol=1e-5)
    ones, little = np.ones((40, 40)), np.full(40, 1e-10)  # with so small a ridge singular in single precision
    again, double = (weights_from_gram(ones, little, rough=one).matrix for one in (True, False))
    np.testing.assert_array_equal(again, double)
