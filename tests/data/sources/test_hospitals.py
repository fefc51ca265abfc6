"""The hospital simulator: sizes, streams, truth, and the two knobs."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import sparse

from studies.data.calibration import between_hospitals, calibration, gap, tails
from twofold.data.federation import Federation
from twofold.data.sources.hospital_world import STRUCTURES, hospital_sizes
from twofold.data.sources.hospitals import HospitalsConfig, Simulation, load, simulate
from twofold.errors import BadParameter


@pytest.fixture(scope="module")
def small() -> Simulation:
    return simulate(n_patients=4_000, n_hospitals=10, rng=0)


def stacked(federation: Federation) -> tuple[sparse.csr_array, np.ndarray]:
    return federation.pooled().matrix, np.repeat(np.arange(len(federation)), federation.sizes)


# Sizes


def test_paper_size() -> None:
    sizes = hospital_sizes(HospitalsConfig())
    assert (sizes.size, sizes.sum(), sizes.max(), sizes.min()) == (205, 190_000, 13_000, 40)
    assert np.median(sizes) < sizes.mean() / 2, "a heavy tail has its mean far above its median"


@pytest.mark.parametrize("n_hospitals", [1, 2, 7, 50])
@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0])
def test_sizes_add_up_and_keep_the_limits(n_hospitals: int, spread: float) -> None:
    config = HospitalsConfig(
        n_patients=n_hospitals * 100 + 1, n_hospitals=n_hospitals, size_spread=spread, smallest=20, largest=700
    )
    sizes = hospital_sizes(config)
    assert sizes.sum() == config.n_patients
    assert sizes.min() >= 20
    assert sizes.max() <= 700


def test_every_hospital_full_or_at_its_smallest() -> None:
    assert hospital_sizes(HospitalsConfig(n_patients=50, n_hospitals=5, smallest=10, largest=30)).tolist() == [10] * 5
    assert hospital_sizes(HospitalsConfig(n_patients=150, n_hospitals=5, smallest=10, largest=30)).tolist() == [30] * 5


def test_federation_has_what_was_asked(small: Simulation) -> None:
    federation = small.federation
    assert list(federation)[:2] == ["hospital-001", "hospital-002"]
    assert sorted(federation.sizes.tolist(), reverse=True) == hospital_sizes(small.config).tolist()
    assert federation.feedback == "counts"
    assert len(federation.catalog) == 457
    assert federation.pooled().user_ids.kind == "text", "ids differ between hospitals, so pooling keeps them"


def test_scale_keeps_the_average_hospital() -> None:
    federation = load(0.02)
    assert (federation.n_users, len(federation)) == (3_800, 4)


# Values


def test_counts_are_positive_whole_numbers(small: Simulation) -> None:
    values = stacked(small.federation)[0].data
    assert values.min() >= 1, "a zero is not stored"
    assert np.array_equal(values, np.round(values))


def test_everybody_has_entries(small: Simulation) -> None:
    counts = small.federation.pooled().entries_per_user
    assert np.quantile(counts, 0.01) > 10
    assert counts.min() >= 1


def test_counts_have_a_heavy_tail(small: Simulation) -> None:
    found = tails(stacked(small.federation)[0].data)
    assert found["p50"] <= 3
    assert found["max"] > 10 * found["p90"]


def test_catalog_names_kind_and_class(small: Simulation) -> None:
    catalog = small.federation.catalog
    assert catalog.features is not None
    assert catalog.items[0] == "lab-001"
    assert catalog.items[158] == "drug-001"
    assert (catalog.features["kind"] == "lab").sum() == 158
    assert catalog.features["class"].n_unique() == 16 + 40
    assert np.array_equal(catalog.features["class"].rle_id().to_numpy(), small.world.item_class)


def test_smallest_catalog() -> None:
    simulation = simulate(n_patients=100, n_hospitals=2, n_items=20, rng=0)
    assert simulation.federation.pooled().matrix.shape == (100, 20)
    assert calibration(simulation.federation)


# Streams


def test_same_seed_same_bytes(small: Simulation) -> None:
    again = simulate(small.config, rng=0).federation
    assert [one.digest() for one in again.values()] == [one.digest() for one in small.federation.values()]


def test_other_seed_other_patients(small: Simulation) -> None:
    other = simulate(small.config, rng=1).federation
    assert other["hospital-001"].digest() != small.federation["hospital-001"].digest()


def test_seed_may_be_a_generator_or_sequence() -> None:
    asked = {"n_patients": 100, "n_hospitals": 2}
    by_number = simulate(rng=5, **asked).federation.pooled().digest()
    assert simulate(rng=np.random.default_rng(5), **asked).federation.pooled().digest() == by_number
    assert simulate(rng=np.random.SeedSequence(5), **asked).federation.pooled().digest() == by_number


def test_a_hospital_does_not_depend_on_the_others_nor_on_its_size(small: Simulation) -> None:
    larger = simulate(n_patients=8_000, n_hospitals=13, rng=0)
    for name, ratings in small.federation.items():
        other = larger.federation[name]
        common = min(ratings.n_users, other.n_users)
        assert common >= 40
        assert (ratings.matrix[:common] != other.matrix[:common]).nnz == 0
        assert ratings.user_ids[:common] == other.user_ids[:common]
        assert np.array_equal(small.truth[name].stay[:common], larger.truth[name].stay[:common])


def test_hospitals_do_not_repeat_each_other(small: Simulation) -> None:
    one, other = (small.federation[name].matrix[:40] for name in ("hospital-001", "hospital-002"))
    assert (one != other).nnz > 0


# Truth


def test_counts_follow_the_truth() -> None:
    simulation = simulate(n_patients=6_000, n_hospitals=2, smallest=3_000, rng=3)
    for name, ratings in simulation.federation.items():
        expected = simulation.truth[name].expected().sum(axis=0)
        counted = np.asarray(ratings.matrix.sum(axis=0))
        common = expected > 1_500
        assert common.sum() > 15
        # Bursts (shape 3) and stays make a class total vary by about 2% at 3,000 patients.
        assert np.abs(counted[common] / expected[common] - 1).max() < 0.1
        assert abs(counted.sum() / expected.sum() - 1) < 0.03


def test_truth_tells_patients_apart() -> None:
    """Given the truth, the same item's counts of two patients differ the way they should."""
    simulation = simulate(n_patients=3_000, n_hospitals=1, structure="strong", rng=0)
    expected = simulation.truth["hospital-001"].expected()
    counted = simulation.federation["hospital-001"].matrix.toarray()
    column = int(counted.sum(axis=0).argmax())
    assert np.corrcoef(expected[:, column], counted[:, column])[0, 1] > 0.7


