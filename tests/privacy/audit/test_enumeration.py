"""The laws of the enumeration add up to one and the measures are what they say."""

from __future__ import annotations

import math

import pytest

from twofold.privacy.audit.exact_checks import (
    Loss,
    discrete_laplace_law,
    hockey_stick,
    privacy_loss,
    selection_law,
    threshold_law,
)


@pytest.mark.parametrize(
    "law",
    [
        selection_law([3, 1, 4, 1], 2.0, 3),
        selection_law([0, -5000], 1.0, 1),
        threshold_law([0, 3, 50], 2.0, 7),
        discrete_laplace_law(2, 1.5, 80),
    ],
)
def test_laws_add_up_to_one(law):
    assert math.fsum(law.values()) == pytest.approx(1, abs=1e-12)


def test_selection_has_every_ordered_outcome():
    assert len(selection_law([0] * 5, 1.0, 3)) == 60
    assert set(selection_law([0] * 4, 1.0, 1).values()) == {0.25}


def test_threshold_probabilities_keep_their_digits_far_out():
    law = threshold_law([100], 1.0, 0)
    assert law[(False,)] == pytest.approx(math.exp(-100) / (1 + math.exp(-1)))


def test_loss_is_symmetric_and_infinite_on_different_supports():
    one, two = {"a": 0.9, "b": 0.1}, {"a": 0.5, "b": 0.5}
    assert privacy_loss(one, two) == privacy_loss(two, one) == pytest.approx(math.log(5))
    assert privacy_loss({"a": 1.0}, {"a": 0.999, "b": 0.001}) == math.inf
    assert privacy_loss(one, one) == 0


def test_hockey_stick_of_pure_privacy_vanishes_at_epsilon():
    one, two = discrete_laplace_law(0, 1.0, 30), discrete_laplace_law(1, 1.0, 30)
    assert hockey_stick(one, two, 1.0) == pytest.approx(0, abs=1e-12)
    assert hockey_stick(one, two, 0.5) > 0.1


def test_a_claim_is_tight_only_when_it_holds_and_is_attained():
    line = {"mechanism": "m", "adjacency": "replace", "claimed": 1.0}
    assert Loss(**line, found=0.995).tight
    assert not Loss(**line, found=0.98).tight
    assert not Loss(**line, found=1.001).tight
