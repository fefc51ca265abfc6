"""The numbers of the frontier: what the file says and how sizes change it."""

from __future__ import annotations

import pytest

from studies.frontier.settings import SIZES, read_frontier
from tests.refused import refused
from twofold.errors import BadParameter
from twofold.release.choose import NOT_PRIVATE


@pytest.mark.parametrize("size", SIZES)
def test_every_size_can_be_read(size):
    grid = read_frontier(size)
    assert grid.development < grid.first_seed
    assert grid.data
    assert all(release.noises for one in grid.data for release in one.releases)
    assert not any(release.mechanism in NOT_PRIVATE for one in grid.data for release in one.releases)
    assert all({"own", "secure"} >= set(release.noises) for one in grid.data for release in one.releases)


def test_the_full_size_has_the_whole_grid():
    grid = read_frontier("full")
    assert min(one.seeds for one in grid.data) >= 2
    assert grid.size.epsilons == (0.1, 0.3, 1.0, 3.0, 10.0)
    assert len(grid.data) == 11
    assert all(one.headline in {release.name for release in one.releases} for one in grid.data)
    assert {one.delta for one in grid.data if one.source == "movielens"} == {1e-5}
    assert all(release.features for one in grid.data if one.features for release in one.releases
               if release.name == one.headline)  # fmt: skip
    assert {one.data for one in grid.targets} <= {one.name for one in grid.data}


def test_own_noise_is_run_at_fewer_prices():
    grid = read_frontier("full")
    assert set(grid.epsilons("own")) < set(grid.epsilons("secure"))


def test_a_data_set_may_have_fewer_seeds():
    grid = read_frontier("full")
    strong, middle = (grid.of(f"hospitals-{name}") for name in ("strong", "middle"))
    assert len(grid.seeds(strong)) < len(grid.seeds(middle)) == grid.size.seeds
    assert list(grid.seeds(strong, 1)) == [grid.first_seed]


def test_a_data_set_takes_over_what_it_does_not_say():
    strong, middle = (read_frontier("full").of(f"hospitals-{name}") for name in ("strong", "middle"))
    assert dict(strong.options) == {**dict(middle.options), "structure": "strong"}
    assert strong.bound == middle.bound
    implicit = read_frontier("full").of("movielens-zip3-implicit")
    assert (implicit.feedback, implicit.lower, implicit.bound, implicit.metric) == ("counts", 0, 1, "ndcg")


def test_small_sizes_measure_fewer():
    assert read_frontier("quick").of("hospitals-middle").users < read_frontier("full").of("hospitals-middle").users
    assert dict(read_frontier("tiny").of("hospitals-middle").options)["scale"] < 0.05


def test_what_is_not_there_is_refused():
    with refused(BadParameter, None, found="'huge'", expected="tiny, quick, full"):
        read_frontier("huge")
    with refused(BadParameter, None, found="'jester'", expected="hospitals-middle"):
        read_frontier("tiny").of("jester")
