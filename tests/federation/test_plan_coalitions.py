"""Coalitions of whole plans: the numbers of the engineering note, from the code."""

from __future__ import annotations

import math
from typing import Any

import pytest

from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import OperatorSum, SecureSum


def plan(epsilon: int, secure: Any, **changes: Any) -> Plan:
    given = {"feedback": "counts", "bound": 5, "max_items": 66, "n_users": 900, "n_entities": 205, "delta": 1e-6}
    catalog = CatalogKey(hash="0" * 64, n_items=457)
    return Plan(catalog=catalog, mechanism="gram", epsilon=epsilon, secure=secure, **given | changes)


def found(made: Plan) -> dict[str, float]:
    return {row.kind: round(float(row.epsilon), 2) for row in made.coalitions}


@pytest.mark.parametrize(("epsilon", "public"), [(1, 0.69), (3, 2.05), (10, 6.65)])
def test_two_whole_noises(epsilon, public):
    assert found(plan(epsilon, OperatorSum(floor=103))) == {
        "public": public, "one operator": epsilon, "both operators": math.inf,
    }  # fmt: skip


def test_no_row_but_a_broken_sum_costs_more_than_the_plan_says():
    secures = [
        None,
        SecureSum(survivors=185),
        *(OperatorSum(floor=185, noise=noise) for noise in ("operators", "entities", "both")),
    ]
    for secure in secures:
        made = plan(1, secure)
        rows = made.coalitions
        for row in rows:
            if row.kind in ("public", "one operator", "server", "everybody"):
                assert row.epsilon <= made.epsilon
            else:
                assert row.epsilon > made.epsilon
                assert float(row.epsilon) == pytest.approx(made.spec.sum.alone_epsilon)
        assert len({row.kind for row in rows}) == len(rows)


def test_a_pure_plan():
    rows = found(plan(1, OperatorSum(floor=185, noise="both"), delta=0))
    assert rows == {"public": 1.0, "one operator": 1.0, "both operators": math.inf}
