"""Federation: entities over one catalog, pooled only for comparison."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold import Catalog, Federation, Ratings
from twofold.data.catalog import Identifiers
from twofold.errors import CatalogError, DataError, EmptyTable

CATALOG = Catalog(["x", "y", "z"])


def entity(n_users: int, start: int = 0, catalog: Catalog = CATALOG, feedback: str = "ratings") -> Ratings:
    matrix = sparse.csr_array(np.arange(1.0, 3 * n_users + 1).reshape(n_users, 3))
    return Ratings(matrix, Identifiers(range(start, start + n_users)), catalog, feedback)  # type: ignore[arg-type]


def test_cut_keeps_every_user_with_its_entity() -> None:
    federation = Federation.cut(entity(5), ["b", "a", "b", "a", "b"])
    assert {name: list(ratings.user_ids) for name, ratings in federation.items()} == {"a": [1, 3], "b": [0, 2, 4]}
    assert federation["b"].of(2) == {"x": 7.0, "y": 8.0, "z": 9.0}
    assert (federation.n_users, federation.n_entries, federation.n_rated_items) == (5, 15, 3)
    assert repr(federation).startswith("Federation(2 entities of 2 to 3 users")


def test_pooling_keeps_ids_or_pairs_them_with_the_entity() -> None:
    apart = Federation({"a": entity(2), "b": entity(2, start=2)}).pooled()
    assert list(apart.user_ids) == [0, 1, 2, 3]
    overlapping = Federation({"a": entity(2), "b": entity(1)}).pooled()
    assert list(overlapping.user_ids) == [("a", 0), ("a", 1), ("b", 0)]
    assert overlapping.of(("b", 0)) == {"x": 1.0, "y": 2.0, "z": 3.0}


def test_entities_must_share_catalog_and_feedback() -> None:
    with refused(CatalogError, "catalog"):
        Federation({"a": entity(1), "b": entity(1, catalog=Catalog(["z", "y", "x"]))})
    with refused(DataError, "feedback"):
        Federation({"a": entity(1), "b": entity(1, feedback="counts")})
    with pytest.raises(EmptyTable):
        Federation({})
    with refused(DataError, "labels", expected="one label per user"):
        Federation.cut(entity(3), ["a"])
