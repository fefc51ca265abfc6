"""From messages to moments."""

from __future__ import annotations

import dataclasses
import math
import tracemalloc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.refused import refused
from twofold.errors import BadParameter, BadShape
from twofold.features import Features
from twofold.release import ReleaseParameters
from twofold.release.bilinear.combine import combine_bilinear
from twofold.release.bilinear.layout import KINDS, BilinearLayout
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.content import BilinearSums, plain_sum

ITEMS = 20
TABLE = Features(matrix=np.arange(ITEMS * 2).reshape(ITEMS, 2) % 3, names=("a", "b"))
COUNTS = ReleaseParameters(
    n_items=ITEMS, n_users=50, max_items=ITEMS, bound=4, n_prototypes=3, delta=1e-6, features=TABLE
)
RATINGS = COUNTS.with_(feedback="ratings", lower=1, bound=5, centre=3)
PARTS = ("sums", "pairs", "users", "observed", "users_noise", "sums_noise", "pairs_noise", "observed_noise")


def people(number: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.integers(1, 5, (number, ITEMS)) * (rng.random((number, ITEMS)) < 0.3))


def messages(
    public: ReleaseParameters, kind: Any, sizes: tuple[int, ...] = (30, 200, 5), seed: int = 1
) -> list[BilinearSums]:
    made = Bilinear(kind=kind)
    return [made.release(people(n, k), public, rng=seed + k).value for k, n in enumerate(sizes)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("public", [COUNTS, RATINGS, COUNTS.with_(delta=0)], ids=["counts", "ratings", "laplace"])
def test_the_order_of_messages_changes_nothing(public: ReleaseParameters, kind: Any) -> None:
    sent = messages(public, kind)
    one, two = combine_bilinear(sent, public), combine_bilinear(iter(sent[::-1]), public)
    for part in PARTS:
        np.testing.assert_array_equal(getattr(one, part), getattr(two, part))
    assert one.entities == 3
    assert one.seeded


class Lazy(Sequence[BilinearSums]):
    """Messages that are made whenever one is asked for; knows how many of them are alive at most."""

    def __init__(self, number: int, make: Callable[[int], BilinearSums]) -> None:
        self.number, self.make = number, make
        self.taken, self.most = [0] * number, 0
        self._alive: weakref.WeakSet[BilinearSums] = weakref.WeakSet()

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, place: Any) -> Any:
        self.taken[place] += 1
        message = self.make(place)
        self._alive.add(message)
        self.most = max(self.most, len(self._alive))
        return message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("honest", [0, 3], ids=["own noise", "secure sum"])
def test_one_message_is_alive_at_a_time_and_the_bits_are_those_of_a_list(kind: Any, honest: int) -> None:
    public = COUNTS.with_(honest=honest)
    sent = messages(public, kind, (30, 200, 5, 70))
    lazy = Lazy(4, lambda place: dataclasses.replace(sent[place], numbers=sent[place].numbers.copy()))
    one, two = combine_bilinear(sent, public), Bilinear(kind=kind).combine(lazy, public)
    for part in PARTS:
        np.testing.assert_array_equal(getattr(one, part), getattr(two, part))
    assert lazy.taken == [2] * 4
    assert lazy.most == 1


