"""The ladder of counts: every rung is in the table, noise is not climbed, planted knowledge is, and nothing crashes."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from benchmarks.ladder import long_catalog
from tests.entity.test_adapt_counts import ITEMS, TABLE, better, people, run, shared_of
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity import ladder
from twofold.entity.adapt import Adapted
from twofold.entity.candidates import FitSettings, Losses
from twofold.entity.judged import CAUTION, Rung, Tried
from twofold.entity.ladder import climb
from twofold.entity.models.ials import IalsFit
from twofold.entity.models.side import unit_rows
from twofold.entity.models.stack import Weighed
from twofold.entity.personalize import fit_alone
from twofold.errors import BadNumber
from twofold.features import Features
from twofold.federation.factors import ItemFactors
from twofold.release.content import Moments

OWN = {"use", "item-item, unit rows", "item-item", "item-item, counts"}
CONFIDENT = {ladder.CONFIDENT}
SHARED = {"shared taste", "shared taste, own use"}
ALL = OWN | SHARED | {"features", "shared taste, own use, features"}


def totals_of(rows: sparse.csr_array, noise: float = 0.0, *, scale: float = 1.0) -> ItemFactors:
    """What a server sends of these rows, with noise; scale 0 leaves noise alone."""
    unit, rng = unit_rows(rows), np.random.default_rng(8)
    upper = np.triu(rng.normal(size=(ITEMS, ITEMS)) * noise)
    moments = Moments(
        kind="gram", users=float(rows.shape[0]), pairs=scale * (unit.T @ unit).toarray() + upper + np.triu(upper, 1).T,
        sums=scale * np.asarray(unit.sum(axis=0)).ravel() + noise * rng.normal(size=ITEMS), users_noise=noise,
        sums_noise=noise, pairs_noise=noise, cap=1.0, entities=5, seeded=True,
    )  # fmt: skip
    return replace(shared_of(rows), totals=moments)


def with_others(own: sparse.csr_array, users: int, noise: float) -> ItemFactors:
    return totals_of(sparse.csr_array(sparse.vstack([own, people(users, 2)])), noise)


def kinds(made: Adapted) -> set[str]:
    return {line["kind"] for line in made.table}


def check(made: Adapted, rows: sparse.csr_array) -> None:
    assert np.isfinite(made.scorer.scores(rows)).all()
    assert np.isfinite(made.scorer.one(np.zeros(0, int), np.zeros(0))).all()
    assert made.note
    assert sum(bool(line.get("taken")) for line in made.table) == bool(made.table)
    for line in made.table:
        assert ("remark" in line) != math.isfinite(line["nats"])


# Every rung that applies is told


@pytest.mark.parametrize("users", [2, 15, 120, ladder.FACTOR_USERS])
def test_every_rung_is_in_the_table(users):
    rows = people(users, 1)
    more = {"ials"} if users >= ladder.FACTOR_USERS else CONFIDENT
    assert kinds(run(rows, None)) == OWN | more
    assert kinds(run(rows, None, features=TABLE)) == OWN | more | {"features"}
    assert kinds(run(rows, shared_of(people(500, 2)))) == OWN | more | SHARED
    made = run(rows, with_others(rows, 500, 1.0), features=TABLE)
    assert kinds(made) == ALL | more
    check(made, rows)


def test_a_rung_whose_numbers_fail_stays_in_the_table_with_a_remark(monkeypatch):
    rows = people(ladder.FACTOR_USERS, 1)

    def fails(*_: object) -> None:
        raise BadNumber("no.")

    monkeypatch.setattr(ladder._Climb, "_ials", fails)
    made = run(rows, None)
    (line,) = [line for line in made.table if line["kind"] == "ials"]
    assert line["remark"]
    assert "left out" in made.note
    check(made, rows)


def test_implicit_als_far_behind_is_stopped_and_it_is_said():
    made = run(people(ladder.FACTOR_USERS, 1), None)
    (line,) = [line for line in made.table if line["kind"] == "ials"]
    best = max(one["nats"] for one in made.table)
    assert "stopped after" in made.note
    assert math.isfinite(line["nats"])
    assert line["nats"] < best - CAUTION
    assert not line.get("taken")


def test_implicit_als_without_a_rival_is_fitted_to_the_end_and_taken(monkeypatch):
    rows = people(ladder.FACTOR_USERS, 1)

    def fails(*_: object) -> None:
        raise BadNumber("no.")

    monkeypatch.setattr(ladder, "unit_taste", fails)
    monkeypatch.setattr(ladder, "own_taste", fails)
    monkeypatch.setattr(ladder, "count_taste", fails)
    made = run(rows, None)
    assert made.kind == "ials"
    assert "stopped" not in made.note
    assert made.note.startswith("implicit ALS, weight ")
    np.testing.assert_array_equal(made.scorer.arrays()["inner_factors"], IalsFit(rows).scorer().factors)


def test_a_rung_that_fails_on_all_rows_gives_way_to_a_whole_one(monkeypatch):
    rows = people(60, 1)
    shared, real, failed = with_others(rows, 2_000, 0.0), ladder.shared_taste, []
    assert run(rows, shared).kind in SHARED

    def fails(side: ladder.Side, *rest: object, **named: object) -> object:
        if not failed and side.rows.nnz == rows.nnz:
            failed.append(1)
            raise BadNumber("no.")
        return real(side, *rest, **named)

    monkeypatch.setattr(ladder, "shared_taste", fails)
    made = run(rows, shared)
    assert failed
    assert (made.scorer.kind == "popularity") == (made.kind == "use")
    check(made, rows)


# What is climbed


def test_planted_knowledge_of_the_others_is_taken():
    rows = people(20, 1)
    made = run(rows, with_others(rows, 4_000, 1.0))
    gain, error = better(made, run(rows, None))
    assert made.kind in SHARED
    assert made.strength > 0
    assert gain > 3 * error


def test_more_of_the_others_is_tried_up_to_everybody_and_not_where_it_told_less():
    rows = people(60, 1)

    def strengths(others: int, noise: float) -> list[float]:
        made = run(rows, with_others(rows, others, noise))
        return sorted({line["strength"] for line in made.table if line["kind"] in SHARED})

    assert strengths(3_000, 0.5) == [ladder.MOST, 3_000.0]
    few, many = strengths(20_000, 400.0)  # in so much noise more was tried once, told less, and that was the end
    assert (few, many) == (ladder.FEWEST, ladder.MORE * ladder.FEWEST)


@pytest.mark.parametrize("users", [15, 150])
def test_noise_alone_leaves_the_own_model(users):
    rows = people(users, 4)
    made, alone = run(rows, totals_of(people(users, 4), 300.0, scale=0.0)), run(rows, None)
    assert made.kind == alone.kind
    assert made.strength == 0
    np.testing.assert_array_equal(made.scorer.scores(rows), alone.scorer.scores(rows))


def test_what_was_taken_is_better_than_every_safer_rung_that_was_climbed_by_the_margin():
    for seed in range(4):
        rows = people(30, seed)
        made = run(rows, with_others(rows, 2_000, 3.0), features=TABLE)
        nats = {bool(line.get("taken")): line["nats"] for line in made.table}
        use = next(line["nats"] for line in made.table if line["kind"] == "use")
        assert made.kind == "use" or nats[True] > use + CAUTION


def test_the_own_entries_do_not_come_back_as_knowledge():
    """Totals of nobody but the entity itself hold nothing that it does not know."""
    rows = people(40, 5)
    made, alone = run(rows, totals_of(rows)), run(rows, None)
    gain, error = better(made, alone)
    assert gain > -3 * max(error, 1e-12)
    shared = [line["nats"] for line in made.table if line["kind"] in SHARED]
    own = max(line["nats"] for line in made.table if line["kind"] not in SHARED)
    # Nats add up over the times that people are asked; the ridges of the shared rungs lie between the own ones.
    assert max(shared) < own + CAUTION * ladder.MOST_TIMES


# How often people are asked


def folds(users: int) -> list[ladder._Fold]:
    settings = FitSettings(feedback="counts", lower=0, bound=5, rank=4, threads=1)
    return ladder._Climb(people(users, 3), None, settings)._folds


def test_few_people_are_asked_several_times_about_other_entries_and_many_once():
    few = folds(20)
    assert len(few) == ladder.MOST_TIMES
    places = [{(user, item) for at, user in enumerate(one.asked) for item in one.held[[at]].indices} for one in few]
    assert sum(map(len, places)) == len(set().union(*places))
    for one in few:
        assert (one.history.multiply(one.held)).nnz == 0
        assert one.side.rows.nnz == people(20, 3).nnz - one.held.nnz
    assert len(folds(ladder.FACTOR_USERS)) == 1


def asked_of(users: int, items: int, entries: int) -> tuple[int, int]:
    """How many people are asked, and the most entries that are hidden of one of them."""
    columns = np.tile(np.arange(entries), users)
    starts = np.arange(0, users * entries + 1, entries)
    rows = sparse.csr_array((np.ones(columns.size, np.float32), columns, starts), shape=(users, items))
    settings = FitSettings(feedback="counts", lower=0, bound=1, rank=4, threads=1)
    (fold, *_) = ladder._Climb(rows, None, settings)._folds
    return fold.asked.size, int(np.diff(fold.held.indptr).max())


@pytest.mark.parametrize(
    ("users", "items", "asked"),
    [(1_500, 100, ladder.LEAST_ASKED), (1_500, 2_000, 1_000), (2_500, 6_000, ladder.MOST_ASKED)],
    ids=["short catalog", "longer", "longest"],
)
def test_longer_catalogs_ask_more_people(users, items, asked):
    assert asked_of(users, items, 20)[0] == asked


def test_among_many_people_no_history_counts_for_many():
    assert asked_of(ladder.FACTOR_USERS, 100, 90)[1] == ladder.MOST_OF_ONE
    assert asked_of(ladder.FACTOR_USERS - 1, 100, 90)[1] == 9


@pytest.mark.parametrize("better_lists", [False, True])
def test_a_way_with_better_lists_stays_in_the_race(better_lists):
    settings = FitSettings(feedback="counts", lower=0, bound=5, rank=4, threads=1)
    climb = ladder._Climb(people(60, 1), None, settings)

    def tried(worth: float, loss: float) -> Tried:
        losses = Losses(values=np.full(60, loss), owners=np.arange(60))
        weighed = Weighed(weights=np.ones(2), likelihood=worth, worth=worth)
        return Tried(rung=Rung(kind="x", step=1), losses=losses, weighed=weighed)

    behind = tried(-10 * ladder.HOPELESS, 0.4 if better_lists else 0.6)
    climb.tried = [tried(0.0, 0.5), behind]
    assert climb._hopeless(behind) is not better_lists


def test_a_way_that_is_far_behind_is_told_but_not_tuned(monkeypatch):
    made = {}
    for hopeless in (-math.inf, math.inf):
        monkeypatch.setattr(ladder, "HOPELESS", hopeless)
        made[hopeless] = run(people(60, 1), None).table
    none, every = made.values()
    assert {one["kind"] for one in none} == {one["kind"] for one in every}
    assert len(none) < len(every)


# People and catalogs of every sort


@pytest.mark.parametrize("users", range(1, 10))
def test_a_handful_of_people(users):
    rows = people(users, 1)
    for shared in (None, with_others(rows, 500, 3.0)):
        check(run(rows, shared, features=TABLE), rows)


def odd() -> dict[str, np.ndarray]:
    same, apart = np.zeros((20, ITEMS)), np.zeros((20, ITEMS))
    same[:, 3] = 1
    for at in range(20):
        apart[at, 3 * at : 3 * at + 3] = 1
    none = np.zeros((20, ITEMS))
    return {"one entry each": np.eye(20, ITEMS), "the same item": same, "no two in common": apart,
            "everything": np.ones((20, ITEMS)), "nothing": none, "nobody": none[:0]}  # fmt: skip


@pytest.mark.parametrize("name", odd())
def test_odd_people(name):
    rows = sparse.csr_array(odd()[name].astype(np.float32))
    for shared in (None, with_others(rows, 500, 3.0), shared_of(people(500, 2))):
        made = run(rows, shared)
        check(made, rows)
        if name in ("one entry each", "the same item", "nothing", "nobody"):
            assert made.table == ()
            assert ("shared" in made.kind) == (shared is not None)


@pytest.mark.parametrize("items", [1, 2, 3])
def test_hardly_any_catalog(items):
    rows = sparse.csr_array(np.ones((5, items), np.float32))
    check(climb(rows, None, FitSettings(feedback="counts", lower=0, bound=1, rank=2)), rows)


def test_features_of_no_item():
    nothing = Features(matrix=np.zeros((ITEMS, 1), np.int64), names=("none",))
    rows = people(20, 1)
    made = run(rows, None, features=nothing)
    assert "features" in kinds(made)
    check(made, rows)


def test_without_anybody_to_judge_by_the_others_use_orders_items():
    rows, rest = people(5, 1), people(2_000, 2)
    made = run(sparse.csr_array((3, ITEMS), dtype=np.float32), totals_of(rest))
    scores = made.scorer.one(np.zeros(0, int), np.zeros(0))
    use = np.asarray(unit_rows(rest).sum(axis=0)).ravel()
    assert np.argsort(-scores)[:10].tolist() == np.argsort(-use)[:10].tolist()
    check(made, rows)


# Whatever a server wrote

LARGE = {
    "pairs": {"pairs": np.full((ITEMS, ITEMS), 1e38)},
    "sums": {"sums": np.full(ITEMS, 1e300)},
    "users": {"users": 1e300},
    "users below 0": {"users": -1e9},
    "noise": {"pairs_noise": 1e200},
    "weight": {"weight_per_user": 1e300},
    "negative pairs": {"pairs": np.full((ITEMS, ITEMS), -1e9)},
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("users", [0, 5, 60])
def test_enormous_totals_give_a_usable_model(name, users):
    rows, given = people(users, 10), totals_of(people(100, 3), 1.0)
    assert given.totals is not None
    made = run(rows, replace(given, totals=replace(given.totals, **LARGE[name])), features=TABLE)
    check(made, rows)


def test_totals_that_overflow_are_left_out_and_it_is_said():
    rows, given = people(30, 10), totals_of(people(100, 3), 1.0)
    assert given.totals is not None
    made = run(rows, replace(given, totals=replace(given.totals, pairs_noise=1e200)))
    assert kinds(made) == OWN | CONFIDENT
    assert "left out" in made.note
    assert made.strength == 0


# The same again


def test_the_same_seed_gives_the_same_bits_whatever_the_threads():
    rows = people(120, 6)
    shared = with_others(rows, 500, 3.0)
    before, entries = shared.hash, rows.copy()
    options = {"feedback": "counts", "lower": 0, "bound": 5, "rank": 4, "features": TABLE}
    one, two = (climb(rows, shared, FitSettings(threads=threads, seed=3, **options)) for threads in (1, 2))
    assert (one.table, one.note) == (two.table, two.note)
    for name, part in one.scorer.arrays().items():
        np.testing.assert_array_equal(part, two.scorer.arrays()[name])
    other = climb(rows, shared, FitSettings(threads=1, seed=4, **options))
    assert other.table != one.table
    assert shared.hash == before
    np.testing.assert_array_equal(rows.data, entries.data)


# Long catalogs


def long_ratings(users: int, entries: int) -> Ratings:
    rows = long_catalog(users=users, items=100_000, entries=entries, clusters=150)
    return Ratings(rows, Identifiers(range(users)), Catalog(range(100_000)), "counts")


def distinct(ratings: Ratings, n: int, users: int) -> int:
    model = fit_alone(ratings)
    assert kind_of(model.validation) == "sparse-item-item"
    lists = model.scorer.scores(ratings.matrix[:users])
    return int(np.unique(np.argpartition(-lists, n, axis=1)[:, :n]).size)


def kind_of(table: tuple[dict[str, object], ...]) -> object:
    return next(line["kind"] for line in table if line.get("taken"))


@pytest.mark.slow
def test_a_hundred_thousand_items_give_a_thousand_different_recommendations():
    assert distinct(long_ratings(6_000, 70_000), 10, 400) >= 1_000


@pytest.mark.slow
def test_the_memory_of_a_long_catalog_stays_bounded():
    ratings = long_ratings(2_000, 30_000)
    tracemalloc.start()
    fit_alone(ratings)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2e9  # a matrix of items by items would take 80 GB, scores of all people 1.6 GB per rung
