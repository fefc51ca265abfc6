"""Noise: its law, its price and its shares."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from twofold.features import Features
from twofold.privacy.accountant import price, spent
from twofold.privacy.audit.exact_checks import discrete_laplace_law
from twofold.privacy.budget import ZCDP, PureDP
from twofold.privacy.mechanisms.gaussian import DiscreteGaussianShare, rho_of_sum
from twofold.privacy.rng import source
from twofold.release import ReleaseParameters
from twofold.release.bilinear.layout import KINDS, BilinearLayout
from twofold.release.bilinear.mechanism import BilinearNoise, Gram

PUBLIC = ReleaseParameters(
    n_items=40,
    n_users=900,
    max_items=16,
    bound=5,
    n_prototypes=5,
    epsilon=1,
    delta=1e-6,
    features=Features(matrix=np.ones((40, 2), dtype=int), names=("a", "b")),
)
LAWS = {"gaussian": PUBLIC, "laplace": PUBLIC.with_(delta=0)}


def noise_of(public: ReleaseParameters, kind: Any = "gram") -> BilinearNoise:
    return BilinearNoise(public=public, layout=BilinearLayout.of(public, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("honest", [0, 1, 2, 10, 205, 5000])
@pytest.mark.parametrize("epsilon", ["0.1", 1, 10])
@pytest.mark.parametrize("law", LAWS)
def test_the_event_prices_to_the_budget_and_never_above(law: str, epsilon: Any, honest: int, kind: Any) -> None:
    public = LAWS[law].with_(epsilon=epsilon, honest=honest)
    event = noise_of(public, kind).event()
    cost = price(event)
    if isinstance(cost, PureDP):
        assert cost.epsilon == public.epsilon
    else:
        assert isinstance(cost, ZCDP)
        assert isinstance(public.budget, ZCDP)
        assert public.budget.rho * (1 - 1e-6) <= cost.rho <= public.budget.rho  # type: ignore[operator]
    assert spent(event, delta=public.delta).epsilon <= public.epsilon


def test_the_price_counts_that_shares_do_not_add_up_to_one_gaussian() -> None:
    """With narrow shares the extra term is not nothing, and the variance is raised for it."""
    public = PUBLIC.with_(n_items=2, max_items=1, epsilon=10**5, honest=2, features=None)
    sampler = noise_of(public).mechanism
    assert isinstance(sampler, DiscreteGaussianShare)
    event = sampler.event(noise_of(public).layout.length)
    assert isinstance(public.budget, ZCDP)
    assert rho_of_sum(event) <= public.budget.rho
    assert sampler.sensitivity_squared / (2 * sampler.variance) <= public.budget.rho


@pytest.mark.parametrize("honest", [0, 3])
@pytest.mark.parametrize("law", LAWS)
def test_the_sum_of_shares_has_the_stated_law_and_a_tenth_less_noise_is_told_apart(law: str, honest: int) -> None:
    public = LAWS[law].with_(honest=honest)
    made = noise_of(public)
    zeros = np.zeros(30_000, dtype=np.int64)
    drawn = sum(made.release(zeros, rng=source(seed)).value for seed in range(max(1, honest)))
    deviation = made.deviation * math.sqrt(max(1, honest))
    whole = stats.norm(scale=deviation) if law == "gaussian" else stats.laplace(scale=deviation / math.sqrt(2))
    assert stats.kstest(drawn, whole.cdf).pvalue > 1e-4
    assert stats.kstest(np.asarray(drawn) * 0.9, whole.cdf).pvalue < 1e-4
    assert stats.kstest(np.asarray(drawn) * 1.1, whole.cdf).pvalue < 1e-4


def test_a_share_is_a_part_of_the_noise() -> None:
    whole = Gram().spec(PUBLIC).sum.deviation
    for honest in (1, 4, 100):
        share = Gram().spec(PUBLIC.with_(honest=honest)).sum.deviation
        assert share * math.sqrt(honest) == pytest.approx(whole, rel=1e-6)
    pure = LAWS["laplace"]
    assert Gram().spec(pure.with_(honest=4)).sum.deviation * 2 == pytest.approx(Gram().spec(pure).sum.deviation)


def test_deviation_grows_as_epsilon_falls() -> None:
    found = [Gram().spec(PUBLIC.with_(epsilon=epsilon)).sum.deviation for epsilon in ("0.1", 1, 10)]
    assert found[0] > 8 * found[1] > 16 * found[2]


@pytest.mark.parametrize(("honest", "epsilon", "delta", "wanted"), [(205, 1, 1e-6, 21), (10, 1, 1e-5, 3.6)])
def test_a_share_alone_costs_what_research_measured(honest: int, epsilon: int, delta: float, wanted: float) -> None:
    public = PUBLIC.with_(honest=honest, epsilon=epsilon, delta=delta)
    assert Gram().spec(public).sum.alone_epsilon == pytest.approx(wanted, rel=0.1)


def test_alone_without_secure_sum_is_the_plan_and_a_laplace_share_promises_nothing() -> None:
    assert Gram().spec(PUBLIC).sum.alone_epsilon == 1
    assert Gram().spec(PUBLIC.with_(honest=1)).sum.alone_epsilon == pytest.approx(1, rel=1e-3)
    assert Gram().spec(LAWS["laplace"].with_(honest=5)).sum.alone_epsilon == math.inf
    found = [Gram().spec(PUBLIC.with_(honest=honest)).sum.alone_epsilon for honest in (1, 2, 10, 100)]
    assert found == sorted(found)


def test_every_outcome_on_a_tiny_domain_keeps_the_promise() -> None:
    """All rows of two items with counts 0 to 2 against all outcomes of a coarse release: no ratio exceeds e^ε.

    The record is that of the code; the law of the noise is written down from its definition. Outcomes are far apart by
    design: Laplace loss is largest outside all records and constant there, so a grid around them finds it.
    """
    from twofold.release.bilinear.records import exact_sums
    from twofold.release.contract import check_rows

    public = ReleaseParameters(n_items=2, n_users=9, max_items=2, bound=2, epsilon=1)
    made = noise_of(public)
    scale = float(made.mechanism.scale)  # type: ignore[union-attr]
    records = [
        exact_sums(check_rows(np.array([row], dtype=float), public), public, made.layout)
        for row in product(range(3), repeat=2)
    ]
    reach = max(int(np.abs(record).max()) for record in records)
    worst = 0.0
    for record in records:
        loss = 0.0
        for number in record.tolist():
            empty, there = (discrete_laplace_law(value, scale, 1)[0] for value in (0, number))
            sides = [-abs(y - number) / scale + abs(y) / scale for y in (-reach, 0, number // 2, number, reach)]
            assert math.log(there / empty) == pytest.approx(-abs(number) / scale)
            loss += max(map(abs, sides))
        worst = max(worst, loss)
    assert worst <= 1 + 1e-12
    assert worst > 0.8
