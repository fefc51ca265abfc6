"""An entity: one release, paid for before it is drawn, the same bytes for ever; and everything that can go wrong."""

from __future__ import annotations

import subprocess
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tests.enrolled import enrolled, fixed_secrets
from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.account import NewLedger, NothingExpected
from twofold.entity.agent import Entity, bounded
from twofold.errors import (
    BadPlan,
    BadValue,
    BudgetExceeded,
    DataError,
    LedgerBroken,
    NotForRealUse,
    NotReady,
    PlanMismatch,
    SeededNoise,
    UnitMissing,
)
from twofold.federation.agreement import Agreements, decode_agreement
from twofold.federation.messages import receipt
from twofold.federation.plan import Plan
from twofold.identity.keys import Secrets
from twofold.identity.keystore import KeyStore, new_keys
from twofold.identity.roster import Roster
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.card import card_from_ledger
from twofold.privacy.ledger import Ledger, StaleRelease
from twofold.privacy.rng import Keyed
from twofold.privacy.unit import Unit
from twofold.release.buckets import Popularity
from twofold.release.choose import PRIVATE
from twofold.report.card import to_markdown
from twofold.storage.container import open_container

ITEMS = 12
CATALOG = Catalog([f"item-{number}" for number in range(ITEMS)])
EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
SECRETS = fixed_secrets("st-anna", "st-olga")


def table(users: int = 30, *, seed: int = 0, feedback: str = "counts") -> Ratings:
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 6, (users, ITEMS)) * (rng.random((users, ITEMS)) < 0.4)
    names = Identifiers([f"patient-secret-{number}" for number in range(users)])
    return Ratings(sparse.csr_array(values.astype(np.float32)), names, CATALOG, feedback)


def without(ratings: Ratings, row: int) -> Ratings:
    return ratings.take([one for one in range(ratings.n_users) if one != row])


def agreed(**changes: object) -> Plan:
    given = {"catalog": CATALOG, "feedback": "counts", "bound": 5, "max_items": 6, "n_prototypes": 3, "rank": 2}
    plan = Plan(**(given | {"mechanism": "popularity"} | changes))
    return plan if plan.simulation else enrolled(plan, secrets=SECRETS).plan


def member(name: str, ratings: Ratings, plan: Plan, **given: object) -> Entity:
    """An entity of a real plan to which everybody has agreed."""
    return Entity(name, ratings, plan, **(enrolled(plan, secrets=SECRETS).given(name) | given))


def roomy(path: Path) -> Ledger:
    ceiling = ApproxDP(epsilon=3 * EPSILON, delta=3 * DELTA)
    return Ledger.create(path, dataset="d", ceiling=ceiling, unit=Unit.person())


@pytest.fixture
def ledger(tmp_path):
    """A ledger with room for three releases."""
    return roomy(tmp_path / "st-anna.ledger")


@pytest.fixture
def draws(monkeypatch):
    """Count how often the mechanism runs."""
    seen, real = [], Popularity.release

    def release(self, rows, public, *, rng=None):
        seen.append(rows)
        return real(self, rows, public, rng=rng)

    monkeypatch.setattr(Popularity, "release", release)
    return seen


# What it takes


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", ".hidden", 7, "x" * 65])
def test_a_name_is_public_and_plain(name):
    with refused(BadPlan, "entity"):
        Entity(name, table(), agreed())


def test_another_catalog_is_refused_with_what_differs():
    other = Catalog([*CATALOG.items.texts(), "one more"])
    with refused(
        PlanMismatch, "catalog", found=f"{CATALOG.hash[:12]} of 12 items", expected=f"{other.hash[:12]} of 13 items"
    ):
        Entity("st-anna", table(), agreed(catalog=other))


def test_what_an_absent_entry_means_is_for_the_plan_to_say():
    assert Entity("st-anna", table(feedback="ratings"), agreed()).ratings.feedback == "counts"


def test_negative_scores_are_no_counts():
    scores = Ratings(sparse.csr_array(np.full((2, ITEMS), -1.0)), Identifiers(["a", "b"]), CATALOG, "ratings")
    with pytest.raises(BadValue):
        Entity("st-anna", scores, agreed())


