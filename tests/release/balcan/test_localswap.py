"""Private swaps: exact losses by bookkeeping, the enumerated law and loss, and the right direction."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.refused import refused
from twofold.algorithms._jit import without_numba
from twofold.errors import BadParameter, BadPrivacyParameter, BadShape
from twofold.privacy.accountant import price
from twofold.privacy.audit import privacy_loss
from twofold.privacy.audit.exact_checks import selection_law
from twofold.privacy.budget import PureDP
from twofold.privacy.rng import source
from twofold.privacy.unit import Unit
from twofold.release.balcan.projection import RADIUS, clip_to_ball
from twofold.release.balcan.swaps import (
    LARGEST_LOSS,
    _edges,
    localswap,
    localswap_event,
    nearest_centers,
    public_start,
    swap_losses,
)

PERSON = Unit.person()
Path = tuple[Any, ...]


def in_ball(n: int, p: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return clip_to_ball(np.rint(rng.standard_normal((n, p)) * RADIUS / 2).astype(np.int64))


def brute(points: np.ndarray, spots: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    table = np.empty((len(chosen), len(spots)), dtype=np.int64)
    for out in range(len(chosen)):
        for into in range(len(spots)):
            now = spots[[*np.delete(chosen, out), into]]
            table[out, into] = ((points[:, None] - now[None]) ** 2).sum(axis=2).min(axis=1).sum()
    return table


@pytest.mark.parametrize(("n", "k", "count", "p"), [(300, 4, 9, 3), (2500, 3, 70, 2), (5, 1, 4, 1), (0, 2, 3, 2)])
def test_losses_are_those_of_every_swap(n: int, k: int, count: int, p: int) -> None:
    points, spots = in_ball(n, p, 0), in_ball(count, p, 1)
    chosen = np.random.default_rng(2).integers(count, size=k)
    expected = brute(points, spots, chosen)
    assert (swap_losses(points, spots, chosen) == expected).all()
    assert (swap_losses(points, spots, chosen, threads=1) == expected).all()
    with without_numba():
        assert (swap_losses(points, spots, chosen) == expected).all()


def test_losses_are_exact_at_the_edge_of_the_ball() -> None:
    points = np.array([[RADIUS, 0]] * 4097)
    assert swap_losses(points, [[-RADIUS, 0], [RADIUS, 0]], [0])[0].tolist() == [4097 * LARGEST_LOSS, 0]


def exact_paths(
    points: np.ndarray, spots: np.ndarray, start: list[int], epsilon: float, swaps: int
) -> dict[Path, float]:
    """Law of all that may be seen: every swap and the last pick, written from the definition."""
    scale = LARGEST_LOSS * (swaps + 1) / epsilon

    def walk(chosen: list[int], left: int, losses: list[int]) -> dict[Path, float]:
        table = brute(points, spots, np.array(chosen))
        here = [*losses, int(table[0, chosen[0]])]
        if left == 0:
            return dict(selection_law([-loss for loss in here], scale, 1))
        joint: dict[Path, float] = {}
        for (taken,), chance in selection_law((-table.ravel()).tolist(), scale, 1).items():
            after = list(chosen)
            after[taken // len(spots)] = taken % len(spots)
            for rest, further in walk(after, left - 1, here).items():
                joint[(taken, *rest)] = chance * further
        return joint

    return walk(start, swaps, [])


def test_privacy_loss_of_all_swaps_by_enumeration() -> None:
    """Many users at one end and one more at the other: a path that prefers the other end gains all of ε."""
    epsilon, swaps = 1.0, 2
    spots = np.array([[RADIUS], [-RADIUS]])
    data = np.array([[RADIUS]] * 60)
    neighbour = np.concatenate([data, [[-RADIUS]]])
    laws = [exact_paths(one, spots, [0], epsilon, swaps) for one in (data, neighbour)]
    assert [sum(law.values()) for law in laws] == pytest.approx([1, 1])
    assert 0.99 * epsilon <= privacy_loss(*laws) <= epsilon * (1 + 1e-9)
    replaced = exact_paths(np.concatenate([data, [[RADIUS]]]), spots, [0], epsilon, swaps)
    assert 1.98 * epsilon <= privacy_loss(laws[1], replaced) <= 2 * epsilon * (1 + 1e-9)  # replace-one: twice


@pytest.mark.parametrize("seed", range(4))
def test_privacy_loss_never_exceeds_epsilon(seed: int) -> None:
    data = in_ball(6, 2, seed)
    spots = in_ball(3, 2, seed + 50)
    neighbour = np.concatenate([data, in_ball(1, 2, seed + 99)])
    laws = [exact_paths(one, spots, [0, 1], 3.0, 2) for one in (data, neighbour)]
    assert 0 < privacy_loss(*laws) <= 3.0


def test_swaps_have_the_enumerated_law() -> None:
    points, spots, runs = in_ball(5, 1, 3), np.array([[-3000], [0], [2500]]), 3000
    law: Counter[tuple[int, ...]] = Counter()
    for path, chance in exact_paths(points, spots, [0], 6.0, 2).items():
        visited = [0, path[0], path[1]]
        law[(visited[path[2]],)] += chance
    noise = source(4)
    settings: dict[str, Any] = {"epsilon": 6, "n_clusters": 1, "swaps": 2, "unit": PERSON, "start": [0], "threads": 1}
    found = Counter(tuple(localswap(points, spots, **settings, rng=noise).value.tolist()) for _ in range(runs))
    assert min(law.values()) > 0.02
    for outcome, chance in law.items():
        assert abs(found[outcome] / runs - chance) < 5 * math.sqrt(chance * (1 - chance) / runs)


def test_a_large_budget_finds_the_best_centers() -> None:
    groups = np.array([[3000, 0], [-3000, 0], [0, 3000], [0, -3000]])
    points = clip_to_ball(np.repeat(groups, 200, axis=0) + np.random.default_rng(0).integers(-50, 50, (800, 2)))
    spots = np.concatenate([groups, in_ball(20, 2, 5)])
    found = localswap(points, spots, epsilon=1e6, n_clusters=4, swaps=6, unit=PERSON, start=[20, 21, 22, 23], rng=0)
    assert sorted(found.value.tolist()) == [0, 1, 2, 3]


def test_the_last_pick_prefers_small_losses() -> None:
    """From the best start, with picks sure of themselves, the start or something as good is returned."""
    points = np.array([[0, 0]] * 50)
    found = localswap(points, [[0, 0], [4000, 0]], epsilon=1e5, n_clusters=1, swaps=3, unit=PERSON, start=[0], rng=1)
    assert found.value.tolist() == [0]


def test_events_add_up_and_state_public_numbers() -> None:
    settings: dict[str, Any] = {"epsilon": "1/7", "n_clusters": 3, "swaps": 5, "unit": PERSON}
    one = localswap(in_ball(40, 2, 0), in_ball(7, 2, 1), **settings, most_candidates=100, rng=3)
    two = localswap(in_ball(39, 2, 0), in_ball(9, 2, 1), **settings, most_candidates=100, rng=3)
    assert one.event == two.event == localswap_event(**settings, candidates=100, seeded=True)
    assert price(one.event, as_if_private=True) == PureDP(epsilon="1/7")


@pytest.mark.parametrize("users", [0, 1, 2])
def test_few_users_and_few_candidates_take_the_same_path(users: int) -> None:
    found = localswap(in_ball(users, 2, 0), [[0, 0], [1, 1]], epsilon=1, n_clusters=5, swaps=2, unit=PERSON, rng=0)
    assert found.value.shape == (5,)
    assert set(found.value.tolist()) <= {0, 1}


def test_labels_are_the_nearest_and_ties_go_low() -> None:
    points, centers = in_ball(500, 3, 0), in_ball(6, 3, 1)
    distances = ((points[:, None] - centers[None]) ** 2).sum(axis=2)
    assert (nearest_centers(points, centers) == distances.argmin(axis=1)).all()
    assert nearest_centers([[5]], [[0], [10], [0]]).tolist() == [0]


def test_a_start_sees_where_the_weights_are() -> None:
    spots = np.array([[-3000, 0], [-2900, 0], [3000, 0], [2900, 0], [0, 4000]])
    assert sorted(public_start(spots, [9, 0, 0, 9, 0], 2).tolist()) == [0, 3]
    assert sorted(public_start(spots, [0, 0, 0, 0, 0], 5).tolist()) == [0, 1, 2, 3, 4]
    assert len(set(public_start(spots, [1, 0, 0, 0, 0], 3).tolist())) == 3  # one full cell, three different starts


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"points": [[RADIUS, RADIUS]]}, BadPrivacyParameter),
        ({"candidates": [[RADIUS, RADIUS]]}, BadPrivacyParameter),
        ({"candidates": np.zeros((0, 2), dtype=int)}, BadShape),
        ({"candidates": [[0, 0, 0]]}, BadShape),
        ({"start": [0]}, BadShape),
        ({"start": [0, 7]}, BadShape),
        ({"swaps": 0}, BadParameter),
        ({"n_clusters": 0}, BadParameter),
        ({"epsilon": 0}, BadPrivacyParameter),
        ({"most_candidates": 1}, BadParameter),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    settings: dict[str, Any] = {
        "points": [[0, 0]],
        "candidates": [[0, 0], [1, 1]],
        "epsilon": 1,
        "n_clusters": 2,
        "swaps": 2,
    }
    settings |= changes
    with pytest.raises(error):
        localswap(settings.pop("points"), settings.pop("candidates"), **settings, unit=PERSON)


def test_a_start_needs_candidates() -> None:
    with pytest.raises(BadShape):
        public_start([[0, 0]], [1], 2)


@pytest.mark.parametrize("users", [0, 1, 1023, 5000, 2**26, 2**27 + 1, 2**31 + 5])
def test_blocks_hold_every_user_once_and_stay_small_enough_for_exact_sums(users: int) -> None:
    edges = _edges(users)
    assert edges[0] == 0
    assert edges[-1] == users
    assert (np.diff(edges) >= 0).all()
    assert np.diff(edges).max() * LARGEST_LOSS <= 2**53


def test_losses_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    points, spots = in_ball(50, 2, 0), in_ball(6, 2, 1)
    whole = swap_losses(points, spots, [0, 3])
    monkeypatch.setattr("twofold.release.balcan.swaps._BLOCK_USERS", 7)
    assert (swap_losses(points, spots, [0, 3]) == whole).all()


def test_a_point_whose_square_wraps_64_bits_is_outside_the_ball() -> None:
    with refused(BadPrivacyParameter, "points"):
        swap_losses([[2**32, 0]], [[0, 0], [1, 1]], [0])
