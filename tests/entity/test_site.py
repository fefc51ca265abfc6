"""The site of an entity: which policy holds, where the log is, and what a policy and a draft see."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.entity.account import open_account
from twofold.entity.site import Site, plan_facts
from twofold.errors import BadPolicy, PolicyRefused
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import OperatorSum, SecureSum
from twofold.identity.approval import Draft
from twofold.identity.keys import Role
from twofold.identity.keystore import KeyStore, new_keys
from twofold.identity.log import Event, read_log
from twofold.identity.policy import PlanFacts, Policy
from twofold.privacy.budget import ApproxDP
from twofold.privacy.ledger import Ledger
from twofold.privacy.ledger.state import Cost

POLICY = Policy(writers=None, operators=None)
PLAN = Plan(
    catalog=CatalogKey(hash="0" * 64, n_items=8),
    feedback="counts",
    bound=5,
    max_items=4,
    n_users=500,
    mechanism="gram",
    n_entities=5,
)


def site(keys: Path, policy: Path | None = None) -> Site:
    name = keys.name.split(".")[0]
    new_keys(keys, name, Role.ENTITY)
    return Site.of(KeyStore(keys), keys, policy)


def test_without_a_policy_it_says_so(tmp_path: Path) -> None:
    """First reader A2: keys copied to a folder without a policy passed it in silence."""
    found = site(tmp_path / "st-anna.keys")
    assert (found.policy, found.policy_hash) == (None, None)
    assert "no policy" in found.line


def test_the_policy_beside_the_keys_is_found_and_named(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY.text)
    found = site(tmp_path / "st-anna.keys")
    assert found.policy_hash == POLICY.hash
    assert found.line == f"policy {POLICY.hash[:8]} (policy.toml)"


def test_another_content_is_refused_and_a_copy_is_not(tmp_path: Path) -> None:
    """First reader A2: --policy weak.toml replaced the site's policy."""
    keys, weak, copy = (tmp_path / name for name in ("st-anna.keys", "weak.toml", "copy.toml"))
    (tmp_path / "policy.toml").write_text(POLICY.text)
    weak.write_text(replace(POLICY, max_epsilon=Fraction(20)).text)
    copy.write_text("# the same rules\n" + POLICY.text)
    with refused(BadPolicy, "policy", found="weak.toml", expected=POLICY.hash[:8]):
        site(keys, weak)
    with refused(BadPolicy, "policy"):
        site(keys, tmp_path / "none.toml")
    assert site(keys, copy).policy_file == tmp_path / "policy.toml"


