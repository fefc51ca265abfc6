"""Adaptation: gains for tiny entities, no harm from a worthless shared model, never a crash."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.entity.adapt import adapt, choose
from twofold.entity.candidates import UNUSABLE, Candidate, Judged, Losses, candidates
from twofold.entity.models.blend import Scorer
from twofold.entity.models.factors import FactorScorer
from twofold.entity.models.item_item import MAX_ITEMS, ItemItemScorer
from twofold.errors import BadNumber, BadParameter, BadShape
from twofold.evaluation.measure import user_ndcg
from twofold.federation.factors import ItemFactors

adapt_module = importlib.import_module("twofold.entity.adapt")
ITEMS, RANK = 40, 4
RANGE = {"counts": (0.0, 5.0), "ratings": (1.0, 5.0)}


def world(feedback: str, users: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """True factors of users and of items, the items' the same for every seed."""
    V = np.random.default_rng(99).gamma(0.3, 1.0, size=(ITEMS, RANK))
    U = np.random.default_rng(seed).dirichlet(np.full(RANK, 0.3), size=users)
    if feedback == "ratings":
        V = 1.0 + 4.0 * V / V.max(axis=1, keepdims=True)
    return U, V


def people(feedback: str, users: int, seed: int) -> sparse.csr_array:
    U, V = world(feedback, users, seed)
    rng = np.random.default_rng([seed, 1])
    if feedback == "counts":
        return sparse.csr_array(np.minimum(rng.poisson(1.5 * U @ V.T), 5).astype(np.float32))
    stars = np.clip(np.rint(U @ V.T + rng.normal(scale=0.4, size=(users, ITEMS))), 1, 5)
    return sparse.csr_array(np.where(rng.random(stars.shape) < 0.4, stars, 0).astype(np.float32))


def shared_model(feedback: str, *, factors: np.ndarray | None = None, users: int = 2_000) -> ItemFactors:
    U, V = world(feedback, users, 7)
    if feedback == "counts":
        V = 1.5 * V
    V = V if factors is None else factors
    means = (U @ V.T).mean(axis=0) if factors is None else np.full(len(V), 1.5)
    support = np.full(len(V), float(users) if feedback == "counts" else 0.4 * users)
    return ItemFactors(
        plan="0" * 64, catalog="0" * 64, factors=V.astype(np.float32), moments=U.T @ U / users, means=means,
        support=support, users=float(users), entities=9, private=False,
    )  # fmt: skip


def run(rows, shared, feedback, **options):
    lower, bound = RANGE[feedback]
    return adapt(rows, shared, feedback=feedback, lower=lower, bound=bound, rank=options.pop("rank", RANK), **options)


def quality(scorer: Scorer, feedback: str, seed: int = 55) -> float:
    """Loss on people never seen: squared error of the truth, or 1 - nDCG of what they would have done."""
    rows = people(feedback, 200, seed)
    U, V = world(feedback, 200, seed)
    mask = np.random.default_rng(0).random(rows.shape) < 0.3
    history = sparse.csr_array(np.where(mask, 0, rows.toarray()))
    scores = scorer.scores(history)
    if feedback == "ratings":
        return float(np.mean((np.clip(scores, 1, 5) - U @ V.T)[history.toarray() == 0] ** 2))
    held = sparse.csr_array(np.where(mask, rows.toarray(), 0))
    return 1 - float(np.nanmean(user_ndcg(scores, held, seen=history)))


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_a_tiny_entity_gains_from_a_good_shared_model(feedback):
    rows = people(feedback, 12, 1)
    alone, adapted = run(rows, None, feedback), run(rows, shared_model(feedback), feedback)
    assert alone.strength == 0
    assert adapted.strength > 0
    assert adapted.gain > 0
    assert quality(adapted.scorer, feedback) < quality(alone.scorer, feedback)


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_a_worthless_shared_model_does_next_to_no_harm(feedback):
    rows, rng = people(feedback, 300, 2), np.random.default_rng(0)
    noise = shared_model(feedback, factors=rng.gamma(1.0, 1.0, size=(ITEMS, RANK)))
    alone, adapted = run(rows, None, feedback), run(rows, noise, feedback)
    assert not math.isinf(adapted.strength)
    assert adapted.strength == 0 or adapted.gain > 0
    assert quality(adapted.scorer, feedback) < 1.05 * quality(alone.scorer, feedback)


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_alone_with_a_shared_model_is_alone_without_one(feedback):
    rows = people(feedback, 60, 3)
    one = run(rows, None, feedback, local="item-item")
    other = run(rows, shared_model(feedback), feedback, local="item-item", strength="own")
    assert (one.scorer.scores(rows) == other.scorer.scores(rows)).all()


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_the_stronger_the_nearer_to_the_shared_model(feedback):
    rows, shared = people(feedback, 60, 4), shared_model(feedback)
    wanted = run(rows, shared, feedback, local="factors", strength=1e9).scorer
    assert isinstance(wanted, FactorScorer)
    gaps = []
    for strength in (1.0, 100.0, 10_000.0):
        made = run(rows, shared, feedback, local="factors", strength=strength)
        assert made.strength == strength
        gaps.append(np.abs(made.scorer.arrays()["factors"] - wanted.factors).max())
    assert gaps[0] > gaps[1] > gaps[2]


