"""Adaptation of counts to shared second moments and to public features."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.entity.adapt import Adapted, adapt
from twofold.entity.candidates import SECOND_LADDER
from twofold.entity.models.blend import Scorer
from twofold.entity.models.factors import FactorScorer, damped_rows, damping_of_items, drawn_factors
from twofold.entity.models.item_item import ItemItemScorer
from twofold.entity.models.ridge import pattern_prior, weights_from_gram
from twofold.entity.models.side import unit_rows
from twofold.errors import BadParameter, BadShape
from twofold.evaluation.measure import user_ndcg
from twofold.features import Features
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import CatalogKey, Plan
from twofold.release.content import Moments
from twofold.server.counts import factorize_counts
from twofold.server.factorize import signed

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
    x = unit_rows(rows).toarray()
    values, axes = np.linalg.eigh(x.T @ x / len(x))
    return ItemFactors(
        plan="0" * 64, catalog="0" * 64, factors=np.zeros((ITEMS, 1), np.float32), moments=np.zeros((1, 1)),
        means=(x**2).mean(axis=0), support=np.full(ITEMS, float(len(x))), users=float(len(x)),
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


def score(made: Adapted | Scorer, seed: int = 77) -> np.ndarray:
    """Gain of lists for new people, every third entry of theirs held out."""
    scorer = made.scorer if isinstance(made, Adapted) else made
    rows = people(400, seed).toarray()
    held = np.where(np.random.default_rng(seed).random(rows.shape) < 1 / 3, rows, 0)
    history, test = sparse.csr_array(rows - held), sparse.csr_array(held)
    return user_ndcg(scorer.scores(history), test, seen=history, n=10)


def better(one: Adapted | Scorer, other: Adapted | Scorer) -> tuple[float, float]:
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
    shared, new = shared_of(people(300, 2)), people(5, 1)
    one, same = (
        run(rows, shared, local="item-item", strength="shared").scorer for rows in (people(20, 8), 4 * people(7, 9))
    )
    mixed = run(people(20, 8), shared, local="item-item", strength=300.0).scorer
    np.testing.assert_array_equal(one.scores(new), same.scores(new))
    assert not np.allclose(one.scores(new), mixed.scores(new), atol=1e-3)


# Shared moments are of unit rows, own rows are as long as they are


@functools.cache
def sent(noise: float) -> ItemFactors:
    """What the server makes of the unit rows of 4,000 people in some noise."""
    unit, rng = unit_rows(people(4_000, 2)), np.random.default_rng(0)
    apart = np.triu(rng.normal(size=(ITEMS, ITEMS)) * noise)
    moments = Moments(
        kind="gram", users=4_000.0, sums=np.asarray(unit.sum(axis=0)).ravel() + rng.normal(size=ITEMS) * noise,
        pairs=(unit.T @ unit).toarray() + apart + np.triu(apart, 1).T, users_noise=0.0, sums_noise=noise,
        pairs_noise=noise, cap=1.0, entities=5, seeded=True,
    )  # fmt: skip
    plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=ITEMS), bound=5, max_items=9, rank=CLASSES, simulation=True)
    return signed(factorize_counts(moments, plan), plan, entities=5, sound=False)


@pytest.mark.parametrize(("local", "strength"), [("item-item", 100.0), ("factors", 3.0)])
def test_a_shared_person_weighs_as_an_own_one_however_long_own_rows_are(local, strength):
    rows, new = people(20, 8), people(30, 1)
    one, four = (run(many * rows, sent(6.0), local=local, strength=strength).scorer.scores(new) for many in (1, 4))
    unlike = run(rows, sent(6.0), local=local, strength=4 * strength).scorer.scores(new)

    def apart(other):
        return np.abs(one / np.linalg.norm(one) - other / np.linalg.norm(other)).max()

    assert apart(four) < 1e-3 * apart(unlike) + 1e-6


def drawn_as_counts(rows: sparse.csr_array, shared: ItemFactors) -> FactorScorer:
    """Factors of unit rows taken for those of counts: damped once more, and pulled to own rows of any length."""
    towards = shared.factors * damping_of_items(rows, 0.5).astype(np.float32)[:, None]
    found = drawn_factors(
        damped_rows(rows, 0.5), towards, shared.moments, 100.0, start=towards, feedback="counts", penalty=0.02
    )
    return FactorScorer(found, feedback="counts", zero_weight=1.0, regularization=0.02, power=0.5)


def ridge_of_own_size(rows: sparse.csr_array, shared: ItemFactors) -> ItemItemScorer:
    """Shared moments of unit rows under a ridge of entries of own size."""
    extra, rest = pattern_prior(shared, None, 0)
    ridge = shared.users * rest + 75.0 * damped_rows(rows, 0.5).power(2).sum() / rows.nnz
    weights = weights_from_gram(shared.users * extra.T @ extra, ridge)
    return ItemItemScorer(weights, means=np.zeros(ITEMS), feedback="counts", power=0.5)


@pytest.mark.parametrize("noise", [0.5, 6.0])
@pytest.mark.parametrize(
    ("local", "strength", "before"), [("factors", 3.0, drawn_as_counts), ("item-item", "shared", ridge_of_own_size)]
)
def test_kinds_asked_for_gain_more_than_in_mixed_units(local, strength, before, noise):
    gains, kept = [], []
    for seed in range(1, 5):
        rows = people(12, seed)
        made = run(rows, sent(noise), local=local, strength=strength)
        gains.append(better(made, run(rows, None, local=local))[0])
        kept.append(better(made, before(rows, sent(noise)))[0])
    assert min(gains) > 0
    assert np.mean(kept) > 0


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
