"""Sample and aggregate: the smooth bound by brute force, the δ of its noise, the price, the limit, and refusals."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import kstest, ncx2

from studies.mechanisms import Mixture, loss, make_mixture
from studies.related.sample_aggregate import SampleAggregate, admissible, aggregate, noisy_middle
from twofold.errors import BadPrivacyParameter
from twofold.privacy.accountant import fits, price
from twofold.privacy.budget import ApproxDP, NotPrivate
from twofold.release.cells import centres


@pytest.fixture(scope="module")
def case() -> Mixture:
    return make_mixture(4000, 20, 5, 2)


@pytest.mark.parametrize(("number", "beta", "largest"), [(8, 1.0, 2), (4, 2.0, 4)])
def test_the_bound_covers_every_move_and_is_smooth(number: int, beta: float, largest: int) -> None:
    """All data sets of some points on {0, ..., largest} and all their neighbours; smoothness is attained."""
    found = {}
    for z in product(range(largest + 1), repeat=number):
        middle, bound = aggregate(np.array(z, dtype=float)[:, None], beta=beta, diameter=largest)
        found[z] = float(middle[0]), bound
    farthest, steepest = 0.0, 0.0
    for z, (middle, bound) in found.items():
        for place, value in product(range(number), range(largest + 1)):
            other, other_bound = found[(*z[:place], value, *z[place + 1 :])]
            farthest = max(farthest, abs(middle - other) / bound)
            steepest = max(steepest, bound / other_bound)
    assert farthest == 1.0
    assert steepest == pytest.approx(math.exp(beta), rel=1e-12)


def test_points_that_agree_move_little_and_points_that_do_not_move_far() -> None:
    rng = np.random.default_rng(0)
    near = aggregate(rng.normal(size=(801, 3)) * 0.01, beta=0.05, diameter=10.0)[1]
    far = aggregate(rng.uniform(-5, 5, size=(801, 3)), beta=0.05, diameter=10.0)[1]
    assert near < 0.2
    assert far > 5


def worst_delta(epsilon: float, dimension: int, alpha: float, beta: float) -> float:
    """Largest δ at ε of N(0, r² I) against N(u, I), over r and |u| that smoothness permits: laws of |g + c|², exact."""
    worst = 0.0
    for r, share in product(np.exp(beta * np.array([-1, -0.5, 0.5, 1])), (0.0, 0.5, 1.0)):
        u = share * alpha * min(1.0, r)
        curve = (1 - r**-2) / 2  # the loss is curve |y - u/(2 curve)|², and a constant
        edge = (epsilon + u**2 / (4 * curve) - u**2 / 2 + dimension * math.log(r)) / curve
        tail = ncx2.sf if curve > 0 else ncx2.cdf
        here = tail(edge / r**2, dimension, (u / (2 * curve * r)) ** 2)
        there = tail(edge, dimension, (u / (2 * curve) - u) ** 2)
        worst = max(worst, float(here - math.exp(epsilon) * there))
    return worst


def test_the_worst_delta_is_that_of_an_integral() -> None:
    """One dimension, by a sum on a fine grid."""
    y, alpha, beta = np.linspace(-40, 40, 400_001), 0.6, 0.25
    spread = math.exp(beta)
    one = np.exp(-(y**2) / (2 * spread**2)) / spread
    by_sum = np.maximum(one - math.exp(4) * np.exp(-((y - alpha) ** 2) / 2), 0).sum() * (y[1] - y[0])
    assert worst_delta(4, 1, alpha, beta) == pytest.approx(by_sum / math.sqrt(2 * math.pi), rel=1e-6)


@pytest.mark.parametrize("delta", ["5e-7", "1e-3", "0.5"])
@pytest.mark.parametrize("dimension", [1, 2, 16, 40, 80])
def test_no_permitted_neighbour_costs_more_than_the_promise(dimension: int, delta: str) -> None:
    """Up to the largest ε that α and β are computed from; above it they stay the same."""
    log = math.log(2 / float(delta))
    most = min(dimension + log, 6 * log)
    used = {
        epsilon: admissible(ApproxDP(epsilon=epsilon, delta=delta), dimension)
        for epsilon in (0.01, 0.1, 1.0, most / 2, most, 2 * most, 1000.0, 10.0**6)
    }
    for epsilon, (alpha, beta) in used.items():
        assert worst_delta(min(epsilon, most), dimension, alpha, beta) <= float(delta)
    assert used[most / 2] == pytest.approx([one / 2 for one in used[most]])
    assert used[2 * most] == used[1000.0] == used[10.0**6] == pytest.approx(used[most])


@pytest.mark.parametrize(("dimension", "epsilon"), [(1, 50), (16, 100), (40, 200), (80, 300), (80, 500)])
def test_the_lemma_is_false_at_large_epsilon_and_what_is_used_there_is_not(dimension: int, epsilon: int) -> None:
    log = math.log(2 / 5e-7)
    as_stated = epsilon / (5 * math.sqrt(2 * log)), epsilon / (4 * (dimension + log))
    assert worst_delta(epsilon, dimension, *as_stated) > 5e-7
    assert worst_delta(epsilon, dimension, *admissible(ApproxDP(epsilon=epsilon, delta="5e-7"), dimension)) < 5e-7


def test_one_person_moves_the_centres_of_one_block(case: Mixture) -> None:
    """Coins and seeds held, every person left out in turn; also out of blocks of one person, which leaves zeros."""
    rng = np.random.default_rng(7)
    how, public = SampleAggregate(dimension=3), case.public("20", "1e-6")
    points, block_of, seeds = rng.normal(size=(40, 3)), rng.integers(12, size=40), rng.integers(2**32, size=12)
    block_of[block_of == block_of[0]] = 11
    block_of[0] = 0
    everybody = how._centres_of(points, public, block_of=block_of, seeds=seeds)
    for person in range(40):
        others = np.delete(np.arange(40), person)
        fewer = how._centres_of(points[others], public, block_of=block_of[others], seeds=seeds)
        assert np.flatnonzero((everybody != fewer).any(axis=1)).tolist() == [block_of[person]]
    assert everybody.shape == (12, 15)


def test_the_noise_has_the_stated_deviation_and_not_one_a_tenth_away() -> None:
    """One draw in 20,000 dimensions against N(middle, (S/α)²)."""
    points = np.random.default_rng(5).normal(size=(5, 20_000))
    promise = ApproxDP(epsilon=2, delta="1e-6")
    alpha, beta = admissible(promise, 20_000)
    middle, bound = aggregate(points, beta=beta, diameter=900.0)
    drawn = noisy_middle(points, promise, diameter=900.0, coins=np.random.default_rng(6))
    z = (drawn - middle) * alpha / bound
    verdicts = [kstest(z / factor, "norm").pvalue for factor in (1.0, 0.9, 1.1)]
    assert verdicts[0] > 1e-3
    assert max(verdicts[1:]) < 1e-6
    assert alpha == pytest.approx(2 / (5 * math.sqrt(2 * math.log(2e6))))
    assert beta == pytest.approx(2 / (4 * (20_000 + math.log(2e6))))


def test_the_parts_add_up_to_the_promise(case: Mixture) -> None:
    public = case.public("3", "1e-6")
    how = SampleAggregate()
    half = how._half(public)
    assert how.price(public) == ApproxDP(epsilon=2 * half.epsilon, delta=2 * half.delta)
    assert fits(how._last(public).event(), half)


def test_no_ledger_prices_it(case: Mixture) -> None:
    released = SampleAggregate().release(case.rows, case.public("20", "1e-6"), rng=0)
    assert isinstance(price(released.event, as_if_private=True), NotPrivate)


def test_a_pure_promise_is_refused(case: Mixture) -> None:
    with pytest.raises(BadPrivacyParameter) as caught:
        SampleAggregate().release(case.rows, case.public("20", "0"))
    assert caught.value.parameter == "delta"


def test_without_noise_it_finds_the_clusters(case: Mixture) -> None:
    public = case.public("1000000", "1e-6")
    found = centres(SampleAggregate().release(case.rows, public, rng=1).value, public)
    assert loss(case.rows, found) / case.best < 1.2


@pytest.mark.parametrize("rows", [0, 1])
def test_nobody_takes_the_same_path(case: Mixture, rows: int) -> None:
    released = SampleAggregate().release(case.rows[:rows], case.public("20", "1e-6"), rng=0)
    assert released.value.sums.shape == (5, 20)