def test_only_ratings_and_plans():
    with refused(DataError, "ratings"):
        Entity("st-anna", table().matrix, agreed())
    with refused(DataError, "plan"):
        Entity("st-anna", table(), {"rank": 3})


def test_a_plan_that_names_its_entities():
    plan = agreed(entities=("st-olga", "st-anna"), n_entities=2)
    assert Entity("st-anna", table(), plan).name == "st-anna"
    with refused(PlanMismatch, "entity"):
        Entity("st-else", table(), plan)


def test_the_repr_shows_no_values_and_the_plan_by_hash():
    shown = repr(Entity("st-anna", table(), agreed()))
    assert shown == f"Entity('st-anna', plan {agreed().hash[:12]})"


# One release


def test_asking_again_gives_the_same_bytes_and_spends_nothing(ledger, draws):
    entity = member("st-anna", table(), agreed(), ledger=ledger)
    first = entity.release()
    again = member("st-anna", table(), agreed(), ledger=ledger.path).release()
    assert entity.release().data == first.data == again.data
    assert len(draws) == 1
    state = ledger.state()
    assert (state.spent.epsilon, state.spent.delta) == (EPSILON, DELTA)
    assert ledger.stored(plan=agreed().hash) == first.data
    assert ledger.verify().releases == 1


def test_the_message_says_who_and_for_what(ledger):
    sent = member("st-anna", table(), agreed(), ledger=ledger).release()
    assert (sent.entity, sent.plan_hash, sent.catalog_hash) == ("st-anna", agreed().hash, CATALOG.hash)
    assert sent.receipt == receipt(sent.data)
    assert not sent.content.seeded
    assert sent.content.sums.shape == (1, ITEMS)


def test_the_mechanism_sees_bounded_rows_only(ledger, draws):
    wild = Ratings(
        sparse.csr_array(np.full((3, ITEMS), 1e6, dtype=np.float32)), Identifiers(["a", "b", "c"]), CATALOG, "counts"
    )
    member("st-anna", wild, agreed(), ledger=ledger).release()
    (rows,) = draws
    assert rows.data.max() == 5
    assert np.diff(rows.indptr).max() == 6


def test_bounds_come_from_the_plan():
    cut = bounded(table(feedback="ratings"), agreed(feedback="ratings", bound=3, lower=2, max_items=3))
    assert set(cut.matrix.data) == {2.0, 3.0}
    assert cut.entries_per_user.max() == 3


def test_laplace_and_gaussian_are_charged_as_the_plan_says(tmp_path):
    ceiling = ApproxDP(epsilon=9, delta=Fraction(1, 1000))
    book = Ledger.create(tmp_path / "x.ledger", dataset="d", ceiling=ceiling, unit=Unit.person())
    member("st-anna", table(), agreed(delta=0, epsilon=2), ledger=book).release()
    assert (book.state().spent.epsilon, book.state().spent.delta) == (2, 0)
    member("st-anna", table(), agreed(epsilon=Fraction(1, 3)), ledger=book).release()
    assert (book.state().spent.epsilon, book.state().spent.delta) == (2 + Fraction(1, 3), DELTA)


def test_the_card_reads_well(ledger):
    member("st-anna", table(feedback="ratings"), agreed(feedback="ratings", lower=1), ledger=ledger).release()
    card = card_from_ledger(ledger)
    assert card.private
    assert card.what_left == (
        "1 prototype over 12 items: noisy sums of centred ratings, noisy numbers of ratings and a noisy number of "
        "users each (popularity, plan federation)"
    )
    assert card.public_numbers["bound"] == 2.0  # ratings from 1 to 5 around 3
    assert "12 items" in to_markdown(card)


def test_a_new_public_version_is_a_new_release(ledger):
    first = member("st-anna", table(), agreed(), ledger=ledger).release()
    second = member("st-anna", table(seed=1), agreed(), ledger=ledger, version="2").release()
    assert first.data != second.data
    assert ledger.state().spent.epsilon == 2 * EPSILON


def test_changed_data_get_the_old_bytes_and_a_warning_inside(ledger, draws):
    first = member("st-anna", table(), agreed(), ledger=ledger).release()
    with pytest.warns(StaleRelease):
        second = member("st-anna", table(seed=1), agreed(), ledger=ledger).release()
    assert first.data == second.data
    assert len(draws) == 1


