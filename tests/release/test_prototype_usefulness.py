"""The explanation follows from public numbers, by formulas that are checked against simulation and the field."""

from __future__ import annotations

import math

import numpy as np
import pytest

from twofold.release.cells import cells_usefulness
from twofold.release.choose import mechanism
from twofold.release.contract import ReleaseParameters

HOSPITAL = {"n_items": 457, "n_users": 900, "bound": 1, "max_items": 66, "n_prototypes": 10}


EPSILONS = (0.1, 1.0, 3.0, 10.0)


def rows(law: str = "laplace", **changed):
    public = ReleaseParameters(**{**HOSPITAL, "delta": 0 if law == "laplace" else 1e-6, **changed})
    return {epsilon: cells_usefulness(public.with_(epsilon=epsilon)) for epsilon in EPSILONS}


@pytest.mark.parametrize(
    ("epsilon", "sd", "measured"), [(0.1, 11.5, 0.0253), (1, 1.15, 0.25), (3, 0.38, 0.76), (10, 0.12, 2.5)]
)
def test_the_audited_hospital_lies_between_the_extremes(epsilon, sd, measured):
    """Noise and signal measured on simulated hospital visits: 900 users, 457 items, 66 each, ten prototypes."""
    row = rows()[epsilon]
    assert row.noise_on_mean == pytest.approx(sd, rel=0.04)
    assert row.number.low < measured < row.number.high


@pytest.mark.parametrize("alike", [True, False])
def test_the_signal_is_what_simulated_users_add_up_to(alike):
    rng = np.random.default_rng(5)
    m, s, n = 200, 20, 4000
    same = rng.permutation(m)[:s]
    total = np.zeros(m)
    for _ in range(n):
        total[same if alike else rng.permutation(m)[:s]] += 3.0
    found = cells_usefulness(ReleaseParameters(n_items=m, n_users=n, bound=3, max_items=s, n_prototypes=1))
    signal = (found.number.high if alike else found.number.low) * found.noise
    assert math.sqrt(np.mean(total**2)) == pytest.approx(signal, rel=0.01)


@pytest.mark.parametrize("kH", [(4, 60), (10, 20)])
def test_patterns_at_one_are_where_noise_alone_ends(kH):
    """A ratio of 1 puts k shared orthogonal patterns just at the largest singular value of pure noise."""
    k, H = kH
    m, rng = 400, np.random.default_rng(0)
    row = rows(n_items=m, n_prototypes=k, n_entities=H, max_items=40)[1.0]
    factor = row.patterns.high / row.number.high
    edge = np.linalg.norm(rng.normal(size=(k * H, m)), 2)
    # k patterns of unit root mean square, each on its own items, repeated by every entity
    patterns = np.kron(np.eye(k), np.ones(m // k)) * math.sqrt(k)
    lowest = np.linalg.svd(np.tile(patterns, (H, 1)), compute_uv=False)[k - 1]
    assert lowest / edge == pytest.approx(factor, rel=0.05)


def test_ratios_scale_as_they_must():
    base, more = rows()[1.0], rows(n_users=9000)[1.0]
    assert more.number.high == pytest.approx(10 * base.number.high)
    assert rows(n_prototypes=1)[1.0].number.high == pytest.approx(10 * base.number.high)
    assert rows(bound=4)[1.0].number.high == pytest.approx(base.number.high)  # the same grid, four times as coarse
    assert rows(n_entities=100)[1.0].profile.high == pytest.approx(10 * base.profile.high)


def test_the_users_needed_are_enough_and_not_too_many():
    needed = rows()[0.1].users_needed
    assert rows(n_users=needed)[0.1].patterns.high >= 1
    assert rows(n_users=needed - 2)[0.1].patterns.high < 1


def test_verdicts_get_better_with_more_people():
    verdicts = [rows(n_users=n)[1.0].verdict for n in (30, 900, 5000, 900_000)]
    assert verdicts == ["no", "one profile", "perhaps", "yes"]


def test_the_best_case_is_not_sold_as_the_usual_one():
    """205 simulated hospitals: k-means prototypes kept 96% of what could be explained at ε=10, a quarter at ε=1."""
    found = rows("gaussian", n_entities=205)
    assert (found[1.0].verdict, found[10.0].verdict) == ("perhaps", "yes")


def test_gaussian_beats_laplace_for_many_items_and_loses_for_few():
    assert rows("gaussian")[1.0].noise < rows()[1.0].noise
    assert rows("gaussian", max_items=2)[1.0].noise > rows(max_items=2)[1.0].noise


@pytest.mark.parametrize("name", ["sulq", "buckets", "popularity", "balcan"])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_the_noise_is_that_of_the_release_itself(name, delta):
    public = ReleaseParameters(**HOSPITAL, delta=delta, epsilon=10)
    made = mechanism(name)
    assert made.usefulness(public).noise == made.release(np.eye(457), public, rng=0).value.noise.values


def test_rows_that_are_added_up_meet_less_noise_than_rows_under_one_another():
    public = ReleaseParameters(**{**HOSPITAL, "n_users": 10**6}, n_entities=50, epsilon=10)
    shared, own = mechanism("buckets").usefulness(public), mechanism("sulq").usefulness(public)
    assert shared.patterns.high / shared.number.high > own.patterns.high / own.number.high


def test_one_prototype_is_never_more_than_a_profile():
    public = ReleaseParameters(**{**HOSPITAL, "n_users": 10**8}, epsilon=10)
    assert mechanism("popularity").usefulness(public).verdict == "one profile"


def test_more_items_per_user_than_items_is_cut():
    assert rows(max_items=10**6)[1.0] == rows(max_items=457)[1.0]
