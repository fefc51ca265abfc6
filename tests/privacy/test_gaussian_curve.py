"""The exact curve of Gaussian noise: never below the truth; enumeration confirms the proof for discrete noise."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.refused import refused
from twofold.errors import BadPrivacyParameter
from twofold.privacy.accountant import fits, price, spent
from twofold.privacy.budget import ZCDP, ApproxDP
from twofold.privacy.events import (
    DiscreteGaussianEvent,
    DiscreteGaussianShareEvent,
    DiscreteLaplaceEvent,
    ParallelEvent,
    SequentialEvent,
)
from twofold.privacy.gaussian_curve import delta_above, epsilon_above, holds, rho_below, rounded
from twofold.privacy.mechanisms.gaussian import (
    SLACK,
    WIDTHS,
    DiscreteGaussian,
    near_gaussians,
    rho_within,
    slack_of_sum,
)
from twofold.privacy.unit import Unit

PERSON = Unit.person()
EPSILONS = ("0.01", "0.1", "0.5", "1", "3", "10", "50")
DELTAS = ("1e-12", "1e-9", "1e-6", "1e-4", "1e-2")
FINE = 1 << 22


def gauss(variance, squared=1, coordinates=1) -> DiscreteGaussianEvent:
    return DiscreteGaussianEvent(unit=PERSON, sensitivity_squared=squared, variance=variance, coordinates=coordinates)


def shares(variance, parties, squared=1, coordinates=1) -> DiscreteGaussianShareEvent:
    return DiscreteGaussianShareEvent(
        unit=PERSON, sensitivity_squared=squared, variance=variance, parties=parties, coordinates=coordinates
    )


def number(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def exact_delta(epsilon: Fraction, mu_squared: Fraction) -> mpmath.mpf:
    e, mu = number(epsilon), mpmath.sqrt(number(mu_squared))
    return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)


def law(variance: float, parties: int = 1) -> np.ndarray:
    """Probabilities of a sum of discrete Gaussians around 0, far enough out for every δ here."""
    reach = int(11 * math.sqrt(variance)) + 12
    one = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    one /= one.sum()
    found = one
    for _ in range(parties - 1):
        found = np.convolve(found, one)
    return found


def true_delta(laws: list[np.ndarray], shifts: tuple[int, ...], epsilon: float) -> float:
    """Sum of what the one law has above e^ε times the other, over every outcome in one or two dimensions."""
    here, there = np.ones(1), np.ones(1)
    for probabilities, shift in zip(laws, shifts, strict=True):
        here = np.multiply.outer(here, np.pad(probabilities, (0, shift)))
        there = np.multiply.outer(there, np.pad(probabilities, (shift, 0)))
    both = (here - math.exp(epsilon) * there, there - math.exp(epsilon) * here)
    return max(float(one[one > 0].sum()) for one in both)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_rho_of_a_budget_is_the_largest_that_keeps_it(epsilon, delta):
    """Against mpmath with 60 digits; the reserve is one part in 10¹¹."""
    level, most = Fraction(epsilon), Fraction(delta)
    rho = rho_below(level, most)
    with mpmath.workdps(60):
        assert exact_delta(level, 2 * rho) <= number(most)
        assert exact_delta(level, 2 * rho * (1 + Fraction(1, 10**10))) > number(most)
    back = epsilon_above(2 * rho, most)
    assert level * (1 - Fraction(1, 10**9)) < back <= level


@given(st.fractions(min_value="1/100", max_value=50), st.fractions(min_value="1/10000", max_value=60))
@settings(max_examples=60, deadline=None)
def test_delta_is_never_below_the_truth_and_hardly_above(epsilon, mu_squared):
    if epsilon**2 / mu_squared > 3000:  # mpmath takes long where δ is below 1e-600
        return
    with mpmath.workdps(80):
        found, true = number(delta_above(epsilon, mu_squared)), exact_delta(epsilon, mu_squared)
        assert true <= found <= true * (1 + mpmath.mpf("1e-20")) + mpmath.mpf("1e-35")


def test_the_digits_are_the_same_on_every_machine():
    """Recorded once. Decimals are rounded as their specification says, whatever the processor and its library."""
    budget = ApproxDP(epsilon=1, delta=1e-6)
    assert rho_below(budget.epsilon, budget.delta) == Fraction("0.0280144819123501")
    assert str(float(rho_within(budget, sensitivity_squared=FINE).rho)).startswith("0.02801448")


@pytest.mark.parametrize(("squared", "slack"), [("1e40", 0), ("1e-40", 0), ("0.01", 2), ("0.01", 1)])
def test_outside_the_range_nothing_is_promised(squared, slack):
    assert not holds(Fraction(1), Fraction(1, 10**6), mu_squared=Fraction(squared), slack=Fraction(slack))


def test_a_delta_too_small_to_compute_is_not_called_smaller():
    """An exponent of a thousand million digits would never become a fraction."""
    for squared in ("1e-8", "1e-4", "1"):
        assert Fraction("1e-1000") <= delta_above(Fraction(1000), Fraction(squared)) < Fraction("1e-900")
    assert not holds(Fraction(1000), Fraction("1e-1001"), mu_squared=Fraction("1e-4"))
    huge = ApproxDP(epsilon=10**12, delta=1e-6)
    assert rho_within(huge, sensitivity_squared=FINE).rho >= ZCDP.within(huge).rho


def test_no_epsilon_where_none_is_proved():
    assert epsilon_above(Fraction("1e40"), Fraction(1, 10**6)) is None
    assert epsilon_above(Fraction("0.01"), Fraction(1, 10**6), Fraction(1)) is None
    assert rho_below(Fraction(1, 10**13), Fraction(1, 10**6), SLACK) is None


@given(st.fractions(min_value="1e-9", max_value=10**9))
def test_rounding_goes_the_way_it_says(value):
    assert rounded(value, up=False) <= value <= rounded(value, up=True)
    assert rounded(value, up=True) - rounded(value, up=False) <= value / 10**13


@pytest.mark.parametrize("width", WIDTHS)
def test_the_slack_of_rounding_covers_the_true_distance(width):
    """Lemma 1 by integration: the rounded continuous noise against the discrete Gaussian, number by number."""
    variance, b = 3 * float(width) + 2, float(width)
    a = variance - b
    with mpmath.workdps(40):
        y = [mpmath.mpf(k) / 16 for k in range(-16 * 40, 16 * 40 + 1)]  # the trapezoid rule is exact here to 1e-30
        around = {k % 16: mpmath.nsum(lambda j, k=k: mpmath.exp(-((j - mpmath.mpf(k) / 16) ** 2) / (2 * b)), [-60, 60])
                  for k in range(16)}  # fmt: skip
        total = mpmath.nsum(lambda j: mpmath.exp(-(j**2) / (2 * mpmath.mpf(variance))), [-90, 90])
        slack = number(near_gaussians(gauss(Fraction(variance)))[WIDTHS.index(width)][1])
        for k in (0, 1, 4, 9):
            made = sum(
                mpmath.exp(-(at**2) / (2 * a)) * mpmath.exp(-((k - at) ** 2) / (2 * b)) / around[int(16 * at) % 16]
                for at in y
            ) / (16 * mpmath.sqrt(2 * mpmath.pi * a))
            asked = mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(variance))) / total
            assert abs(mpmath.log(made / asked)) <= slack


@pytest.mark.parametrize(("variance", "parties"), [("1/4", 2), ("1/4", 4), ("1/2", 3), (1, 2), (2, 5)])
def test_the_slack_of_shares_covers_the_true_distance(variance, parties):
    """Lemma 2, outcome by outcome, where the law is not lost in rounding."""
    found, whole = law(float(Fraction(variance)), parties), law(float(Fraction(variance)) * parties)
    slack = float(slack_of_sum(shares(Fraction(variance), parties)))
    for k in range(int(6 * math.sqrt(float(Fraction(variance)) * parties)) + 1):
        ratio = found[found.size // 2 + k] / whole[whole.size // 2 + k]
        assert abs(math.log(ratio)) <= slack + 1e-12


@pytest.mark.parametrize("variance", [3, 5, 10, 30, 100, 200])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_one_number_never_costs_more_than_is_charged(variance, shift):
    for delta in (1e-2, 1e-4, 1e-6, 1e-9):
        epsilon = float(spent(gauss(variance, shift**2), delta=delta).epsilon)
        assert true_delta([law(variance)], (shift,), epsilon) <= delta


@pytest.mark.parametrize(("variance", "shifts"), list(product([3, 20, 60, 200], [(1, 1), (1, 3), (4, 2)])))
def test_two_numbers_never_cost_more_than_is_charged(variance, shifts):
    squared = sum(one**2 for one in shifts)
    for delta in (1e-2, 1e-5, 1e-8):
        epsilon = float(spent(gauss(variance, squared, 2), delta=delta).epsilon)
        assert true_delta([law(variance)] * 2, shifts, epsilon) <= delta


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("variance", [1, 2, 5, 20, 60])
def test_sums_of_shares_never_cost_more_than_is_charged(variance, parties):
    made = law(variance, parties)
    for shift, delta in product((1, 3), (1e-2, 1e-5, 1e-8)):
        epsilon = float(spent(shares(variance, parties, shift**2), delta=delta).epsilon)
        assert true_delta([made], (shift,), epsilon) <= delta
    epsilon = float(spent(shares(variance, parties, 5, 2), delta=1e-5).epsilon)
    assert true_delta([made] * 2, (2, 1), epsilon) <= 1e-5


@pytest.mark.parametrize("variance", [20, 60, 200])
@pytest.mark.parametrize("parties", [1, 2, 3])
def test_noise_a_tenth_too_small_is_told_apart(variance, parties):
    """The check above can fail: σ too small by a tenth breaks the charged promise."""
    event = gauss(variance) if parties == 1 else shares(Fraction(variance, parties), parties)
    for delta in (1e-4, 1e-6):
        epsilon = float(spent(event, delta=delta).epsilon)
        assert true_delta([law(0.81 * variance / parties, parties)], (1,), epsilon) > delta


@given(st.integers(3, 200), st.integers(1, 6), st.sampled_from((1e-2, 1e-3, 1e-5, 1e-7)))
@settings(max_examples=20, deadline=None)
def test_any_variance_and_shift_is_covered(variance, shift, delta):
    epsilon = float(spent(gauss(variance, shift**2), delta=delta).epsilon)
    assert true_delta([law(variance)], (shift,), epsilon) <= delta


def test_releases_one_after_the_other_are_covered():
    """Two numbers of different noise, one release each: the law of both together."""
    both = SequentialEvent.of(gauss(30), gauss(80, 9))
    for delta in (1e-3, 1e-6):
        epsilon = float(spent(both, delta=delta).epsilon)
        assert true_delta([law(30), law(80)], (1, 3), epsilon) <= delta
    assert spent(both, delta=1e-6).epsilon > spent(gauss(30), delta=1e-6).epsilon
    assert spent(ParallelEvent.of(gauss(30), gauss(80)), delta=1e-6) == spent(gauss(30), delta=1e-6)


def test_a_group_costs_as_one_that_moves_as_far():
    one = spent(gauss(400, 9), delta=1e-6).epsilon
    assert one <= spent(gauss(400), delta=1e-6, units=3).epsilon <= one * (1 + Fraction(1, 10**6))
    epsilon = float(spent(gauss(400), delta=1e-6, units=3).epsilon)
    assert true_delta([law(400)], (3,), epsilon) <= 1e-6


def test_more_noise_and_more_delta_cost_less():
    by_variance = [spent(gauss(variance), delta=1e-6).epsilon for variance in (3, 4, 6, 10, 50, 1000, 10**6)]
    by_delta = [spent(gauss(50), delta=delta).epsilon for delta in (1e-12, 1e-9, 1e-6, 1e-3, 1e-2)]
    for found in (by_variance, by_delta):
        assert all(one > other for one, other in pairwise(found))
    rhos = [rho_within(ApproxDP(epsilon=epsilon, delta=1e-6), sensitivity_squared=FINE).rho for epsilon in EPSILONS]
    assert all(one < other for one, other in pairwise(rhos))


@pytest.mark.parametrize("epsilon", ["0.1", "0.3", "1", "3", "10"])
@pytest.mark.parametrize("delta", [1e-5, 1e-6])
def test_sigma_is_that_of_the_analytic_gaussian(epsilon, delta):
    """Balle and Wang's σ by bisection in mpmath; and 5 to 10 percent below what zCDP needs."""
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    sigma = math.sqrt(1 / (2 * rho_within(budget, sensitivity_squared=FINE).rho))
    with mpmath.workdps(30):
        low, high = mpmath.mpf("0.1"), mpmath.mpf(1000)
        for _ in range(60):
            middle = (low + high) / 2
            e = number(budget.epsilon)
            above = mpmath.ncdf(1 / (2 * middle) - e * middle) - mpmath.exp(e) * mpmath.ncdf(
                -1 / (2 * middle) - e * middle
            ) > number(budget.delta)
            low, high = (middle, high) if above else (low, middle)
    assert float(high) <= sigma <= 1.001 * float(high)
    assert 0.90 < sigma * math.sqrt(2 * ZCDP.within(budget).rho) < 0.95


