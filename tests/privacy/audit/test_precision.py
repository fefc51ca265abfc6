"""The floating-point attack succeeds on naive Laplace noise and fails on ours."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.privacy.audit.exact_checks import naive_laplace, precision_attack, reachable
from twofold.privacy.grid import Grid
from twofold.privacy.mechanisms import DiscreteLaplace
from twofold.privacy.rng import source
from twofold.privacy.unit import Unit


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5])
def test_the_inversion_finds_every_outcome_of_the_sampler(value):
    assert reachable(naive_laplace(value, 20_000, source(1)), value=value).all()


def test_many_outcomes_around_one_cannot_come_from_zero():
    assert reachable(naive_laplace(1.0, 20_000, source(2)), value=0.0).mean() < 0.8


def test_naive_noise_is_broken_at_any_claimed_epsilon():
    found = precision_attack(naive_laplace, 0.0, 1.0, runs=20_000, rng=3)
    assert found.epsilon > 6  # claimed: 1


@pytest.mark.parametrize("exponent", [-10, -40])
def test_the_attack_finds_nothing_on_our_noise(exponent):
    grid = Grid(exponent=exponent)
    mechanism = DiscreteLaplace(epsilon=1, sensitivity=1 / grid.step, unit=Unit.person(), grid=grid)

    def batch(value, runs, noise):
        return grid.back(mechanism.release(grid.put(np.full(runs, value)), rng=noise).value)

    assert precision_attack(batch, 0.0, 1.0, runs=20_000, rng=4).epsilon < 0.2


def test_every_integer_is_an_outcome_from_every_value():
    """Support does not depend on the value: small noise from 0 and from 1 covers the same integers."""
    mechanism = DiscreteLaplace(epsilon=1, sensitivity=1, unit=Unit.person())
    outcomes = [set(mechanism.release(np.full(200_000, value), rng=5).value.tolist()) for value in (0, 1)]
    assert all(set(range(-7, 9)) <= found for found in outcomes)
