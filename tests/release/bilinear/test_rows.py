"""From entries to whole rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from twofold.release import ReleaseParameters
from twofold.release.bilinear import records as module
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.records import OWN_RATINGS, row_blocks

COUNTS = ReleaseParameters(n_items=40, n_users=9, max_items=20, bound=9, delta=1e-6)
RATINGS = COUNTS.with_(feedback="ratings", lower=1, bound=5, centre=3)


def whole(rows: sp.csr_array, public: ReleaseParameters) -> list[module.RowBlock]:
    return list(row_blocks(rows, public, BilinearLayout.of(public, "gram")))


def test_counts_become_their_roots() -> None:
    roomy = COUNTS.with_(l2_cap=6)
    layout = BilinearLayout.of(roomy, "gram")
    [block] = whole(sp.csr_array(np.array([[1.0, 4, 9, 100] + [0] * 36])), roomy)
    np.testing.assert_allclose(block.values * layout.cap / layout.norm, [1, 2, 3, 3], atol=layout.cap / layout.norm)
    np.testing.assert_array_equal(block.base, block.values)
    assert block.marks is None


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
    rows = sp.csr_array(sp.random_array((50, 40), density=0.4, rng=rng) * 5)
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