@given(
    st.fractions(min_value="1/100", max_value=50),
    st.sampled_from((1e-12, 1e-9, 1e-6, 1e-3)),
    st.integers(1, 10**9),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
@settings(max_examples=20, deadline=None)
def test_parts_of_a_budget_are_never_above_it(epsilon, delta, squared, weights):
    """Any split, any sensitivity from the stated one on: the events add up to ρ exactly and stay within ε."""
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    whole = rho_within(budget, sensitivity_squared=squared)
    parts = whole.split(**{f"part{index}": weight for index, weight in enumerate(weights)})
    made = [
        DiscreteGaussian(rho=part.rho, sensitivity_squared=squared + index, unit=PERSON).event(10**6)
        for index, (_, part) in enumerate(parts.parts)
    ]
    event = SequentialEvent.of(*made)
    assert price(event) == whole
    assert spent(event, delta=delta).epsilon <= budget.epsilon
    assert fits(event, budget)
    assert whole.rho >= ZCDP.within(budget).rho


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_at_a_fine_grid_the_whole_budget_is_spent(epsilon):
    budget = ApproxDP(epsilon=epsilon, delta=1e-6)
    event = DiscreteGaussian.within(budget, sensitivity_squared=FINE, unit=PERSON).event(10**7)
    assert budget.epsilon * (1 - Fraction(1, 2000)) <= spent(event, delta=1e-6).epsilon <= budget.epsilon


@pytest.mark.parametrize("event", [gauss(50, 1, 10**40), gauss("1/3", 1, 9), gauss("1/2"), shares("1/4", 2, 1, 10**9)])
def test_where_the_proof_gives_nothing_the_renyi_bound_stays(event):
    """Far too many numbers, or noise too narrow for any width."""
    plain = price(event).to_approx(1e-6).epsilon
    assert plain * (1 - Fraction(1, 100)) <= spent(event, delta=1e-6).epsilon <= plain
    assert fits(event, ApproxDP(epsilon=plain, delta=1e-6))
    assert not fits(event, ApproxDP(epsilon=plain * Fraction(98, 100), delta=1e-6))


@pytest.mark.parametrize("variance", [0, -1, "nan", "inf", None])
def test_nonsense_variances_are_refused(variance):
    with pytest.raises(BadPrivacyParameter):
        gauss(variance)


@pytest.mark.parametrize("squared", [0, -4, math.nan])
def test_nonsense_sensitivities_are_refused(squared):
    with refused(BadPrivacyParameter, "sensitivity_squared"):
        rho_within(ApproxDP(epsilon=1, delta=1e-6), sensitivity_squared=squared)


def test_a_budget_without_delta_is_refused():
    with refused(BadPrivacyParameter, "delta"):
        rho_within(ApproxDP(epsilon=1), sensitivity_squared=1)
    assert not fits(gauss(10**6), ApproxDP(epsilon=100))


def test_pure_parts_are_added_and_seeds_are_not_private():
    laplace = DiscreteLaplaceEvent(unit=PERSON, sensitivity=1, scale=2, coordinates=1)
    both, alone = SequentialEvent.of(laplace, gauss(50)), spent(gauss(50), delta=1e-6).epsilon
    assert fits(both, ApproxDP(epsilon=alone + Fraction(1, 2), delta=1e-6))
    assert not fits(both, ApproxDP(epsilon=Fraction(1, 2), delta=1e-6))
    seeded = DiscreteGaussianEvent(unit=PERSON, sensitivity_squared=1, variance=50, coordinates=1, seeded=True)
    assert not fits(seeded, ApproxDP(epsilon=100, delta=1e-6))
    assert fits(seeded, ApproxDP(epsilon=100, delta=1e-6), as_if_private=True)
