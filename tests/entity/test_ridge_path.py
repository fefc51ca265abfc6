"""The path of ridges: the inverses themselves, scores of whole weights, both precisions, one buffer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.entity.models.ridge import weights_from_gram
from twofold.entity.models.ridge_path import inverses, path_scores
from twofold.errors import BadNumber, BadShape


def rows(users: int = 80, items: int = 300) -> sparse.csr_array:
    rng = np.random.default_rng(0)
    return sparse.csr_array((rng.random((users, items)) < 0.1).astype(np.float32))


def gram() -> np.ndarray:
    return (rows().T @ rows()).toarray().astype(np.float64)


@pytest.mark.parametrize("single", [False, True])
def test_each_is_the_inverse_and_the_gram_matrix_stays(single: bool) -> None:
    matrix, ridges = gram(), [2.0, np.linspace(1.0, 50.0, 300)]
    before = matrix.copy()
    for ridge, inverse in zip(ridges, inverses(matrix, ridges, single=single), strict=True):
        exact = np.linalg.inv(before + np.diag(np.broadcast_to(ridge, 300)))
        assert inverse.dtype == (np.float32 if single else np.float64)
        np.testing.assert_allclose(inverse, exact, atol=1e-5 if single else 1e-12)
        np.testing.assert_array_equal(inverse, inverse.T)
    np.testing.assert_array_equal(matrix, before)


@pytest.mark.parametrize("single", [False, True])
def test_scores_are_those_of_the_whole_weights(single: bool) -> None:
    some, ridges = sparse.csr_array(rows()[:7] * 2), [3.0, 30.0]
    for ridge, scores in zip(ridges, path_scores(gram(), ridges, some, single=single), strict=True):
        weights = weights_from_gram(gram(), np.full(300, ridge)).matrix
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, some @ weights, atol=1e-4)


def test_a_path_uses_one_buffer() -> None:
    found = [inverse.__array_interface__["data"][0] for inverse in inverses(gram(), [1.0, 2.0, 3.0])]
    assert len(set(found)) == 1


def test_what_has_no_inverse_is_refused() -> None:
    with refused(BadNumber, "gram"):
        list(inverses(np.ones((3, 3)), [0.0]))
    with refused(BadNumber, "gram"):
        list(inverses(np.full((2, 2), np.nan), [1.0]))
    with refused(BadShape, "gram"):
        list(inverses(np.ones((2, 3)), [1.0]))
    with refused(BadShape, "rows"):
        list(path_scores(np.eye(2), [1.0], sparse.csr_array((1, 3), dtype=np.float32)))
