"""The coreset: its tree, its noise, its price, its limit, and what it does not tell."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from studies.mechanisms import Mixture, loss, make_mixture
from studies.related.coreset import Coreset, grow
from twofold.errors import BadParameter
from twofold.privacy.accountant import fits, price
from twofold.privacy.audit.exact_checks import differing_parameters, discrete_laplace_law, privacy_loss, threshold_law
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.mechanisms.laplace import DiscreteLaplace
from twofold.privacy.rng import source
from twofold.privacy.unit import Unit
from twofold.release.cells import centres

PERSON = Unit.person()


@pytest.fixture(scope="module")
def case() -> Mixture:
    return make_mixture(4000, 20, 5, 2)


def test_without_noise_it_is_near_kmeans_and_with_little_noise_too(case: Mixture) -> None:
    ratios = []
    for epsilon in ("1000000", "20", "0.5"):
        public = case.public(epsilon, "0")
        ratios.append(loss(case.rows, centres(Coreset().release(case.rows, public, rng=1).value, public)) / case.best)
    assert ratios[0] < 1.3
    assert ratios[1] < 1.6
    assert ratios[2] > 3


@pytest.mark.parametrize("epsilon", ["0.1", "1", "20"])
def test_it_costs_exactly_its_promise(case: Mixture, epsilon: str) -> None:
    spec = Coreset().spec(case.public(epsilon, "0"))
    assert price(spec.event) == PureDP(epsilon=epsilon)
    approx = case.public(epsilon, "1e-6")
    assert fits(Coreset().spec(approx).event, ApproxDP(epsilon=epsilon, delta="1e-6"))


def test_neighbours_share_every_parameter(case: Mixture) -> None:
    public = case.public("20", "0")
    one, two = case.rows[:300], case.rows[:299]
    assert differing_parameters(lambda rows, rng: Coreset().release(rows, public, rng=rng), one, two) == ()


@pytest.mark.parametrize("rows", [0, 1])
def test_nobody_takes_the_same_path(case: Mixture, rows: int) -> None:
    public = case.public("20", "0")
    released = Coreset().release(case.rows[:rows], public, rng=0)
    assert released.value.sums.shape == (60, 20)


def test_a_person_is_in_one_leaf_and_the_leaves_are_few() -> None:
    bits = np.random.default_rng(0).random((500, 6)) < 0.5
    counting = DiscreteLaplace(epsilon=1, sensitivity=1, unit=PERSON)
    for seed in range(20):
        tree = grow(bits, counting, widths=(2, 4, 8, 16, 24, 24), threshold=10, most=12, rng=seed)
        assert tree.n_leaves <= 12
        assert tree.leaf_of.min() >= 0
        assert tree.leaf_of.max() < tree.n_leaves


def test_a_level_draws_its_stated_noise_and_not_one_a_tenth_away() -> None:
    """4,096 cells of 200 people each, parted above 208: a share that tells noise of scale 4 from 3.6 and 4.4."""
    codes = np.repeat(np.arange(4096), 200)
    bits = (codes[:, None] >> np.arange(11, -2, -1).clip(0)) & 1 > 0
    counting = DiscreteLaplace(epsilon=Fraction(1, 4), sensitivity=1, unit=PERSON)
    widths, noise, parted, runs = tuple(2 ** (level + 1) for level in range(13)), source(3), 0, 12
    for _ in range(runs):
        parted += grow(bits, counting, widths=widths, threshold=208, most=8192, rng=noise).n_leaves - 4096
    cells = runs * 4096
    away = []
    for scale in (4.0, 3.6, 4.4):
        share = threshold_law([200], scale, 208)[(True,)]
        away.append(abs(parted - cells * share) / np.sqrt(cells * share * (1 - share)))
    assert away[0] < 4
    assert min(away[1:]) > 8


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_the_scale_of_the_counts_is_that_of_their_share(case: Mixture, delta: str) -> None:
    """Two tenths of the budget, shared by all levels; a person counts once per level."""
    public = case.public("20", delta)
    counting = Coreset()._parts(public)[1]
    levels = len(Coreset()._widths(public))
    if delta == "0":
        assert counting.scale == Fraction(levels, 4)
    else:
        per_person = counting.sensitivity_squared / (2 * counting.variance)
        assert float(per_person) == pytest.approx(float(public.budget.rho) / 5 / levels, rel=1e-6)


def test_counts_of_a_level_lose_what_they_claim() -> None:
    """Exact: one more person in one cell, scale 4: a loss of 1/4, not more; a scale a tenth smaller would show."""
    base, more = discrete_laplace_law(5, 4.0, 200), discrete_laplace_law(6, 4.0, 200)
    assert privacy_loss(base, more) == pytest.approx(0.25)
    small = [discrete_laplace_law(count, 3.6, 200) for count in (5, 6)]
    assert privacy_loss(*small) > 0.27


def test_bad_options_are_refused() -> None:
    with pytest.raises(BadParameter):
        Coreset(leaves_per_prototype=0)
