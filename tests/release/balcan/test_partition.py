"""The private tree: every level partitions the users, empty cells open by the right law, and the budget adds up."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from twofold.errors import BadPrivacyParameter, BadShape
from twofold.privacy.accountant import price
from twofold.privacy.audit import privacy_loss
from twofold.privacy.audit.exact_checks import threshold_law
from twofold.privacy.budget import PureDP
from twofold.privacy.mechanisms import PrivateThreshold, least_threshold
from twofold.privacy.rng import source
from twofold.privacy.unit import Unit
from twofold.release.balcan.projection import RADIUS, clip_to_ball
from twofold.release.balcan.tree import SIDE_BITS, candidate, candidate_event, cell_codes, private_partition

PERSON = Unit.person()


def some_points(n: int, p: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return clip_to_ball(np.rint(rng.standard_normal((n, p)) * RADIUS / 3).astype(np.int64))


def test_every_level_partitions_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int, Any]] = []
    plain = PrivateThreshold.release

    def spy(self: PrivateThreshold, *, codes: Any, counts: Any, cells: int, rng: Any) -> Any:
        opened = plain(self, codes=codes, counts=counts, cells=cells, rng=rng)
        held = dict(zip(np.asarray(codes).tolist(), np.asarray(counts).tolist(), strict=True))
        seen.append((sum(held.values()), sum(held.get(code, 0) for code in opened.value.tolist()), held))
        return opened

    monkeypatch.setattr(PrivateThreshold, "release", spy)
    users = 3000
    private_partition(some_points(users, 3), epsilon=40, depth=5, threshold=5, unit=PERSON, rng=0)
    assert len(seen) == 5
    inside = users
    for counted, kept, _ in seen:
        assert counted == inside  # the users of all open cells, each once: none lost, none counted twice
        inside = kept
    assert 0 < seen[-1][0] < users
    assert max(len(held) for _, _, held in seen) > 50


def test_cells_are_the_geometric_ones() -> None:
    points, corner = some_points(400, 2, seed=1), np.array([-2 * RADIUS - 77, -2 * RADIUS + 1234])
    offsets = points - corner
    for level in (1, 2, 4):
        half = 2 ** (SIDE_BITS - level)
        expected = (offsets // half) % 2
        assert (cell_codes(offsets, level) == expected @ np.array([1, 2])).all()


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_root_holds_the_ball_wherever_it_is_shifted(sign: int) -> None:
    ends = np.array([[RADIUS, 0], [-RADIUS, 0], [0, RADIUS], [0, -RADIUS]] * 200)
    shift = np.full(2, sign * RADIUS)
    found = private_partition(ends, epsilon=80, depth=4, threshold=20, unit=PERSON, shift=shift, rng=0)
    for corner in ends[:4]:  # each end has an open cell of the last level, side RADIUS/4, around it
        assert np.abs(found.value.points - corner).max(axis=1).min() <= RADIUS / 8 + 1


def test_a_large_budget_opens_exactly_the_full_cells() -> None:
    crowd = np.array([[100, 100]] * 60 + [[-3000, 200]] * 40 + [[0, -3000]] * 5)
    found = private_partition(crowd, epsilon=300, depth=3, threshold=20, unit=PERSON, rng=1)
    leaves = found.value.points[found.value.weights > 0]
    assert leaves.tolist() == [[-3072, 1024], [1024, 1024]]


def exact_tree(points: np.ndarray, epsilon: float, depth: int, threshold: int) -> dict[tuple[Any, ...], float]:
    """Law of all opened cells of a tree in one dimension, written from the definition."""

    def grow(cells: tuple[int, ...], level: int) -> dict[tuple[Any, ...], float]:
        if level > depth or not cells:
            return {(): 1.0}
        children = [2 * cell + side for cell in cells for side in (0, 1)]
        index = (points[:, 0] + 2 * RADIUS) >> (SIDE_BITS - level)
        law = threshold_law([int((index == child).sum()) for child in children], depth / epsilon, threshold)
        joint: dict[tuple[Any, ...], float] = {}
        for outcome, chance in law.items():
            opened = tuple(child for child, is_open in zip(children, outcome, strict=True) if is_open)
            for rest, further in grow(opened, level + 1).items():
                joint[(opened, *rest)] = joint.get((opened, *rest), 0.0) + chance * further
        return joint

    return grow((0,), 1)


def test_privacy_loss_of_a_whole_tree_by_enumeration() -> None:
    epsilon, depth, threshold = 2.0, 2, 8
    data = np.array([[-3000]] * 2 + [[500]] * 14)
    neighbour = np.concatenate([data, [[-3000]]])
    laws = [exact_tree(one, epsilon, depth, threshold) for one in (data, neighbour)]
    assert [sum(law.values()) for law in laws] == pytest.approx([1, 1])
    loss = privacy_loss(*laws)
    assert 0.99 * epsilon <= loss <= epsilon * (1 + 1e-9)
    replaced = np.concatenate([data, [[3500]]])  # the added one stands elsewhere: two cells change
    loss = privacy_loss(laws[1], exact_tree(replaced, epsilon, depth, threshold))
    assert 1.5 * epsilon <= loss <= 2 * epsilon


def test_the_tree_has_the_enumerated_law() -> None:
    epsilon, depth, threshold, runs = 2.0, 2, 1, 4000
    data = np.array([[-3000]] * 2 + [[500]] * 3)
    law = exact_tree(data, epsilon, depth, threshold)
    by_centers: dict[tuple[int, ...], float] = Counter()
    for opened, chance in law.items():
        spots = {0}
        for level, cells in enumerate(opened, start=1):
            spots |= {-2 * RADIUS + ((2 * cell + 1) << (SIDE_BITS - level - 1)) for cell in cells}
        by_centers[tuple(np.unique(clip_to_ball(np.array(sorted(spots))[:, None])).tolist())] += chance
    noise = source(7)
    found = Counter(
        tuple(
            private_partition(data, epsilon=epsilon, depth=depth, threshold=threshold, unit=PERSON, rng=noise)
            .value.points.ravel()
            .tolist()
        )
        for _ in range(runs)
    )
    assert set(found) <= set(by_centers)
    chi = sum((found[key] - runs * chance) ** 2 / (runs * chance) for key, chance in by_centers.items())
    assert chi < len(by_centers) + 5 * math.sqrt(2 * len(by_centers))


@pytest.mark.parametrize("p", [2, 4, 6])
def test_empty_cells_open_as_enumeration_says(p: int) -> None:
    runs, epsilon = 3000, Fraction(1)
    threshold = least_threshold(cells=2**p, epsilon=epsilon, expected=1)
    ratio = math.exp(-1)
    q = ratio ** (threshold + 1) / (1 + ratio)  # P(0 + noise > threshold)
    noise, hits, pairs = source(p), Counter(), 0
    corners = {tuple(clip_to_ball(np.array([one]) * RADIUS)[0].tolist()): one for one in product((-1, 1), repeat=p)}
    sizes = []
    for _ in range(runs):
        none = np.zeros((0, p), dtype=np.int64)
        found = private_partition(none, epsilon=epsilon, depth=1, threshold=threshold, unit=PERSON, rng=noise)
        opened = {corners[tuple(one)] for one in found.value.points.tolist() if any(one)}
        hits.update(opened)
        sizes.append(len(opened))
        pairs += {(1,) * p, (-1,) * p} <= opened
    deviation = [abs(hits[cell] / runs - q) for cell in corners.values()]
    assert max(deviation) < 5 * math.sqrt(q * (1 - q) / runs)
    expected = 2**p * q * (1 - q)  # variance of the number opened: independent cells
    assert np.var(sizes) == pytest.approx(expected, rel=0.2)
    assert abs(pairs / runs - q**2) < 5 * q / math.sqrt(runs)


def test_empty_cells_open_below_empty_cells() -> None:
    threshold = least_threshold(cells=4, epsilon=1, expected=1)
    noise, reached = source(3), 0
    for _ in range(1500):
        none = np.zeros((0, 2), dtype=np.int64)
        found = private_partition(none, epsilon=2, depth=2, threshold=threshold, unit=PERSON, rng=noise)
        reached += len(found.value.points) > 2
    assert reached > 0


def test_events_add_up_to_the_budget_and_do_not_depend_on_data() -> None:
    settings: dict[str, Any] = {"epsilon": "3/10", "depth": 5, "threshold": 900, "unit": PERSON, "trees": 3}
    one = candidate(some_points(400, 4), **settings, least=10, rng=5)
    two = candidate(some_points(399, 4), **settings, least=10, rng=5)
    assert one.event == two.event == candidate_event(**settings, dimension=4, seeded=True)
    assert price(one.event, as_if_private=True) == PureDP(epsilon="3/10")


def test_candidates_are_distinct_in_the_ball_and_enough() -> None:
    found = candidate(np.zeros((0, 3), dtype=int), epsilon=1, depth=2, threshold=99, unit=PERSON, least=25, rng=0)
    points = found.value.points
    assert len(points) >= 25
    assert len(np.unique(points, axis=0)) == len(points)
    assert ((points**2).sum(axis=1) <= RADIUS**2).all()
    again = candidate(np.zeros((0, 3), dtype=int), epsilon=1, depth=2, threshold=99, unit=PERSON, least=25, rng=1)
    assert (again.value.points == points).all()  # padding is public: other noise, same points


def test_a_tree_that_grows_too_wide_ends() -> None:
    points = some_points(4000, 3)
    wide = private_partition(points, epsilon=100, depth=5, threshold=3, unit=PERSON, rng=0)
    short = private_partition(points, epsilon=100, depth=5, threshold=3, unit=PERSON, rng=0, most_cells=100)
    assert len(wide.value.points) > 100 >= len(short.value.points)
    assert wide.event == short.event


def test_a_threshold_that_lets_empty_cells_breed_is_refused() -> None:
    with pytest.raises(BadPrivacyParameter, match="threshold=29"):
        private_partition(some_points(50, 6), epsilon=1, depth=5, threshold=5, unit=PERSON)


@pytest.mark.parametrize(
    ("points", "error"),
    [
        (np.array([[RADIUS + 1, 0]]), BadPrivacyParameter),
        (np.array([1, 2]), BadShape),
        (np.array([[0.5, 1.0]]), BadPrivacyParameter),
    ],
)
def test_bad_points_are_refused(points: np.ndarray, error: type[Exception]) -> None:
    with pytest.raises(error):
        private_partition(points, epsilon=1, depth=2, threshold=50, unit=PERSON)


def test_a_shift_beyond_the_radius_is_refused() -> None:
    with pytest.raises(BadPrivacyParameter, match="shift"):
        private_partition(some_points(9, 2), epsilon=1, depth=2, threshold=50, unit=PERSON, shift=[RADIUS + 1, 0])
