"""What one bilinear message may weigh."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from twofold.release.bilinear.combine import combine_bilinear, plausible_sums
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.contract import ReleaseParameters

PUBLIC = ReleaseParameters(
    n_items=20, n_users=50, max_items=8, bound=3, epsilon=1, delta=1e-6, n_entities=3, n_prototypes=4
)


def rows(users: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).poisson(0.4, size=(users, PUBLIC.n_items))


@pytest.mark.parametrize("kind", ["gram", "sketch"])
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("epsilon", [0.01, 1, 10**6])
def test_an_honest_message_stays_as_it_is(kind, delta, epsilon):
    public = PUBLIC.with_(delta=delta, epsilon=epsilon)
    mechanism = Bilinear(kind=kind)
    for users in (0, 1, 50, 2_000):
        sent = mechanism.release(rows(users, 1), public, rng=users).value
        assert plausible_sums(sent, mechanism.layout(public), public) is sent


@pytest.mark.parametrize("where", ["count", "pairs", "sums", "all"])
def test_a_liar_weighs_no_more_than_a_hundred_times_the_promise(where):
    mechanism, public = Bilinear(kind="gram"), PUBLIC
    layout = mechanism.layout(public)
    honest = [mechanism.release(rows(50, seed), public, rng=seed).value for seed in (1, 2)]
    numbers = mechanism.release(rows(50, 3), public, rng=3).value.numbers.copy()
    places = slice(None) if where == "all" else getattr(layout, where)
    numbers[places] = 2**45
    liar = replace(honest[0], numbers=numbers)
    found = plausible_sums(liar, layout, public)
    users = found.numbers[layout.count][0] * layout.count_unit
    noise = honest[0].deviation
    assert users <= 100 * public.n_users + 21 * noise * layout.count_unit
    length = np.linalg.norm(found.numbers.astype(float))
    said = min(numbers[layout.count][0] * layout.count_unit, 100 * public.n_users)
    most = (max(said, 0) + 42 * noise * layout.count_unit + 2) * layout.sensitivity**0.5
    assert length <= most + noise * (layout.length**0.5 + 21) + layout.length**0.5
    assert np.isfinite(combine_bilinear([*honest, liar], public).pairs).all()
