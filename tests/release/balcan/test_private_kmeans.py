"""The whole chain: its price, its parameters on neighbours, its limits, and what it does when it cannot help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.refused import refused
from twofold.algorithms._jit import without_numba
from twofold.algorithms.kmeans import kmeans, lloyd_step
from twofold.errors import BadNumber, BadParameter, BadPrivacyParameter, BadShape
from twofold.privacy.accountant import price, spent
from twofold.privacy.audit import differing_parameters, lower_bound, repeat
from twofold.privacy.budget import NotPrivate, PureDP
from twofold.privacy.events import ThresholdEvent, flatten
from twofold.privacy.mechanisms import Released
from twofold.privacy.rng import Source
from twofold.release.balcan.chain import (
    PrivateKMeansConfig,
    Shares,
    centers_from,
    choose_mode,
    planned_event,
    private_kmeans,
    trial_losses,
)


def mixture(n: int, m: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The audit's mixtures: k centers of norm 10, noise of norm 1."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((k, m))
    centers *= 10 / np.linalg.norm(centers, axis=1, keepdims=True)
    return centers[rng.integers(k, size=n)] + rng.standard_normal((n, m)) / np.sqrt(m), centers


def public(n: int, m: int, k: int, epsilon: Any, **changes: Any) -> PrivateKMeansConfig:
    given: dict[str, Any] = {
        "n_clusters": k,
        "epsilon": epsilon,
        "promised_users": n,
        "bound": 6.0,
        "l1_bound": round(11 * m**0.5, 1),
        "l2_bound": 11.0,
        "signed": True,
    }
    return PrivateKMeansConfig(**{**given, **changes})


def counts(n: int = 300, m: int = 30, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.poisson(0.3, (n, m)).clip(0, 3)


SMALL = PrivateKMeansConfig(n_clusters=4, epsilon=2, promised_users=300, bound=3, max_items=10, fallback=False)


@pytest.mark.parametrize(("epsilon", "worst"), [(10, 1.1), (1, 12.0)])
def test_loss_on_the_audits_mixtures(epsilon: int, worst: float) -> None:
    """20,000 rows of 50 items in 10 clusters; the reference has 27 at ε = 1."""
    for seed in range(2):
        rows, centers = mixture(20_000, 50, 10, seed)
        found = private_kmeans(rows, public(20_000, 50, 10, epsilon, seed=seed), rng=seed).value
        assert found.mode == "chain"
        best = lloyd_step(rows, centers).inertia
        assert lloyd_step(rows, found.centers).inertia / best <= worst


def test_a_large_budget_gives_the_answer_without_privacy() -> None:
    rows, centers = mixture(3000, 20, 5, 3)
    found = private_kmeans(rows, public(3000, 20, 5, 10**5, bound=10.0), rng=0).value
    plain = kmeans(rows, 5, init=centers)
    assert lloyd_step(rows, found.centers).inertia == pytest.approx(plain.inertia, rel=1e-3)
    assert sorted(found.counts.tolist()) == sorted(np.bincount(plain.labels).tolist())
    assert found.sums.sum(axis=0) == pytest.approx(rows.sum(axis=0), abs=1.0)


CONFIGS = {
    "chain": SMALL,
    "three trials": PrivateKMeansConfig(
        n_clusters=4, epsilon="1/3", promised_users=300, bound=3, max_items=10, fallback=False, trials=3, trees=2
    ),
    "select first": PrivateKMeansConfig(
        n_clusters=4, epsilon="7/5", promised_users=300, bound=3, max_items=10, fallback=False, keep=3
    ),
    "signed, select first": PrivateKMeansConfig(
        n_clusters=2, epsilon=1, promised_users=300, bound=3, max_items=10, fallback=False, keep=3, signed=True
    ),
    "buckets": PrivateKMeansConfig(n_clusters=4, epsilon=1, promised_users=300, bound=3, max_items=10),
    "single": PrivateKMeansConfig(n_clusters=4, epsilon="1/10", promised_users=300, bound=3, max_items=10),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_events_add_up_to_the_budget_and_are_known_before(name: str) -> None:
    config = CONFIGS[name]
    released = private_kmeans(counts(), config, rng=1)
    assert released.event == planned_event(config, 30, seeded=True)
    assert price(planned_event(config, 30)) == PureDP(epsilon=config.epsilon)
    assert released.value.mode == (name if name in ("buckets", "single") else "chain")
    assert len(released.value.centers) == (1 if name == "single" else config.n_clusters)


@pytest.mark.parametrize("name", CONFIGS)
def test_no_parameter_differs_between_neighbours(name: str) -> None:
    def release(data: np.ndarray, noise: Source) -> Released[Any]:
        found = private_kmeans(data, CONFIGS[name], rng=noise)
        return Released(value=found.value.sums, event=found.event)

    rows = counts()
    assert differing_parameters(release, rows, rows[:-1]) == ()
    far = np.concatenate([rows, np.full((1, 30), 3)])
    assert differing_parameters(release, rows, far, seed=2) == ()


def test_scales_are_public_numbers() -> None:
    one, two = (private_kmeans(rows, SMALL, rng=0).value for rows in (counts(), counts(5)))
    assert (one.sums_scale, one.counts_scale) == (two.sums_scale, two.counts_scale)
    epsilon = float(SMALL.split()["values"].epsilon)
    assert one.sums_scale == pytest.approx(30 / epsilon)  # B1 = 3·10
    assert one.counts_scale == float(1 / SMALL.split()["counts"].epsilon)


@pytest.mark.parametrize(
    "rows",
    [np.zeros((0, 30)), np.ones((1, 30)), np.zeros((50, 30)), np.ones((3, 30))],
    ids=["nobody", "one user", "all zero", "fewer users than clusters"],
)
@pytest.mark.parametrize("name", CONFIGS)
def test_small_and_empty_data_take_the_same_path(rows: np.ndarray, name: str) -> None:
    """To refuse them would tell them apart from their neighbours."""
    usual = private_kmeans(counts(), CONFIGS[name], rng=3)
    found = private_kmeans(rows, CONFIGS[name], rng=3)
    assert found.event == usual.event
    assert found.value.sums.shape == usual.value.sums.shape
    assert np.isfinite(found.value.centers).all()
    assert (found.value.sums != 0).any(axis=1).all()  # every cluster has noise, an empty one too
    assert found.value.counts.any()


def test_an_empty_cluster_gets_a_noisy_sum_and_count_of_zero() -> None:
    rows = np.zeros((400, 30))
    values, sizes = [], []
    for seed in range(30):
        found = private_kmeans(rows, SMALL, rng=seed).value
        empty = np.argsort(found.counts)[:3]  # all users are in one cluster
        values.append(found.sums[empty])
        sizes.append(found.counts[empty])
    assert np.abs(values).mean() == pytest.approx(found.sums_scale, rel=0.1)
    assert np.abs(sizes).mean() == pytest.approx(found.counts_scale, rel=0.4)


def test_sparse_dense_and_uncompiled_agree() -> None:
    rows = counts()
    dense = private_kmeans(rows, SMALL, rng=4).value
    assert (private_kmeans(sp.csr_array(rows), SMALL, rng=4).value.sums == dense.sums).all()
    with without_numba():
        assert (private_kmeans(rows, SMALL, rng=4).value.sums == dense.sums).all()


def test_noise_from_the_system_is_private_and_from_a_seed_is_not() -> None:
    real = private_kmeans(counts(), SMALL)
    assert not real.not_private
    assert not real.value.seeded
    seeded = private_kmeans(counts(), SMALL, rng=0)
    assert seeded.not_private
    assert seeded.value.seeded
    assert isinstance(price(seeded.event), NotPrivate)


def test_a_row_beyond_its_bounds_counts_no_more_than_one_within() -> None:
    rows = np.zeros((1, 30))
    rows[0, :] = 1e9
    config = public(300, 30, 1, 10**6, bound=3.0, l1_bound=30.0, l2_bound=9.0)
    found = private_kmeans(rows, config, rng=0).value
    assert np.abs(found.sums).sum() <= 30 + 0.1


def test_modes_follow_public_numbers() -> None:
    assert choose_mode(public(900, 457, 10, 0.1), 457)[0] == "single"
    assert choose_mode(public(20_000, 50, 10, 1), 50)[0] == "chain"
    assert choose_mode(public(20_000, 50, 1, 1), 50)[0] == "single"
    assert choose_mode(public(900, 457, 10, 0.1, fallback=False), 457)[0] == "chain"
    assert choose_mode(CONFIGS["buckets"], 30)[0] == "buckets"


def test_when_noise_would_drown_the_centers_one_noisy_mean_is_released_and_said_so() -> None:
    rows, _ = mixture(2000, 50, 10, 0)
    config = public(2000, 50, 10, 0.1)
    found = private_kmeans(rows, config, rng=0).value
    forced = private_kmeans(rows, public(2000, 50, 10, 0.1, fallback=False, shrink=False), rng=0).value
    assert found.mode == "single"
    assert "noise" in found.reason
    one_mean = ((rows - rows.mean(axis=0)) ** 2).sum()
    assert lloyd_step(rows, found.centers).inertia < 1.2 * one_mean
    assert lloyd_step(rows, forced.centers).inertia > lloyd_step(rows, found.centers).inertia


def test_shrinking_draws_noisy_centers_together_and_leaves_clear_ones() -> None:
    config = public(100, 3, 2, 1)
    sums, sizes = np.array([[300.0, 0, 0], [0, 300.0, 0]]), np.array([100.0, 100.0])
    clear = centers_from(sums, sizes, 0.01, 1.0, config)
    assert clear == pytest.approx(sums / 100, abs=1e-6)
    drowned = centers_from(sums, sizes, 1e4, 1.0, config)
    assert drowned == pytest.approx(np.full((2, 3), [1.5, 1.5, 0]))


def test_trials_are_chosen_by_their_loss() -> None:
    config = public(100, 2, 2, 1, bound=4.0, l1_bound=8.0, l2_bound=5.0)
    rows = np.array([[3.0, 0.0]] * 10 + [[0.0, 3.0]] * 10)
    good, bad = np.array([[3.0, 0.0], [0.0, 3.0]]), np.array([[0.0, 0.0], [100.0, 0.0]])
    losses = trial_losses(rows, [bad, good], config.bounds)
    assert losses[1] == 0
    # a far center is pulled into the ball of 5 first (one step short of it), so each row adds at most (2·5)²
    step = float(config.grid.step)
    assert losses[0] * step**2 == 10 * (2 - step) ** 2 + 10 * 9


def test_losses_of_trials_are_cut_and_never_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    centers = [np.zeros((1, 30)), np.ones((1, 30))]
    whole = trial_losses(counts(), centers, SMALL.bounds)
    cut = int(whole.min()) + 5
    assert cut < whole.max()
    monkeypatch.setattr("twofold.release.balcan.chain.LIMIT", cut)
    assert (trial_losses(counts(), centers, SMALL.bounds) == np.minimum(whole, cut - 1)).all()


def test_with_a_delta_dense_rows_get_much_less_noise() -> None:
    rows, centers = mixture(10_000, 300, 10, 0)
    config = public(10_000, 300, 10, 1, delta=1e-6)
    released = private_kmeans(rows, config, rng=0)
    assert released.event == planned_event(config, 300, seeded=True)
    cost = spent(planned_event(config, 300), delta=1e-6)
    assert (cost.delta, cost.epsilon <= 1) == (config.delta, True)
    assert released.value.sums_scale < private_kmeans(rows[:9], public(10_000, 300, 10, 1), rng=0).value.sums_scale / 3
    assert lloyd_step(rows, released.value.centers).inertia / lloyd_step(rows, centers).inertia < 6  # 47 without
    with refused(BadPrivacyParameter, "trials", found="2"):
        public(100, 10, 4, 1, delta=1e-6, trials=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chain", "three trials", "select first"])
def test_no_run_falsifies_the_claim(name: str) -> None:
    """End to end on two neighbours: nobody, and one user with the largest row there is."""
    config = CONFIGS[name]
    empty, one = np.zeros((0, 30)), np.concatenate([np.full((1, 10), 3.0), np.zeros((1, 20))], axis=1)

    def answer(rows: np.ndarray, noise: Source) -> float:
        found = private_kmeans(rows, config, rng=noise).value
        return float(found.sums[:, :10].max(axis=0).sum() / found.sums_scale + found.counts.max() / found.counts_scale)

    found = lower_bound(repeat(answer), empty, one, runs=1000, confidence=0.9995, rng=0)
    assert found.epsilon <= float(config.epsilon)


def test_many_trials_find_the_clusters_with_a_large_budget() -> None:
    rows, centers = mixture(2000, 20, 5, 1)
    config = public(2000, 20, 5, 10**5, trials=3, shares=Shares(choice=1))
    found = private_kmeans(rows, config, rng=0).value
    assert lloyd_step(rows, found.centers).inertia / lloyd_step(rows, centers).inertia < 1.01


@pytest.mark.parametrize(
    ("rows", "error"), [([["a"] * 3], BadNumber), ([1.0, 2.0], BadShape), (np.zeros((3, 0)), BadShape)]
)
def test_rows_that_are_none_are_refused(rows: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        private_kmeans(rows, SMALL)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_clusters": 0},
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"promised_users": 0},
        {"bound": -1.0},
        {"l1_bound": 0.0},
        {"dimension": 21},
        {"depth": 9},
        {"keep": 0},
        {"most_candidates": 3},
        {"seed": -1},
    ],
)
def test_bad_public_numbers_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((BadParameter, BadPrivacyParameter)):
        PrivateKMeansConfig(**{**CHANGED, **changes})


CHANGED = {"n_clusters": 4, "epsilon": 1, "promised_users": 100, "bound": 6.0, "l1_bound": 30.0, "l2_bound": 11.0}


def test_rows_need_a_bound_on_their_size() -> None:
    with refused(BadPrivacyParameter, "max_items"):
        PrivateKMeansConfig(n_clusters=2, epsilon=1, promised_users=9, bound=1)


def test_levels_cost_the_same_and_the_threshold_is_sub_critical() -> None:
    event = planned_event(SMALL, 30)
    levels = [one for one in flatten(event) if isinstance(one, ThresholdEvent)]
    assert len(levels) == SMALL.depth
    rate = 1 / float(levels[0].scale)
    assert levels[0].threshold >= ((SMALL.dimension - 1) * np.log(2) + np.log(10)) / rate - 1