def test_conditions_are_shares(small: Simulation) -> None:
    for truth in small.truth.values():
        assert np.allclose(truth.conditions.sum(axis=1), 1, atol=1e-5)
        assert ((truth.conditions > 0).sum(axis=1) <= 2).all()
        assert truth.stay.min() > 0


def test_what_is_not_stocked_is_not_ordered(small: Simulation) -> None:
    for name, ratings in small.federation.items():
        missing = small.truth[name].profile.item_share == 0
        assert missing[158:].sum() > 20
        assert not missing[:158].any()
        assert ratings.matrix[:, missing].nnz == 0


def test_formulary_shares_add_up_in_every_class(small: Simulation) -> None:
    classes = small.world.item_class[158:]
    for truth in small.truth.values():
        sums = np.bincount(classes, weights=truth.profile.item_share[158:])[small.world.n_lab_classes :]
        assert np.allclose(sums, 1)


def test_hospitals_prefer_different_substitutes(small: Simulation) -> None:
    first_class = np.flatnonzero(small.world.item_class == small.world.n_lab_classes)
    favourites = {int(truth.profile.item_share[first_class].argmax()) for truth in small.truth.values()}
    assert len(favourites) > 1


# The two knobs


def test_structure_widens_the_gap_to_popularity() -> None:
    gains = []
    for structure in (0.0, *STRUCTURES.values()):
        federation = simulate(n_patients=4_000, n_hospitals=4, structure=structure, heterogeneity=0, rng=0).federation
        found = gap(federation.pooled().matrix, rank=10, rng=np.random.default_rng(0))
        gains.append(found.model_ndcg - found.popularity_ndcg)
    assert gains == sorted(gains)
    assert gains[0] < 0, "without structure there is nothing to learn beyond popularity"
    assert gains[-1] > gains[2] > 0.02