def test_memory_does_not_grow_with_the_number_of_messages() -> None:
    public = COUNTS.with_(n_items=150, max_items=60, features=None)
    layout = BilinearLayout.of(public, "gram")

    def peak(number: int) -> int:
        def make(place: int) -> BilinearSums:
            numbers = np.full(layout.length, place, dtype=np.int64)
            return BilinearSums(mechanism="gram", numbers=numbers, deviation=9.0, law="gaussian", seeded=True)

        tracemalloc.start()
        combine_bilinear(Lazy(number, make), public, layout=layout)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    one = 8 * layout.length
    assert peak(40) < peak(4) + one / 2  # held, the 36 more would add 36


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("public", [COUNTS, RATINGS], ids=["counts", "ratings"])
def test_without_noise_moments_are_those_of_the_rows(public: ReleaseParameters, kind: Any) -> None:
    loose = public.with_(epsilon=10**9, l2_cap=30)  # of no effect on counts
    rows = people(60)
    found = Bilinear(kind=kind).combine([Bilinear(kind=kind).release(rows, loose).value], loose)
    dense = rows.toarray().astype(float)
    seen = dense > 0
    x = np.sqrt(dense) / np.sqrt(np.maximum(dense.sum(axis=1, keepdims=True), 1))
    if public.feedback == "ratings":
        means = (dense.sum(axis=1) + 5 * 3) / (seen.sum(axis=1) + 5)
        x = np.where(seen, dense - means[:, None], 0)
        assert found.observed is not None
        np.testing.assert_allclose(found.observed, seen.sum(axis=0), atol=0.1)
    atol = 1 if public.feedback == "ratings" else 0.05
    np.testing.assert_allclose(found.sums, x.sum(axis=0), atol=atol)
    assert found.users == pytest.approx(60, abs=0.1)
    if kind == "gram":
        np.testing.assert_allclose(found.pairs, x.T @ x, atol=5 * atol)
        np.testing.assert_array_equal(found.pairs, found.pairs.T)
    elif kind == "features":
        profile = x @ TABLE.matrix
        unit = profile / np.linalg.norm(profile, axis=1, keepdims=True)
        np.testing.assert_allclose(found.pairs, x.T @ unit, atol=1.5 * atol)
    assert found.cap == (30 if public.feedback == "ratings" else 1)


def test_one_message_is_taken_as_it_is_and_so_is_a_secure_sum() -> None:
    public = COUNTS.with_(honest=3)
    sent = messages(public, "gram")
    layout = BilinearLayout.of(public, "gram")
    whole = plain_sum(sent)
    summed, apart = combine_bilinear([whole], public), combine_bilinear(sent, public)
    np.testing.assert_allclose(summed.pairs, apart.pairs)
    assert summed.entities == apart.entities == 3
    assert summed.pairs_noise == pytest.approx(math.sqrt(3) * sent[0].deviation * layout.pairs_unit)
    upper = np.triu_indices(ITEMS)
    sizes = np.where(upper[0] == upper[1], 99 / 70, 1.0)
    np.testing.assert_allclose(summed.pairs[upper], whole.numbers[layout.pairs] * layout.pairs_unit * sizes)
    assert summed.diagonal_noise == pytest.approx(summed.pairs_noise * 99 / 70)


def test_own_noise_is_weighted_by_released_size() -> None:
    """The weights that make signal over noise largest, and no worse than adding up; stated noise is the true one."""
    layout, rng = BilinearLayout.of(COUNTS, "gram"), np.random.default_rng(0)
    sizes = [10_000, 300, 20]
    deviation = 100 * layout.count_weight  # a hundred users
    made = []
    for size in sizes:
        numbers = np.rint(rng.normal(scale=deviation, size=layout.length)).astype(np.int64)
        numbers[layout.count] = size * layout.count_weight
        made.append(
            BilinearSums(mechanism="gram", numbers=numbers, deviation=float(deviation), law="gaussian", seeded=True)
        )
    found, plain = combine_bilinear(made, COUNTS.with_(n_users=10_000)), combine_bilinear([plain_sum(made)], COUNTS)
    assert found.pairs_noise / found.users < plain.pairs_noise / plain.users
    assert found.sums_noise / np.abs(found.sums).mean() == pytest.approx(1.25, rel=0.35)
    upper = found.pairs[np.triu_indices(ITEMS, 1)]
    assert upper.std() == pytest.approx(found.pairs_noise, rel=0.15)


