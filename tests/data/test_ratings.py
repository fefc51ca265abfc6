"""Ratings: immutable, silent about values, an observed zero is not an absent entry."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold import Catalog, Ratings
from twofold.data.catalog import Identifiers
from twofold.errors import BadValue, DataError, UnknownUser


def small(data: list[float] | None = None, **keywords: object) -> Ratings:
    matrix = sparse.csr_array((np.array(data or [5.0, 0.0, 3.0]), [0, 2, 1], [0, 2, 3, 3]), shape=(3, 3))
    return Ratings(matrix, Identifiers(["ann", "bo", "cy"]), Catalog(["x", "y", "z"]), **keywords)  # type: ignore[arg-type]


def test_a_stored_zero_is_observed() -> None:
    ratings = small()
    assert ratings.of("ann") == {"x": 5.0, "z": 0.0}
    assert ratings.of("cy") == {}
    assert ratings.n_entries == 3
    assert ratings.n_rated_items == 3
    assert ratings.entries_per_user.tolist() == [2, 1, 0]


def test_repr_shows_the_shape_only() -> None:
    assert repr(small()) == "Ratings(3 users x 3 items, ratings)"


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_nothing_can_be_written(part: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        getattr(small().matrix, part)[0] = 1
    with pytest.raises(AttributeError):
        small().feedback = "counts"  # type: ignore[misc]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_only_finite_values(bad: float) -> None:
    with refused(BadValue, "value", expected="a finite number in every row"):
        small([1.0, bad, 2.0])


def test_counts_are_not_negative_but_scores_may_be() -> None:
    with refused(BadValue, "value", expected="counts of 0 or more"):
        small([1.0, -1.0, 2.0], feedback="counts")
    assert small([1.0, -1.0, 2.0]).of("ann")["z"] == -1.0


def test_labels_must_fit() -> None:
    with refused(DataError, "matrix", found="2 columns"):
        Ratings(sparse.csr_array(np.eye(2)), Identifiers([1]), Catalog(["x", "y"]))
    with refused(DataError, "feedback"):
        small(feedback="stars")


def test_repeated_entries_are_refused() -> None:
    twice = sparse.csr_array((np.ones(2), [0, 0], [0, 2]), shape=(1, 1))
    with refused(DataError, "matrix", "sum_duplicates"):
        Ratings(twice, Identifiers([1]), Catalog(["x"]))


def test_take_keeps_users_with_their_rows() -> None:
    part = small().take([2, 0])
    assert list(part.user_ids) == ["cy", "ann"]
    assert part.of("ann") == {"x": 5.0, "z": 0.0}


def test_an_unknown_user_is_our_error_and_a_key_error() -> None:
    for kind in (UnknownUser, KeyError):
        with pytest.raises(kind) as caught:
            small().of("patient-17")
        assert "patient-17" not in str(caught.value)


def test_the_digest_sees_everything() -> None:
    digests = {
        small().digest(),
        small([5.0, 1.0, 3.0]).digest(),
        small(feedback="counts").digest(),
        small().take([1, 0, 2]).digest(),
    }
    assert len(digests) == 4
    assert small().digest() == small().digest()


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dense", "matrix"])
def test_from_a_matrix_of_any_format(form: str) -> None:
    dense = np.array([[5, 0, 1], [0, 0, 2]])
    given = {"dense": dense, "matrix": sparse.csr_matrix(dense)}.get(form)
    ratings = Ratings.from_matrix(sparse.csr_array(dense).asformat(form) if given is None else given)
    assert ratings.of(0) == {0: 5.0, 2: 1.0}
    assert (ratings.n_users, ratings.n_items, ratings.feedback) == (2, 3, "counts")


def test_from_a_matrix_with_ids_and_without_touching_it() -> None:
    matrix = sparse.coo_array((np.array([1.0, 2.0]), (np.array([0, 0]), np.array([1, 1]))), shape=(1, 2))
    ratings = Ratings.from_matrix(matrix, catalog=Catalog(["x", "y"]), users=["ann"], feedback="ratings")
    assert ratings.of("ann") == {"y": 3.0}
    assert matrix.nnz == 2
    given = sparse.csr_array(np.eye(2))
    assert Ratings.from_matrix(given).matrix.dtype == np.float64
    given.data[0] = 7.0  # still the caller's own
    assert Ratings.from_matrix(sparse.csr_array(np.ones((2, 2), dtype=np.int8))).matrix.dtype == np.float32


@pytest.mark.parametrize("wrong", [None, "matrix", np.ones(3), np.ones((2, 2, 2)), [["a"]], {"x": 1}])
def test_from_what_is_not_a_matrix(wrong: object) -> None:
    with refused(DataError, "matrix", found=type(wrong).__name__):
        Ratings.from_matrix(wrong)


def test_from_a_matrix_that_does_not_fit_or_holds_no_numbers() -> None:
    with refused(DataError, "matrix"):
        Ratings.from_matrix(np.eye(2), catalog=Catalog(["x"]))
    with refused(BadValue, "value"):
        Ratings.from_matrix(np.array([[np.nan, 1.0]]))
    with refused(BadValue, "value"):
        Ratings.from_matrix(np.array([[-1.0, 1.0]]))
