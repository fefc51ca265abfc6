"""Noise that two operators add to a sum in shares: how much, by whom, at what price; nothing is refused by content."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.refused import refused
from twofold.errors import BadPlan
from twofold.federation.secure import OperatorSum
from twofold.privacy.accountant import price, spent
from twofold.privacy.events import DiscreteGaussianEvent, DiscreteGaussianShareEvent, OperatorSumEvent, is_seeded
from twofold.privacy.rng import source
from twofold.release import ReleaseParameters
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.mechanism import BilinearNoise, Gram
from twofold.release.bilinear.records import exact_sums
from twofold.release.contract import check_rows

PLAIN = ReleaseParameters(n_items=12, n_users=900, max_items=6, bound=5, epsilon=1, delta=1e-6)
LAWS = {"gaussian": PLAIN, "laplace": PLAIN.with_(delta=0)}
WHO = {"operators": {"operators": 2}, "both": {"operators": 2, "honest": 7}, "entities": {"honest": 7}}
each_law = pytest.mark.parametrize("law", LAWS)
each_who = pytest.mark.parametrize("who", WHO)


def noise_of(public: ReleaseParameters) -> BilinearNoise:
    return BilinearNoise(public=public, layout=BilinearLayout.of(public, "gram"))


def rows(public: ReleaseParameters) -> Any:
    rng = np.random.default_rng(3)
    return (rng.integers(1, 6, (40, public.n_items)) * (rng.random((40, public.n_items)) < 0.3)).astype(float)


def sums(public: ReleaseParameters) -> Any:
    made = noise_of(public)
    return exact_sums(check_rows(rows(public), public), public, made.layout, limit=made.limit)


@each_law
def test_an_entity_whose_operators_add_the_noise_adds_none(law: str) -> None:
    public = LAWS[law].with_(operators=2)
    assert noise_of(public).mechanism is None
    assert noise_of(public).deviation == 0
    for _ in range(3):
        assert np.array_equal(Gram().release(rows(public), public).value.numbers, sums(public))


@each_law
def test_an_entity_that_adds_its_share_adds_the_same_with_and_without_operators(law: str) -> None:
    with_them, without = (LAWS[law].with_(**WHO[who]) for who in ("both", "entities"))
    assert noise_of(with_them).deviation == noise_of(without).deviation > 0
    drawn = [Gram().release(rows(public), public, rng=5).value.numbers for public in (with_them, without)]
    assert np.array_equal(*drawn)
    assert not np.array_equal(drawn[0], sums(with_them))


@each_law
@pytest.mark.parametrize("who", ["operators", "both"])
def test_an_operator_adds_the_whole_noise_of_the_budget(law: str, who: str) -> None:
    public = LAWS[law].with_(**WHO[who])
    assert noise_of(public).whole == noise_of(LAWS[law]).whole
    assert noise_of(public).whole_deviation == noise_of(LAWS[law]).deviation


@each_law
def test_an_operator_s_noise_has_the_stated_law_and_a_scale_wrong_by_a_tenth_is_told_apart(law: str) -> None:
    public = LAWS[law].with_(operators=2)
    drawn = np.concatenate([Gram().operator_noise(public, rng=seed) for seed in range(250)]).astype(float)
    size = noise_of(public).whole_deviation
    whole = stats.norm(scale=size) if law == "gaussian" else stats.laplace(scale=size / math.sqrt(2))
    assert drawn.size > 20_000
    assert stats.kstest(drawn, whole.cdf).pvalue > 1e-4
    for wrong in (0.9, 1.1):
        assert stats.kstest(wrong * drawn, whole.cdf).pvalue < 1e-4


def test_two_draws_of_an_operator_differ() -> None:
    public = PLAIN.with_(operators=2)
    assert not np.array_equal(Gram().operator_noise(public), Gram().operator_noise(public))


@each_law
def test_the_sum_carries_both_noises_and_the_price_counts_one(law: str) -> None:
    public = LAWS[law].with_(operators=2)
    spec = Gram().spec(public)
    assert spec.sum.total_deviation(205) == pytest.approx(math.sqrt(2) * noise_of(public).whole_deviation)
    assert price(spec.event) == price(Gram().spec(LAWS[law]).event)
    assert spent(spec.event, delta=public.delta).epsilon <= public.epsilon
    both = Gram().spec(LAWS[law].with_(**WHO["both"]))
    assert price(both.event) == price(spec.event)
    assert both.sum.total_deviation(205) > spec.sum.total_deviation(205)


@each_law
@each_who
@pytest.mark.parametrize("seed", [None, 4])
def test_what_is_released_is_what_was_announced(law: str, who: str, seed: int | None) -> None:
    public = LAWS[law].with_(**WHO[who])
    released, spec = Gram().release(rows(public), public, rng=seed), Gram().spec(public)
    assert released.event == spec.event_for(seeded=seed is not None)
    assert is_seeded(released.event) == (seed is not None)
    assert isinstance(spec.event, OperatorSumEvent) == (who != "entities")
    if isinstance(spec.event, OperatorSumEvent):
        assert [one.parties for one in spec.event.shares] == ([7] if who == "both" else [])  # type: ignore[attr-defined]


@each_who
def test_in_the_limit_of_no_noise_every_part_is_exact(who: str) -> None:
    public = PLAIN.with_(epsilon=10**12, **WHO[who])
    assert np.abs(Gram().release(rows(public), public).value.numbers - sums(public)).max() <= 50
    if who != "entities":
        assert np.abs(Gram().operator_noise(public)).max() <= 50
    assert noise_of(PLAIN.with_(**WHO[who])).whole_deviation > 1000


@each_who
@pytest.mark.parametrize("users", [0, 1, 2000])
def test_no_number_is_refused_by_its_content(who: str, users: int) -> None:
    """A refusal would tell one person more or fewer; a sum that is too large is cut at a public limit."""
    public = PLAIN.with_(n_users=1, **WHO[who])
    most = np.full((users, public.n_items), 10.0**300)
    released = Gram().release(most, public)
    assert released.value.numbers.shape == (noise_of(public).layout.length,)
    if who == "operators":
        assert np.abs(released.value.numbers).max() <= noise_of(public).limit


@each_law
def test_one_message_with_both_operators_is_open_unless_the_entity_adds_a_share(law: str) -> None:
    assert noise_of(LAWS[law].with_(operators=2)).alone_epsilon == math.inf
    for who in ("both", "entities"):
        found = noise_of(LAWS[law].with_(**WHO[who]))
        assert math.isinf(found.alone_epsilon) == (law == "laplace")
    share = noise_of(PLAIN.with_(**WHO["both"])).event().shares[0]  # type: ignore[attr-defined]
    assert isinstance(share, DiscreteGaussianShareEvent)
    own = DiscreteGaussianEvent(
        unit=share.unit,
        sensitivity_squared=share.sensitivity_squared,
        variance=share.variance,
        coordinates=share.coordinates,
    )
    assert noise_of(PLAIN.with_(**WHO["both"])).alone_epsilon == float(spent(own, delta=PLAIN.delta).epsilon)


def test_a_limit_of_a_message_alone_needs_noise_by_entities() -> None:
    with refused(BadPlan, "secure.most_alone"):
        OperatorSum(floor=5, most_alone=30).check(10)
    OperatorSum(floor=5, most_alone=30, noise="both").check(10)


def test_operators_that_draw_from_a_source_are_repeatable() -> None:
    """Only for simulations, whose plan says so."""
    public = PLAIN.with_(operators=2)
    one, two = (Gram().operator_noise(public, rng=source(9)) for _ in range(2))
    assert np.array_equal(one, two)
