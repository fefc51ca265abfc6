"""Places, units and bounds."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadParameter, TwofoldError
from twofold.features import Features
from twofold.release import ReleaseParameters
from twofold.release.bilinear.layout import KINDS, MOST_NUMBERS, MOST_PAIRED, BilinearLayout, row_cap, typical_items
from twofold.release.content import DIAGONAL

COUNTS = ReleaseParameters(
    n_items=30,
    n_users=100,
    max_items=12,
    bound=5,
    n_prototypes=4,
    delta=1e-6,
    features=Features(matrix=np.ones((30, 3), dtype=int), names=("a", "b", "c")),
)
RATINGS = COUNTS.with_(feedback="ratings", lower=1, centre=3)
EVERY = [
    pytest.param(public.with_(delta=delta), kind, id=f"{public.feedback} {kind} {delta}")
    for public in (COUNTS, RATINGS)
    for kind in KINDS
    for delta in (0, 1e-6)
]


@pytest.mark.parametrize(("public", "kind"), EVERY)
def test_the_parts_fill_the_vector_once(public: ReleaseParameters, kind: Any) -> None:
    layout = BilinearLayout.of(public, kind)
    places = np.zeros(layout.length, dtype=int)
    for part in (layout.sums, layout.observed, layout.count, layout.pairs):
        places[part] += 1
    assert (places == 1).all()
    pairs = {"gram": 30 * 31 // 2, "sketch": 30 * 4, "features": 30 * 3}[kind]
    assert layout.pairs.stop - layout.pairs.start == pairs
    assert (layout.observed.stop > layout.observed.start) == (public.feedback == "ratings")


@pytest.mark.parametrize(("public", "kind"), EVERY)
@pytest.mark.parametrize("share", [None, "1/10", "1/2", "9/10"])
def test_the_base_gets_the_share_it_is_given(public: ReleaseParameters, kind: Any, share: str | None) -> None:
    layout = BilinearLayout.of(public, kind, base_share=share)
    wanted = Fraction(share) if share else Fraction(1, 10) if public.feedback == "counts" else Fraction(1, 2)
    base = 1 - Fraction(layout.pair_limit, layout.sensitivity)
    assert base <= wanted
    assert math.isclose(base, wanted, rel_tol=0.05)


def test_every_unit_turns_a_full_row_back_into_itself() -> None:
    layout = BilinearLayout.of(COUNTS, "gram")
    assert layout.norm * layout.base_weight * layout.sums_unit == pytest.approx(layout.cap)
    assert layout.norm**2 * layout.pairs_unit == pytest.approx(layout.cap**2)
    assert layout.count_weight * layout.count_unit == pytest.approx(1)
    assert layout.observed_unit == 0
    rated = BilinearLayout.of(RATINGS, "sketch")
    assert rated.norm * rated.profile_norm * rated.pairs_unit == pytest.approx(rated.cap)
    assert rated.mark * rated.base_weight * rated.observed_unit == pytest.approx(1)


def test_the_cap_follows_public_numbers() -> None:
    assert row_cap(COUNTS) == row_cap(COUNTS.with_(l2_cap=2.5)) == 1
    assert row_cap(RATINGS) == math.sqrt(12)  # a quarter of the range from 1 to 5 is 1
    assert row_cap(RATINGS.with_(l2_cap=2.5)) == 2.5
    wide = ReleaseParameters(n_items=4000, n_users=9, max_items=4000, bound=5)
    assert typical_items(wide) == 64
    assert typical_items(wide.with_(max_items=3)) == 3
    assert BilinearLayout.of(RATINGS.with_(l2_cap=3.5), "gram").cap == 3.5


def test_neither_values_nor_caps_change_the_layout_of_counts() -> None:
    other = COUNTS.with_(bound=1e9, lower=-7, l2_cap=2.5, l1_cap=3)
    for kind in KINDS:
        assert BilinearLayout.of(COUNTS, kind) == BilinearLayout.of(other, kind)


def test_the_diagonal_of_counts_is_the_largest_fraction_that_the_proof_allows() -> None:
    """Below √½, as the l2 proof needs, and so near to it that nothing is wasted."""
    assert 2 * DIAGONAL**2 < 1
    assert 2 * (DIAGONAL * (1 + Fraction(1, 10_000))) ** 2 > 1


def test_numbers_stay_small_enough_for_exact_sums() -> None:
    """The proof in `records` needs products below 2^24 and 2^15 users to a block."""
    for items in (1, 2, 100, 4000):
        public = ReleaseParameters(n_items=4000, n_users=9, max_items=items, bound=5, delta=1e-6)
        layout = BilinearLayout.of(public, "gram")
        assert layout.norm**2 <= 1 << 24
        assert layout.norm * layout.base_weight <= 1 << 26
        assert layout.sensitivity < 1 << 60


def test_the_layout_is_a_function_of_public_numbers() -> None:
    assert BilinearLayout.of(COUNTS, "gram") == BilinearLayout.of(COUNTS.with_(epsilon=9, n_users=3), "gram")


@pytest.mark.parametrize("bad", [{"base_share": 0}, {"base_share": 1}, {"base_share": -1}])
def test_bad_options_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(TwofoldError):
        BilinearLayout.of(RATINGS, "gram", **bad)


def test_a_kind_that_is_not_known_or_has_no_table_is_refused() -> None:
    with refused(BadParameter, "kind", found="'cells'", expected="gram"):
        BilinearLayout.of(COUNTS, "cells")  # type: ignore[arg-type]
    with refused(BadParameter, "features", found="none"):
        BilinearLayout.of(dataclasses.replace(COUNTS, features=None), "features")


def test_a_message_that_would_be_too_large_is_refused() -> None:
    many = ReleaseParameters(n_items=10_000, n_users=9, max_items=10, bound=1, feedback="ratings")
    assert MOST_NUMBERS < 10_000 * 10_001 // 2
    with refused(BadParameter, "mechanism", found="50,005,000", expected=f"{MOST_NUMBERS:,}"):
        BilinearLayout.of(many, "gram")
    assert BilinearLayout.of(many, "sketch").length < MOST_NUMBERS


def test_pairs_of_counts_that_no_entity_can_use_are_refused() -> None:
    most = ReleaseParameters(n_items=MOST_PAIRED, n_users=9, max_items=10, bound=1)
    assert BilinearLayout.of(most, "gram").columns == MOST_PAIRED
    one_more = most.with_(n_items=MOST_PAIRED + 1)
    with refused(BadParameter, "mechanism", found=f"{MOST_PAIRED + 1:,} items", expected=f"{MOST_PAIRED:,} items"):
        BilinearLayout.of(one_more, "gram")
    for kind in ("sketch", "gram"):  # patterns of ratings are used in catalogs of any length
        assert BilinearLayout.of(one_more.with_(feedback="ratings"), kind).length < MOST_NUMBERS


@pytest.mark.parametrize(
    ("cap", "more"),
    [(1e-17, {}), (1e17, {}), (1e-306, {}), (1e6, {"lower": -1e90, "bound": 1e90})],
)
def test_a_cap_beyond_all_proportion_is_refused_before_there_are_users(cap: float, more: dict[str, float]) -> None:
    """Else the numbers would overflow, or not, as the data have it."""
    bounds: Any = {"lower": 1, "bound": 5, "centre": 3} | ({**more, "centre": 0} if more else {})
    public = ReleaseParameters(n_items=4, n_users=9, max_items=4, feedback="ratings", delta=1e-6, l2_cap=cap, **bounds)
    with refused(BadParameter, "l2_cap", found=f"{cap:.3g}", expected="1,000,000"):
        BilinearLayout.of(public, "gram")
