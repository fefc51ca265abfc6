"""The price of a sum of discrete Gaussians covers the truth, computed by convolution."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from twofold.privacy.events import DiscreteGaussianShareEvent
from twofold.privacy.mechanisms.gaussian import _distance, rho_of_sum
from twofold.privacy.unit import Unit


def event(variance, parties, coordinates=1):
    return DiscreteGaussianShareEvent(
        unit=Unit.person(),
        sensitivity_squared=Fraction(1),
        variance=Fraction(variance),
        parties=parties,
        coordinates=coordinates,
    )


@pytest.mark.parametrize("variance", ["1/4", "1/2", "1"])
@pytest.mark.parametrize("parties", [2, 5])
def test_the_renyi_divergence_of_the_sum_is_within_its_price(variance, parties):
    """D_α between the true law of the sum and itself moved by one, for several α, by convolution."""
    rho = float(rho_of_sum(event(variance, parties)))
    assert all(divergence <= rho * alpha for alpha, divergence in divergences(variance, parties).items())


def test_the_distance_term_is_needed():
    """Without τ the price of narrow shares would be too low, as the true divergence shows."""
    bare = 1 / (2 * 2 * 0.25)
    assert any(divergence > bare * alpha for alpha, divergence in divergences("1/4", 2).items())


def divergences(variance, parties):
    grid = np.arange(-40, 41)
    share = np.exp(-(grid**2) / (2 * float(Fraction(variance))))
    share /= share.sum()
    law = share
    for _ in range(parties - 1):
        law = np.convolve(law, share)
    logs = np.log(law[law > 1e-250])
    p, q = logs[:-1], logs[1:]
    return {alpha: math.log(math.fsum(np.exp(alpha * p + (1 - alpha) * q))) / (alpha - 1) for alpha in (1.5, 2, 4, 8)}


def test_the_distance_is_rounded_up():
    tau = 10 * sum(math.exp(-2 * math.pi**2 * 0.5 * k / (k + 1)) for k in range(1, 300))
    found = float(_distance(Fraction(1, 2), 300))
    assert tau <= found <= 1.02 * tau  # past a hundred terms each is bounded by the hundredth


def test_one_party_is_one_discrete_gaussian():
    assert rho_of_sum(event(9, 1, coordinates=1000)) == Fraction(1, 18)


def test_more_coordinates_cost_more_only_where_shares_are_narrow():
    assert rho_of_sum(event("1/4", 5, 10)) > 2 * rho_of_sum(event("1/4", 5, 1))
    wide = rho_of_sum(event(16, 5, 10**6))
    assert float(wide) == pytest.approx(1 / (2 * 5 * 16), rel=1e-12)
