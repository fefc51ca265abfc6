"""Sums of products: what one person can move, and what is left without noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from studies.systems.mcsherry_mironov import PairSums
from twofold.privacy.budget import ZCDP, PureDP
from twofold.privacy.rng import Seeded
from twofold.privacy.unit import Unit

PERSON = Unit.person()
BUDGETS = (PureDP(epsilon=1), ZCDP(rho=1))
ROWS = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=6)


@given(ROWS, st.floats(0.1, 50), st.floats(0.1, 20), st.sampled_from(BUDGETS))
def test_one_person_never_moves_the_sums_by_more_than_the_sensitivity(
    row: list[float], l1: float, l2: float, budget: PureDP | ZCDP
) -> None:
    """However large the numbers that were never bounded."""
    sums = PairSums(l1=l1, l2=l2, budget=budget, unit=PERSON)
    others = np.ones((3, len(row)))
    without, with_one = (sums.exact(sparse.csr_array(rows)) for rows in (others, np.vstack([others, row])))
    moved = [int(change) for change in with_one - without]
    if isinstance(budget, PureDP):
        assert sum(map(abs, moved)) <= sums.mechanism.sensitivity
    else:
        assert sum(change**2 for change in moved) <= sums.mechanism.sensitivity_squared


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_sensitivity_is_reached(budget: PureDP | ZCDP) -> None:
    """By a person with all their weight on one item, so the bound is not idle."""
    sums = PairSums(l1=1.0, l2=1.0, budget=budget, unit=PERSON)
    moved = sums.exact(sparse.csr_array(np.array([[1.0, 0.0, 0.0]]))).astype(object)
    bound = sums.mechanism.sensitivity if isinstance(budget, PureDP) else sums.mechanism.sensitivity_squared
    assert sum(abs(one) if isinstance(budget, PureDP) else one**2 for one in moved) == bound


def test_without_noise_the_matrix_is_the_gram_matrix() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 5)) / 10
    sums = PairSums(l1=10.0, l2=4.0, budget=PureDP(epsilon=10**12), unit=PERSON)
    released = sums.release(sparse.csr_array(rows), rng=Seeded(0))
    found = sums.matrix(released.value, 5)
    step = float(sums.grid.step)
    np.testing.assert_allclose(found, rows.T @ rows, atol=40 * step * 0.5)
    assert not np.allclose(found, 0, atol=40 * step)


def test_the_stated_deviation_is_that_of_the_noise() -> None:
    nobody = sparse.csr_array((1, 60))
    for budget in BUDGETS:
        sums = PairSums(l1=3.0, l2=1.0, budget=budget, unit=PERSON)
        drawn = sums.release(nobody, rng=Seeded(1)).value * float(sums.mechanism.grid.step)
        assert abs(drawn.std() / sums.deviation - 1) < 0.1  # 1,830 draws: four standard errors of a Laplace deviation
