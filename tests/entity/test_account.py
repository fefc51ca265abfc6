"""What a ledger keeps of a plan for the card: public facts only, and for two operators who they are."""

from __future__ import annotations

from typing import Any

import pytest

from twofold.cli.steps import price_lines
from twofold.entity.account import describe
from twofold.entity.site import plan_facts
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import OperatorSum
from twofold.identity.keys import Role, Secrets
from twofold.identity.policy import Policy
from twofold.identity.roster import Roster
from twofold.privacy.trust import Operated

SECRETS = {
    name: Secrets.new(name, Role.OPERATOR if name in ("clinic", "uni") else Role.ENTITY)
    for name in ("anna", "bern", "carl", "clinic", "uni")
}


def plan(writer: str | None = None, **changes: Any) -> Plan:
    given = {"feedback": "counts", "bound": 5, "max_items": 2, "n_users": 500, "delta": 1e-6, "mechanism": "gram"}
    return Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=9),
        roster=Roster(one.identity for one in SECRETS.values()),
        writer=writer,
        secure=OperatorSum(floor=3),
        **given | changes,
    )


def test_the_record_names_both_operators_with_the_words_that_people_compare():
    about = describe(plan(writer="anna"))
    assert about["operators"] == {name: SECRETS[name].identity.words for name in ("clinic", "uni")}
    assert (about["sharing"], about["floor"], about["noise"]) == ("operators", 3, "operators")
    assert "without noise" in about["what"]
    assert "people" not in about


@pytest.mark.parametrize(("writer", "named"), [("anna", None), ("uni", "uni")])
def test_a_writer_who_operates_is_recorded(writer, named):
    made = plan(writer=writer)
    assert Operated.of(describe(made), [made.spec.event]).writer == named


def test_the_price_names_both_operators():
    assert "two operators, clinic and uni, add the noise" in "\n".join(price_lines(plan()))


def test_a_policy_pins_both_operators_of_a_real_plan():
    keys = {name: SECRETS[name].sign.public for name in ("clinic", "uni")}
    facts = plan_facts(plan(writer="anna"))
    assert set(facts.operators) == set(keys.values())
    assert Policy(writers=None, operators=tuple(keys.items())).violations(facts) == ()
    for listed in (None, (("uni", keys["uni"]),)):
        broken = Policy(writers=None, operators=listed).violations(facts)
        assert [one.rule for one in broken] == ["operators"]
