"""Clusters found, and fallbacks, on mixtures."""

from __future__ import annotations

import numpy as np
import pytest

from studies.mechanisms import Mixture, loss, make_mixture
from twofold.privacy.events import flatten
from twofold.release import mechanism
from twofold.release.cells import centres
from twofold.release.sulq import SuLQ


@pytest.fixture(scope="module")
def case() -> Mixture:
    return make_mixture(4000, 20, 5, 2)


@pytest.mark.parametrize("name", ["sulq", "balcan"])
def test_clusters_are_found_where_the_noise_allows(case: Mixture, name: str) -> None:
    public = case.public("20", "0")
    found = centres(mechanism(name).release(case.rows, public, rng=1).value, public)
    assert loss(case.rows, found) / case.best < 1.3


@pytest.mark.parametrize("name", ["sulq", "balcan", "buckets"])
def test_never_worse_than_one_noisy_mean_when_noise_says_it_cannot_be_better(case: Mixture, name: str) -> None:
    public = case.public("0.02", "0")
    one = mechanism("popularity").release(case.rows, public, rng=3)
    other = mechanism(name).release(case.rows, public, rng=3)
    assert other.event == one.event
    assert (other.value.sums == one.value.sums).all()
    assert "one prototype" in other.value.note


def test_the_number_of_steps_is_public_and_falls_with_the_noise(case: Mixture) -> None:
    prices = [SuLQ(steps=3).spec(case.public(eps, "0")).event for eps in ("100", "2", "0.6", "0.02")]
    events = [len(list(flatten(price))) for price in prices]
    assert events == sorted(events, reverse=True)
    assert events[0] == 4
    assert events[-1] == 1


def test_two_clusters_in_one_public_cell_are_parted_by_halving() -> None:
    """With one start cell all clusters collide; one Lloyd step cannot part them, halving does better."""
    case = make_mixture(2000, 20, 2, 0)
    public = case.public("1000000", "0").with_(n_prototypes=2)
    plain, halving = (
        centres(SuLQ(steps=steps, start_cells=1).release(case.rows, public, rng=0).value, public) for steps in (1, 2)
    )
    assert loss(case.rows, halving) <= loss(case.rows, plain) * (1 + 1e-9)
    np.testing.assert_allclose(loss(case.rows, halving) / case.best, 1.0, rtol=0.01)
