"""Every user of every entity as an entity of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.errors import NotForRealUse, PlanMismatch
from twofold.federation.plan import Plan
from twofold.federation.secure import OperatorSum
from twofold.simulation.run import simulate

CATALOG = Catalog(["a", "b", "c", "d"])
USERS = {"north": 30, "south": 12}


def federation() -> Federation:
    rng = np.random.default_rng(1)
    made = {}
    for name, number in USERS.items():
        rows = np.repeat(rng.integers(0, 2, (number, 1)), 4, axis=1) ^ np.array([0, 0, 1, 1])  # a with b, c with d
        ids = Identifiers([f"{name}-{user}" for user in range(number)])
        made[name] = Ratings(sparse.csr_array(rows.astype(np.float64)), ids, CATALOG, "counts")
    return Federation(made)


def plan(**changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "catalog": CATALOG,
        "feedback": "counts",
        "bound": 1,
        "max_items": 4,
        "n_users": 1,
        "n_entities": sum(USERS.values()),
        "epsilon": 10_000,
        "mechanism": "gram",
        "simulation": True,
        "secure": OperatorSum(floor=2, people=True),
    }
    return Plan(**fields | changes)


def test_everybody_is_in_the_sum_and_gets_a_model_of_their_own() -> None:
    done = simulate(federation(), plan(), rng=3)
    assert done.factors.entities == sum(USERS.values())
    assert done.factors.users == pytest.approx(sum(USERS.values()), abs=1)
    assert len(done.models) == len(done.sent) == sum(USERS.values())
    assert len(set(done.sent.values())) == 1  # the length says nothing of a row
    model = done.model(("north", "north-0"))
    assert [one.item for one in model.recommend({"a": 1}, 1)] == ["b"]
    assert [one.item for one in model.recommend({"d": 1}, 1)] == ["c"]


def test_people_and_their_entities_give_the_same_sum() -> None:
    exact = 10**9  # an ε at which noise changes nothing
    apart = simulate(federation(), plan(epsilon=exact), rng=3).factors
    entities = plan(epsilon=exact, n_users=30, n_entities=2, secure=OperatorSum(floor=2))
    together = simulate(federation(), entities, rng=3, strength="shared", local="factors").factors
    np.testing.assert_allclose(apart.means, together.means, atol=1e-3)
    np.testing.assert_allclose(apart.squares, together.squares, atol=1e-3)  # type: ignore[arg-type]


def test_people_are_not_simulated_for_real(tmp_path: Any) -> None:
    with refused(NotForRealUse, "ledgers"):
        simulate(federation(), plan(), ledgers=tmp_path)
    with refused(PlanMismatch, "n_entities"):
        simulate(federation(), plan(n_entities=5))