def test_the_ledger_of_another_entity_is_noticed(ledger):
    member("st-anna", table(), agreed(), ledger=ledger).release()
    with refused(LedgerBroken, None, found="signed by"):
        member("st-olga", table(), agreed(), ledger=ledger).release()


def test_the_ledger_of_another_name_under_the_same_key_is_noticed(tmp_path):
    plan, path = agreed(simulation=True), tmp_path / "st-anna.ledger"
    with pytest.warns(NewLedger):
        Entity("st-anna", table(), plan, ledger=path).release()
    with refused(PlanMismatch, "entity"):
        Entity("st-olga", table(), plan, ledger=path).release()


# What is worth nothing


def useless(**changes: object) -> Plan:
    return agreed(mechanism="gram", n_users=30, **changes)


@pytest.mark.filterwarnings("error::twofold.entity.account.NothingExpected")
def test_a_release_worth_nothing_warns_before_it_is_paid_for(ledger):
    assert useless().prediction.word == "nothing"
    entity = member("st-anna", table(), useless(), ledger=ledger)
    with pytest.raises(NothingExpected):  # as an error, it stops the release
        entity.release()
    assert not ledger.state().entries
    with pytest.warns(NothingExpected) as caught:
        entity.release()
    assert [one.filename for one in caught] == [__file__]
    assert len(ledger.state().entries) == 1


@pytest.mark.parametrize("version", ["1", "2"])
def test_it_warns_again_only_if_it_costs_again(ledger, version):
    with pytest.warns(NothingExpected):
        member("st-anna", table(), useless(), ledger=ledger).release()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        member("st-anna", table(), useless(), ledger=ledger, version=version).release()
    assert [one.category for one in caught] == ([] if version == "1" else [NothingExpected])
    assert len(ledger.state().entries) == int(version)


def test_whether_it_warns_does_not_depend_on_the_data(tmp_path):
    for number, ratings in enumerate((table(3_000), table(), table().take([]))):
        with pytest.warns(NothingExpected):
            member("st-anna", ratings, useless(), ledger=roomy(tmp_path / f"{number}.ledger")).release()


@pytest.mark.filterwarnings("error::twofold.entity.account.NothingExpected")
def test_a_release_of_which_something_is_expected_does_not_warn(ledger):
    plan = agreed(mechanism="gram", n_users=3_000)
    assert plan.prediction.word not in (None, "nothing")
    assert member("st-anna", table(), plan, ledger=ledger).release().data
    with pytest.warns(NewLedger) as caught:  # and a simulation spends nothing
        Entity("st-anna", table(), useless(simulation=True), ledger=ledger.path.with_name("other.ledger")).release()
    assert [one.category for one in caught] == [NewLedger]


# What must not depend on the data


@pytest.mark.filterwarnings("ignore::twofold.entity.account.NothingExpected")  # thirty people, and every mechanism
@pytest.mark.parametrize("mechanism", [*PRIVATE, "auto"])
@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_neighbours_have_the_same_event_header_and_size(tmp_path, mechanism, feedback):
    plan = agreed(mechanism=mechanism, feedback=feedback, epsilon=3, n_users=30, delta=0)
    whole = table(feedback=feedback)
    seen = []
    for number, ratings in enumerate((whole, without(whole, 4), whole.take([]))):
        book = Ledger.create(tmp_path / f"{number}.ledger", dataset="d", ceiling=PureDP(epsilon=3), unit=Unit.person())
        sent = member("st-anna", ratings, plan, ledger=book).release()
        (entry,) = book.state().entries
        public = {key: entry.request[key] for key in ("plan", "version", "unit", "guarantee", "events", "about")}
        header = open_container(sent.data).record
        del header["checksum"], header["signature"]  # of the bytes that are released
        seen.append((header, len(sent.data), public))
    assert seen[0] == seen[1] == seen[2]


def test_no_private_text_leaves_or_enters_the_ledger(tmp_path, ledger):
    sent = member("st-anna", table(), agreed(), ledger=ledger).release()
    record = open_container(sent.data).record
    assert set(record) == {
        *("schema", "plan", "plan_hash", "catalog_hash", "software"),
        *("entity", "mechanism", "units", "noise", "seeded", "note", "checksum", "signature"),
    }
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 3
    assert not any(b"patient-secret" in content for content in (sent.data, *written))
    assert table().digest().encode() not in sent.data


