"""What the server gets: the same numbers as a real release gives, at a fraction of the cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from studies.case import load_case
from studies.frontier.page import HOW
from studies.frontier.release import Sums, _noise_seed, plan_of, prototype_factors, statistic_factors
from studies.frontier.settings import Release, read_frontier
from twofold.federation.secure import SecureSum
from twofold.release.bilinear.mechanism import BilinearNoise
from twofold.release.choose import mechanism

GRAM = Release(name="gram", mechanism="gram", noises=("own", "secure"))


HOSPITALS = read_frontier("tiny").of("hospitals-middle")


@pytest.fixture(scope="module")
def case():
    return load_case(HOSPITALS.case, seed=3)


@pytest.fixture(scope="module")
def base(case):
    return plan_of(case, HOSPITALS)


@pytest.fixture(scope="module")
def sums(case, base):
    return Sums(case=case, base=base, release=GRAM, honest_share=0.9)


def test_own_noise_is_what_the_mechanism_releases(case, sums):
    made = sums.moments("own", 2.0, seed=9)
    public = sums.plan.parameters.with_(epsilon=2.0)
    messages = [
        mechanism("gram").release(rows, public, rng=_noise_seed(9, number)).value
        for number, rows in enumerate(case.rows.values())
    ]
    wanted = mechanism("gram").combine(messages, public)
    assert np.array_equal(made.pairs, wanted.pairs)
    assert (made.users, made.pairs_noise) == (wanted.users, wanted.pairs_noise)


def test_the_sum_has_the_variance_of_all_shares(sums):
    noise = sums.moments("noise only", 1.0, seed=1)
    share = BilinearNoise(public=sums._public("secure", 1.0), layout=sums.layout).deviation
    wanted = share * math.sqrt(len(sums.exact)) * sums.layout.pairs_unit
    assert noise.pairs_noise == pytest.approx(wanted, rel=1e-6)
    drawn = noise.pairs[np.triu_indices(457)]
    assert drawn.std() == pytest.approx(wanted, rel=4 / math.sqrt(2 * drawn.size))
    assert abs(drawn.mean()) < 4 * wanted / math.sqrt(drawn.size)


def test_shares_are_for_fewer_entities_than_there_are(sums):
    """Two entities of which one is counted on: twice the variance of a noise that all of them share."""
    alone = sums.moments("own", 1.0, seed=1)
    together = sums.moments("secure", 1.0, seed=1)
    assert sums._public("secure", 1.0).honest == 1
    assert together.pairs_noise == pytest.approx(
        BilinearNoise(public=sums._public("own", 1.0), layout=sums.layout).deviation
        * math.sqrt(2)
        * sums.layout.pairs_unit,
        rel=1e-6,
    )
    assert alone.pairs_noise > 0


def test_next_to_no_noise_gives_the_exact_sums(sums):
    made = sums.moments("none", 100_000.0, seed=0)
    users = sum(rows.shape[0] for rows in sums.case.rows.values())
    assert made.users == pytest.approx(users, rel=1e-3)
    assert made.pairs_noise < 1e-4 * np.abs(made.pairs).max()


def test_factors_depend_on_the_seed_of_the_noise_and_on_nothing_else(sums):
    one, same, other = (statistic_factors(sums, "secure", 1.0, seed=seed) for seed in (1, 1, 2))
    assert one.hash == same.hash != other.hash
    assert not one.private


def test_prototypes_are_released_by_every_entity(case, base):
    release = Release(name="popularity", mechanism="popularity", noises=("own",))
    found = prototype_factors(case, base, release, 1.0, seed=0)
    assert (found.entities, found.private, found.patterns) == (2, False, None)


def test_features_are_in_the_plan_only_where_a_release_asks_for_them(case, base):
    with_classes = Release(name="gram with classes", mechanism="gram", noises=("secure",), features=True)
    assert Sums(case=case, base=base, release=GRAM, honest_share=0.9).plan.features_table is None
    assert Sums(case=case, base=base, release=with_classes, honest_share=0.9).plan.features_table is not None


@pytest.mark.parametrize(("entities", "gone"), [(205, 18), (50, 3), (10, 0), (5, 0)])
def test_the_drop_outs_that_the_page_speaks_of(entities: int, gone: int):
    """A plan with so many survivors shares its noise among as many as the frontier does; with one less it does not."""
    counted = math.floor(read_frontier("full").honest_share * entities)
    honest = SecureSum(survivors=entities - gone).honest(entities)
    if entities <= 10:  # two participants are never counted, which is more than a tenth
        assert honest == entities - 2
        assert f"{100 * (math.sqrt(counted / honest) - 1):.0f} % larger" in HOW
        return
    assert honest >= counted
    assert SecureSum(survivors=entities - gone - 1).honest(entities) < counted
    assert f"{gone} of {entities}" in " ".join(HOW.split())
