"""Round 2 at an entity: users given frozen factors, in blocks, and the model built on them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.algorithms.fold_in import FoldIn, fold_in
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity import model as model_module
from twofold.entity.adapt import adapt
from twofold.entity.agent import Entity
from twofold.entity.model import Model
from twofold.entity.models.factors import FactorScorer
from twofold.entity.personalize import fit_alone, read_factors
from twofold.errors import (
    BadMessage,
    BadParameter,
    FactorsChanged,
    NotForRealUse,
    NumericError,
    PlanMismatch,
    ProtocolError,
    TransportError,
)
from twofold.features import Features
from twofold.federation.factors import ItemFactors, encode_factors
from twofold.federation.plan import Plan

ITEMS, RANK = 20, 4
CATALOG = Catalog([f"item-{number}" for number in range(ITEMS)])


def agreed(**changes: object) -> Plan:
    given = {"catalog": CATALOG, "feedback": "counts", "bound": 5, "max_items": 6, "rank": RANK}
    given |= {"mechanism": "buckets"}  # of prototypes, whose item factors come without second moments
    return Plan(**(given | changes))


def shared(plan: Plan | None = None, *, n_items: int = ITEMS, rank: int = RANK, private: bool = True) -> ItemFactors:
    plan = plan or agreed()
    rng = np.random.default_rng(2)
    return ItemFactors(
        plan=plan.hash,
        catalog=plan.catalog.hash,
        factors=rng.random((n_items, rank), dtype=np.float32),
        moments=np.eye(rank),
        means=np.ones(n_items),
        support=np.full(n_items, 50.0),
        users=500.0,
        entities=3,
        private=private,
    )


def rows(users: int, *, seed: int = 0, density: float = 0.3) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 6, (users, ITEMS)) * (rng.random((users, ITEMS)) < density)
    return sparse.csr_array(values.astype(np.float32))


def table(users: int = 60, feedback: str = "counts") -> Ratings:
    return Ratings(rows(users), Identifiers([f"p{number}" for number in range(users)]), CATALOG, feedback)


# User factors


def of_factors(users: sparse.csr_array, factors: ItemFactors, feedback: str = "counts", **settings: object) -> Model:
    """A model of the shared factors as they came."""
    ids = Identifiers([f"p{number}" for number in range(users.shape[0])])
    return Model(
        entity="st-anna",
        catalog=CATALOG,
        history=Ratings(users, ids, CATALOG, feedback),
        scorer=FactorScorer(factors.factors, feedback=feedback, **settings),
        plan=agreed(feedback=feedback),
        factors_hash=factors.hash,
        private=True,
        strength=np.inf,
        note="",
    )


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
@pytest.mark.parametrize("block", [1, 7, 64, 65_536])
def test_blocks_give_what_folding_in_at_once_gives(feedback, block, monkeypatch):
    monkeypatch.setattr(model_module, "BLOCK", block)
    users, factors = rows(101), shared()
    expected = fold_in(users, factors.factors, feedback=feedback)
    assert expected.std() > 0
    before = factors.hash
    np.testing.assert_array_equal(of_factors(users, factors, feedback).user_factors, expected)
    assert factors.hash == before


def test_settings_reach_the_fit():
    users, factors = rows(40), shared()
    settings = {"zero_weight": 0.3, "regularization": 2.0, "count_scaling": 0.0}
    expected = fold_in(users, factors.factors, feedback="counts", **settings)
    np.testing.assert_array_equal(of_factors(users, factors, **settings).user_factors, expected)
    assert not np.array_equal(expected, fold_in(users, factors.factors, feedback="counts"))


def test_threads_change_nothing():
    users, factors = rows(300), shared()
    one, two = (of_factors(users, factors, threads=number).user_factors for number in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_users_without_entries_and_no_users_at_all():
    users, factors = rows(5, density=0.0), shared()
    assert not of_factors(users, factors, "ratings").user_factors.any()
    assert of_factors(rows(0), factors).user_factors.shape == (0, RANK)


def test_unknown_feedback_is_refused():
    with pytest.raises(NumericError):
        _ = FactorScorer(shared().factors, feedback="stars").ready


def test_a_fit_that_writes_to_the_shared_factors_is_noticed(monkeypatch):
    factors, real = shared(), FoldIn.rows

    def careless(self, given, **named):
        factors.factors.flags.writeable = True
        factors.factors[0, 0] += 1
        return real(self, given, **named)

    monkeypatch.setattr(FoldIn, "rows", careless)
    with pytest.raises(FactorsChanged):
        Entity("st-anna", table(30), agreed()).personalize(factors, local="factors", strength="shared", threads=1)


def peak_beside_the_result(users: int, block: int, monkeypatch: pytest.MonkeyPatch) -> int:
    given, factors = rows(users), shared()
    monkeypatch.setattr(model_module, "BLOCK", block)
    _ = of_factors(given[:10], factors, threads=1).user_factors  # compiled before it is measured
    model = of_factors(given, factors, threads=1)
    _ = model._inside.rows
    tracemalloc.start()
    result = model.user_factors
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - result.nbytes


def test_memory_does_not_grow_with_the_users(monkeypatch):
    small, large = (peak_beside_the_result(users, 500, monkeypatch) for users in (4_000, 40_000))
    assert large < 1.25 * small
    whole = peak_beside_the_result(40_000, 40_000, monkeypatch)
    assert whole > 5 * large  # the measurement does see what a block takes


# What was published


def test_factors_come_as_they_are_as_bytes_and_as_a_file(tmp_path):
    plan, factors = agreed(), shared()
    data = encode_factors(factors, plan)
    path = tmp_path / "items.round2"
    path.write_bytes(data)
    for given in (factors, data, bytearray(data), path, str(path)):
        assert read_factors(given, plan).hash == factors.hash


def test_factors_of_another_plan_or_catalog_are_refused(tmp_path):
    other = agreed(rank=3)
    with refused(PlanMismatch, "plan"):
        read_factors(shared(other), agreed())
    with refused(PlanMismatch, "plan", found="rank is 3, here 4"):
        read_factors(encode_factors(shared(other, rank=3), other), agreed())
    with refused(PlanMismatch, "catalog"):
        read_factors(shared(agreed(catalog=Catalog(["x"]), max_items=1)), agreed())


def test_a_lower_rank_is_taken_and_other_sizes_are_not():
    assert read_factors(shared(rank=2), agreed()).rank == 2
    with refused(PlanMismatch, "factors"):
        read_factors(shared(rank=RANK + 1), agreed())
    with refused(PlanMismatch, "factors"):
        read_factors(shared(n_items=ITEMS - 1), agreed())


def test_what_is_not_private_is_for_simulations():
    with pytest.raises(NotForRealUse):
        read_factors(shared(private=False), agreed())
    plan = agreed(simulation=True)
    assert not read_factors(shared(plan, private=False), plan).private


def test_what_is_no_factors_is_refused(tmp_path):
    with refused(ProtocolError, "factors", found="a int"):
        read_factors(7, agreed())
    with pytest.raises(BadMessage):
        read_factors(b"nothing of ours", agreed())
    with pytest.raises(TransportError):
        read_factors(tmp_path / "missing", agreed())


# The model


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_an_entity_gets_a_model(feedback):
    plan = agreed(feedback=feedback)
    entity = Entity("st-anna", table(feedback=feedback), plan)  # needs no ledger: nothing leaves
    factors = shared(plan)
    before = factors.hash
    model = entity.personalize(factors, threads=1)
    assert (model.entity, model.factors_hash, model.private) == ("st-anna", before, True)
    assert factors.hash == before
    assert len(model.recommend("p3", n=3)) == 3
    assert model.note


def test_values_are_cut_to_the_plan_and_items_are_not():
    wild = Ratings(
        sparse.csr_array(np.full((40, ITEMS), 1e6, dtype=np.float32)),
        Identifiers([f"p{number}" for number in range(40)]),
        CATALOG,
        "counts",
    )
    model = Entity("st-anna", wild, agreed()).personalize(shared(), local="factors", strength="shared", threads=1)
    assert model.history.matrix.data.max() == 5
    assert model.history.entries_per_user.max() == ITEMS


def test_bytes_give_the_same_model_as_factors():
    plan, entity = agreed(), Entity("st-anna", table(), agreed())
    one, two = (entity.personalize(given, threads=1) for given in (shared(), encode_factors(shared(), plan)))
    assert [(x.item, x.score) for x in one.recommend("p1")] == [(x.item, x.score) for x in two.recommend("p1")]


def test_a_model_from_other_factors_is_refused():
    with pytest.raises(PlanMismatch):
        Entity("st-anna", table(), agreed()).personalize(shared(agreed(rank=3)))


# Alone


def arrays_of(model: Model) -> dict[str, np.ndarray]:
    return {"strength": np.array(model.strength), **model.scorer.arrays()}


GENRES = Features(matrix=np.arange(ITEMS)[:, None] % 4 == np.arange(4), names=tuple("abcd"))


@pytest.mark.parametrize("features", [None, GENRES])
@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_alone_is_what_adapting_to_nothing_gives(feedback, features):
    plan, ratings = agreed(feedback=feedback, features=features, lower=0, seed=3), table(feedback=feedback)
    settings = {"lower": plan.lower, "bound": plan.bound, "rank": plan.rank, "seed": plan.seed, "features": features}
    expected = adapt(ratings.matrix, None, feedback=feedback, threads=1, **settings)
    alone = fit_alone(ratings, threads=1, **settings)
    entity = Entity("st-anna", ratings, plan).personalize(None, threads=1)
    for model in (alone, entity):
        assert (model.alone, model.factors_hash, model.private, model.strength) == (True, "", True, 0.0)
        assert (model.note, model.validation) == (expected.note, expected.table)
        np.testing.assert_equal(model.scorer.arrays(), expected.scorer.arrays())
    assert alone.recommend("p3") == entity.recommend("p3")
    assert (alone.plan, entity.plan) == (None, plan)


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_alone_nothing_is_cut_unless_bounds_are_given(feedback):
    ratings = table(feedback=feedback)
    model = fit_alone(ratings, local="factors", threads=1)
    assert (model.lower, model.bound) == (0.0 if feedback == "counts" else 1.0, 5.0)
    assert (model.history.matrix != ratings.matrix).nnz == 0
    narrow = fit_alone(ratings, local="factors", lower=2, bound=3, threads=1)
    assert (narrow.history.matrix.data.min(), narrow.history.matrix.data.max()) == (2, 3)
    assert narrow.recommend({"item-1": 99}) == narrow.recommend({"item-1": 3})


@pytest.mark.parametrize("planned", [False, True])
def test_a_model_alone_is_kept_and_says_that_nothing_was_shared(planned, tmp_path):
    model = Entity("st-anna", table(), agreed()).personalize(None) if planned else fit_alone(table(), name="st-anna")
    same = Model.load(model.save(tmp_path / "model"))
    assert same.recommend("p3") == model.recommend("p3")
    assert same.recommend({"item-2": 9}) == model.recommend({"item-2": 9})
    assert (same.lower, same.bound, same.alone) == (model.lower, model.bound, True)
    assert same.summary() == model.summary()
    assert "Nothing was shared" in model.summary()
    assert ("without a plan" in model.summary()) is not planned
    assert repr(model).endswith(", alone)")


def test_alone_there_is_nothing_to_be_drawn_to():
    with refused(BadParameter, "strength"):
        Entity("st-anna", table(), agreed()).personalize(None, strength="shared")


def test_alone_without_anybody_there_is_still_a_model():
    model = fit_alone(table(0), threads=1)
    assert len(model.recommend({"item-1": 1}, n=3)) == 3


def test_alone_from_a_sparse_matrix() -> None:
    counts = sparse.csc_matrix(np.kron(np.eye(2), np.ones((20, 6))))
    model = fit_alone(counts)
    assert model.recommend({0: 1, 1: 1}, n=1)[0].item in range(6)
    assert {one.item for one in model.recommend(0, n=6, exclude_seen=False)} == set(range(6))
    same = fit_alone(Ratings.from_matrix(counts))
    assert model.history.digest() == same.history.digest()