def test_a_strength_that_was_given_is_not_said_to_beat_alone():
    made = run(people("counts", 20, 5), shared_model("counts"), "counts", strength=100.0)
    assert made.strength == 100.0
    assert "not compared with alone" in made.note
    assert "smaller than alone" not in made.note


def test_shared_only_for_counts_are_the_factors_as_they_came():
    shared = shared_model("counts")
    made = run(people("counts", 20, 5), shared, "counts", local="factors", strength="shared")
    assert (made.scorer.arrays()["factors"] == shared.factors).all()
    assert math.isinf(made.strength)
    assert made.table[0]["strength"] == math.inf
    assert (made.gain, made.gain_error) == (0.0, 0.0)


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_deterministic_whatever_the_threads_and_shared_numbers_stay(feedback):
    rows, shared = people(feedback, 80, 6), shared_model(feedback)
    before, entries = shared.hash, rows.copy()
    one, two = run(rows, shared, feedback, threads=1), run(rows, shared, feedback, threads=2)
    assert one.table == two.table
    assert one.note == two.note
    for name, part in one.scorer.arrays().items():
        np.testing.assert_array_equal(part, two.scorer.arrays()[name])
    assert shared.hash == before
    assert (rows.data == entries.data).all()


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
@pytest.mark.parametrize("given", ["shared", "zeros", None])
@pytest.mark.parametrize(
    "shape", [(0, ITEMS), (1, ITEMS), (2, ITEMS), (5, ITEMS), (40, ITEMS)], ids=["none", "one", "two", "five", "silent"]
)
def test_never_crashes_and_never_says_nan(feedback, given, shape):
    rows = people(feedback, 60, 8)[: shape[0]]
    if shape[0] == 40:  # only two of forty have any entries
        rows = sparse.csr_array(np.vstack([rows.toarray()[:2], np.zeros((38, ITEMS))]).astype(np.float32))
    zeros = shared_model(feedback, factors=np.zeros((ITEMS, RANK)))
    shared = {"shared": shared_model(feedback), "zeros": zeros, None: None}[given]
    made = run(rows, shared, feedback, rank=50)
    scores = made.scorer.scores(people(feedback, 5, 9))
    assert scores.shape == (5, ITEMS)
    assert np.isfinite(scores).all()
    assert np.isfinite(made.scorer.one(np.zeros(0, int), np.zeros(0))).all()
    assert made.kind == made.scorer.kind if feedback == "ratings" else made.scorer.kind in ("stack", "popularity")
    assert made.note


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_a_catalog_of_one_item(feedback):
    shared = shared_model(feedback, factors=np.ones((1, RANK)))
    made = run(sparse.csr_array(np.full((6, 1), 3.0, np.float32)), shared, feedback)
    assert np.isfinite(made.scorer.scores(sparse.csr_array(np.array([[2.0]], np.float32)))).all()


def test_all_values_equal():
    rows = sparse.csr_array(np.full((8, 6), 4.0, np.float32))
    made = adapt(rows, None, feedback="ratings", lower=1, bound=5, rank=2)
    np.testing.assert_allclose(made.scorer.one(np.array([0, 1]), np.array([4.0, 4.0])), 4.0, atol=0.2)


