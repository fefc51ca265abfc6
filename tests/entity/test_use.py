"""How much of the others' use is added to the own."""

from __future__ import annotations

import numpy as np

from tests.entity.test_adapt_counts import ITEMS, people
from twofold.entity.models import use
from twofold.entity.models.side import unit_rows


def test_one_person_takes_the_most_of_the_others_use():
    """Without the one who is asked nobody is left, so that every amount tells as much."""
    shares = np.random.default_rng(2).random(ITEMS)
    assert use._best_amount(unit_rows(people(1, seed=5)), shares)[1] == max(use.AMOUNTS)
    assert use._best_amount(unit_rows(people(1, seed=5)), shares, most=40.0)[1] == 30.0


def test_amounts_that_tell_less_by_more_than_the_margin_are_not_taken():
    unit = unit_rows(people(60, seed=5))
    shares = np.full(ITEMS, 1e-3)
    shares[0] = 1.0
    assert use._best_amount(unit, shares)[1] < max(use.AMOUNTS)
