"""What a sender writes is believed as far as public numbers allow, and an honest sender never notices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from twofold.release import Prototypes, ReleaseParameters, mechanism
from twofold.release.combine import MOST_TIMES, plausible, weighted_rows

COUNTS = ReleaseParameters(n_items=30, n_users=5, max_items=4, bound=5, n_prototypes=2, epsilon=8)
PUBLICS = {
    "counts": COUNTS,
    "gaussian": COUNTS.with_(delta=1e-6),
    "ratings": COUNTS.with_(feedback="ratings", lower=1, centre=3),
    "gaussian ratings": COUNTS.with_(feedback="ratings", lower=1, centre=3, delta=1e-6),
}
LARGEST = (2**63 - 1) // 10_000


def largest_rows(public: ReleaseParameters, number: int) -> np.ndarray:
    """Users who all say as much as one user can, about the same items."""
    rows = np.zeros((number, public.n_items))
    rows[:, : public.max_items] = public.bound
    return rows


def sent(public: ReleaseParameters, name: str = "popularity", number: int = 7) -> Prototypes:
    return mechanism(name).release(largest_rows(public, number), public, rng=0).value


@pytest.mark.parametrize("epsilon", [0.01, 1, 1000])
@pytest.mark.parametrize("name", ["popularity", "buckets", "sulq", "balcan"])
@pytest.mark.parametrize("public", PUBLICS.values(), ids=list(PUBLICS))
def test_honest_messages_stay_as_they_are(public: ReleaseParameters, name: str, epsilon: float) -> None:
    public = public.with_(epsilon=epsilon)
    for number in (0, 1, MOST_TIMES * public.n_users):  # a hundred times as many as promised
        message = sent(public, name, number)
        assert plausible(message, public) is message, number


@pytest.mark.parametrize("public", PUBLICS.values(), ids=list(PUBLICS))
def test_more_than_that_loses_weight_and_keeps_its_means(public: ReleaseParameters) -> None:
    public = public.with_(epsilon=1000)
    message = sent(public, number=3 * MOST_TIMES * public.n_users)
    found = plausible(message, public)
    share = found.user_counts() / message.user_counts()
    assert share == pytest.approx([1 / 3], rel=0.02)
    same = found.value_sums() / found.user_counts()[:, None]
    assert same == pytest.approx(message.value_sums() / message.user_counts()[:, None], abs=0.01)


@pytest.mark.parametrize("size", [LARGEST, -LARGEST])
@pytest.mark.parametrize("part", ["sums", "counts", "observed", "all"])
@pytest.mark.parametrize("public", PUBLICS.values(), ids=list(PUBLICS))
def test_no_number_weighs_more_than_a_hundred_times_the_promise(
    public: ReleaseParameters, part: str, size: int
) -> None:
    message = sent(public)
    names = ("sums", "counts", "observed") if part == "all" else (part,)
    lies = {name: np.full_like(old, size) for name in names if (old := getattr(message, name)) is not None}
    found = plausible(replace(message, **lies), public)
    users = MOST_TIMES * public.n_users + 21 * message.noise.counts
    assert abs(found.user_counts()).sum() <= users * (1 + 1e-6)
    room = (users + 20 * message.noise.counts) * public.row_l1
    assert np.linalg.norm(found.value_sums()) <= room + 21 * public.n_items * message.noise.values
    rows = weighted_rows([replace(message, **lies)], public)
    assert rows.row_weights.sum() <= users * (1 + 1e-6)
    if rows.entry_weights is not None:
        of_noise = (public.n_items + 20 * public.n_items**0.5) * message.noise.observed
        assert rows.entry_weights.sum() <= (users + 20 * message.noise.counts) * public.row_items + of_noise


def test_a_large_negative_count_cannot_wipe_out_those_of_others() -> None:
    message = sent(COUNTS)
    found = plausible(replace(message, counts=np.array([-LARGEST])), COUNTS)
    assert found.user_counts()[0] == pytest.approx(-20 * message.noise.counts, abs=message.units.counts)


def test_a_simulation_without_noise_is_left_as_it_is() -> None:
    message = sent(COUNTS, "exact", 3 * MOST_TIMES * COUNTS.n_users)
    assert plausible(message, COUNTS) is message
