"""The noise control: item factors made from noise must be worth nothing, and fitting users must not change them.

The recorded experiments of the paper failed both: the item factors were refitted on raw data, so prototypes of pure
noise scored as well as any (acceptance tests 7 and 8 of the audit).
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np
import pytest

from studies.mean_rank import mean_rank
from twofold import Bounds, Federation, fold_in, holdout, masked_nmf
from twofold.data.sources import hospitals
from twofold.data.split import Split
from twofold.release.choose import PRIVATE, mechanism
from twofold.release.contract import ReleaseParameters

RANK = 8
DRAWS = 16


@cache
def split() -> Split[Federation]:
    federation = hospitals.simulate(n_patients=1500, n_hospitals=4, rng=3).federation
    bounds = Bounds(bound=5, max_items=60)
    return holdout(Federation({name: bounds.apply(ratings)[0] for name, ratings in federation.items()}), rng=3)


def public() -> ReleaseParameters:
    """A promise so large that no mechanism falls back to one profile: each takes its own road."""
    return ReleaseParameters(
        n_items=457, n_users=200_000, max_items=60, bound=5, epsilon=1, n_prototypes=8, n_entities=4
    )


def item_factors(name: str, *, empty: bool = False, draw: int = 0) -> Any:
    """Round 1 at every hospital, then the factorization; `empty` leaves nothing but the noise."""
    chosen, asked = mechanism(name), public()
    messages = []
    for seed, ratings in enumerate(split().train.values(), start=100 * draw):
        rows = ratings.matrix[:0] if empty else ratings.matrix
        messages.append(chosen.release(rows, asked, rng=seed).value)
    # The sums as sent, not the server's weighted rows: of nobody's prototypes it would rightly weigh none.
    rows = np.vstack([message.value_sums() for message in messages])
    return masked_nmf(rows / np.abs(rows).max(), rank=RANK, regularization=1e-3, rng=0)[1]


def digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def score(V: Any) -> float:
    """Mean rank over all hospitals with V frozen; checks bit by bit that it was."""
    before, ranks, weights = digest(V), [], []
    for name, train in split().train.items():
        users = fold_in(train.matrix, V, feedback="counts")
        ranks.append(mean_rank(users, V, split().test[name].matrix, seen=train.matrix))
        weights.append(float(split().test[name].matrix.sum()))
    assert digest(V) == before
    return float(np.average(ranks, weights=weights))


@pytest.mark.parametrize("name", PRIVATE)
def test_prototypes_of_nobody_rank_like_chance(name: str) -> None:
    """Only noise reaches the server: the lists are random ones. One draw scatters by 0.05 around chance."""
    scores = [score(item_factors(name, empty=True, draw=draw)) for draw in range(DRAWS)]
    assert np.mean(scores) == pytest.approx(0.5, abs=4 * 0.05 / np.sqrt(DRAWS))


def test_noise_as_prototypes_ranks_like_chance() -> None:
    draws = np.random.default_rng(0).uniform(-1, 1, size=(DRAWS, 32, 457))
    scores = [score(masked_nmf(noise, rank=RANK, regularization=1e-3, rng=0)[1]) for noise in draws]
    assert np.mean(scores) == pytest.approx(0.5, abs=4 * 0.05 / np.sqrt(DRAWS))


def test_exact_prototypes_are_worth_something() -> None:
    """The same road with nothing hidden: if this too were chance, the two tests above would say nothing."""
    assert score(item_factors("kmeans")) < 0.1