# Agreements and keys

HERS = enrolled(agreed(), secrets=SECRETS)


@pytest.mark.parametrize(
    ("changes", "kind", "parameter"),
    [
        ({"agreements": None}, NotReady, "agreements"),
        ({"keys": None}, PlanMismatch, "keys"),
        ({"keys": SECRETS["st-olga"]}, PlanMismatch, "keys"),
        ({"keys": Secrets.new("st-anna")}, PlanMismatch, "keys"),
        ({"keys": SECRETS["st-anna"].renewed()}, PlanMismatch, "keys"),
        ({"keys": SECRETS["coordinator"]}, PlanMismatch, "keys"),
    ],
)
def test_without_the_keys_and_everybodys_agreement_nothing_is_drawn_or_paid(ledger, draws, changes, kind, parameter):
    """The keys were asked for after the ledger had paid, in the first version of the signatures."""
    with refused(kind, parameter):
        Entity("st-anna", table(), HERS.plan, ledger=ledger, **(HERS.given("st-anna") | changes)).release()
    assert draws == []
    assert ledger.state().entries == ()


@pytest.mark.parametrize("absent", ["coordinator", "st-olga", "st-anna"])
def test_one_missing_agreement_is_one_too_many(absent):
    fewer = Agreements(HERS.plan.hash, {name: HERS.agreements[name] for name in HERS.agreements if name != absent})
    with refused(NotReady, "agreements", found=absent):
        Entity("st-anna", table(), HERS.plan, agreements=fewer)


def test_agreements_to_another_plan_start_nothing(tmp_path):
    other = enrolled(agreed(rank=1), secrets=SECRETS).agreements
    with refused(NotReady, "agreements", found="3 without"):
        Entity("st-anna", table(), HERS.plan, agreements=other)
    other.write(tmp_path / "agreements.json")
    with refused(NotReady, "agreements", found="3 without"):
        Entity("st-anna", table(), HERS.plan, agreements=tmp_path / "agreements.json")


def test_a_real_plan_without_a_roster_releases_nothing(ledger, draws):
    plan = agreed(simulation=True).with_(simulation=False)
    with refused(PlanMismatch, "roster"):
        Entity("st-anna", table(), plan, ledger=ledger, keys=SECRETS["st-anna"]).release()
    assert (draws, ledger.state().entries) == ([], ())


def test_an_agreement_is_sent_only_if_somebody_agreed(tmp_path):
    new_keys(tmp_path / "st-anna.keys", "st-anna")
    store = KeyStore(tmp_path / "st-anna.keys")
    roster = Roster([store.identity, SECRETS["coordinator"].identity])
    plan = agreed().with_(roster=roster, entities=(), writer=None)
    entity = Entity("st-anna", table(), plan, keys=tmp_path / "st-anna.keys")
    assert not entity.started
    with refused(NotReady, "agreements"):
        entity.agreement()
    store.agree(plan.with_(rank=1).hash)
    with refused(NotReady, "agreements"):
        entity.agreement()
    store.agree(plan.hash)
    assert decode_agreement(entity.agreement(), plan).content["st-anna"] == store.agree(plan.hash)
    assert entity.agreement() == entity.agreement()


# Ledgers


def test_a_missing_ledger_is_made_with_room_for_this_plan_and_a_warning(tmp_path):
    path = tmp_path / "st-anna.ledger"
    entity = member("st-anna", table(), agreed(), ledger=str(path))
    assert not path.exists()
    with pytest.warns(NewLedger, match=r"st-anna\.ledger[\s\S]*already have a ledger, stop") as caught:
        first = entity.release()
    assert caught[0].filename == __file__
    state = Ledger(path).state()
    assert (state.dataset, state.ceiling.epsilon, state.ceiling.delta) == ("st-anna", EPSILON, DELTA)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert entity.release().data == first.data
    with pytest.raises(BudgetExceeded):
        member("st-anna", table(), agreed(rank=3), ledger=path).release()


