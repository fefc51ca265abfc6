"""Second vectors: public maps of the row with a norm that holds in whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.features import LARGEST_FEATURE, Features
from twofold.release import ReleaseParameters
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.records import profiles, public_map, random_signs

GAUSS = ReleaseParameters(n_items=6, n_users=9, max_items=6, bound=5, n_prototypes=4, delta=1e-6)
LAPLACE = GAUSS.with_(delta=0)


def norms(found: Any, *, l2: bool) -> list[int]:
    return [sum(int(one) ** 2 if l2 else abs(int(one)) for one in row) for row in found]


@settings(max_examples=60, deadline=None)
@given(
    row=st.lists(st.integers(-4096, 4096), min_size=6, max_size=6),
    table=st.lists(st.integers(-LARGEST_FEATURE, LARGEST_FEATURE), min_size=24, max_size=24),
    l2=st.booleans(),
)
def test_the_norm_is_at_most_the_limit_and_not_far_below(row: list[int], table: list[int], l2: bool) -> None:
    layout = BilinearLayout.of(GAUSS if l2 else LAPLACE, "sketch")
    mapping = np.array(table, dtype=np.int64).reshape(6, 4)
    matrix = sp.csr_array(np.array([row], dtype=np.int64))
    [size] = norms(profiles(matrix, mapping, layout), l2=l2)
    limit = layout.profile_norm ** (2 if l2 else 1)
    assert size <= limit
    if np.abs(matrix @ mapping).sum() > 0:
        assert size >= 0.9 * limit
    else:
        assert size == 0


def test_a_profile_points_where_the_map_does() -> None:
    layout = BilinearLayout.of(GAUSS, "sketch")
    mapping = public_map(GAUSS, layout)
    row = np.array([[1000, 0, -300, 2, 0, 0]], dtype=np.int64)
    wanted = (row @ mapping)[0]
    found = profiles(sp.csr_array(row), mapping, layout)[0]
    np.testing.assert_allclose(found / layout.profile_norm, wanted / np.linalg.norm(wanted), atol=0.01)


def test_the_largest_rows_and_features_do_not_overflow() -> None:
    names = tuple(map(str, range(512)))
    public = ReleaseParameters(
        n_items=4000,
        n_users=9,
        max_items=4000,
        bound=5,
        delta=1e-6,
        features=Features(matrix=np.full((4000, 512), LARGEST_FEATURE), names=names),
    )
    layout = BilinearLayout.of(public, "features")
    each = int(layout.norm / np.sqrt(4000))
    found = profiles(sp.csr_array(np.full((1, 4000), each, dtype=np.int64)), public_map(public, layout), layout)
    assert (found == found[0, 0]).all()
    assert 0.9 * layout.profile_norm**2 <= norms(found, l2=True)[0] <= layout.profile_norm**2


def test_signs_are_public_fair_and_never_change() -> None:
    signs = random_signs(n_items=300, columns=40, seed=7)
    assert set(np.unique(signs)) == {-1, 1}
    assert abs(signs.mean()) < 0.05
    np.testing.assert_array_equal(signs, random_signs(n_items=300, columns=40, seed=7))
    assert (signs != random_signs(n_items=300, columns=40, seed=8)).any()
    # Entities of different versions must draw alike, so the stream is pinned.
    assert random_signs(n_items=2, columns=4, seed=0).tolist() == PINNED


PINNED = [[1, -1, 1, -1], [-1, 1, -1, -1]]


@pytest.mark.parametrize("kind", ["sketch", "features"])
def test_the_map_is_the_public_one(kind: Any) -> None:
    table = Features(matrix=np.arange(12).reshape(6, 2), names=("a", "b"))
    public = GAUSS.with_(features=table)
    found = public_map(public, BilinearLayout.of(public, kind))
    assert found.shape == ((6, 4) if kind == "sketch" else (6, 2))
    if kind == "features":
        np.testing.assert_array_equal(found, table.matrix)
