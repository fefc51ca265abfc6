"""What a plan says would leave, before anything does."""

from __future__ import annotations

from dataclasses import replace

from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import SecureSum
from twofold.privacy.accountant import spent
from twofold.privacy.budget import ZCDP
from twofold.privacy.events import flatten
from twofold.privacy.unit import Unit

PLAN = Plan(
    catalog=CatalogKey(hash="0" * 64, n_items=40),
    feedback="counts",
    bound=1,
    max_items=10,
    mechanism="gram",
    n_entities=10,
    unit=Unit.person(entities=4),
)


def test_a_person_in_several_entities_pays_each_release():
    assert (PLAN.across.epsilon, PLAN.across.delta) == (4, 4 * PLAN.delta)


def test_in_one_sum_a_person_in_several_entities_pays_as_a_group():
    plan = PLAN.with_(secure=SecureSum(survivors=10))
    found = plan.across
    assert 4 < found.epsilon < ZCDP(rho=16 * plan.parameters.budget.rho).to_approx(plan.delta).epsilon
    (event,) = flatten(plan.spec.event)
    assert (
        found.epsilon
        >= spent(replace(event, sensitivity_squared=16 * event.sensitivity_squared), delta=plan.delta).epsilon
    )


def test_a_pure_sum_costs_so_many_times():
    plan = PLAN.with_(secure=SecureSum(survivors=10), delta=0)
    assert plan.across.epsilon == 4


def test_it_knows_which_statistic_leaves():
    assert (PLAN.spec.mechanism, PLAN.spec.sum is None) == ("gram", False)
    assert PLAN.with_(mechanism="sketch").spec.mechanism == "sketch"
    assert PLAN.with_(mechanism="popularity").spec.sum is None
