"""Patterns fitted to an entity's ratings: alone, drawn to shared ones or to public features, or as they came."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from twofold.entity.adapt import adapt
from twofold.entity.models.pattern_solve import Table, average_offsets, packed_squares, posterior, unpacked
from twofold.entity.models.patterns import PatternFit
from twofold.errors import BadParameter, BadShape
from twofold.features import Features
from twofold.federation.factors import ItemFactors

ITEMS = 60
CLASSES = np.eye(6, dtype=np.int64)[np.arange(ITEMS) % 6]
FEATURES = Features(matrix=CLASSES, names=tuple("abcdef"))
TASTES = np.array([[0.9, 0], [-0.9, 0], [0, 0.8], [0, -0.8], [0.5, 0.5], [0, 0.0]])


def items() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(50)
    return CLASSES @ TASTES + 0.3 * rng.normal(size=(ITEMS, 2)), 0.5 * rng.normal(size=ITEMS)


def people(users: int, seed: int) -> tuple[sparse.csr_array, np.ndarray]:
    loadings, offsets = items()
    rng = np.random.default_rng(seed)
    truth = 3.3 + offsets + 0.3 * rng.normal(size=(users, 1)) + rng.normal(size=(users, 2)) @ loadings.T
    stars = np.clip(np.rint(truth + 0.5 * rng.normal(size=truth.shape)), 1, 5)
    return sparse.csr_array(np.where(rng.random(truth.shape) < 0.3, stars, 0).astype(np.float32)), truth


def shared(*, noise: float = 0.0) -> ItemFactors:
    loadings, offsets = items()
    rng = np.random.default_rng(3)
    axes, lengths, _ = np.linalg.svd(loadings + noise * rng.normal(size=loadings.shape), full_matrices=False)
    return ItemFactors(
        plan="0" * 64, catalog="0" * 64, factors=np.ones((ITEMS, 1), np.float32), moments=np.ones((1, 1)),
        means=3.0 + offsets + noise * rng.normal(size=ITEMS), support=np.full(ITEMS, 500.0), users=1_000.0, entities=9,
        private=False, patterns=axes.astype(np.float32), strengths=lengths**2, squares=(loadings**2).sum(axis=1),
    )  # fmt: skip


def fit(rows: sparse.csr_array, sent: ItemFactors | None = None, features: Features | None = None) -> PatternFit:
    return PatternFit(rows, sent, features, rank=8, seed=0)


def loss(scorer, rows: sparse.csr_array, truth: np.ndarray) -> float:
    absent = rows.toarray() == 0
    return float(np.mean((np.clip(scorer.scores(rows), 1, 5) - np.clip(truth, 1, 5))[absent] ** 2))


def run(rows, sent=None, **options):
    return adapt(rows, sent, feedback="ratings", lower=1, bound=5, rank=8, **options)


def test_many_users_alone_are_near_the_truth():
    rows, truth = people(400, 1)
    base = np.mean((3.3 - np.clip(truth, 1, 5)) ** 2)
    assert loss(fit(rows).scorer(0.0), rows, truth) < 0.25 * base


def test_good_shared_patterns_help_few_users_and_drawn_is_best():
    rows, truth = people(40, 2)
    made = fit(rows, shared(noise=0.1))
    alone, drawn, sent = (loss(made.scorer(strength), rows, truth) for strength in (0.0, 10.0, math.inf))
    assert drawn < 0.8 * alone
    assert sent < alone


def test_public_features_help_few_users():
    rows, truth = people(60, 3)
    assert loss(fit(rows, None, FEATURES).featured(), rows, truth) < 0.9 * loss(fit(rows).scorer(0.0), rows, truth)


def test_the_stronger_the_nearer_to_what_was_sent():
    rows, _ = people(60, 4)
    made = fit(rows, shared())
    wanted = made.scorer(1e12).scores(rows)
    gaps = [np.abs(made.scorer(strength).scores(rows) - wanted).mean() for strength in (1.0, 100.0, 10_000.0)]
    assert gaps[0] > gaps[1] > gaps[2]


def test_worthless_patterns_are_not_taken():
    rows, truth = people(300, 5)
    adapted, alone = run(rows, shared(noise=8.0)), run(rows)
    assert not math.isinf(adapted.strength)
    assert loss(adapted.scorer, rows, truth) < 1.1 * loss(alone.scorer, rows, truth)


def test_adaptation_takes_patterns_and_says_so():
    rows, truth = people(60, 6)
    adapted = run(rows, shared(noise=0.1), features=FEATURES)
    assert adapted.kind == "patterns"
    assert adapted.strength > 0
    tried = {(line["kind"], line["strength"]) for line in adapted.table}
    assert tried == {*(("patterns", step) for step in (0.0, 10.0, math.inf)), ("features", 0.0), ("item-item", 0.0)}
    assert loss(adapted.scorer, rows, truth) < loss(run(rows).scorer, rows, truth)


def test_public_features_without_anything_shared():
    rows, _ = people(60, 7)
    made = run(rows, features=FEATURES)
    assert made.strength == 0
    assert made.kind == "features"
    assert run(rows, features=FEATURES, local="features").kind == "features"


def test_ratings_of_another_scale_give_the_same_model():
    rows, _ = people(80, 8)
    wide = rows.copy()
    wide.data = 20 * rows.data - 60
    small, large = (fit(each, None, FEATURES).featured() for each in (rows, wide))
    assert large.scores(wide) == pytest.approx(20 * small.scores(rows) - 60, abs=0.05)


def test_the_same_seed_gives_the_same_model():
    rows, _ = people(30, 9)
    one, other = (fit(rows).scorer(0.0).arrays() for _ in range(2))
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)


@pytest.mark.parametrize(
    "rows", [np.zeros((0, ITEMS)), np.zeros((3, ITEMS)), np.eye(1, ITEMS) * 4, np.full((5, ITEMS), 3.0)]
)
def test_hardly_anything_to_fit(rows):
    matrix = sparse.csr_array(rows.astype(np.float32))
    made = fit(matrix, shared(), FEATURES)
    for scorer in (made.scorer(0.0), made.scorer(10.0), made.scorer(math.inf), made.featured()):
        assert np.isfinite(scorer.scores(matrix)).all()
        assert np.isfinite(scorer.one(np.array([0]), np.array([5.0]))).all()


def test_what_cannot_be_asked_for():
    rows, _ = people(10, 10)
    with pytest.raises(BadParameter, match="for ratings"):
        adapt(rows, None, feedback="counts", lower=0, bound=5, rank=2, local="patterns")
    with pytest.raises(BadParameter, match="nothing shared"):
        run(rows, replace(shared(), patterns=None, strengths=None, squares=None), local="patterns", strength="shared")
    with pytest.raises(BadParameter, match="public table"):
        run(rows, local="features")
    with pytest.raises(BadShape, match="features"):
        run(rows, features=Features(matrix=CLASSES[:5], names=tuple("abcdef")))


def test_an_item_many_rate_is_expected_to_be_liked():
    rng = np.random.default_rng(0)
    often = np.arange(ITEMS) < ITEMS // 2
    stars = np.where(often, 4.0, 2.0) + 0.0 * rng.random((50, ITEMS))
    rows = sparse.csr_array(np.where(rng.random((50, ITEMS)) < np.where(often, 0.8, 0.1), stars, 0))
    offsets = average_offsets(rows, None)
    assert offsets[often].mean() > offsets[~often].mean() + 1.0


def test_rows_are_solved_exactly():
    rng = np.random.default_rng(1)
    values, regressors = rng.normal(size=(5, 7)), rng.normal(size=(7, 3))
    prior, pull = np.diag([1.0, 2.0, 3.0]), rng.normal(size=3)
    found = posterior(
        Table.of(sparse.csr_array(values)),
        regressors,
        packed_squares(regressors),
        0 * regressors,
        prior,
        pull,
        noise=0.5,
    )
    matrix = regressors.T @ regressors / 0.5 + prior
    assert found.means == pytest.approx(np.linalg.solve(matrix, (values @ regressors / 0.5 + pull).T).T)
    assert unpacked(found.spreads, 3)[4] == pytest.approx(np.linalg.inv(matrix))
    rest = ((values - found.means @ regressors.T) ** 2).sum() + 5 * np.sum(
        np.linalg.inv(matrix) * (regressors.T @ regressors)
    )
    assert (values**2).sum() - found.explained == pytest.approx(rest)
