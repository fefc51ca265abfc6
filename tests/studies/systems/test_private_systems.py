"""Systems with a promise: what they charge, and what they become when ε goes to infinity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from studies.systems import NAMES, system
from studies.systems.factorization import item_means
from twofold.data.federation import Federation
from twofold.data.sources import hospitals
from twofold.privacy.accountant import price, spent
from twofold.privacy.budget import NotPrivate, PureDP
from twofold.privacy.events import flatten

WITH_A_PROMISE = ("prototypes-sulq", "adapted-buckets", "popularity-private", "mcsherry-mironov")


@pytest.fixture(scope="module")
def federation() -> Federation:
    """Two hospitals whose people have at most a hundred items, five of each."""
    return hospitals.load(0.002, n_hospitals=2)


def fit(name: str, federation: Federation, **options: Any) -> Any:
    return system(name, **options).fit(federation, feedback="counts", seed=0)


@pytest.mark.parametrize("name", WITH_A_PROMISE)
def test_the_price_of_the_events_is_the_promised_epsilon(name: str, federation: Federation) -> None:
    fitted = fit(name, federation, epsilon="3/2")
    assert fitted.epsilon == 1.5
    assert fitted.delta == 0
    assert price(fitted.event, as_if_private=True) == PureDP(epsilon="3/2")
    assert isinstance(price(fitted.event), NotPrivate)  # drawn from a seed, and it says so
    assert all(one.unit.holder == "person" for one in flatten(fitted.event))


@pytest.mark.parametrize("name", WITH_A_PROMISE)
def test_with_a_delta_the_gaussian_events_stay_within_epsilon(name: str, federation: Federation) -> None:
    fitted = fit(name, federation, epsilon=2, delta=1e-6)
    assert 1.9 < spent(fitted.event, delta=1e-6, as_if_private=True).epsilon <= 2


def test_the_ladder_under_a_secure_sum_costs_what_it_says(federation: Federation) -> None:
    fitted = fit("ladder-secure", federation, epsilon=2)
    assert 1.9 < spent(fitted.event, delta=fitted.delta, as_if_private=True).epsilon <= 2
    assert isinstance(price(fitted.event), NotPrivate)


def test_what_is_called_private_is_exactly_what_has_a_price() -> None:
    private = {name for name in NAMES if system(name).private}
    made = {
        f"{kind}-{name}"
        for kind in ("prototypes", "adapted")
        for name in ("auto", "balcan", "sulq", "buckets", "popularity")
    }
    assert private == made | {"popularity-private", "mcsherry-mironov", "ladder-secure", "synthetic-rows"}
    assert not system("mcsherry-mironov", curator=True).private


def test_private_popularity_tends_to_the_exact_means(federation: Federation) -> None:
    """Within the bounds of the plan nothing but the noise stands between the two."""
    wide = {"max_items": 457, "bound": 1000.0}
    rows = federation.pooled().matrix
    label = next(iter(federation))
    exact = item_means(rows, "counts")
    errors = [
        np.abs(fit("popularity-private", federation, epsilon=epsilon, **wide).scores(label, rows[:1])[0] - exact).max()
        for epsilon in (10**4, 10**8)
    ]
    assert errors[1] < 0.2
    assert errors[0] > 10 * errors[1]


def test_a_curator_keeps_the_event_but_makes_no_promise(federation: Federation) -> None:
    fitted = fit("mcsherry-mironov", federation, epsilon=1, curator=True, items=20)
    assert fitted.epsilon is None
    assert price(fitted.event, as_if_private=True) == PureDP(epsilon=1)
    assert "raw rows" in fitted.note
