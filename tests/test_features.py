"""The public table of features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadNumber, BadParameter, BadShape
from twofold.features import LARGEST_FEATURE, MOST_FEATURES, Features
from twofold.release import ReleaseParameters

TABLE = np.array([[1, 0], [1, 1], [0, 0]])


def test_a_table_is_copied_and_cannot_be_changed() -> None:
    given = TABLE.copy()
    table = Features(matrix=given, names=("a", "b"))
    given[0, 0] = 7
    assert table.matrix[0, 0] == 1
    assert table.matrix.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        table.matrix[0, 0] = 2


def test_items_without_features_are_counted_out() -> None:
    table = Features(matrix=TABLE, names=("a", "b"))
    assert (table.n_items, table.n_features, table.described) == (3, 2, 2)


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint16, np.int64])
def test_any_whole_type_gives_the_same_table(kind: Any) -> None:
    one, two = Features(matrix=TABLE.astype(kind), names=("a", "b")), Features(matrix=TABLE, names=("a", "b"))
    assert one == two
    assert hash(one) == hash(two)
    assert one.hash == two.hash


@pytest.mark.parametrize(
    ("matrix", "names"),
    [(TABLE[::-1], ("a", "b")), (TABLE, ("b", "a")), (TABLE.T.copy(), ("a", "b", "c")), (TABLE * 2, ("a", "b"))],
)
def test_another_table_has_another_hash(matrix: Any, names: tuple[str, ...]) -> None:
    one, two = Features(matrix=TABLE, names=("a", "b")), Features(matrix=matrix, names=names)
    assert one != two
    assert one.hash != two.hash
    assert one != "a table"


@pytest.mark.parametrize(
    ("matrix", "names", "error"),
    [
        (TABLE[0], ("a", "b"), BadShape),
        (TABLE, ("a",), BadShape),
        (TABLE, ("a", "a"), BadShape),
        (TABLE[:, :0], (), BadShape),
        (np.zeros((2, MOST_FEATURES + 1), dtype=int), tuple(map(str, range(MOST_FEATURES + 1))), BadShape),
        (TABLE + 0.5, ("a", "b"), BadNumber),
        (TABLE * (LARGEST_FEATURE + 1), ("a", "b"), BadNumber),
        (TABLE * -(LARGEST_FEATURE + 1), ("a", "b"), BadNumber),
        (np.array([["x", "y"]]), ("a", "b"), BadNumber),
    ],
)
def test_what_is_no_table_is_refused(matrix: Any, names: tuple[str, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        Features(matrix=matrix, names=names)


def test_the_largest_features_are_taken() -> None:
    table = Features(matrix=np.array([[LARGEST_FEATURE, -LARGEST_FEATURE]]), names=("a", "b"))
    assert table.matrix.tolist() == [[LARGEST_FEATURE, -LARGEST_FEATURE]]


def test_a_table_of_another_catalog_is_refused() -> None:
    table = Features(matrix=TABLE, names=("a", "b"))
    assert ReleaseParameters(n_items=3, n_users=9, max_items=2, bound=1, features=table).features is table
    with refused(BadParameter, "features", found="3 items"):
        ReleaseParameters(n_items=4, n_users=9, max_items=2, bound=1, features=table)
