"""The paper's synthetic counts: their law, their truth, their limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from studies.data import synthetic
from studies.data.synthetic import PoissonConfig, generate
from twofold.errors import BadParameter


def test_the_recorded_form_has_the_moments_of_the_audit() -> None:
    data = generate(PoissonConfig(n_users=3_000), rng=0)
    rates = data.rates()
    assert rates.mean() == pytest.approx(1.005, abs=0.002)
    assert rates.std() == pytest.approx(0.10, abs=0.002)
    counts = data.federation.pooled().matrix.toarray()
    # 1.5 million draws of a variable whose mean and variance are about 1.
    assert counts.mean() == pytest.approx(rates.mean(), abs=5 / np.sqrt(counts.size))
    assert ((counts - rates) ** 2).mean() == pytest.approx(rates.mean(), abs=10 / np.sqrt(counts.size))
    assert data.share_capped == 0.0


def test_counts_follow_the_rates_they_claim() -> None:
    data = generate(PoissonConfig(n_users=400, n_items=200, rank=2, form="printed", max_rate=20), rng=1)
    rates, counts = data.rates().ravel(), data.federation.pooled().matrix.toarray().ravel()
    # Given the rate, the randomized distribution function of a Poisson count is uniform.
    low, high = stats.poisson.cdf(counts - 1, rates), stats.poisson.cdf(counts, rates)
    uniform = low + np.random.default_rng(2).random(low.size) * (high - low)
    assert stats.kstest(uniform, "uniform").pvalue > 0.001
    wrong = 1.1 * rates
    low, high = stats.poisson.cdf(counts - 1, wrong), stats.poisson.cdf(counts, wrong)
    shifted = low + np.random.default_rng(2).random(low.size) * (high - low)
    assert stats.kstest(shifted, "uniform").pvalue < 1e-6, "the test would not notice rates that are off by a tenth"


def test_rows_have_length_one_in_the_recorded_form_only() -> None:
    sizes = {"n_users": 50, "n_items": 30, "rank": 100, "n_entities": 2}
    recorded, printed = (generate(PoissonConfig(**sizes, form=form), rng=0) for form in ("recorded", "printed"))
    for factors in (recorded.user_factors, recorded.item_factors):
        np.testing.assert_allclose(np.linalg.norm(factors, axis=1), 1)
    for factors in (printed.user_factors, printed.item_factors):
        assert 8 < np.linalg.norm(factors, axis=1).mean() < 12  # the square root of the rank


def test_the_printed_form_is_capped_and_says_how_much() -> None:
    config = PoissonConfig(n_users=500, n_items=300, form="printed", n_entities=5)
    data = generate(config, rng=0)
    exponents = data.user_factors @ data.item_factors.T
    assert exponents.max() > 30  # e^30 is beyond any count
    assert data.share_capped == (exponents > np.log(10_000)).mean()
    assert data.share_capped == pytest.approx(stats.norm.sf(np.log(10_000) / 10), abs=0.02)
    assert data.rates().max() == pytest.approx(10_000)
    assert data.federation.pooled().matrix.max() < 11_000


def test_users_follow_the_order_of_the_factors() -> None:
    config = PoissonConfig(n_users=101, n_items=7, rank=3, n_entities=4)
    data = generate(config, rng=0)
    assert data.federation.sizes.sum() == 101
    assert data.federation.sizes.max() - data.federation.sizes.min() <= 1
    assert list(data.federation.pooled().user_ids) == list(range(101))
    np.testing.assert_allclose(data.rates(slice(10, 13)), data.rates()[10:13])


def test_one_seed_one_data_set() -> None:
    config = PoissonConfig(n_users=200, n_items=20, rank=4, n_entities=3)

    def digests(seed: int) -> list[str]:
        return [part.digest() for part in generate(config, rng=seed).federation.values()]

    whole = digests(0)
    assert digests(0) == whole
    assert digests(1) != whole


def test_blocks_change_neither_the_truth_nor_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    config = PoissonConfig(n_users=200, n_items=20, rank=4, n_entities=3)
    whole = generate(config, rng=0)
    monkeypatch.setattr(synthetic, "CELLS", 20 * 9)  # nine users at a time
    blocks = generate(config, rng=0)
    assert np.array_equal(blocks.user_factors, whole.user_factors)
    assert np.array_equal(blocks.item_factors, whole.item_factors)
    # The draws come one after another in the order of the users, so only rounding in the rates could tell them apart.
    same = blocks.federation.pooled().matrix.toarray() == whole.federation.pooled().matrix.toarray()
    assert same.mean() > 0.999


def test_a_generator_moves_on() -> None:
    config, rng = PoissonConfig(n_users=20, n_items=5, rank=2, n_entities=1), np.random.default_rng(0)
    one, two = generate(config, rng=rng), generate(config, rng=rng)
    assert not np.array_equal(one.user_factors, two.user_factors)


@settings(max_examples=40)
@given(
    st.integers(1, 40),
    st.integers(1, 12),
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from(["printed", "recorded"]),
)
def test_any_size(n_users: int, n_items: int, rank: int, n_entities: int, form: synthetic.Form) -> None:
    if n_entities > n_users:
        return
    config = PoissonConfig(n_users=n_users, n_items=n_items, rank=rank, n_entities=n_entities, form=form, max_rate=50)
    federation = generate(config, rng=3).federation
    assert len(federation) == n_entities
    assert federation.n_users == n_users
    assert federation.feedback == "counts"
    counts = federation.pooled().matrix.data
    assert (counts > 0).all()
    assert np.array_equal(counts, counts.round())


@pytest.mark.parametrize(
    "changed",
    [
        {"n_users": 0},
        {"n_items": 0},
        {"rank": 0},
        {"rank": 2.5},
        {"n_entities": 0},
        {"n_users": 5, "n_entities": 6},
        {"max_rate": 0.0},
        {"max_rate": float("nan")},
        {"max_rate": 1e8},
        {"form": "normal"},
    ],
)
def test_impossible_configurations(changed: dict[str, object]) -> None:
    with pytest.raises(BadParameter):
        PoissonConfig(**changed)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_papers_own_size() -> None:
    data = generate(rng=0)
    assert data.federation.n_users == 100_000
    assert data.federation.sizes.tolist() == [10_000] * 10
    # P(Poisson(1.005) > 0) averaged over the rates: about 0.632 of 50 million cells.
    assert data.federation.n_entries == pytest.approx(0.632e8 / 2, rel=0.005)
