"""The automatic choice."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.features import Features
from twofold.release import ReleaseParameters
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.choose import choose, resolve

HOSPITAL = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=1, epsilon=1, n_entities=205)
DRUGS = Features(matrix=np.ones((457, 3), dtype=int), names=("a", "b", "c"))
FILMS = ReleaseParameters(
    n_items=3883,
    n_users=604,
    max_items=1000,
    bound=5,
    lower=1,
    centre=3.6,
    feedback="ratings",
    epsilon=1,
    delta=1e-5,
    n_entities=10,
    features=Features(matrix=np.ones((3883, 18), dtype=int), names=tuple(map(str, range(18)))),
)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"epsilon": "0.1"}, "popularity"),
        ({"epsilon": "0.3"}, "buckets"),
        ({"epsilon": "0.5"}, "buckets"),
        ({"epsilon": 1}, "gram"),
        ({"epsilon": 10}, "gram"),
        ({"epsilon": 1, "delta": 1e-6}, "gram"),
        ({"epsilon": "0.01", "delta": 1e-6}, "popularity"),
        ({"epsilon": "0.03", "delta": 1e-6, "honest": 205}, "gram"),
        ({"epsilon": 1, "delta": 1e-6, "features": DRUGS}, "gram"),
        ({"epsilon": 1, "n_entities": 1}, "popularity"),
        ({"epsilon": 1, "n_prototypes": 1}, "popularity"),
        ({"epsilon": 100, "n_prototypes": 1, "delta": 1e-6}, "popularity"),
    ],
)
def test_the_choice_for_counts_follows_public_numbers(changes: dict[str, object], name: str) -> None:
    choice = choose(HOSPITAL.with_(**changes))
    assert choice.mechanism.name == name
    assert choice.reason.startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "features"),
        ({"honest": 10, "epsilon": "0.1"}, "features"),
        ({"epsilon": "0.1"}, "popularity"),
        ({"features": None}, "popularity"),
        ({"features": None, "epsilon": 10}, "sketch"),
        ({"features": None, "honest": 10}, "sketch"),
    ],
)
def test_the_choice_for_ratings_takes_what_is_known_of_items(changes: dict[str, object], name: str) -> None:
    assert choose(FILMS.with_(**changes)).mechanism.name == name


def test_clusters_of_an_entitys_own_where_a_catalog_has_too_many_pairs() -> None:
    """A sketch of so many columns is no message either; what is left are prototypes."""
    wide = ReleaseParameters(n_items=40_000, n_users=10**7, max_items=10, bound=1, n_prototypes=1000, epsilon=100)
    assert choose(wide).mechanism.name == "balcan"
    assert choose(wide.with_(delta=1e-6)).mechanism.name == "sulq"


def test_what_is_chosen_does_not_fall_back_further() -> None:
    for epsilon in ("0.03", "0.1", "0.3", 1, 3, 10, 30, 100):
        for delta in (0, 1e-6):
            public = HOSPITAL.with_(epsilon=epsilon, delta=delta)
            chosen = choose(public).mechanism
            expected = {"popularity": 1, "buckets": 120, "gram": 1}
            assert chosen.spec(public).rows == expected[chosen.name]


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", 10])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_under_a_secure_sum_only_what_can_be_added_up_is_chosen(epsilon: object, delta: float) -> None:
    public = HOSPITAL.with_(epsilon=epsilon, delta=delta, honest=100, n_prototypes=1)
    choice = choose(public)
    assert isinstance(choice.mechanism, Bilinear)
    assert ("too much" in choice.reason) == (epsilon == "0.001")


def test_auto_is_resolved_once_to_the_mechanism_it_chooses() -> None:
    public = ReleaseParameters(n_items=20, n_users=10**5, max_items=5, bound=1, epsilon=1, delta=1e-6)
    found, chosen = resolve("auto", public), choose(public)
    assert (found.mechanism.name, found.reason) == ("gram", chosen.reason)
    assert found.mechanism.spec(public).event == chosen.mechanism.spec(public).event
    assert found.mechanism.spec(public).rows == 1
    named = resolve("sulq", public)
    assert (named.mechanism.name, named.reason) == ("sulq", "")