def test_a_policy_that_leads_nowhere_is_not_none(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").symlink_to(tmp_path / "gone.toml")
    with refused(BadPolicy, "policy"):
        site(tmp_path / "st-anna.keys")


def test_a_policy_elsewhere_holds_where_none_is_beside_the_keys(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    file = tmp_path / "rules" / "site.toml"
    file.write_text(POLICY.text)
    found = site(tmp_path / "st-anna.keys", file)
    assert found.line.endswith("(site.toml)")
    assert found.log.path == tmp_path / "rules" / "st-anna.log"


def test_the_log_has_one_name_with_or_without_a_policy(tmp_path: Path) -> None:
    """First reader A9: adding a policy started a second log."""
    keys = tmp_path / "st-anna.keys"
    before = site(keys)
    before.log.add(Event.KEY_MADE, name="st-anna", key=KeyStore(keys).identity.sign.hex())
    (tmp_path / "policy.toml").write_text(POLICY.text)
    after = site(keys)
    assert after.log.path == before.log.path == tmp_path / "st-anna.log"
    after.confirmed(PLAN)
    assert [one.event for one in read_log(after.log.path)][1:] == [Event.KEY_MADE, Event.PLAN_CONFIRMED]


def test_renewed_keys_continue_the_log(tmp_path: Path) -> None:
    keys = tmp_path / "st-anna.keys"
    first = site(keys)
    first.confirmed(PLAN)
    new_keys(tmp_path / "second.keys", "st-anna", Role.ENTITY, renew=keys)
    second = Site.of(KeyStore(tmp_path / "second.keys"), tmp_path / "second.keys")
    assert second.log.path == first.log.path
    second.sent(PLAN, b"message")
    assert len(list(read_log(first.log.path))) == 3


def test_several_entities_share_a_policy_and_not_a_log(tmp_path: Path) -> None:
    """First reader A8: the second entity's log was refused as if somebody had changed it."""
    (tmp_path / "policy.toml").write_text(POLICY.text)
    for name in ("st-anna", "st-bern"):
        site(tmp_path / f"{name}.keys").confirmed(PLAN)
        assert len(list(read_log(tmp_path / f"{name}.log"))) == 2


def test_a_policy_may_name_another_log(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(replace(POLICY, log="logs/{entity}/security.log").text)
    assert site(tmp_path / "st-anna.keys").log.path == tmp_path / "logs" / "st-anna" / "security.log"
    with refused(BadPolicy, "entity"):
        POLICY.log_path(tmp_path / "policy.toml", "../st-anna")


def test_the_facts_are_those_of_the_plan_and_the_ledger() -> None:
    """First reader A6: the officer signs what the card will say."""
    secure = PLAN.with_(secure=SecureSum(survivors=4))
    spent, ceiling = Cost(epsilon=Fraction(1)), Cost(epsilon=Fraction(2), delta=Fraction(1, 10**5))
    facts = plan_facts(secure, spent=spent, ceiling=ceiling)
    assert secure.spec.sum is not None
    assert facts.honest == secure.parameters.honest > 0
    assert Fraction(facts.alone) >= Fraction(secure.spec.sum.alone_epsilon) > facts.epsilon
    assert (facts.spent_epsilon, facts.ceiling_epsilon, facts.guess) == (1, 2, "73.2%")
    assert (plan_facts(PLAN).alone, plan_facts(PLAN).honest, plan_facts(PLAN).ceiling_epsilon) == ("", 0, None)
    rest = {"version": "1", "leaves": "sums.", "size": 9, "unit": "person", "software": "twofold"}
    draft = Draft.of(facts, POLICY, entity="st-anna", **rest)  # type: ignore[arg-type]
    assert (draft.total_epsilon, draft.ceiling_epsilon) == (2, 2)
    assert hashlib.sha256(draft.text.encode()).hexdigest() == draft.hash


@pytest.mark.parametrize("most", [None, Cost(epsilon=float("inf"), delta=Fraction(0))])
def test_a_ledger_without_a_ceiling_has_none_in_the_draft(most: Cost | None) -> None:
    rest = {"version": "1", "leaves": "sums.", "size": 9, "unit": "person", "software": "twofold"}
    draft = Draft.of(plan_facts(PLAN, ceiling=most), POLICY, entity="st-anna", **rest)  # type: ignore[arg-type]
    assert draft.ceiling_epsilon is None
    assert Draft.from_text(draft.text) == draft


def test_a_lost_draw_counts_in_the_total(tmp_path: Path) -> None:
    """A lost draw stays spent and is paid for again: the policy and the draft must see both."""
    rules = replace(POLICY, total_epsilon=Fraction(1), min_participants=0)
    (tmp_path / "policy.toml").write_text(rules.text)
    found, book = site(tmp_path / "st-anna.keys"), tmp_path / "st-anna.ledger"
    ledger = Ledger.create(book, dataset="visits", ceiling=ApproxDP(epsilon=3, delta="1e-5"), unit=PLAN.unit)
    account = open_account(ledger, PLAN, dataset="visits", event=PLAN.spec.event_for(seeded=False))
    found.clear(PLAN, ledger.state(), entity="st-anna", version="1")

    def fails() -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        account.release(data="0" * 64, version="1", draw=fails)
    assert [one.status for one in ledger.state().entries] == ["lost"]
    with refused(PolicyRefused, "total_epsilon"):
        found.clear(PLAN, ledger.state(), entity="st-anna", version="1")


@pytest.mark.parametrize(("noise", "honest", "colluders"), [("operators", 0, 9), ("both", 0, 9), ("entities", 7, 1)])
def test_facts_of_a_plan_with_two_operators(noise, honest, colluders):
    """One operator's whole noise withstands every entity; shares withstand the plan's colluders."""
    plan = Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=9),
        feedback="counts",
        bound=5,
        max_items=2,
        n_users=500,
        n_entities=10,
        delta=1e-6,
        mechanism="gram",
        secure=OperatorSum(floor=9, noise=noise),
    )
    facts = plan_facts(plan)
    assert (facts.secure, facts.honest, facts.colluders) == ("operators", honest, colluders)
    assert (facts.alone == "infinite") == (noise == "operators")
    draft = Draft.of(
        facts, Policy(), entity="st-anna", version="1", leaves=plan.spec.what, size=9, unit="person", software="twofold"
    )
    said = "\n".join(draft.lines())
    assert "If both operators work together, or one administrator reaches both: " in said
    assert ("exact sums are open to them" in said) == (noise == "operators")
    assert ("at least 7 entities" in said.lower()) == (noise == "entities")
    assert "0 entities" not in said


def test_a_draft_warns_of_a_writer_who_is_an_operator():
    facts = PlanFacts(
        plan="0" * 64, name="x", epsilon=Fraction(1), delta=Fraction(0), n_users=500, entities=("st-anna", "st-bern"),
        mechanism="gram", secure="operators", alone="infinite", writer=b"a" * 32, operators=(b"a" * 32, b"b" * 32),
    )  # fmt: skip
    given = {"entity": "st-anna", "version": "1", "leaves": "sums", "size": 9, "unit": "person", "software": "twofold"}
    assert "WARNING: the plan's writer is one of the operators" in "\n".join(Draft.of(facts, Policy(), **given).lines())
    other = replace(facts, writer=b"c" * 32)
    assert "WARNING" not in "\n".join(Draft.of(other, Policy(), **given).lines())