def test_ratings_are_predicted_in_stars():
    rows = people("ratings", 200, 10)
    for local in ("item-item", "factors"):
        scores = run(rows, None, "ratings", local=local).scorer.scores(people("ratings", 50, 11))
        assert 1.0 < np.median(scores) < 5.0
        assert quality(run(rows, None, "ratings", local=local).scorer, "ratings") < 0.6


def test_the_table_names_all_that_was_tried():
    made = run(people("ratings", 60, 12), shared_model("ratings"), "ratings")
    tried = {(line["kind"], line["strength"]) for line in made.table}
    assert {("item-item", 0.0), ("factors", 0.0), ("factors", math.inf)} <= tried
    assert (made.kind, made.strength) in tried
    assert all(line["loss"] >= 0 and line["error"] >= 0 for line in made.table)


def test_a_long_catalog_gets_no_item_item_weights():
    many = MAX_ITEMS + 1
    assert {one.kind for one in candidates(shared_model("counts"), "counts", (50, many), "auto", 100.0)} == {"factors"}
    with refused(BadParameter, "local"):
        candidates(None, "counts", (50, many), "item-item", None)


def judged(strength: float, losses: np.ndarray, kind: str = "factors") -> Judged:
    made = Losses(values=losses, owners=np.arange(losses.size))
    return Judged(candidate=Candidate(kind=kind, strength=strength), losses=made)


def test_a_gain_within_its_noise_is_no_reason_to_leave_alone():
    rng = np.random.default_rng(0)
    base = rng.normal(size=200)
    noise = rng.normal(size=200)
    error = noise.std(ddof=1) / math.sqrt(200)
    noise += 1.9 * error - noise.mean()
    assert choose([judged(0.0, base), judged(100.0, base - noise)]).best.candidate.strength == 0
    noise += 0.2 * error
    taken = choose([judged(0.0, base), judged(100.0, base - noise)])
    assert taken.best.candidate.strength == 100
    assert taken.gain == pytest.approx(noise.mean())


def test_a_tie_stays_alone_and_the_best_of_two_alone_is_the_measure():
    base = np.random.default_rng(0).random(50)
    assert choose([judged(30.0, base), judged(0.0, base)]).best.candidate.strength == 0
    taken = choose([judged(0.0, base + 1), judged(0.0, base, "item-item"), judged(30.0, base - 0.25)])
    assert taken.gain == pytest.approx(0.25)


def test_the_best_of_many_by_luck_is_seldom_taken():
    rng = np.random.default_rng(3)
    moved = 0
    for _ in range(400):
        base, common = rng.normal(size=100), rng.normal(size=100)
        tried = [judged(float(strength), base + common + rng.normal(size=100)) for strength in (30, 100, 300, 1_000)]
        moved += choose([judged(0.0, base), *tried]).best.candidate.strength > 0
    # One neutral candidate would be taken in 2.3 % of the cases, four independent ones in 9 %.
    assert moved <= 0.09 * 400


def test_public_features_stand_between_alone_and_shared():
    rng = np.random.default_rng(1)
    base, noise = rng.normal(size=200), rng.normal(size=200)
    noise -= noise.mean()
    features, error = judged(0.0, base - 0.5, "features"), noise.std(ddof=1) / math.sqrt(200)
    alone = judged(0.0, base)
    assert choose([alone, features]).best is features
    assert choose([alone, judged(0.0, base - noise - error, "features")]).best is alone
    # Far better than alone, yet not clearly better than public features: what is shared is not needed.
    assert choose([alone, features, judged(100.0, base - 0.5 - noise - error)]).best is features
    taken = choose([alone, features, judged(100.0, base - 0.5 - noise - 3 * error, "mixed")])
    assert (taken.best.candidate.kind, taken.gain) == ("mixed", pytest.approx(0.5 + 3 * error))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"local": "trees"}, BadParameter),
        ({"strength": "strong"}, BadParameter),
        ({"strength": -1.0}, BadParameter),
        ({"strength": math.nan}, BadParameter),
        ({"strength": True}, BadParameter),
        ({"rank": 0}, BadParameter),
    ],
)
def test_what_makes_no_sense_is_refused(options, error):
    with pytest.raises(error):
        run(people("counts", 5, 0), shared_model("counts"), "counts", **options)


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(BadShape):
        run(people("counts", 5, 0)[:, :7], shared_model("counts"), "counts")
    with refused(BadParameter, "strength"):
        run(people("counts", 5, 0), None, "counts", strength="shared")
    broken = people("counts", 5, 0)
    broken.data[0] = np.nan
    with pytest.raises(BadNumber):
        run(broken, None, "counts")


