"""The strongest co-occurrences: against the matrix of all pairs, ties, threads, degenerate input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.algorithms import neighbours
from twofold.algorithms._jit import without_numba
from twofold.algorithms.neighbours import add_product, strongest
from twofold.errors import BadNumber, BadParameter, BadShape


def rows(users=90, items=50, seed=0):
    rng = np.random.default_rng(seed)
    return sparse.csr_array(np.where(rng.random((users, items)) < 0.15, rng.integers(1, 4, (users, items)), 0) * 1.0)


def scales(items=50, seed=1):
    rng = np.random.default_rng(seed)
    return {"source_scale": rng.random(items) + 0.1, "target_scale": rng.random(items) + 0.1}


@pytest.mark.parametrize("most", [1, 7, 49, 200])
def test_each_column_keeps_its_largest_products(most):
    X, by = rows(), scales()
    found = strongest(X, most, **by)
    pairs = (X.T @ X).toarray() * by["source_scale"] * by["target_scale"][:, None]
    np.fill_diagonal(pairs, 0)
    for i, (start, end) in enumerate(zip(np.append(0, found.ends), found.ends, strict=False)):
        expected = np.sort(np.argsort(-pairs[i], kind="stable")[:most])
        expected = expected[pairs[i][expected] > 0]
        assert found.sources[start:end].tolist() == expected.tolist()
        np.testing.assert_allclose(found.values[start:end], pairs[i][expected], rtol=1e-5)


@pytest.mark.parametrize("most", [1, 3, 10])
def test_the_kernel_agrees_with_the_reference_on_ties(most):
    X = sparse.csr_array((rows().toarray() > 0).astype(np.float32))
    even = {"source_scale": np.ones(50), "target_scale": np.ones(50)}
    fast = strongest(X, most, **even)
    with without_numba():
        slow = strongest(X, most, **even)
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_same_on_any_number_of_threads_and_blocks(monkeypatch):
    X, by = rows(), scales()
    whole = strongest(X, 5, threads=1, **by)
    monkeypatch.setattr(neighbours, "PRODUCTS_PER_BLOCK", 500)
    monkeypatch.setattr(neighbours, "COLUMNS_PER_BLOCK", 5)
    for one, other in zip(whole, strongest(X, 5, threads=3, **by), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3, 1), (2, 4)])
def test_nothing_together_gives_nothing(shape):
    found = strongest(sparse.csr_array(shape, dtype=np.float32), 3, **scales(shape[1]))
    assert found.ends.tolist() == [0] * shape[1]
    assert found.sources.size == found.values.size == 0


def test_settings_without_meaning_are_refused():
    with refused(BadParameter, "most"):
        strongest(rows(), 0, **scales())
    with refused(BadNumber, "source_scale"):
        strongest(rows(), 1, source_scale=-np.ones(50), target_scale=np.ones(50))


@pytest.mark.parametrize("reference", [False, True])
def test_a_product_is_added_to_what_is_there(reference):
    left, right = (sparse.csr_array(rows(12, 20, seed) * 1.0) for seed in (1, 2))
    right = sparse.csr_array(right.T)
    out = np.ones((12, 12), np.float32)
    if reference:
        with without_numba():
            add_product(left, right, out)
    else:
        add_product(left, right, out)
    np.testing.assert_allclose(out, 1 + (left @ right).toarray(), rtol=1e-6)
    with refused(BadShape, "rows"):
        add_product(left, left, out)
