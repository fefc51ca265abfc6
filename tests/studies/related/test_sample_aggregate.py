"""Sample and aggregate: the smooth bound by brute force, the noise, the price, the limit, and refusals."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from studies.mechanisms import Mixture, loss, make_mixture
from studies.related.sample_aggregate import SampleAggregate, admissible, aggregate, noisy_middle
from twofold.errors import BadPrivacyParameter
from twofold.privacy.accountant import fits, price
from twofold.privacy.budget import ApproxDP, NotPrivate
from twofold.release.cells import centres


@pytest.fixture(scope="module")
def case() -> Mixture:
    return make_mixture(4000, 20, 5, 2)


def test_the_bound_covers_every_move_and_is_smooth() -> None:
    """All 4^5 data sets of five points on {0, 1, 2, 3} and all their neighbours."""
    beta, diameter, values = 0.3, 3.0, range(4)
    found = {
        z: aggregate(np.array(z, dtype=float)[:, None], beta=beta, diameter=diameter) for z in product(values, repeat=5)
    }
    largest = 0.0
    for z, (middle, bound) in found.items():
        for place, value in product(range(5), values):
            other, other_bound = found[(*z[:place], value, *z[place + 1 :])]
            moved = abs(float(middle[0] - other[0]))
            largest = max(largest, moved / bound)
            assert moved <= bound + 1e-12
            assert bound <= math.exp(beta) * other_bound + 1e-12
    assert largest > 0.4  # the bound is not loose by more than a small factor


def test_points_that_agree_move_little_and_points_that_do_not_move_far() -> None:
    rng = np.random.default_rng(0)
    near = aggregate(rng.normal(size=(801, 3)) * 0.01, beta=0.05, diameter=10.0)[1]
    far = aggregate(rng.uniform(-5, 5, size=(801, 3)), beta=0.05, diameter=10.0)[1]
    assert near < 0.2
    assert far > 5


def test_the_noise_has_the_stated_deviation_and_not_one_a_tenth_away() -> None:
    """One draw in 20,000 dimensions against N(middle, (S/α)²)."""
    from scipy.stats import kstest

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
