"""The coreset: its tree, its noise, its price, its limit, and what it does not tell."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.stats import chi2

from studies.mechanisms import Mixture, loss, make_mixture
from studies.related import coreset
from studies.related.coreset import Coreset, Tree, grow
from twofold.errors import BadParameter
from twofold.privacy.accountant import fits, price
from twofold.privacy.audit.exact_checks import differing_parameters, privacy_loss, threshold_law
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.events import Released
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian
from twofold.privacy.mechanisms.laplace import DiscreteLaplace
from twofold.privacy.rng import source
from twofold.privacy.unit import Unit
from twofold.release.cells import centres

PERSON = Unit.person()


@dataclass(frozen=True, kw_only=True)
class Scripted:
    """Counts as they are handed over, and a released answer that the test decides."""

    answer: Callable[[int, np.ndarray], np.ndarray]
    given: list[np.ndarray] = field(default_factory=list)

    def release(self, counts: np.ndarray, **_: object) -> Released:
        self.given.append(counts.copy())
        event = DiscreteLaplace(epsilon=1, sensitivity=1, unit=PERSON).event(len(counts))
        return Released(value=self.answer(len(self.given) - 1, counts), event=event)


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


@pytest.mark.parametrize("weight", [1, 7])
def test_one_person_moves_one_count_of_a_level_by_the_weight(weight: int) -> None:
    """With whatever was released so far: every level until the person's leaf by the weight, in one place, then none."""
    rng, widths, levels_seen = np.random.default_rng(0), (2, 4, 8, 8), set()
    bits = rng.random((6, 4)) < 0.5

    def grown(people: np.ndarray, answers: list[np.ndarray]) -> tuple[Tree, list[np.ndarray]]:
        counting = Scripted(answer=lambda level, _: answers[level])
        tree = grow(bits[people], counting, widths=widths, threshold=5, most=8, weight=weight, rng=0)
        return tree, counting.given

    for _ in range(30):
        answers = [weight * rng.integers(0, 20, size=width) for width in widths]
        tree, given = grown(np.arange(6), answers)
        for person in range(6):
            others = np.delete(np.arange(6), person)
            without, fewer = grown(others, answers)
            moves = [(one - two).tolist() for one, two in zip(given, fewer, strict=True)]
            counted = sum(any(move) for move in moves)
            assert counted >= 1
            for level, move in enumerate(moves):
                assert sorted(move)[:-1] == [0] * (widths[level] - 1)
                assert sum(move) == (weight if level < counted else 0)
            assert without.leaf_of.tolist() == tree.leaf_of[others].tolist()
            levels_seen.add(counted)
    assert levels_seen == {1, 2, 3, 4}


def tree_law(codes: tuple[int, ...], *, scale: float, threshold: int) -> dict[tuple[int, ...], float]:
    """Law of which cells are parted at two levels: `grow` is run through every answer, whose laws are multiplied."""
    bits = np.array([[code // 2, code % 2, 0] for code in codes], dtype=bool).reshape(-1, 3)
    law: dict[tuple[int, ...], float] = defaultdict(float)
    for first, second in product(product((False, True), repeat=2), product((False, True), repeat=4)):
        answers = [threshold + np.array(one) for one in (first, second, [False] * 8)]
        counting = Scripted(answer=lambda level, _, answers=answers: answers[level])
        tree = grow(bits, counting, widths=(2, 4, 8), threshold=threshold, most=8, rng=0)
        opened = (*first, *second[: 2 * sum(first)])
        assert tree.n_leaves == 2 + sum(opened)
        law[opened] += math.prod(
            threshold_law(given.tolist(), scale, threshold)[one]
            for given, one in zip(counting.given[:2], (first, second), strict=True)
        )
    assert sum(law.values()) == pytest.approx(1)
    return law


def test_the_tree_loses_what_its_levels_cost_exactly() -> None:
    """All data sets of up to three people, each with any two bits, with one more person: 2/scale, and attained."""
    laws = {
        people: tree_law(people, scale=4.0, threshold=4)
        for number in range(5)
        for people in combinations_with_replacement(range(4), number)
    }
    losses = [
        privacy_loss(law, laws[tuple(sorted((*people, code)))])
        for people, law in laws.items()
        if len(people) <= 3
        for code in range(4)
    ]
    assert max(losses) == pytest.approx(2 / 4.0, rel=1e-9)


def test_gaussian_counts_are_drawn_at_the_deviation_that_their_share_buys(
    case: Mixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All counts of 40 releases, in people; a tenth away is rejected."""
    given, drawn = [], []

    class Watched(DiscreteGaussian):
        def release(self, values: np.ndarray, *, rng: object = None) -> Released:
            released = super().release(values, rng=rng)
            given.append(values)
            drawn.append(released.value)
            return released

    monkeypatch.setattr(coreset, "DiscreteGaussian", Watched)
    public, people, runs = case.public("20", "1e-6"), 30, 40
    for seed in range(runs):
        Coreset().release(case.rows[:people], public, rng=seed)
    levels = len(given) // runs
    weight = given[0].sum() // people
    assert all((one % weight == 0).all() and one.sum() <= weight * people for one in given)
    noise = (np.concatenate(drawn) - np.concatenate(given)) / weight
    share = float(public.budget.rho) / 5 / levels
    energy = (noise**2).sum() * 2 * share

    def p_value(factor: float) -> float:
        below = chi2.cdf(energy / factor**2, len(noise))
        return 2 * min(below, 1 - below)

    assert p_value(1.0) > 1e-3
    assert max(p_value(factor) for factor in (0.9, 1.1)) < 1e-6


@pytest.mark.parametrize("leaves", [0, 1, 1.5, True])
def test_fewer_than_two_leaves_are_refused(leaves: object) -> None:
    """The first cell is always parted; one prototype of one leaf would have no place for the second half."""
    with pytest.raises(BadParameter) as caught:
        Coreset(leaves_per_prototype=leaves)
    assert caught.value.parameter == "leaves_per_prototype"


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_one_prototype_of_two_leaves_is_the_least(case: Mixture, delta: str) -> None:
    public = case.public("20", delta).with_(n_prototypes=1)
    released = Coreset(leaves_per_prototype=2).release(case.rows[:300], public, rng=0)
    assert released.value.sums.shape == (2, 20)
