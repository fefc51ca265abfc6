"""What an evaluation may know: nothing of what it has to find, neither directly nor through what was shared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from tests.entity.evaluated import CATALOG, ITEMS, federation, people
from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.data.read import read_ratings
from twofold.data.split import Split, leave_n_out
from twofold.entity.held_out import factors_of, held_out_entries, later_entries
from twofold.entity.models.others import others_of
from twofold.entity.models.side import Side
from twofold.entity.personalize import fit_alone
from twofold.errors import BadParameter, DataError, EmptyTable, PlanMismatch


def test_a_fit_to_the_rest_takes_all_of_the_entitys_own_part_out() -> None:
    made = federation(60, 90)
    model = made.models["e0"]
    split = leave_n_out(model.history, n=1, rng=0)
    judged = held_out_entries(model, split, made.factors, seed=0, climbs=True)
    assert judged.shared is not None
    whole, rest = (Side(one.matrix.astype(np.float32)) for one in (model.history, split.train))
    true, clean, naive = (
        others_of(shared, rows) for shared, rows in ((made.factors, whole), (judged.shared, rest), (made.factors, rest))
    )
    assert true.gram is not None
    assert clean.gram is not None
    assert naive.gram is not None
    size = np.abs(true.gram).max()
    assert np.abs(clean.gram - true.gram).max() < 1e-5 * size
    assert np.abs(naive.gram - true.gram).max() > 1e-2 * size
    np.testing.assert_allclose(clean.sums, true.sums, rtol=1e-5)
    assert made.factors.hash == model.factors_hash  # what was shared is as it came


def test_without_totals_the_doubt_is_said() -> None:
    made = federation(60, 90)
    judged = held_out_entries(made.models["e0"], None, made.factors, seed=0, climbs=False)
    assert judged.shared is made.factors
    assert any("seen through noise" in line for line in judged.caveats)
    clean = held_out_entries(made.models["e0"], None, made.factors, seed=0, climbs=True)
    assert not any("seen through noise" in line for line in clean.caveats)


def test_a_split_is_of_the_models_range_and_leaves_everyone_an_entry() -> None:
    model = fit_alone(people(30, 1), bound=3)
    judged = held_out_entries(model, leave_n_out(people(30, 1), n=50, rng=0), None, seed=0, climbs=True)
    assert judged.rest.entries_per_user.min() == 1
    assert judged.held.matrix.data.max() == 3
    assert (judged.people == np.arange(30)).all()
    assert (judged.sizes == 1).all()


def test_the_default_split_is_repeatable() -> None:
    model = fit_alone(people(30, 1))
    one, again, other = (held_out_entries(model, None, None, seed=seed, climbs=True) for seed in (3, 3, 4))
    assert one.held.digest() == again.held.digest() != other.held.digest()
    assert one.rest.n_entries + one.held.n_entries == model.history.n_entries


def test_a_later_table_keeps_what_is_new_and_counts_the_rest() -> None:
    model = fit_alone(people(30, 1))
    first, known = model.history.user_ids[0], set(model.history.of(model.history.user_ids[0]))
    new = next(item for item in CATALOG.items if item not in known)
    rows = [(first, new, 2), (first, next(iter(known)), 1), ("stranger", "item-3", 1), (first, "no such item", 1)]
    table = pl.DataFrame(rows, schema=["user", "item", "value"], orient="row")
    later = read_ratings(table, CATALOG, feedback="counts", unknown_items="drop")
    judged = later_entries(model, later)
    assert judged.held.of(first) == {new: 2.0}
    assert judged.held.n_entries == 1
    assert judged.rest is model.history
    assert dict(judged.left_out) == {
        "people the model does not know": 1,
        "entries of people the model does not know": 1,
        "entries the model has seen": 1,
        "rows of items outside the catalog": 1,
    }


def test_nothing_to_judge_by_is_refused_without_a_number() -> None:
    model = fit_alone(people(30, 1))
    strangers = Ratings(sparse.csr_array(np.eye(2, ITEMS)), Identifiers([1, 2]), CATALOG, "counts")
    with refused(EmptyTable, "test", expected="type text") as caught:
        later_entries(model, strangers)
    assert caught.value.found is None
    with refused(EmptyTable, "test"):
        later_entries(model, model.history)
    with refused(EmptyTable, "test"):
        later_entries(model, model.history.replace(sparse.csr_array(model.history.matrix.shape, dtype=np.float32)))
    lonely = fit_alone(Ratings(sparse.csr_array(np.eye(5, ITEMS)), Identifiers(range(5)), CATALOG, "counts"))
    with refused(EmptyTable, "split"):
        held_out_entries(lonely, None, None, seed=0, climbs=True)
    nobody = fit_alone(Ratings(sparse.csr_array((0, ITEMS)), Identifiers([]), CATALOG, "counts"))
    with refused(EmptyTable, "data"):
        held_out_entries(nobody, None, None, seed=0, climbs=True)


def test_where_chance_took_nothing_the_refusal_names_the_way_out() -> None:
    """One person with two entries was told to have two entries."""
    one = people(60, 1).take([0])
    nothing = one.replace(sparse.csr_array(one.matrix.shape, dtype=np.float32))
    with refused(EmptyTable, "split", expected="enough people") as caught:
        held_out_entries(fit_alone(one), Split(train=one, test=nothing), None, seed=0, climbs=True)
    assert caught.value.found is None


def test_other_lists_other_factors_and_other_things_are_refused() -> None:
    made = federation(60, 90)
    model, alone = made.models["e0"], fit_alone(people(30, 1))
    foreign = Ratings(sparse.csr_array(np.eye(2)), Identifiers([1, 2]), Catalog(["x", "y"]), "counts")
    with refused(PlanMismatch, "catalog", found="2 items", expected=f"{ITEMS} items"):
        later_entries(model, foreign)
    with refused(PlanMismatch, "catalog"):
        held_out_entries(alone, leave_n_out(foreign), None, seed=0, climbs=True)
    with refused(BadParameter, "factors", expected=model.factors_hash[:12]):
        held_out_entries(model, None, None, seed=0, climbs=True)
    with refused(PlanMismatch, "factors", expected=model.factors_hash[:12]):
        factors_of(model, replace(made.factors, users=made.factors.users + 1))
    with refused(BadParameter, "factors"):
        factors_of(alone, made.factors)
    other = Split(train=people(30, 1), test=people(20, 2))
    with refused(DataError, "split"):
        held_out_entries(alone, other, None, seed=0, climbs=True)
    for wrong in (alone.history, "leave-n-out"):
        with refused(DataError, "split"):
            held_out_entries(alone, wrong, None, seed=0, climbs=True)  # type: ignore[arg-type]
    with refused(DataError, "test"):
        later_entries(alone, "later.csv")


def test_factors_come_as_a_file_too(tmp_path: pytest.TempPathFactory) -> None:
    from twofold.federation.factors import save_factors

    made = federation(60, 90)
    path = tmp_path / "items.round2"  # type: ignore[operator]
    save_factors(made.factors, path, made.plan)
    assert factors_of(made.models["e0"], path).hash == made.factors.hash