def test_an_entity_can_take_its_own_part_out_of_weighted_totals() -> None:
    """What is left is what the totals say without its rows, and not with them once too often or too seldom."""
    public = COUNTS.with_(epsilon=10**6)
    sizes = (30, 200, 90)
    found = combine_bilinear(messages(public, "gram", sizes), public)
    dense = [people(n, k).toarray().astype(float) for k, n in enumerate(sizes)]
    units = [np.sqrt(rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)) for rows in dense]
    for own, size in zip(units, sizes, strict=True):
        rest = sum(found.weight(len(one)) * one.T @ one for one in units if one is not own)
        np.testing.assert_allclose(found.pairs - found.weight(size) * own.T @ own, rest, atol=1)
    assert found.weight(200) > 1 > found.weight(30)
    summed = combine_bilinear(messages(public.with_(honest=3), "gram", sizes), public.with_(honest=3))
    assert summed.weight(200) == summed.weight(30) == 1


def test_the_weighted_number_of_users_is_right_on_average() -> None:
    """Users are weighted by a noisy number of themselves; without the correction the total is off."""
    layout, rng = BilinearLayout.of(COUNTS, "gram"), np.random.default_rng(4)
    sizes, deviation = np.array([900, 400, 300, 100, 0]), 200.0
    ratios = []
    for _ in range(1000):
        made = []
        for size in sizes:
            numbers = np.zeros(layout.length, dtype=np.int64)
            numbers[layout.count] = round((size + rng.normal(scale=deviation)) * layout.count_weight)
            numbers[0] = round(size / layout.sums_unit)  # what is to be counted, without noise
            made.append(
                BilinearSums(
                    mechanism="gram",
                    numbers=numbers,
                    deviation=deviation * layout.count_weight,
                    law="gaussian",
                    seeded=True,
                )
            )
        found = combine_bilinear(made, COUNTS.with_(n_users=1000))
        ratios.append((found.users, found.sums[0]))
    users, truth = np.mean(ratios, axis=0)
    assert users == pytest.approx(truth, rel=0.015)


def test_a_liar_does_not_speak_for_any_number_of_users() -> None:
    layout = BilinearLayout.of(COUNTS, "gram")
    sent = messages(COUNTS, "gram")
    boast = dataclasses.replace(sent[0], numbers=sent[0].numbers + 0)
    boast.numbers[layout.count] = 2**60
    honest, lied = combine_bilinear(sent, COUNTS), combine_bilinear([boast, *sent[1:]], COUNTS)
    assert np.isfinite(lied.pairs).all()
    assert np.abs(lied.pairs).max() < 100 * np.abs(honest.pairs).max()


def test_a_size_below_zero_gives_a_small_weight_and_no_sign() -> None:
    public = COUNTS.with_(epsilon="0.01")
    sent = [Bilinear(kind="gram").release(sp.csr_array((0, ITEMS)), public, rng=seed).value for seed in range(6)]
    found = combine_bilinear(sent, public)
    assert all(np.isfinite(getattr(found, part)).all() for part in ("sums", "pairs"))
    assert found.pairs_noise > 0


def test_what_does_not_fit_is_refused() -> None:
    [gram, *_], [sketch, *_] = messages(COUNTS, "gram"), messages(COUNTS, "sketch")
    with refused(BadParameter, "messages"):
        combine_bilinear([], COUNTS)
    with pytest.raises(BadShape):
        combine_bilinear([gram, sketch], COUNTS)
    with pytest.raises(BadShape):
        combine_bilinear([gram], COUNTS.with_(n_items=21, features=None))
    with pytest.raises(BadShape):
        combine_bilinear([gram], RATINGS)
    with refused(BadParameter, "law", found="gaussian"):
        combine_bilinear([gram], COUNTS.with_(delta=0))
    with refused(BadParameter, "mechanism", found="'balcan'", expected="gram"):
        combine_bilinear([dataclasses.replace(gram, mechanism="balcan")], COUNTS)