def test_a_scorer_of_either_kind_can_be_asked_for():
    rows, shared = people("counts", 30, 13), shared_model("counts")
    assert isinstance(run(rows, shared, "counts", local="item-item").scorer, ItemItemScorer)
    assert isinstance(run(rows, shared, "counts", local="factors").scorer, FactorScorer)


# Shared factors are whatever a server wrote into them

D = 1.7e308
HOSTILE = {
    "moments": {"moments": np.eye(RANK) * D},
    "all moments": {"moments": np.full((RANK, RANK), D)},
    "means": {"means": np.full(ITEMS, D)},
    "support": {"support": np.full(ITEMS, D)},
    "factors": {"factors": np.full((ITEMS, RANK), np.finfo(np.float32).max, np.float32)},
}


def hostile(feedback: str, name: str) -> ItemFactors:
    return replace(shared_model(feedback), **HOSTILE[name])


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("users", [5, 60])
def test_with_hostile_shared_factors_an_entity_gets_a_usable_model(feedback, name, users):
    rows = people(feedback, users, 14)
    made = run(rows, hostile(feedback, name), feedback)  # a warning would be an error here
    assert np.isfinite(made.scorer.scores(rows)).all()
    assert np.isfinite(made.scorer.one(np.zeros(0, int), np.zeros(0))).all()
    failed = [line for line in made.table if "remark" in line]
    assert all(line["loss"] == math.inf and line["strength"] > 0 for line in failed)
    assert bool(failed) <= ("left out" in made.note)


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_where_everything_shared_fails_the_entity_is_as_good_as_alone(feedback):
    rows = people(feedback, 60, 14)
    alone = run(rows, None, feedback, local="item-item")
    for name in ("moments", "all moments", "means"):
        made = run(rows, hostile(feedback, name), feedback, local="item-item")
        assert made.strength == 0
        assert all(line["remark"] == UNUSABLE for line in made.table if 0 < line["strength"] < math.inf)
        assert (made.scorer.scores(rows) == alone.scorer.scores(rows)).all()


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
@pytest.mark.parametrize("name", ["moments", "all moments"])
@pytest.mark.parametrize("local", ["auto", "item-item", "factors"])
def test_hostile_factors_that_were_insisted_on_are_our_error(feedback, name, local):
    with refused(BadNumber, "strength") as caught:
        run(people(feedback, 60, 14), hostile(feedback, name), feedback, local=local, strength=100.0)
    assert "strength='own'" in str(caught.value.fix)


def test_a_model_that_fails_only_on_all_rows_gives_way_to_the_next(monkeypatch):
    taken = []

    def fit(candidate, *given, **named):
        taken.append(candidate.strength)
        if candidate.strength:
            raise BadNumber("no.")
        return real(candidate, *given, **named)

    real = adapt_module.fitted
    monkeypatch.setattr(adapt_module, "fitted", fit)
    made = run(people("ratings", 12, 1), shared_model("ratings"), "ratings")
    assert taken[0] > 0
    assert (made.strength, taken[-1]) == (0, 0)
    assert sum("remark" in line for line in made.table) == len(taken) - 1


# Own only means own only


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
@pytest.mark.parametrize("local", ["factors", "item-item"])
@pytest.mark.parametrize("users", [5, 60])
def test_nothing_shared_steers_a_model_alone(feedback, local, users):
    rows, shared = people(feedback, users, 15), shared_model(feedback)
    other = replace(shared, means=shared.means[::-1].copy() + 1, support=shared.support * 1e3, users=1e6)
    given = [None, shared, other, hostile(feedback, "means")]
    made = [run(rows, one, feedback, local=local, strength="own").scorer for one in given]
    for one in made[1:]:
        assert (one.scores(rows) == made[0].scores(rows)).all()
        assert (one.one(np.zeros(0, int), np.zeros(0)) == made[0].one(np.zeros(0, int), np.zeros(0))).all()
