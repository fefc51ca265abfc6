"""Nothing is spent twice without somebody having said so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.entity.account import NewLedger
from twofold.errors import BudgetExceeded, SilentSpending, TooFewMessages
from twofold.estimator import FederatedRecommender
from twofold.estimator.spending import GUARD
from twofold.federation.plan import Plan
from twofold.identity.keystore import KeyStore
from twofold.privacy.ledger import Ledger

CATALOG = Catalog([f"item-{number}" for number in range(8)])


@pytest.fixture(autouse=True)
def _fresh_account() -> Iterator[None]:
    GUARD.forget()
    yield
    GUARD.forget()


def make_plan(**changes: Any) -> Plan:
    public = {"feedback": "counts", "bound": 5, "max_items": 8, "rank": 2, "n_prototypes": 2, "n_users": 20}
    return Plan(**({"catalog": CATALOG, "n_entities": 2, "epsilon": 3} | public | changes))


def visits(seed: int = 0, first: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(rng.random((40, 8)) < 0.4)
    items = [CATALOG.items[column] for column in columns.tolist()]
    return pl.DataFrame(
        {"hospital": np.where(rows % 2, "north", "south"), "user": rows + first, "item": items, "value": 1}
    )


QUICK: Any = {"local": "factors", "strength": "shared"}


def fit(plan: Plan, frame: pl.DataFrame, **options: Any) -> FederatedRecommender:
    return FederatedRecommender(plan, **QUICK | options).fit(frame, entity="hospital")


def fit_with_new_ledgers(folder: Path) -> FederatedRecommender:
    with pytest.warns(NewLedger):
        return fit(make_plan(), visits(), ledgers=folder)


def test_the_line_of_the_design_runs_with_real_noise() -> None:
    fitted = fit(make_plan(), visits())
    assert fitted.private_
    assert all(model.private for model in fitted.models_.values())
    assert fitted.recommend(3, n=2)


def test_the_same_plan_and_data_give_the_stored_messages() -> None:
    one, other = (fit(make_plan(), visits()) for _ in range(2))
    assert one.factors_.hash == other.factors_.hash
    shuffled = fit(make_plan(), visits().sample(fraction=1, shuffle=True, seed=1))
    assert shuffled.factors_.hash == one.factors_.hash


def test_another_plan_is_refused_with_the_sum_it_would_reach() -> None:
    fit(make_plan(), visits())
    with refused(SilentSpending, "plan", "entity north") as caught:
        fit(make_plan(epsilon=1), visits())
    assert caught.value.found == "ε 3 spent; ε 4 after this fit"
    assert "ledgers=" in str(caught.value.fix)
    assert "simulation=True" in str(caught.value.fix)


def test_other_data_of_the_same_people_are_refused() -> None:
    fit(make_plan(), visits())
    for changed in (visits(1), visits().head(-1), visits().filter(pl.col("user") < 20)):
        with refused(SilentSpending, "data"):
            fit(make_plan(), changed)


def test_other_people_under_the_same_name_have_their_own_budget() -> None:
    one = fit(make_plan(), visits())
    other = fit(make_plan(), visits(first=1000))
    assert one.factors_.hash != other.factors_.hash
    assert fit(make_plan(), visits()).factors_.hash == one.factors_.hash


@pytest.mark.filterwarnings("ignore::twofold.entity.account.NothingExpected")  # one hospital of twenty people
def test_a_refusal_spends_nothing_for_anyone() -> None:
    fit(make_plan(), visits().filter(pl.col("hospital") == "south"))
    with refused(SilentSpending, "plan", "entity south"):
        fit(make_plan(rank=1), visits())
    only = visits().filter(pl.col("hospital") == "north")
    assert fit(make_plan(rank=1), only).private_  # north was never released, so this is its first


def test_a_fit_that_failed_before_drawing_is_not_counted() -> None:
    with refused(TooFewMessages, None, "quorum"):
        fit(make_plan(quorum=5, n_entities=5), visits())
    assert fit(make_plan(), visits()).private_


def test_a_simulation_costs_nothing_and_says_so() -> None:
    plans = [make_plan(simulation=True), make_plan(simulation=True, rank=1)]
    assert [fit(plan, visits()).private_ for plan in plans] == [False, False]


def in_a_worker() -> str:
    try:
        fit(make_plan(), visits())
    except SilentSpending as error:
        return str(error.parameter)
    return "it ran"


def test_a_worker_process_has_no_account() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(in_a_worker).result() == "n_jobs"


def test_the_account_leaves_nothing_behind(tmp_path: Path) -> None:
    code = (
        "import polars as pl, twofold as tw\n"
        "plan = tw.Plan(catalog=tw.Catalog(['a', 'b']), feedback='counts', bound=5, max_items=2, rank=1)\n"
        "frame = pl.DataFrame({'entity': ['n', 'n'], 'user': [1, 2], 'item': ['a', 'b'], 'value': [1, 1]})\n"
        "tw.FederatedRecommender(plan, local='factors', strength='shared').fit(frame).recommend(1)\n"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert (result.stdout, result.stderr) == ("", "")
    assert not list(tmp_path.glob("twofold-*"))


# The same people are the same people, whatever they and their entity are called


def test_another_entity_column_is_refused() -> None:
    fit(make_plan(), visits())
    country = visits().with_columns(country=pl.lit("somewhere"))
    with refused(SilentSpending, "entity", "entity somewhere") as caught:
        FederatedRecommender(make_plan(), **QUICK).fit(country, entity="country")
    assert caught.value.found == "ε 3 spent; ε 6 after this fit"  # nobody was in both hospitals


def test_renamed_labels_are_refused_with_and_without_another_plan() -> None:
    fit(make_plan(), visits())
    renamed = visits().with_columns(pl.col("hospital") + "_")
    with refused(SilentSpending, "entity"):
        fit(make_plan(), renamed)
    with refused(SilentSpending, "entity, plan"):
        fit(make_plan(rank=1), renamed)


@pytest.mark.parametrize("dtype", [pl.String, pl.Float64, pl.Int16, pl.Binary])
def test_ids_of_another_type_are_refused(dtype: Any) -> None:
    fit(make_plan(), visits())
    text = visits().with_columns(pl.col("user").cast(pl.String))
    other = text if dtype == pl.String else text.with_columns(pl.col("user").cast(pl.Binary))
    if dtype.is_numeric():
        other = visits().with_columns(pl.col("user").cast(dtype))
    with refused(SilentSpending, "plan"):
        fit(make_plan(rank=1), other)


def test_one_person_in_common_is_enough_and_is_not_named() -> None:
    fit(make_plan(), visits())
    user = int(visits()["user"][0])
    frame = visits(first=1000).with_columns(pl.col("hospital") + "-new")
    one = frame.with_columns(user=pl.when(pl.col("user") == frame["user"][0]).then(user).otherwise("user"))
    with refused(SilentSpending, "entity") as caught:
        fit(make_plan(), one)
    assert "1000" not in str(caught.value)
    assert str(caught.value.found) == "ε 3 spent; ε 6 after this fit"
    assert fit(make_plan(), frame).private_  # without that person


def test_the_same_id_at_two_entities_of_one_fit_is_two_people() -> None:
    frame = visits()
    both = pl.concat([frame.with_columns(hospital=pl.lit(name)) for name in ("north", "south")])
    one, other = fit(make_plan(), both), fit(make_plan(), both)
    assert one.factors_.hash == other.factors_.hash
    with pytest.raises(SilentSpending) as caught:
        fit(make_plan(rank=1), both)
    assert caught.value.found == "ε 6 spent; ε 9 after this fit"  # they might be one person after all


def test_a_plan_that_failed_before_drawing_is_not_free_after_another_was_drawn(monkeypatch: Any) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("twofold.estimator.recommender.run_members", fail)
        with pytest.raises(OSError, match="no server"):
            fit(make_plan(), visits())
    fit(make_plan(rank=1), visits())
    with refused(SilentSpending, "plan"):
        fit(make_plan(), visits())


def fail(*_: Any) -> None:
    raise OSError("no server")


# With ledgers


def test_new_ledgers_are_announced_once_with_their_folder_and_number(tmp_path: Path) -> None:
    with pytest.warns(NewLedger, match=r"2 of 2 ledgers are not in .*ledgerz") as caught:
        fit(make_plan(), visits(), ledgers=tmp_path / "ledgerz")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    fit(make_plan(), visits(), ledgers=tmp_path / "ledgerz")  # a second warning would be an error


@pytest.mark.filterwarnings("ignore::twofold.entity.account.NothingExpected")  # twenty people and ε = 1
def test_ledgers_hand_out_what_they_stored_and_refuse_another_plan(tmp_path: Path) -> None:
    one, other = fit_with_new_ledgers(tmp_path), fit(make_plan(), visits(), ledgers=tmp_path)
    assert one.factors_.hash == other.factors_.hash
    with pytest.raises(BudgetExceeded, match=r"entity (north|south)"):
        fit(make_plan(epsilon=1), visits(), ledgers=tmp_path)
    assert len(Ledger(tmp_path / "north.ledger").state().entries) == 1


@pytest.mark.filterwarnings("ignore::twofold.entity.account.NothingExpected")  # twenty people and ε = 1
def test_ledgers_with_room_take_another_plan(tmp_path: Path) -> None:
    fit_with_new_ledgers(tmp_path)
    for path in tmp_path.glob("*.ledger"):
        signer = KeyStore(path.with_suffix(".keys")).signer  # the fit has made it, and it signs the ledger
        Ledger(path, signer=signer).raise_ceiling(make_plan(epsilon=4, delta="1/250000").budget, reason="agreed")
    assert fit(make_plan(epsilon=1), visits(), ledgers=tmp_path).private_


def test_a_stored_release_of_other_data_is_not_used_silently(tmp_path: Path) -> None:
    fit_with_new_ledgers(tmp_path)
    with refused(SilentSpending, "ledgers"):
        fit(make_plan(), visits(1), ledgers=tmp_path)
