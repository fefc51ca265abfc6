"""Adaptation of counts to shared second moments and to public features."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.entity.adapt import Adapted, adapt
from twofold.entity.candidates import SECOND_LADDER
from twofold.entity.models.item_item import ItemItemScorer
from twofold.errors import BadParameter, BadShape
from twofold.evaluate.measure import user_ndcg
from twofold.features import Features
from twofold.federation.factors import ItemFactors

ITEMS, CLASSES = 60, 6
CLASS = np.arange(ITEMS) % CLASSES
TABLE = Features(matrix=np.eye(CLASSES, dtype=np.int64)[CLASS], names=tuple("abcdef"))


def people(users: int, seed: int) -> sparse.csr_array:
    """Items of a class are used together, some classes more at some entities."""
    rng = np.random.default_rng(seed)
    of_class = rng.gamma(0.3, 1.0, size=(users, CLASSES))
    rates = of_class[:, CLASS] * np.random.default_rng(99).gamma(1.0, 1.0, size=ITEMS)
    return sparse.csr_array(np.minimum(rng.poisson(3 * rates), 5).astype(np.float32))


def shared_of(rows: sparse.csr_array) -> ItemFactors:
    x = np.sqrt(rows.toarray().astype(float))
    values, axes = np.linalg.eigh(x.T @ x / len(x))
    return ItemFactors(
        plan="0" * 64, catalog="0" * 64, factors=np.zeros((ITEMS, 1), np.float32), moments=np.zeros((1, 1)),
        means=rows.toarray().mean(axis=0).astype(float), support=np.full(ITEMS, float(len(x))), users=float(len(x)),
        entities=5, private=False, patterns=axes.astype(np.float32), strengths=np.maximum(values, 0.0),
        squares=(x**2).mean(axis=0),
    )  # fmt: skip


def nothing() -> ItemFactors:
    """What a federation of pure noise sends."""
    none = shared_of(people(50, 3))
    return replace(none, patterns=np.zeros((ITEMS, 0), np.float32), strengths=np.zeros(0))


def noise_patterns() -> ItemFactors:
    axes = np.linalg.qr(np.random.default_rng(5).normal(size=(ITEMS, 10)))[0]
    return replace(shared_of(people(50, 3)), patterns=axes.astype(np.float32), strengths=np.full(10, 20.0))


def run(rows: sparse.csr_array, shared: ItemFactors | None, **options: object) -> Adapted:
    return adapt(rows, shared, feedback="counts", lower=0, bound=5, rank=4, threads=1, **options)


def score(made: Adapted, seed: int = 77) -> np.ndarray:
    """Gain of lists for new people, every third entry of theirs held out."""
    rows = people(400, seed).toarray()
    held = np.where(np.random.default_rng(seed).random(rows.shape) < 1 / 3, rows, 0)
    history, test = sparse.csr_array(rows - held), sparse.csr_array(held)
    return user_ndcg(made.scorer.scores(history), test, seen=history, n=10)


def better(one: Adapted, other: Adapted) -> tuple[float, float]:
    gaps = score(one) - score(other)
    gaps = gaps[~np.isnan(gaps)]
    return float(gaps.mean()), float(gaps.std() / math.sqrt(gaps.size))


def test_a_tiny_entity_gains_from_shared_second_moments():
    rows = people(15, 1)
    made, alone = run(rows, shared_of(people(4_000, 2))), run(rows, None)
    gain, error = better(made, alone)
    assert made.kind.startswith("shared taste")
    assert made.strength > 0
    assert gain > 3 * error


@pytest.mark.parametrize("shared", [nothing, noise_patterns])
@pytest.mark.parametrize("users", [15, 150])
def test_worthless_second_moments_do_no_harm(shared, users):
    rows = people(users, 4)
    gain, error = better(run(rows, shared()), run(rows, None))
    assert gain > -max(error, 1e-12)


def test_public_features_alone_are_a_candidate_of_their_own():
    rows = people(15, 6)
    made, alone = run(rows, None, features=TABLE), run(rows, None)
    assert (made.kind, made.strength) == ("features", 0.0)
    gain, error = better(made, alone)
    assert gain > 3 * error


def test_shared_and_public_knowledge_can_be_mixed():
    made = run(people(15, 7), shared_of(people(4_000, 2)), features=TABLE, strength=300.0)
    assert {(line["kind"], line["strength"]) for line in made.table} == {
        (kind, 300.0) for kind in ("item-item", "mixed", "factors")
    }


def test_a_kind_that_was_asked_for_is_tried_at_several_strengths():
    made = run(people(15, 7), shared_of(people(4_000, 2)), local="item-item")
    assert [line["strength"] for line in made.table] == list(SECOND_LADDER)
    assert isinstance(made.scorer, ItemItemScorer)


@pytest.mark.parametrize("strength", ["own", 100.0, "shared"])
def test_a_given_strength_is_what_all_candidates_have(strength):
    wanted = {"own": 0.0, "shared": math.inf}.get(strength, strength)
    made = run(people(20, 8), shared_of(people(300, 2)), features=TABLE, strength=strength)
    assert {line["strength"] for line in made.table} == {wanted}


def test_shared_only_knows_nothing_of_the_entity():
    """The ridge is in entries of the entity's average size, so the other entity has the same entries elsewhere."""
    shared, rows = shared_of(people(300, 2)), people(20, 8)
    other = sparse.csr_array(rows.toarray()[:, ::-1].copy())
    one, same = (run(given, shared, local="item-item", strength="shared").scorer for given in (rows, other))
    mixed = run(other, shared, local="item-item", strength=300.0).scorer
    new = people(5, 1)
    np.testing.assert_allclose(one.scores(new), same.scores(new), atol=1e-6)
    assert not np.allclose(one.scores(new), mixed.scores(new), atol=1e-3)


def test_features_can_be_asked_for_and_must_fit():
    assert run(people(20, 8), None, local="features", features=TABLE).kind == "features"
    with refused(BadParameter, "features"):
        run(people(20, 8), None, local="features")
    with pytest.raises(BadShape):
        run(people(20, 8), None, features=Features(matrix=TABLE.matrix[:7], names=TABLE.names))


HOSTILE = {
    "strengths": {"strengths": np.full(ITEMS, 1.7e308)},
    "patterns": {"patterns": np.full((ITEMS, ITEMS), np.finfo(np.float32).max, np.float32)},
    "squares": {"squares": np.full(ITEMS, 1.7e308)},
    "negative": {"strengths": np.full(ITEMS, -1e9), "squares": np.full(ITEMS, -1e9)},
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("users", [5, 60])
def test_with_hostile_second_moments_an_entity_gets_a_usable_model(name, users):
    rows = people(users, 10)
    made = run(rows, replace(shared_of(people(50, 3)), **HOSTILE[name]), features=TABLE)
    assert np.isfinite(made.scorer.scores(rows)).all()
    assert all(line["loss"] == math.inf for line in made.table if "remark" in line)
