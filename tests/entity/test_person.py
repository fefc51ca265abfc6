"""A person's device: one row, one report, one key; and what it makes of the shared factors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.agent import Entity
from twofold.entity.candidates import Candidate, FitSettings, fitted
from twofold.entity.models.side import unit_rows
from twofold.entity.person import Person, fold_person_in, person_keys, read_request, read_voucher, vouch, voucher_file
from twofold.errors import BadMessage, BadPlan, BudgetExceeded, DataError, NotReady, PlanMismatch
from twofold.evaluation.measure import user_ndcg
from twofold.federation.agreement import Agreements
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan
from twofold.federation.reports import decode_report, person_name
from twofold.federation.secure import OperatorSum
from twofold.identity.keys import Role, Secrets
from twofold.identity.keystore import KeyStore
from twofold.identity.roster import Roster
from twofold.privacy.ledger import Ledger

CATALOG = Catalog([f"item-{number}" for number in range(6)])
#: Fifty people with six items: noise hides everything, which is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::twofold.entity.account.NothingExpected")


def row(*values: float) -> Ratings:
    return Ratings(sparse.csr_array(np.array([values])), Identifiers(["me"]), CATALOG, "counts")


MINE = row(1, 0, 2, 0, 0, 1)
#: A table without rows.
NOTHING = Ratings(sparse.csr_array((0, 6)), Identifiers([]), CATALOG, "counts")


@dataclass
class Site:
    """A real plan for people, one institution and two operators."""

    plan: Plan
    hospital: KeyStore
    agreements: Agreements
    folder: Path

    def given(self, name: str = "me", **changes: Any) -> dict[str, Any]:
        keys = self.folder / f"{name}.keys"
        (self.folder / f"{name}.request").write_text(person_keys(keys))
        public = read_request(self.folder / f"{name}.request")
        given = {"keys": keys, "voucher": vouch(self.plan, self.hospital, public), "agreements": self.agreements}
        return given | {"ledger": self.ledger} | changes

    @property
    def ledger(self) -> Ledger:
        path = self.folder / "me.ledger"
        return Ledger.open_or_create(path, dataset="person", ceiling=self.plan.budget, unit=self.plan.unit)[0]


def people_plan(roster: Roster | None, **changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "catalog": CATALOG,
        "feedback": "counts",
        "bound": 5,
        "max_items": 6,
        "n_users": 1,
        "n_entities": 50,
        "mechanism": "gram",
        "secure": OperatorSum(floor=2, people=True),
        "roster": roster,
    }
    return Plan(**fields | changes)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    operators = [Secrets.new(name, Role.OPERATOR) for name in ("clinic", "uni")]
    hospital = Secrets.new("hospital")
    plan = people_plan(Roster(one.identity for one in (*operators, hospital)))
    signed = [Agreements.signed(plan, one.sign, one.name) for one in operators]
    return Site(plan=plan, hospital=KeyStore(hospital), agreements=Agreements.joined(signed), folder=tmp_path)


def confirmed(site: Site, ratings: Ratings = MINE, **changes: Any) -> Person:
    made = Person(ratings, site.plan, **site.given(**changes))
    made.confirm()
    return made


def test_a_report_is_stored_before_it_leaves_and_the_same_from_then_on(site: Site) -> None:
    first = confirmed(site).report()
    again = Person(MINE, site.plan, **site.given()).report()
    assert again.data == first.data
    assert site.ledger.state().spent.epsilon == site.plan.epsilon
    found = decode_report(first.data, site.plan)
    assert found.entity == person_name(KeyStore(site.folder / "me.keys").identity.sign)


def test_nothing_of_the_row_shows_in_the_size(site: Site) -> None:
    sizes = {
        len(_sent(site, ratings, number))
        for number, ratings in enumerate((MINE, row(0, 0, 0, 0, 0, 0), row(5, 5, 5, 5, 5, 5), NOTHING))
    }
    assert len(sizes) == 1


def _sent(site: Site, ratings: Ratings, number: int) -> bytes:
    ledger = Ledger.open_or_create(
        site.folder / f"{number}.ledger", dataset="person", ceiling=site.plan.budget, unit=site.plan.unit
    )[0]
    made = Person(ratings, site.plan, **site.given(f"p{number}", ledger=ledger))
    made.confirm()
    return made.report().data


def test_nothing_leaves_before_the_operators_are_confirmed(site: Site) -> None:
    with refused(NotReady, "confirm"):
        Person(MINE, site.plan, **site.given()).report()
    assert not site.ledger.state().entries


def test_a_person_needs_a_voucher_for_this_very_key_and_plan(site: Site) -> None:
    other = Secrets.new("somebody", Role.PERSON)
    bad = [
        None,
        vouch(site.plan, site.hospital, other.sign.public),
        {**site.given()["voucher"], "institution": "uni"},
        {**site.given()["voucher"], "note": "more"},
    ]
    for voucher in bad:
        made = Person(MINE, site.plan, **site.given(voucher=voucher))
        made.confirm()
        with refused(BadMessage, "voucher"):
            made.report()
    assert not site.ledger.state().entries


def test_only_an_institution_of_the_plan_vouches(site: Site) -> None:
    stranger = KeyStore(Secrets.new("hospital"))
    with refused(PlanMismatch, "keys"):
        vouch(site.plan, stranger, Secrets.new("me", Role.PERSON).sign.public)


def test_the_budget_of_a_person_holds_over_all_their_keys(site: Site) -> None:
    confirmed(site).report()
    second = people_plan(site.plan.members, name="next", rank=2)
    agreed = Agreements(second.hash, {})
    voucher = vouch(second, site.hospital, read_request(_request(site, "later")))
    made = Person(MINE, second, keys=site.folder / "later.keys", voucher=voucher, ledger=site.ledger)
    made._agreements = agreed
    made.confirm()
    with refused(BudgetExceeded):
        made.report()


def _request(site: Site, name: str) -> Path:
    path = site.folder / f"{name}.request"
    path.write_text(person_keys(site.folder / f"{name}.keys"))
    return path


def test_a_key_serves_one_plan(site: Site) -> None:
    confirmed(site).report()
    second = people_plan(site.plan.members, name="next")
    voucher = vouch(second, site.hospital, KeyStore(site.folder / "me.keys").identity.sign)
    made = Person(MINE, second, keys=site.folder / "me.keys", voucher=voucher)
    with refused(PlanMismatch, "plan"):
        made.check_keys()


def test_a_device_holds_one_person_and_an_entity_is_not_one(site: Site) -> None:
    two = Ratings(sparse.csr_array(np.ones((2, 6))), Identifiers(["a", "b"]), CATALOG, "counts")
    with refused(DataError, "ratings"):
        Person(two, site.plan, **site.given())
    with refused(PlanMismatch, "plan"):
        Entity("hospital", MINE, site.plan)
    with refused(PlanMismatch, "plan"):
        Person(MINE, people_plan(None, secure=None), **site.given())


def test_an_institutions_keys_do_not_sign_for_a_person(site: Site) -> None:
    made = Person(MINE, site.plan, keys=Secrets.new("hospital"))
    with refused(PlanMismatch, "keys"):
        made.check_keys()


def test_plans_for_people(site: Site) -> None:
    with refused(BadPlan, "n_users"):
        people_plan(site.plan.members, n_users=2)
    operators = Roster(site.plan.members.operators.values())  # type: ignore[union-attr]
    with refused(BadPlan, "roster"):
        people_plan(operators)
    assert people_plan(operators, simulation=True).counted_users == 50
    assert site.plan.counted_users == 50
    with refused(BadPlan, "secure.noise"):  # an institution may invent people, who keep no noise secret
        people_plan(site.plan.members, secure=OperatorSum(floor=9, people=True, noise="entities"))
    people_plan(site.plan.members, secure=OperatorSum(floor=9, people=True, noise="both"))
    with refused(BadPlan, "mechanism"):
        people_plan(site.plan.members, mechanism="buckets")


def test_a_row_that_is_folded_in_gets_better_lists_than_a_person_alone_or_everybodys_list() -> None:
    """Items of a class are used together; 4,000 people were summed. The length of a row changes no list."""
    items, classes, rng = 60, 6, np.random.default_rng(4)
    use = rng.gamma(1.0, 1.0, size=items)
    rates = rng.gamma(0.3, 1.0, size=(4_120, classes))[:, np.arange(items) % classes] * use
    counts = np.minimum(rng.poisson(3 * rates), 5).astype(np.float32)
    unit = unit_rows(sparse.csr_array(counts[120:])).toarray()
    second = unit.T @ unit / len(unit)
    values, axes = np.linalg.eigh(second)
    shared = ItemFactors(
        plan="0" * 64, catalog="0" * 64, factors=np.zeros((items, 1), np.float32), moments=np.zeros((1, 1)),
        means=np.diag(second).copy(), support=np.ones(items), users=4_000.0, entities=4_000, private=False,
        patterns=axes[:, -12:].astype(np.float32), strengths=values[-12:].copy(), squares=np.diag(second).copy(),
    )  # fmt: skip
    settings = FitSettings(feedback="counts", lower=0, bound=5, rank=2, threads=1)
    mine = counts[:120]
    held = np.where(rng.random(mine.shape) < 1 / 3, mine, 0)
    history, test = sparse.csr_array(mine - held), sparse.csr_array(held)

    def lists(score: Any) -> np.ndarray:
        return user_ndcg(np.vstack([score(history[[one]]) for one in range(120)]), test, seen=history, n=10)

    alone = Candidate(kind="item-item", strength=0.0)
    folded = lists(lambda row: fold_person_in(row, shared, settings)[1].scores(row))
    longer = lists(lambda row: fold_person_in(4 * row, shared, settings)[1].scores(row))
    np.testing.assert_allclose(folded, longer, atol=1e-9)
    for without in (lambda row: fitted(alone, row, None, settings, gain=1.0).scores(row), lambda _: shared.means):
        gaps = folded - lists(without)
        gaps = gaps[~np.isnan(gaps)]
        assert gaps.mean() > 5 * gaps.std() / np.sqrt(gaps.size)


def test_requests_and_vouchers_in_files(site: Site) -> None:
    given = site.given()
    file = site.folder / "me.voucher"
    file.write_text(voucher_file(given["voucher"]))
    assert read_voucher(file) == given["voucher"]
    for reader in (read_voucher, read_request):
        for content in ("", "{}", "[1]", voucher_file({"institution": "a", "signature": "b", "more": "c"})):
            file.write_text(content)
            with refused(BadMessage, "file"):
                reader(file)