def test_a_lost_ledger_file_is_not_replaced_by_a_new_one(tmp_path, ledger, draws):
    member("st-anna", table(), agreed(), ledger=ledger).release()
    ledger.path.unlink()
    with refused(LedgerBroken, "ledger"):
        member("st-anna", table(), agreed(), ledger=ledger.path).release()
    assert len(draws) == 1


def test_no_ledger_no_release(draws):
    with refused(NotForRealUse, "ledger"):
        member("st-anna", table(), agreed()).release()
    assert draws == []


class Harmless:
    """A source that calls itself not seeded, and is always the same."""

    seeded = False

    def words(self, count):
        return np.zeros(count, dtype=np.uint64)

    def bits(self, count):
        return 0 * count


@pytest.mark.parametrize("noise", [Keyed(bytes(32)), Harmless()])
def test_no_source_of_ones_own_in_a_real_federation(ledger, draws, noise):
    """Whatever a source says of itself: noise that somebody else can make again protects nobody."""
    with refused(NotForRealUse, "rng"):
        member("st-anna", table(), agreed(), ledger=ledger, rng=noise).release()
    assert draws == []


def test_no_seed_in_a_real_federation(ledger, draws):
    with refused(NotForRealUse, "rng", found="seed"):
        member("st-anna", table(), agreed(), ledger=ledger, rng=1).release()
    assert draws == []
    assert ledger.state().spent.epsilon == 0


def test_a_full_ledger_draws_nothing(tmp_path, draws):
    book = Ledger.create(
        tmp_path / "x.ledger", dataset="d", ceiling=ApproxDP(epsilon=0.5, delta=DELTA), unit=Unit.person()
    )
    with pytest.raises(BudgetExceeded):
        member("st-anna", table(), agreed(), ledger=book).release()
    assert draws == []
    assert book.state().spent.epsilon == 0


def test_a_ledger_of_another_unit_draws_nothing(tmp_path, draws):
    book = Ledger.create(
        tmp_path / "x.ledger", dataset="d", ceiling=ApproxDP(epsilon=9, delta=DELTA), unit=Unit.visit()
    )
    with pytest.raises(UnitMissing):
        member("st-anna", table(), agreed(), ledger=book).release()
    assert draws == []


# Simulations


def test_a_simulation_needs_no_ledger_and_repeats_with_a_seed():
    plan = agreed(simulation=True)
    entity = Entity("st-anna", table(), plan, rng=5)
    first = entity.release()
    assert first.content.seeded
    assert entity.release().data == first.data == Entity("st-anna", table(), plan, rng=5).release().data
    assert Entity("st-anna", table(), plan, rng=6).release().data != first.data
    assert not Entity("st-anna", table(), plan).release().content.seeded


@pytest.mark.parametrize("mechanism", ["exact", "kmeans", "popularity"])
def test_what_is_not_private_is_charged_as_such(tmp_path, mechanism):
    path = tmp_path / "x.ledger"
    entity = Entity("st-anna", table(), agreed(simulation=True, mechanism=mechanism), ledger=path, rng=5)
    with pytest.warns(NewLedger):
        first = entity.release()
    assert entity.release().data == first.data
    assert Ledger(path).state().spent.epsilon == float("inf")
    assert not card_from_ledger(Ledger(path)).private


def test_a_real_ledger_takes_no_seeded_release(ledger, draws):
    with pytest.raises(SeededNoise):
        Entity("st-anna", table(), agreed(simulation=True), ledger=ledger, rng=5).release()
    assert draws == []


# Two at once


TWIN = """
import sys, warnings
sys.path.insert(0, sys.argv[2])
from test_agent import agreed, member, table
warnings.simplefilter("ignore")
entity = member("st-anna", table(), agreed(), ledger=sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(entity.release().receipt)
"""


def test_two_processes_at_once_make_one_release(tmp_path):
    path = tmp_path / "x.ledger"
    here = __file__.rpartition("/")[0]
    command = [sys.executable, "-c", TWIN, str(path), here]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate()[0].strip() for process in both]
    assert told[0] == told[1]
    assert len(told[0]) == 64
    state = Ledger(path).state()
    assert [entry.status for entry in state.entries] == ["released"]
    assert state.spent.epsilon == EPSILON
