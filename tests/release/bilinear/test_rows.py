"""From entries to whole rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matrices import random_rows
from twofold.release import ReleaseParameters
from twofold.release.bilinear import records as module
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.records import OWN_RATINGS, row_blocks

COUNTS = ReleaseParameters(n_items=40, n_users=9, max_items=20, bound=9, delta=1e-6)
RATINGS = COUNTS.with_(feedback="ratings", lower=1, bound=5, centre=3)


def whole(rows: sp.csr_array, public: ReleaseParameters) -> list[module.RowBlock]:
    return list(row_blocks(rows, public, BilinearLayout.of(public, "gram")))


def test_counts_become_their_roots_at_norm_one() -> None:
    layout = BilinearLayout.of(COUNTS, "gram")
    [block] = whole(sp.csr_array(np.array([[1.0, 4, 9, 100] + [0] * 36])), COUNTS)
    wanted = np.array([1, 2, 3, 3]) / np.sqrt(1 + 4 + 9 + 9)
    np.testing.assert_allclose(block.values / layout.norm, wanted, atol=1 / layout.norm)
    np.testing.assert_array_equal(block.base, block.values)
    assert block.marks is None


@pytest.mark.parametrize("scale", [1e-300, 1e-6, 0.3, 1.0, 2.25])
def test_only_the_proportions_of_counts_matter(scale: float) -> None:
    """A row is brought up as well as down; fractions and bounds of any size have the same room."""
    rows = sp.csr_array(np.array([[1.0, 4, 0, 2] + [0] * 36]))
    [one], [other] = whole(rows, COUNTS), whole(rows * scale, COUNTS)
    np.testing.assert_allclose(one.values, other.values, atol=1)


def test_empty_rows_of_counts_stay_empty_among_others() -> None:
    table = np.zeros((5, 40))
    table[1, 3], table[4, :2] = 7, 1
    [block] = whole(sp.csr_array(table), COUNTS)
    found = block.matrix.toarray()
    assert not found[[0, 2, 3]].any()
    assert found[1, 3] == 4096
    assert found[4, :2].tolist() == [2896, 2896]
    stored: Any = (np.zeros(2), np.array([0, 5]), np.array([0, 2]))
    [zeros] = whole(sp.csr_array(stored, shape=(1, 40)), COUNTS)
    assert zeros.values.tolist() == [0, 0]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 9), st.floats(0, 1e300)), min_size=40, max_size=40))
def test_a_row_of_counts_has_the_norm_and_never_more(entries: list[float]) -> None:
    [block] = whole(sp.csr_array(np.array([entries], dtype=float)), COUNTS.with_(bound=1e300))
    squares, entries_kept = sum(int(one) ** 2 for one in block.values), max(len(block.values), 1)
    assert squares <= 4096**2
    # Rounding takes less than one unit off an entry.
    assert squares == 0 if not any(entries) else squares**0.5 > 4096 - entries_kept**0.5 - 1


def test_rows_of_a_whole_long_catalog_lose_next_to_nothing() -> None:
    """Two thousand equal entries of 12 bits together: a hundredth of the length."""
    public = COUNTS.with_(n_items=2000, max_items=2000)
    [block] = whole(sp.csr_array(np.ones((1, 2000))), public)
    assert 0.98 * 4096 < np.sqrt((block.values**2).sum()) <= 4096


def test_ratings_lose_their_users_shrunk_mean() -> None:
    layout = BilinearLayout.of(RATINGS, "gram")
    given = np.array([5.0, 4, 1])
    [block] = whole(sp.csr_array(np.concatenate([given, np.zeros(37)])[None]), RATINGS)
    mean = (given.sum() + OWN_RATINGS * 3) / (3 + OWN_RATINGS)
    np.testing.assert_allclose(block.values * layout.cap / layout.norm, given - mean, atol=layout.cap / layout.norm)
    assert block.marks is not None
    assert (block.marks == layout.mark).all()


def test_a_long_rating_row_is_shortened_with_its_marks_by_one_factor() -> None:
    layout = BilinearLayout.of(RATINGS.with_(l2_cap=1), "gram")
    entries = np.tile([5.0, 1.0], 20)[None]
    [block] = list(row_blocks(sp.csr_array(entries), RATINGS.with_(l2_cap=1), layout))
    assert block.marks is not None
    np.testing.assert_allclose(np.abs(block.base) / block.marks, 2 * layout.norm / layout.cap / layout.mark, rtol=0.02)
    assert block.marks[0] < layout.mark


@pytest.mark.parametrize("public", [COUNTS, COUNTS.with_(delta=0), RATINGS, RATINGS.with_(delta=0)])
def test_blocks_do_not_change_a_row(public: ReleaseParameters, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    rows = sp.csr_array(random_rows((50, 40), 0.4, rng) * 5)
    at_once = whole(rows, public)
    monkeypatch.setattr(module, "_BLOCK_ENTRIES", 3 * 40)
    cut = whole(rows, public)
    assert len(at_once) == 1
    assert len(cut) == 17
    for part in ("values", "base", "columns"):
        together = np.concatenate([getattr(block, part) for block in cut])
        np.testing.assert_array_equal(together, getattr(at_once[0], part))


def test_no_rows_give_no_blocks() -> None:
    assert whole(sp.csr_array((0, 40)), COUNTS) == []
    [block] = whole(sp.csr_array((2, 40)), RATINGS)
    assert block.n_users == 2
    assert block.values.size == 0
