"""Sums are exact for any number of users, cut to public limits before noise, and never refused (audit M1)."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from twofold.features import Features
from twofold.privacy.grid import LIMIT
from twofold.release import clamp
from twofold.release.bilinear import records as bilinear_records
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.mechanism import Bilinear, BilinearNoise
from twofold.release.bilinear.records import exact_sums
from twofold.release.choose import mechanism
from twofold.release.clamp import LARGEST_NUMBER, ROOM, ExactSum, held, masked_limit
from twofold.release.contract import ReleaseParameters

WIDE = 2**62 - 1


@given(st.lists(st.integers(-WIDE, WIDE), max_size=12), st.integers(1, 2**61))
def test_the_sum_is_exact_whatever_its_size(amounts: list[int], limit: int) -> None:
    total = ExactSum(1)
    for amount in amounts:
        total.add(np.array([amount]), most=WIDE)
    assert int(total.held(limit)[0]) == max(-limit, min(limit, sum(amounts)))


@given(
    st.lists(st.integers(-100, 100), min_size=3, max_size=3),
    st.lists(st.integers(-100, 100), min_size=3, max_size=3),
    st.integers(0, 60),
)
def test_the_cut_brings_neighbours_no_further_apart(one: list[int], two: list[int], limit: int) -> None:
    apart = np.abs(held(np.array(one), limit) - held(np.array(two), limit))
    assert (apart <= np.abs(np.array(one) - np.array(two))).all()


def public(kind: str, **changes: object) -> ReleaseParameters:
    table = Features(matrix=1 + np.arange(15).reshape(5, 3) % 2, names=("a", "b", "c")) if kind == "features" else None
    given = {"n_items": 5, "n_users": 1, "max_items": 2, "bound": 1, "n_prototypes": 3, "features": table}
    return ReleaseParameters(**given | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("kind", ["gram", "sketch", "features"])
def test_far_more_users_than_promised_are_cut_before_the_noise(kind: str, delta: float) -> None:
    numbers = public(kind, delta=delta, honest=4)
    layout = BilinearLayout.of(numbers, kind)  # type: ignore[arg-type]
    noise = BilinearNoise(public=numbers, layout=layout)
    assert noise.limit == masked_limit(n_users=1, largest=layout.largest) == ROOM * layout.largest
    rows = sp.csr_array(np.tile([1.0, 1.0, 0, 0, 0], (20 * ROOM, 1)))
    exact, cut = (exact_sums(rows, numbers, layout, limit=most) for most in (LARGEST_NUMBER, noise.limit))
    assert (np.abs(exact) > noise.limit).any()
    assert (cut == held(exact, noise.limit)).all()
    made = Bilinear(kind=kind).release(rows, numbers).value  # type: ignore[arg-type]
    assert (np.abs(made.numbers - cut) <= noise.farthest).all()


@pytest.mark.parametrize("kind", ["gram", "sketch", "features", "popularity", "buckets", "sulq"])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_numbers_near_the_largest_are_held_before_and_after_the_noise(
    kind: str, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every sum of this many users would be refused on the way: made cheap by a record that weighs very much."""
    monkeypatch.setattr(ExactSum, "add", _heavy)
    numbers = public(kind, delta=delta, n_prototypes=2, epsilon=10)
    made = mechanism(kind).release(np.ones((4, 5)), numbers).value
    sizes = [int(np.abs(part).max()) for part in made.arrays().values()]
    assert LARGEST_NUMBER - 10**6 < max(sizes) <= LARGEST_NUMBER


def _heavy(self: ExactSum, amounts: np.ndarray, *, most: int) -> None:
    self._low += np.where(amounts > 0, 2**61, amounts)
    self._high = np.where(amounts > 0, 2**30, 0)


def test_blocks_of_any_size_give_the_same_cut_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that was cut after every block would depend on where the blocks begin, and so on who else is there."""
    numbers = public("gram", honest=4, delta=1e-6, lower=-1, feedback="ratings")
    layout = BilinearLayout.of(numbers, "gram")
    rows = sp.csr_array(np.repeat([[1.0, -1.0, 0, 0, 0], [-1.0, 1.0, 0, 0, 0]], 1_500, axis=0))
    sums = []
    for block in (1 << 15, 700, 64):
        monkeypatch.setattr(bilinear_records, "_BLOCK_ENTRIES", block * layout.columns)
        sums.append(exact_sums(rows, numbers, layout, limit=200 * layout.largest))
    assert (sums[0] == sums[1]).all()
    assert (sums[0] == sums[2]).all()


def test_a_limit_is_below_what_a_mechanism_takes() -> None:
    assert masked_limit(n_users=10**15, largest=2**20) == LIMIT - 1
    assert 10_000 * clamp.LARGEST_NUMBER < 2**63
