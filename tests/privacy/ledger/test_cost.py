"""Exact amounts, and their words."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.privacy.budget import NotPrivate
from twofold.privacy.ledger import Cost, cost_of, cost_text

AMOUNTS = st.fractions(min_value=0, max_value=1000) | st.just(math.inf)


@given(first=AMOUNTS, second=AMOUNTS)
def test_text_keeps_every_amount_exactly(first, second):
    cost = Cost(epsilon=first, delta=second)
    assert Cost.from_dict(cost.as_dict()) == cost


@given(total=AMOUNTS, part=AMOUNTS)
def test_what_is_left_can_be_spent_and_no_more(total, part):
    left = Cost(epsilon=total).minus(Cost(epsilon=part))
    assert left.epsilon >= 0
    if part <= total:
        assert (Cost(epsilon=part) + left).fits(Cost(epsilon=total))
        assert not (Cost(epsilon=part) + left + Cost(epsilon=Fraction(1, 10**9))).fits(
            Cost(epsilon=total)
        ) or math.isinf(total)


def test_what_is_not_private_stays_within_no_ceiling_however_often():
    free = cost_of(NotPrivate(reason="demo"))
    assert free + free == free
    assert (free + free).fits(free)
    assert free.minus(free).epsilon == math.inf
    assert not (free + free).fits(Cost(epsilon=math.inf, delta=Fraction(99, 100)))


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [
        (Fraction(1, 2), "ε=0.5"),
        (Fraction(0), "ε=0"),
        (Fraction(1, 3), "ε=1/3"),
        (math.inf, "ε=infinite"),
        (Fraction(1, 10**15) + 1, "ε=1.000000000000001"),
    ],
)
def test_words_do_not_round_a_difference_away(epsilon, text):
    assert cost_text(Cost(epsilon=epsilon)) == text
