"""What the figures mean."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import BadPrivacyParameter
from twofold.privacy.budget import best_guess
from twofold.privacy.card import brief, percent
from twofold.privacy.event_words import describe, main_noise, operator_sum, own_shares, parties, spread
from twofold.privacy.events import (
    DiscreteGaussianEvent,
    DiscreteGaussianShareEvent,
    DiscreteLaplaceEvent,
    OperatorSumEvent,
    ParallelEvent,
    SelectionEvent,
    SequentialEvent,
)
from twofold.privacy.ledger import Cost
from twofold.privacy.unit import Unit

PERSON = Unit.person()


@pytest.mark.parametrize(
    ("epsilon", "guess"), [(0, "50.0%"), (0.1, "52.5%"), (1, "73.2%"), (3, "95.3%"), (10, "99.996%")]
)
def test_known_guesses(epsilon, guess):
    assert percent(best_guess(epsilon)) == guess


@given(epsilon=st.floats(0, 20), delta=st.floats(0, 1))
def test_the_guess_is_attained_by_randomised_response(epsilon, delta):
    """With probability δ the truth is shown, otherwise a coin with odds e^ε: its accuracy is the bound."""
    honest = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert best_guess(epsilon, delta) == pytest.approx(delta + (1 - delta) * honest)


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0), (math.nan, 0), (1, 2), (1, -0.1)])
def test_bad_figures_are_refused(epsilon, delta):
    with pytest.raises(BadPrivacyParameter):
        best_guess(epsilon, delta)


@given(amount=st.fractions(min_value=Fraction(1, 10**12), max_value=10**6))
def test_a_card_never_understates(amount):
    shown = brief(Cost(epsilon=amount)).removeprefix("ε = ")
    assert amount <= Fraction(shown) <= amount * Fraction(101, 100)


def test_less_than_certain_never_prints_as_certain():
    assert percent(1 - 1e-12) == "99.9999999999%"


@given(share=st.floats(0.5, 1))
def test_a_guess_is_rounded_up(share):
    """First reader B4: 81.0% was printed for a guess of 81.15%."""
    shown = float(percent(share).removesuffix("%"))
    assert share * 100 - 1e-9 <= shown <= share * 100 + 0.1 + 1e-9


def test_noise_is_told_in_multiples_of_what_one_person_moves():
    """First reader B5: 4.002e+06 had no unit and no measure."""
    event = DiscreteGaussianShareEvent(unit=PERSON, sensitivity_squared=4, variance=25, parties=4, coordinates=2)
    (line,) = describe(event)
    assert "is 5 times that. Unit: one step of the whole numbers in the message" in line
    (line,) = describe(DiscreteLaplaceEvent(unit=PERSON, sensitivity=2, scale=3, coordinates=1, grid="1/4"))
    assert "in steps of 1/4" in line


def test_the_spread_of_discrete_laplace_noise_by_summation():
    event = DiscreteLaplaceEvent(unit=PERSON, sensitivity=1, scale="3/2", coordinates=1, grid="1/4")
    weights = {k: math.exp(-abs(k) / 1.5) for k in range(-200, 201)}
    variance = sum(w * k * k for k, w in weights.items()) / sum(weights.values())
    assert spread(event) == pytest.approx(math.sqrt(variance) / 4)


def test_shares_are_described_by_their_sum():
    event = DiscreteGaussianShareEvent(unit=PERSON, sensitivity_squared=4, variance=25, parties=4, coordinates=2)
    (line,) = describe(event)
    assert "standard deviation 10 each in the sum over 4 honest parties" in line
    assert "at most 2 in l2 distance" in line


def test_equal_events_are_told_once():
    pick = SelectionEvent(unit=PERSON, sensitivity=1, scale=10, picks=3, candidates=50, monotone=True)
    assert describe(ParallelEvent.of(pick, pick)) == [
        "2 times: 3 of 50 candidates were picked by the exponential mechanism."
    ]
    assert spread(pick) is None


def test_a_noise_of_operators_is_told_once_with_who_adds_it():
    """It read "An event of kind operator-sum/1"."""
    noise = DiscreteGaussianEvent(unit=PERSON, sensitivity_squared=4, variance=25, coordinates=2)
    share = DiscreteGaussianShareEvent(unit=PERSON, sensitivity_squared=4, variance=5, parties=7, coordinates=2)
    alone, both = (OperatorSumEvent(unit=PERSON, noise=noise, shares=shares) for shares in ((), (share,)))
    (line,) = describe(alone)
    assert line.startswith("Each of 2 operators adds a whole noise")
    assert "standard deviation 5 each; one person moves them by at most 2 in l2 distance" in line
    assert line.endswith("This entity adds no noise.")
    assert "whole with 7 shares" in describe(both)[0]
    assert spread(alone) == spread(both) == main_noise([both]) == 5
    assert parties([alone]) == parties([both]) == 1
    assert (own_shares([alone]), own_shares([both]), own_shares([share])) == ([], [share], [share])
    assert operator_sum([SequentialEvent.of(both)]) == both
    assert operator_sum([share]) is None
