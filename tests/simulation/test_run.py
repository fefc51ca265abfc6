"""Both rounds of a federation in one process: the same on any executor, accounted for, honest about seeds."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.entity.account import NewLedger
from twofold.errors import (
    BadMessage,
    BadParameter,
    BudgetExceeded,
    DataError,
    LedgerBroken,
    NotForRealUse,
    PlanMismatch,
    TooFewMessages,
)
from twofold.federation.messages import decode_release
from twofold.federation.plan import Plan
from twofold.identity.keystore import KeyStore
from twofold.privacy.ledger import Ledger, StaleRelease
from twofold.progress import heard
from twofold.simulation import Simulated, plan_name, simulate
from twofold.simulation.members import Member, visit

CATALOG = Catalog([f"item-{number}" for number in range(15)])
LABELS = ("north", "St. Anna / 2", 7)
QUICK: Any = {"local": "factors", "strength": "shared"}  # nothing is compared, for tests of something else


def counts(seed: int, users: int = 40) -> Ratings:
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=users)
    liked = np.arange(15) // 5 == group[:, None]
    values = rng.poisson(np.where(liked, 2.0, 0.15)).astype(np.float32)
    return Ratings(sparse.csr_array(values), Identifiers(range(users)), CATALOG, "counts")


def make_plan(**changes: Any) -> Plan:
    public = {"feedback": "counts", "bound": 5, "max_items": 15, "rank": 3, "n_prototypes": 3, "n_users": 40}
    return Plan(**({"catalog": CATALOG, "n_entities": 3, "simulation": True, "epsilon": 8} | public | changes))


@pytest.fixture(scope="module")
def federation() -> Federation:
    return Federation({label: counts(number) for number, label in enumerate(LABELS)})


@pytest.fixture(scope="module")
def done(federation: Federation) -> Simulated:
    return simulate(federation, make_plan(), rng=1)


def same(one: Simulated, other: Simulated) -> bool:
    """Equal factors, equal local models, equal lists."""
    lists = [[run.recommend(label, 3, n=5) for label in run.models] for run in (one, other)]
    arrays = [[m.scorer.arrays() for m in run.models.values()] for run in (one, other)]
    equal = all(np.array_equal(a[key], b[key]) for a, b in zip(*arrays, strict=True) for key in a | b)
    return one.factors.hash == other.factors.hash and equal and lists[0] == lists[1]


def test_everyone_gets_a_model_under_their_own_label(done: Simulated) -> None:
    assert tuple(done.models) == LABELS
    assert done.names == {label: plan_name(label) for label in LABELS}
    assert [model.entity for model in done.models.values()] == list(done.names.values())
    assert set(done.strengths) == set(LABELS)


def test_bytes_and_seconds_are_told(done: Simulated, federation: Federation) -> None:
    plan = make_plan()
    data = visit(Member(name="north", ratings=federation["north"], plan=plan), {}, set()).data
    assert len(data) == pytest.approx(done.sent["north"], abs=64)  # the header spells numbers in decimals
    assert done.received > 0
    assert list(done.seconds) == ["round 1", "server", "round 2"]


def test_recommendations_are_of_the_entitys_own_user(done: Simulated, federation: Federation) -> None:
    seen = set(federation[7].of(3))
    assert not seen & {one.item for one in done.recommend(7, 3, 15)}
    with pytest.raises(DataError) as caught:
        done.recommend("south", 3)
    assert (caught.value.parameter, caught.value.found) == ("entity", "'south'")


def test_a_seeded_run_can_be_repeated_and_says_it_is_not_private(done: Simulated, federation: Federation) -> None:
    assert same(done, simulate(federation, make_plan(), rng=1, threads=1))
    assert not done.private
    assert not any(model.private for model in done.models.values())
    assert "not private" in repr(done)


def test_another_seed_gives_other_noise_and_no_seed_never_the_same(done: Simulated, federation: Federation) -> None:
    free = [simulate(federation, make_plan(), **QUICK).factors.hash for _ in range(2)]
    other = simulate(federation, make_plan(), rng=2, **QUICK).factors.hash
    assert len({*free, other, done.factors.hash}) == 4


def test_an_entitys_noise_depends_on_its_name_only(federation: Federation) -> None:
    sent: list[dict[str, bytes]] = []

    class Spy(ThreadPoolExecutor):
        def submit(self, task: Any, /, *given: Any, **named: Any) -> Any:
            if task is visit:
                sent[-1][given[0].name] = task(*given).data
            return super().submit(task, *given, **named)

    backwards = Federation({label: federation[label] for label in reversed(LABELS)})
    fewer = {label: federation[label] for label in LABELS[:2]}
    for group in (federation, backwards, fewer):
        sent.append({})
        with Spy(1) as pool:
            simulate(group, make_plan(), rng=1, executor=pool, **QUICK)
    assert sent[0] == sent[1]
    assert sent[2].items() <= sent[0].items()
    noise = [decode_release(data, make_plan()).content.sums for data in sent[0].values()]
    assert not np.array_equal(noise[0], noise[1])


def test_a_process_pool_gives_the_same_and_keeps_ledgers(
    done: Simulated, federation: Federation, tmp_path: Path
) -> None:
    real: Any = {"plan": make_plan(simulation=False), "ledgers": tmp_path, "new_ledgers": True, **QUICK}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert same(done, simulate(federation, make_plan(), rng=1, executor=pool))
        there = simulate(federation, executor=pool, **real)
    assert same(there, simulate(federation, **real))


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_local_dask_cluster_gives_the_same(done: Simulated, federation: Federation, processes: bool) -> None:
    distributed = pytest.importorskip("distributed")
    where = {"protocol": "tcp://", "host": "127.0.0.1"}  # nothing beyond this machine
    options = {"dashboard_address": "127.0.0.1:0", "n_workers": 1, "threads_per_worker": 2, **where}
    with distributed.LocalCluster(processes=processes, **options) as cluster, distributed.Client(cluster) as client:
        pool: Executor = client.get_executor()
        assert same(done, simulate(federation, make_plan(), rng=1, executor=pool))


def test_progress_counts_every_phase_up_from_zero(federation: Federation) -> None:
    told: list[tuple[str, int, int]] = []
    with heard(lambda *step: told.append(step)):
        simulate(federation, make_plan(), rng=1, **QUICK)
    assert [one for one in told if one[0] in ("round 1", "server", "round 2")] == [
        *(("round 1", number, 3) for number in range(4)),
        ("server", 0, 1),
        ("server", 1, 1),
        *(("round 2", number, 3) for number in range(4)),
    ]


def test_a_result_crosses_process_borders(done: Simulated) -> None:
    model = done.models["north"]
    assert pickle.loads(pickle.dumps(model)).recommend(3, 5) == model.recommend(3, 5)


# Real noise and ledgers


def test_without_ledgers_only_a_simulation_runs(federation: Federation) -> None:
    with pytest.raises(NotForRealUse) as caught:
        simulate(federation, make_plan(simulation=False))
    assert caught.value.parameter == "ledgers"


def test_a_seed_is_refused_in_a_real_federation(federation: Federation, tmp_path: Path) -> None:
    with pytest.raises(NotForRealUse) as caught:
        simulate(federation, make_plan(simulation=False), rng=1, ledgers=tmp_path)
    assert caught.value.parameter == "rng"
    assert not list(tmp_path.iterdir())


def test_with_ledgers_the_stored_bytes_are_sent_again_for_nothing(federation: Federation, tmp_path: Path) -> None:
    plan, folder = make_plan(simulation=False), tmp_path / "new" / "ledgers"
    runs = [simulate(federation, plan, ledgers=folder, new_ledgers=True, **QUICK) for _ in range(2)]
    assert same(*runs)
    assert runs[0].private
    assert sorted(path.stem for path in folder.glob("*.ledger")) == sorted(map(plan_name, LABELS))
    for path in folder.glob("*.ledger"):
        state = Ledger(path).state()
        assert len(state.entries) == 1
        assert state.remaining.epsilon == 0
        assert not state.entries[0].request["seeded"]


def test_new_ledgers_are_announced_once_by_the_calling_process(federation: Federation, tmp_path: Path) -> None:
    plan = make_plan(simulation=False)
    Ledger.create(tmp_path / "7.ledger", dataset="7", ceiling=plan.budget, unit=plan.unit)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.warns(NewLedger) as caught:
        simulate(federation, plan, ledgers=tmp_path, executor=pool, **QUICK)
    assert len(caught) == 1
    assert f"2 of 3 ledgers are not in {tmp_path}" in str(caught[0].message)
    assert caught[0].filename == __file__
    simulate(federation, plan, ledgers=tmp_path, **QUICK)  # nothing new; a warning would be an error


def test_the_warning_comes_before_anything_is_made(federation: Federation, tmp_path: Path) -> None:
    with pytest.raises(NewLedger):  # warnings are errors here
        simulate(federation, make_plan(simulation=False), ledgers=tmp_path, **QUICK)
    assert not list(tmp_path.iterdir())


def test_missing_ledgers_can_be_refused(federation: Federation, tmp_path: Path) -> None:
    plan, folder = make_plan(simulation=False), tmp_path / "ledgers"
    first = simulate(federation, plan, ledgers=folder, new_ledgers=True, **QUICK)
    with refused(LedgerBroken, "new_ledgers", str(tmp_path / "typo"), found="3 of 3") as caught:
        simulate(federation, plan, ledgers=tmp_path / "typo", new_ledgers=False, **QUICK)
    assert (caught.value.parameter, (tmp_path / "typo").exists()) == ("new_ledgers", False)
    again = simulate(federation, plan, ledgers=folder, new_ledgers=False, **QUICK)
    assert again.factors.hash == first.factors.hash
    with pytest.raises(BadParameter) as wrong:
        simulate(federation, plan, ledgers=folder, new_ledgers="no", **QUICK)  # type: ignore[arg-type]
    assert wrong.value.parameter == "new_ledgers"


def test_a_worker_that_does_not_see_the_ledger_makes_none(federation: Federation, tmp_path: Path) -> None:
    path = tmp_path / "north.ledger"
    plan = make_plan(simulation=False)
    with pytest.raises(LedgerBroken) as caught:
        visit(Member(name="north", ratings=federation["north"], plan=plan, ledger=path, may_make=False), {}, set())
    assert (caught.value.parameter, path.exists()) == ("ledger", False)


def test_another_plan_does_not_fit_into_the_same_ledgers(federation: Federation, tmp_path: Path) -> None:
    simulate(federation, make_plan(simulation=False), ledgers=tmp_path, new_ledgers=True, **QUICK)
    with refused(BudgetExceeded, "cost", "entity 7: ", "2 other", found="remaining ε=0;"):
        simulate(federation, make_plan(simulation=False, rank=2), ledgers=tmp_path, new_ledgers=True, **QUICK)


def test_one_entity_that_fails_loses_nothing_of_the_others(federation: Federation, tmp_path: Path) -> None:
    plan = make_plan(simulation=False)
    Ledger.create(tmp_path / "7.ledger", dataset="7", ceiling=make_plan(epsilon=1).budget, unit=plan.unit)
    with refused(BudgetExceeded, "cost", "entity 7: ", found="7.ledger"):
        simulate(federation, plan, ledgers=tmp_path, new_ledgers=True, **QUICK)
    before = {p: Ledger(p).state().hash for p in tmp_path.glob("*.ledger") if p.stem != "7"}
    signer = KeyStore(tmp_path / "7.keys").signer  # made by the first run, and the ledger's from then on
    Ledger(tmp_path / "7.ledger", signer=signer).raise_ceiling(plan.budget, reason="a test")
    simulate(federation, plan, ledgers=tmp_path, new_ledgers=True, **QUICK)
    assert {p: Ledger(p).state().hash for p in before} == before
    assert len(before) == 2


def test_changed_data_get_the_stored_release_with_the_ledgers_warning(federation: Federation, tmp_path: Path) -> None:
    plan = make_plan(simulation=False)
    first = simulate(federation, plan, ledgers=tmp_path, new_ledgers=True, threads=1, **QUICK)
    changed = {label: counts(9) if label == 7 else federation[label] for label in federation}
    with pytest.warns(StaleRelease):
        again = simulate(changed, plan, ledgers=tmp_path, new_ledgers=True, threads=1, **QUICK)
    assert again.factors.hash == first.factors.hash


def test_a_seeded_simulation_may_keep_ledgers_that_promise_nothing(federation: Federation, tmp_path: Path) -> None:
    simulate(federation, make_plan(), rng=1, ledgers=tmp_path, new_ledgers=True, **QUICK)
    assert Ledger(tmp_path / "north.ledger").state().ceiling.epsilon == float("inf")


def test_a_message_that_the_server_does_not_take_stops_the_simulation(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twofold.server.coordinate.MOST_MESSAGES", 2)
    with refused(BadMessage, None, found="RoundClosed"):
        simulate(federation, make_plan(), rng=1, **QUICK)


# Refused before anyone has drawn


def test_a_quorum_that_cannot_be_reached_spends_nothing(federation: Federation, tmp_path: Path) -> None:
    with pytest.raises(TooFewMessages) as caught:
        simulate(federation, make_plan(quorum=5, n_entities=5, simulation=False), ledgers=tmp_path)
    assert (caught.value.parameter, caught.value.found) == ("quorum", "3 entities")
    assert not list(tmp_path.iterdir())


def test_another_catalog_or_name_spends_nothing(federation: Federation, tmp_path: Path) -> None:
    for changes in (
        {"catalog": Catalog([f"other-{number}" for number in range(15)])},
        {"entities": ("north", "south", "west")},
    ):
        with pytest.raises(PlanMismatch):
            simulate(federation, make_plan(simulation=False, **changes), ledgers=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rng", [True, -1, "7", 1.5])
def test_a_seed_is_a_whole_number(federation: Federation, rng: Any) -> None:
    with pytest.raises(BadParameter) as caught:
        simulate(federation, make_plan(), rng=rng)
    assert caught.value.parameter == "rng"


@pytest.mark.parametrize("feedback", ["ratings", "counts"])
def test_users_and_entities_with_little_or_nothing(feedback: Any) -> None:
    empty = Ratings(sparse.csr_array((3, 15), dtype=np.float32), Identifiers(range(3)), CATALOG, feedback)
    single = Ratings(sparse.csr_array(np.eye(1, 15, dtype=np.float32)), Identifiers([0]), CATALOG, feedback)
    some = counts(1).as_feedback(feedback)
    done = simulate({"empty": empty, "single": single, "some": some}, make_plan(feedback=feedback), rng=1)
    assert len(done.recommend("empty", 0, 4)) == 4
    assert len(done.recommend("single", 0, 4)) == 4
