"""Patterns of ratings: one by one as all at once, taken apart into reasons, kept in a file."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.artefact import decode_model, encode_model
from twofold.entity.model import Model
from twofold.entity.models.blend import Scorer
from twofold.entity.models.patterns import PatternScorer
from twofold.errors import BadModel, BadNumber, BadShape
from twofold.federation.plan import Plan

ITEMS = 15


def made(seed: int = 0, kind: str = "patterns") -> PatternScorer:
    rng = np.random.default_rng(seed)
    loadings, means = 0.5 * rng.normal(size=(ITEMS, 3)), rng.uniform(2, 4, size=ITEMS)
    return PatternScorer(loadings, means=means, doubts=rng.uniform(0, 0.1, ITEMS), noise=0.6, offset=0.3, kind=kind)


def histories(seed: int = 1) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    stars = np.where(rng.random((6, ITEMS)) < 0.4, rng.integers(1, 6, size=(6, ITEMS)), 0)
    stars[2] = 0
    return sparse.csr_array(stars.astype(np.float32))


def entries(rows: sparse.csr_array, at: int) -> tuple[np.ndarray, np.ndarray]:
    span = slice(rows.indptr[at], rows.indptr[at + 1])
    return rows.indices[span], rows.data[span]


def test_it_is_a_scorer():
    assert isinstance(made(), Scorer)


def test_one_is_a_row_of_all():
    scorer, rows = made(), histories()
    together = scorer.scores(rows)
    for at in range(rows.shape[0]):
        assert scorer.one(*entries(rows, at)) == pytest.approx(together[at], abs=1e-5)


def test_nobody_gets_the_means():
    assert (made().scores(histories())[2] == made().means).all()


def test_it_is_the_posterior_mean_of_its_model():
    scorer, (columns, values) = made(), entries(histories(), 0)
    sides = np.hstack([scorer.loadings.astype(float), np.ones((ITEMS, 1))])
    prior = np.diag([1.0, 1.0, 1.0, 0.3])
    # The doubts of loadings are noise of the regressors: expected squares, not squares of what is expected.
    squares = sides[columns].T @ sides[columns] + np.diag([scorer.doubts[columns].sum(dtype=float)] * 3 + [0.0])
    place = np.linalg.solve(
        squares / 0.6 + np.linalg.inv(prior), sides[columns].T @ (values - scorer.means[columns]) / 0.6
    )
    assert scorer.one(columns, values) == pytest.approx(scorer.means + sides @ place, abs=1e-5)


def test_reasons_add_up():
    scorer, (columns, values) = made(), entries(histories(), 1)
    for item in range(ITEMS):
        total = scorer.means[item] + scorer.reasons(columns, values, item).sum()
        assert total == pytest.approx(scorer.one(columns, values)[item], abs=1e-5)


def test_doubtful_items_move_a_user_less():
    sure, columns, values = made(), np.array([0, 1]), np.array([5.0, 5.0])
    unsure = PatternScorer(
        sure.loadings, means=sure.means, doubts=np.full(ITEMS, 5.0), noise=sure.noise, offset=sure.offset
    )
    lists = sparse.csr_array((values, columns, [0, 2]), shape=(1, ITEMS))
    assert np.linalg.norm(unsure.places(lists)[0, :3]) < np.linalg.norm(sure.places(lists)[0, :3])


def test_likeness_is_symmetric_and_at_most_one():
    scorer = made()
    whole = np.array([scorer.similar(item) for item in range(ITEMS)])
    assert (np.diag(whole) == -np.inf).all()
    np.fill_diagonal(whole, 0.0)
    assert np.allclose(whole, whole.T)
    assert (np.abs(whole) <= 1).all()


@pytest.mark.parametrize("kind", ["patterns", "features"])
def test_a_model_of_patterns_is_kept_and_answers(kind, tmp_path):
    rows, catalog = histories(), Catalog([f"film {at}" for at in range(ITEMS)])
    model = Model(
        entity="zip-9", catalog=catalog, history=Ratings(rows, Identifiers("abcdef"), catalog, "ratings"),
        scorer=made(kind=kind), plan=Plan(catalog=catalog, feedback="ratings", bound=5, lower=1, max_items=9, rank=3),
        factors_hash="0" * 64, private=False, strength=10.0, note="", validation=(),
    )  # fmt: skip
    again = decode_model(encode_model(model))
    assert again.scorer.kind == kind
    assert again.recommend("a") == model.recommend("a")
    assert again.recommend_all(n=3).equals(model.recommend_all(n=3))
    told = again.explain("a", "film 3")
    assert sum(one.contribution for one in told.reasons) + told.rest == pytest.approx(told.score, abs=1e-5)
    assert "patterns" in again.summary()
    assert len(again.similar_items("film 0", n=4)) == 4
    assert again.export(tmp_path / "items.npz").exists()
    assert again.export(tmp_path / "items.parquet").exists()


def test_parts_that_do_not_fit_are_refused():
    arrays, settings = made().arrays(), made().settings()
    with refused(BadModel, "arrays"):
        PatternScorer.rebuild({"loadings": arrays["loadings"]}, settings)
    with refused(BadShape, "loadings"):
        PatternScorer.rebuild({**arrays, "means": arrays["means"][:3]}, settings)
    for broken in ({"noise": 0.0}, {"offset": -1.0}, {"kind": "magic"}):
        with refused(BadModel, "settings"):
            PatternScorer.rebuild(arrays, {**settings, **broken})


def test_numbers_that_cannot_be_solved_for_give_our_error():
    """Found by `studies hostile`: LinAlgError came out of such a file."""
    loadings = np.full((ITEMS, 2), 3e38)
    scorer = PatternScorer(loadings, means=np.zeros(ITEMS), doubts=np.zeros(ITEMS), noise=1.0, offset=0.5)
    with np.errstate(all="ignore"), refused(BadNumber):
        scorer.scores(histories())
    with np.errstate(all="ignore"), refused(BadNumber):
        scorer.one(*entries(histories(), 0))