def test_a_factorization_beats_popularity_by_default() -> None:
    counts = load(0.05).pooled().matrix
    found = gap(counts, rank=20, rng=np.random.default_rng(0))
    assert found.model_ndcg > found.popularity_ndcg + 0.04
    # Without shrinkage rank 20 is too much for the tail of 9,500 patients; rank 10 is better from end to end.
    found = gap(counts, rank=10, rng=np.random.default_rng(0))
    assert found.model_rank < 0.85 * found.popularity_rank


def test_heterogeneity_makes_hospitals_differ() -> None:
    shares = []
    for heterogeneity in (0.0, 0.5, 1.0, 2.0):
        counts, hospital = stacked(
            simulate(n_patients=6_000, n_hospitals=30, heterogeneity=heterogeneity, rng=0).federation
        )
        shares.append(between_hospitals(counts, hospital))
    assert shares == sorted(shares)
    assert abs(shares[0]) < 0.005, "hospitals that are alike"
    assert shares[2] > 0.1


def test_no_heterogeneity_means_one_profile() -> None:
    simulation = simulate(n_patients=400, n_hospitals=4, heterogeneity=0, rng=0)
    first, *others = (truth.profile for truth in simulation.truth.values())
    for profile in others:
        assert np.array_equal(profile.condition_rates, first.condition_rates)
        assert np.array_equal(profile.item_share, first.item_share)
        assert np.array_equal(profile.condition_shares, first.condition_shares)


def test_intensity_and_stay_spread_do_what_they_say() -> None:
    def mean_and_tail(**asked: float) -> tuple[float, float]:
        values = simulate(n_patients=2_000, n_hospitals=4, rng=0, **asked).federation.pooled().matrix.sum(axis=1)
        return float(values.mean()), float(np.quantile(values, 0.99) / np.median(values))

    usual, calm, busy = mean_and_tail(), mean_and_tail(stay_spread=0.2), mean_and_tail(intensity=2.0)
    assert busy[0] > 1.5 * usual[0]
    assert calm[1] < usual[1] / 1.5


# Bad input


@pytest.mark.parametrize(
    "asked",
    [
        {"n_patients": 0},
        {"n_patients": 10.5},
        {"n_patients": True},
        {"n_hospitals": 0},
        {"n_items": 19},
        {"n_conditions": 1},
        {"n_systems": 0},
        {"smallest": 0},
        {"largest": 39},
        {"n_patients": 8_199},
        {"n_patients": 205 * 13_000 + 1},
        {"structure": "loud"},
        {"structure": 1.01},
        {"structure": math.nan},
        {"structure": None},
        {"heterogeneity": -0.1},
        {"heterogeneity": "much"},
        {"lab_share": 0.95},
        {"intensity": 0},
        {"stay_spread": math.inf},
        {"size_spread": -1},
    ],
)
def test_bad_config_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(BadParameter) as caught:
        HospitalsConfig(**asked)  # type: ignore[arg-type]
    assert caught.value.expected


@pytest.mark.parametrize("scale", [0, -1, math.nan, 1e9])
def test_bad_scale_is_refused(scale: float) -> None:
    with pytest.raises(BadParameter):
        load(scale)


def test_config_and_parameters_together_are_refused() -> None:
    with pytest.raises(BadParameter):
        simulate(HospitalsConfig(), n_patients=100_000)


def test_config_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        HospitalsConfig().n_patients = 5  # type: ignore[misc]
