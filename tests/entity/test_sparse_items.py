"""Sparse weights for long catalogs: scores, reasons, likeness, and many different recommendations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from benchmarks.ladder import long_catalog
from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.entity.export import Everyone
from twofold.entity.models.blend import Scorer
from twofold.entity.models.sparse_items import SparseItemFit, SparseItemScorer
from twofold.errors import BadModel, BadParameter, BadShape

ITEMS = 30


def histories(users: int = 25) -> sparse.csr_array:
    rng = np.random.default_rng(1)
    values = np.where(rng.random((users, ITEMS)) < 0.25, rng.integers(1, 6, size=(users, ITEMS)), 0)
    values[3] = 0  # somebody without a history
    return sparse.csr_array(values.astype(np.float32))


def entries(rows: sparse.csr_array, user: int) -> tuple[np.ndarray, np.ndarray]:
    span = slice(rows.indptr[user], rows.indptr[user + 1])
    return rows.indices[span], rows.data[span]


def test_is_a_scorer_of_its_own_kind():
    scorer = SparseItemFit(histories()).scorer()
    assert isinstance(scorer, Scorer)
    assert scorer.kind == "sparse-item-item"


def test_weights_are_the_first_order_of_the_inverse():
    damped = np.sqrt(histories().toarray())
    gram = damped.T @ damped
    far = 1e4 * np.diag(gram).mean()  # where the first order is all there is
    inverse = np.linalg.inv(gram.astype(float) + far * np.eye(ITEMS))
    exact = -inverse / np.diag(inverse)
    np.fill_diagonal(exact, 0)
    scorer = SparseItemFit(histories()).scorer(ridge=far, neighbours=ITEMS)
    found = scorer.scores(sparse.csr_array(np.eye(ITEMS, dtype=np.float32))) - scorer.scores(
        sparse.csr_array((ITEMS, ITEMS), dtype=np.float32)
    )
    np.testing.assert_allclose(found, exact, rtol=0.02, atol=1e-6)


def test_one_equals_its_row_and_reasons_add_up():
    rows = histories()
    scorer = SparseItemFit(rows).scorer(ridge=2.0, neighbours=6)
    scores = scorer.scores(rows)
    assert scores.dtype == np.float32
    for user in range(8):
        columns, values = entries(rows, user)
        np.testing.assert_allclose(scorer.one(columns, values), scores[user], rtol=1e-5)
        for item in (0, 7, 29):
            together = scorer.reasons(columns, values, item).sum() + scorer.constant(item)
            assert together == pytest.approx(scores[user, item], rel=1e-4)


def test_likeness_is_symmetric_and_at_most_one():
    scorer = SparseItemFit(histories()).scorer(ridge=0.1, neighbours=4)
    found = np.array([scorer.similar(item) for item in range(ITEMS)])
    np.testing.assert_allclose(found, found.T, rtol=1e-4)
    assert (np.diag(found) == -np.inf).all()
    assert 0 < found.max() <= 1


def test_it_comes_back_from_its_parts():
    made = SparseItemFit(histories()).scorer()
    again = SparseItemScorer.rebuild(made.arrays(), made.settings())
    np.testing.assert_array_equal(again.scores(histories()), made.scores(histories()))
    with pytest.raises(BadModel):
        SparseItemScorer.rebuild({"means": made.means}, made.settings())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ends", np.arange(ITEMS)[::-1].copy()),
        ("ends", np.zeros(ITEMS, np.int64)),
        ("sources", None),
    ],
)
def test_arrays_that_point_elsewhere_are_refused(name, value):
    made = SparseItemFit(histories()).scorer()
    arrays = made.arrays()
    arrays[name] = arrays["sources"] + ITEMS if value is None else value
    with refused(BadShape, name):
        SparseItemScorer.rebuild(arrays, made.settings())


def test_long_histories_keep_fewer_weights():
    rng = np.random.default_rng(0)
    short, long = (sparse.csr_array((rng.random((400, 500)) < share).astype(np.float32)) for share in (0.03, 0.6))
    most = [np.diff(SparseItemFit(rows).scorer().arrays()["ends"]).max() for rows in (short, long)]
    assert most[1] == 50 < most[0] <= 300


def test_a_ridge_of_nothing_is_refused():
    with refused(BadParameter, "ridge"):
        SparseItemFit(histories()).scorer(ridge=0.0)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (0, 4)])
def test_hardly_any_data_gives_finite_scores(shape):
    scorer = SparseItemFit(sparse.csr_array(np.ones(shape, np.float32))).scorer()
    assert np.isfinite(scorer.one(np.array([0]), np.array([1.0]))).all()


def test_a_hundred_thousand_items_give_a_thousand_different_recommendations():
    rows = long_catalog(users=6_000, items=100_000, entries=70_000, clusters=150)
    scorer = SparseItemFit(rows).scorer()
    everyone = Everyone(
        scorer=scorer,
        rows=rows,
        cold_start=scorer.one(np.zeros(0, int), np.zeros(0)),
        user_ids=Identifiers(range(6_000)),
        item_ids=Catalog(range(100_000)).items,
    )
    found = everyone.top(10, np.arange(400), exclude_seen=True, allowed=None)
    assert np.unique(found.items).size >= 1_000
